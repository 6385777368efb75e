"""An attention map as a plain record, which training saves and figures are drawn from. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class AttentionMap:
    """One source, its output, and the attention weights."""

    source: str
    output: str
    source_symbols: tuple[str, ...]
    """columns of `weights`, including `<eos>` if the model reads it"""
    output_symbols: tuple[str, ...]
    """rows of `weights`, including `<eos>`"""
    weights: tuple[tuple[float, ...], ...]
    """one row per output token, one column per source token"""
    ideal: tuple[int, ...] = ()
    """the source position that each character of the right answer copies; empty if unknown"""

    def to_json(self, digits: int = 4) -> dict[str, Any]:
        """Plain values, weights to `digits` decimals."""
        return {**asdict(self), "weights": [[round(weight, digits) for weight in row] for row in self.weights]}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        made = cls(
            str(record["source"]),
            str(record["output"]),
            tuple(map(str, record["source_symbols"])),
            tuple(map(str, record["output_symbols"])),
            tuple(tuple(map(float, row)) for row in record["weights"]),
            tuple(map(int, record["ideal"])),
        )
        columns, rows = len(made.source_symbols), len(made.output_symbols)
        if not columns or not rows or [len(row) for row in made.weights] != [columns] * rows:
            raise ValueError("weights do not fit the symbols")
        if not all(0 <= weight <= 1.001 for row in made.weights for weight in row):  # rounding may add up
            raise ValueError("a weight is not between 0 and 1")
        if not all(0 <= position < columns for position in made.ideal):
            raise ValueError("the ideal alignment lies outside the source")
        return made
