"""An initial state that is the same for every source, which only attention then sees."""

import torch
from torch import nn

from seq2attn import InitialState, register


@register("learned", formula="s_0 = b")
class Learned(InitialState):
    """The same for every source, which only attention then sees."""

    def __init__(self, encoder, cell):
        super().__init__(encoder, cell)
        self.start = nn.Parameter(torch.zeros(self.state_tensors, self.width))

    def forward(self, encoded):  # encoded.states (B, S, D); encoded.final, a tuple of (B, D)
        rows = len(encoded.states)
        return tuple(part.expand(rows, -1) for part in self.start)  # (B, D) each
