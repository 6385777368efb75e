"""`general`: s W h"""

from torch import Tensor, nn

from seq2attn.model.scores.multiplicative import MultiplicativeScore


class General(MultiplicativeScore):
    """s W h (Luong et al. 2015, eq. 8); W is (query_width, key_width), no bias.

    Computed as s.(W h): a dot product on keys that are projected once per sequence.

    initial_std: standard deviation of a normal initialisation of W; None: PyTorch's default for Linear.
    """

    kernel = "product"

    def __init__(self, query_width: int, key_width: int, *, initial_std: float | None = None) -> None:
        super().__init__(query_width, key_width)
        self.map = nn.Linear(key_width, query_width, bias=False)
        if initial_std is not None:
            nn.init.normal_(self.map.weight, std=initial_std)

    def project(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.map(keys)  # (B, S, query_width)
        return projected
