"""`hello -> hellohello`"""

from torch import Tensor

from seq2attn.data.tasks.strings import StringTask


class Duplicate(StringTask):
    """The string twice: output t copies source t mod n, t < 2n.

    abc -> abcabc    a -> aa
    """

    expansion = 2

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return positions % lengths.unsqueeze(1)
