"""A cell: the minimal gated unit, a GRU with one gate, whose gate is a point for others to see and
change."""

import torch
from torch import nn

from seq2attn import Cell, Point, register


@register(
    "mgu",
    formula="f = sigmoid(W x + U h); n = tanh(V x + Z (f * h)); h' = h + f * (n - h)",
    source="Zhou et al. 2016",
)
class MGU(Cell):
    """Minimal gated unit: a GRU with one gate."""

    def __init__(self, input_width, width):
        super().__init__(input_width, width)
        self.input_map = nn.Linear(input_width, 2 * width)
        self.gate = nn.Linear(width, width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        self.f = Point("gates", "width", each="gate")

    def project_input(self, inputs):  # (..., E)
        return self.input_map(inputs)  # (..., 2D)

    def step(self, inputs, state):  # (B, 2D), a tuple
        (h,) = state  # (B, D)
        input_f, input_n = inputs.chunk(2, dim=1)  # (B, D) each
        f = self.f(torch.sigmoid(input_f + self.gate(h)))
        n = torch.tanh(input_n + self.candidate(f * h))
        return (torch.lerp(h, n, f),)  # (B, D)
