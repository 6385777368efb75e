"""The results of an evaluation, as plain records. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from seq2attn.inference.intervals import Estimate

SHARES = ("exact_match", "character_accuracy", "teacher_forced", "alignment")


@dataclass(frozen=True)
class LengthResult:
    """Results on `samples` strings of one length. Accuracies have 95 % intervals over strings."""

    length: int
    """characters of each source"""
    samples: int
    trained: bool
    """whether strings of this length occur in training"""
    exact_match: Estimate
    """the whole string and its `<eos>` are right under greedy decoding"""
    character_accuracy: Estimate
    """share of the target's characters that are right at their position under greedy decoding"""
    teacher_forced: Estimate
    """the same under teacher forcing: the accuracy usually published"""
    alignment: Estimate | None
    """share of characters whose largest weight lies on the ideal source position; None if model or task has none"""
    entropy: float | None
    """mean entropy of the attention weights at the target's characters, nats; None without attention"""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What `to_json` wrote. Raises ValueError for anything else."""
        result: Self = _reader().validate_python(record)
        return result


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # not at the top: `--help` does not wait for it

    return TypeAdapter(LengthResult)
