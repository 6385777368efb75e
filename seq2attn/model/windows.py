"""Windows: which keys a query may attend to (Luong et al. 2015, section 3.2). They combine with
every score.

Positions count from 0. A window is cut off at the edges of the source; weights outside it are 0.

Shapes: B strings of a batch, L queries, one for each output position, S source positions, padding
included.
"""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.points import Point
from seq2attn.parts import WINDOWS


class View(NamedTuple):
    """The window of L queries: which keys each may attend to, and how much."""

    allowed: Tensor
    """(B, L, S) True = inside the window"""
    factor: Tensor | None = None
    """(B, L, S) the weights inside are multiplied by this; None: 1"""


class Window(nn.Module):
    """Which keys a query may attend to.

    Every window is constructed as `Window(query_width, source_eos, **options)`.

    source_eos: True if the source's last token is `<eos>`, not a character.
    """

    registry = WINDOWS

    def __init__(self, query_width: int, source_eos: bool, *, radius: int = 2) -> None:
        super().__init__()
        self.query_width = query_width
        self.source_eos = source_eos
        self.radius = radius
        """R, positions to each side of the centre"""
        self.centres = Point("centre")

    @abstractmethod
    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        """Return the window of each query (B, L, query_width).

        lengths: (B,) the real tokens of each source.
        width: S, including padding. (The caller excludes padding from the window.)
        first: the output position of the first of the L queries; in an exported graph a tensor ().
        """

    def inside(self, centre: Tensor, width: int) -> Tensor:
        """Return (B, L, S): True within R positions of centre (B, L, 1)."""
        centre = self.centres(centre)
        return (torch.arange(width, device=centre.device) - centre).abs() <= self.radius


class LocalM(Window):
    """`local_m`: p_t = t (Luong et al. 2015: "monotonic alignment"), or n-1-t of a source of n
    characters.

    centre: `monotonic`, or `reversed`: counted from the end of the source, the correct position for
    reversal.
    """

    def __init__(
        self, query_width: int, source_eos: bool, *, radius: int = 2, centre: str = "monotonic"
    ) -> None:
        super().__init__(query_width, source_eos, radius=radius)
        self.reversed = centre == "reversed"

    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        rows, steps = query.shape[:2]
        centre = (torch.arange(steps, device=query.device) + first).view(1, -1, 1)  # (1, L, 1) t
        if self.reversed:
            characters = (lengths - int(self.source_eos)).view(-1, 1, 1)  # (B, 1, 1) n
            centre = characters - 1 - centre  # (B, L, 1)
        return View(self.inside(centre, width).expand(rows, -1, -1))


class LocalP(Window):
    """`local_p`: p_t = (S-1) sigmoid(v_p . tanh(W_p s_t)), learned; the weights inside the window
    are multiplied by exp(-(j - p_t)^2 / (2 sigma^2)), sigma = R/2 (Luong et al. 2015, eq. 9 and
    10).

    Weights are not normalised again, as published: a row sums to 1 at most. Gradients reach the
    centre through the Gaussian.
    """

    def __init__(self, query_width: int, source_eos: bool, *, radius: int = 2) -> None:
        super().__init__(query_width, source_eos, radius=radius)
        self.map = nn.Linear(query_width, query_width, bias=False)  # W_p
        self.v = nn.Linear(query_width, 1, bias=False)  # v_p

    def forward(self, query: Tensor, lengths: Tensor, width: int, first: Tensor | int) -> View:
        relative = torch.sigmoid(self.v(torch.tanh(self.map(query))))  # (B, L, 1)
        return self.around((lengths - 1).view(-1, 1, 1) * relative, width)

    def around(self, centre: Tensor, width: int) -> View:
        """Return the window with these centres (B, L, 1)."""
        distance = torch.arange(width, device=centre.device) - centre  # (B, L, S)
        factor = torch.exp(-2 * (distance / self.radius).square())  # 1 / (2 sigma^2) = 2 / R^2
        return View(self.inside(centre, width), factor)
