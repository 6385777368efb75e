"""A task on strings whose targets are moved letters of their sources."""

from seq2attn import StringTask, register


@register("rotate", formula="target[t] = source[(t + k) mod n]")
class Rotate(StringTask):
    """hello -> lohel

    k: letters that move from the front to the end
    """

    def __init__(
        self,
        *,
        k: int = 3,
        alphabet: str = "abcdefghijklmnopqrstuvwxyz",
        min_length: int = 1,
        max_length: int = 12,
    ):
        super().__init__(alphabet=alphabet, min_length=min_length, max_length=max_length)
        self.k = k

    def alignment(self, source, lengths, positions):  # (B, S), (B,), (T,)
        return (positions + self.k) % lengths.unsqueeze(1)  # (B, T)
