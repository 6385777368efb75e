"""`hello -> ehllo`"""

from torch import Tensor

from seq2attn.data.tasks.strings import StringTask


class Sort(StringTask):
    """The characters in the alphabet's order; equal characters keep their order (stable argsort).

    cab -> abc    banana -> aaabnn
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        past_the_end = positions >= lengths.unsqueeze(1)  # (B, S)
        return source.masked_fill(past_the_end, source.max() + 1).argsort(dim=1, stable=True)
