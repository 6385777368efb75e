"""A window that moves by another number of positions a step than `local_m`."""

import torch

from seq2attn import View, Window, register


@register("band", formula="|j - min(r t, n-1)| <= R")
class Band(Window):
    """Moves by a fixed number of positions a step.

    radius: R, positions to each side of the centre
    rate: r, source positions a step
    """

    def __init__(self, query_width, source_eos, *, radius: int = 2, rate: float = 0.5):
        super().__init__(query_width, source_eos, radius=radius)
        self.rate = rate

    def forward(self, query, lengths, width, first):  # (B, L, D), (B,), S, first query's position
        steps = torch.arange(query.size(1), device=query.device) + first  # (L,)
        last = lengths.view(-1, 1, 1) - 1 - int(self.source_eos)  # (B, 1, 1)
        centre = torch.minimum(self.rate * steps.view(1, -1, 1), last)  # (B, L, 1)
        return View(self.inside(centre, width))  # (B, L, S)
