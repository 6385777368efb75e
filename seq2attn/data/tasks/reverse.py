"""`hello -> olleh`"""

from torch import Tensor

from seq2attn.data.tasks.strings import StringTask


class Reverse(StringTask):
    """The string backwards: output t copies source n-1-t.

    abc -> cba    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return lengths.unsqueeze(1) - 1 - positions
