"""`5552226 -> 526`"""

import torch
from torch import Tensor

from seq2attn.data.tasks.base import Examples
from seq2attn.data.tasks.strings import StringTask
from seq2attn.parts import DIGITS

RUNS = (1, 3, 5)


class DeDupe(StringTask):
    """Each run of equal digits once (Ray Chowdhury & Caragea 2023).

    7772 -> 72    44444 -> 4

    Sources are runs of 1, 3 or 5 random digits, the last one cut to the source's length; neighbouring runs of one digit
    are one run.
    """

    def __init__(self, *, min_length: int = 5, max_length: int = 30) -> None:
        super().__init__(alphabet=DIGITS, min_length=min_length, max_length=max_length)

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        drawn = super().examples(random, count, length)
        times = torch.randint(len(RUNS), drawn.source.shape, generator=random, device=random.device)
        ends = torch.tensor(RUNS, device=random.device)[times].cumsum(dim=1)  # (N, S)
        places = torch.arange(drawn.source.size(1), device=random.device).expand_as(drawn.source).contiguous()
        source = drawn.source.gather(1, torch.searchsorted(ends, places, right=True))
        return self.solve(source.masked_fill(drawn.source == 0, 0), drawn.source_lengths)

    def target_lengths(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self._starts(source).sum(dim=1)

    def alignment(self, source: Tensor, lengths: Tensor, positions: Tensor) -> Tensor:
        run = self._starts(source).cumsum(dim=1)  # (B, S) the number of each position's run, from 1
        return torch.searchsorted(run, (positions + 1).expand(len(source), -1).contiguous()).clamp(
            max=source.size(1) - 1
        )

    def _starts(self, source: Tensor) -> Tensor:
        """Where a run starts, (B, S); not in padding."""
        before = torch.nn.functional.pad(source, (1, 0))[:, :-1]
        return ((source != before) & (source != 0)).long()
