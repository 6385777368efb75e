"""An attention map as a plain record, which training saves and figures are drawn from. Imports no
torch.
"""

import itertools
from dataclasses import asdict, dataclass
from typing import Any

LONGEST_SYMBOL = 100  # characters; most have one
LARGEST_SIDE = 200  # rows or columns of a map that is drawn


@dataclass(frozen=True)
class AttentionMap:
    """One source, its output, and the attention weights."""

    source: str
    output: str
    source_symbols: tuple[str, ...]
    """the columns of `weights`, including `<eos>` if the model reads it"""
    output_symbols: tuple[str, ...]
    """the rows of `weights`, including `<eos>`"""
    weights: tuple[tuple[float, ...], ...]
    ideal: tuple[int, ...] = ()
    """the source position that each character of the right answer copies; empty if unknown"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, weights to 4 decimals."""
        weights = [[round(weight, 4) for weight in row] for row in self.weights]
        return {**asdict(self), "weights": weights}

    def check(self) -> None:
        """Raise ValueError if weights, symbols and ideal alignment do not fit together, or if a
        weight or a symbol is impossible.
        """
        columns, rows = len(self.source_symbols), len(self.output_symbols)
        if not columns or not rows or list(map(len, self.weights)) != [columns] * rows:
            raise ValueError("weights do not fit the symbols")
        weights = itertools.chain(*self.weights)
        if not all(0 <= weight <= 1.001 for weight in weights):  # above 1: by rounding
            raise ValueError("a weight is not between 0 and 1")
        if not all(0 <= position < columns for position in self.ideal):
            raise ValueError("the ideal alignment lies outside the source")
        if max(map(len, self.source_symbols + self.output_symbols)) > LONGEST_SYMBOL:
            raise ValueError(f"a symbol is longer than {LONGEST_SYMBOL} characters")
