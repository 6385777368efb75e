"""`179 -> 17777799999`"""

import torch
from torch import Tensor

from seq2attn.data.tasks.strings import StringTask
from seq2attn.data.vocabulary import SPECIAL
from seq2attn.parts import DIGITS


class ReCopy(StringTask):
    """Each digit as often as it says: 0 to 3 once, 4 to 6 three times, 7 to 9 five times (Ray Chowdhury & Caragea 2023).

    240 -> 24440    8 -> 88888    reverse: 240 -> 04442
    """

    expansion = 5

    def __init__(self, *, reverse: bool = False, min_length: int = 5, max_length: int = 10) -> None:
        super().__init__(alphabet=DIGITS, min_length=min_length, max_length=max_length)
        self.reverse = reverse

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self._times(source).sum(dim=1)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        ends = self._times(source).cumsum(dim=1)  # (B, S) where the copies of each digit end
        if self.reverse:
            positions = ends[:, -1:] - 1 - positions  # from the last one on
        return torch.searchsorted(ends, positions.expand(len(source), -1).contiguous(), right=True)

    def _times(self, source: Tensor) -> Tensor:
        """How often each digit is written, (B, S); 0 for padding."""
        digits = source - len(SPECIAL)
        return (digits >= 0).long() + 2 * (digits > 3) + 2 * (digits > 6)
