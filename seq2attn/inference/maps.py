"""An attention map as a plain record: what `predict` draws, what training keeps, what is drawn again. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from seq2attn.inference.predictor import Prediction


@dataclass(frozen=True)
class AttentionMap:
    """One answered string and where the model looked while it wrote."""

    source: str
    output: str
    source_symbols: tuple[str, ...]
    """columns of `weights`; `<eos>` counted where the model sees it"""
    output_symbols: tuple[str, ...]
    """rows of `weights`; `<eos>` counted"""
    weights: tuple[tuple[float, ...], ...]
    """one row an emitted token, one column a source token"""
    ideal: tuple[int, ...] = ()
    """the source position that the right answer copies, for each of its characters"""

    @classmethod
    def of(cls, prediction: Prediction, ideal: Sequence[int] = ()) -> Self | None:
        """The map of a prediction; None where it has no weights."""
        if prediction.weights is None:
            return None
        return cls(
            prediction.source,
            prediction.output,
            prediction.source_symbols,
            prediction.output_symbols,
            prediction.weights,
            tuple(ideal),
        )

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
