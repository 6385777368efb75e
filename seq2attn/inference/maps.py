"""An attention map as a plain record, which training saves and figures are drawn from. Imports no
torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LONGEST_SYMBOL = 100  # characters; most have one
LARGEST_SIDE = 200  # rows or columns of a map that is drawn
CIVIDIS = (  # at 0, 1/8, ..., 1; made for readers with any kind of colour vision (Nunez et al. 2018)
    (0, 34, 78), (26, 56, 111), (67, 78, 108), (97, 101, 111), (125, 124, 120),
    (155, 148, 118), (188, 174, 108), (222, 201, 88), (254, 232, 56),
)  # fmt: skip


def colour(weight: float) -> tuple[int, int, int]:
    """The colour of a weight, red, green and blue from 0 to 255."""
    place = max(0.0, min(1.0, weight)) * (len(CIVIDIS) - 1)
    low = min(int(place), len(CIVIDIS) - 2)
    share = place - low
    red, green, blue = (
        round(a + share * (b - a)) for a, b in zip(CIVIDIS[low], CIVIDIS[low + 1], strict=True)
    )
    return red, green, blue


@dataclass(frozen=True)
class AttentionMap:
    """One source, its output, and the attention weights."""

    source: str
    output: str
    source_symbols: tuple[str, ...]  # columns of `weights`, including `<eos>` if the model reads it
    output_symbols: tuple[str, ...]  # rows of `weights`, including `<eos>`
    weights: tuple[tuple[float, ...], ...]  # one row per output token, one column per source token
    ideal: tuple[
        int, ...
    ] = ()  # the source position that each character of the right answer copies; empty if unknown

    def to_json(self) -> dict[str, Any]:
        """Plain values, weights to 4 decimals."""
        return {
            **asdict(self),
            "weights": [[round(weight, 4) for weight in row] for row in self.weights],
        }

    def check(self) -> None:
        """Raise ValueError for a map that is not that of a source and its output."""
        columns, rows = len(self.source_symbols), len(self.output_symbols)
        if not columns or not rows or [len(row) for row in self.weights] != [columns] * rows:
            raise ValueError("weights do not fit the symbols")
        if not all(
            0 <= weight <= 1.001 for row in self.weights for weight in row
        ):  # rounding may add up
            raise ValueError("a weight is not between 0 and 1")
        if not all(0 <= position < columns for position in self.ideal):
            raise ValueError("the ideal alignment lies outside the source")
        if max(map(len, (*self.source_symbols, *self.output_symbols))) > LONGEST_SYMBOL:
            raise ValueError(f"a symbol is longer than {LONGEST_SYMBOL} characters")
