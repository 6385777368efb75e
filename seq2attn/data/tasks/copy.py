"""`hello -> hello`"""

from torch import Tensor

from seq2attn.data.tasks.strings import StringTask


class Copy(StringTask):
    """The string itself: output t copies source t.

    abc -> abc    a -> a
    """

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        return positions.expand(len(source), -1)
