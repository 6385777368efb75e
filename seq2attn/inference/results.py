"""What an evaluation measured, as plain records. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from seq2attn.inference.intervals import Estimate

SHARES = ("exact_match", "character_accuracy", "teacher_forced", "alignment")


@dataclass(frozen=True)
class LengthResult:
    """The results for `samples` strings of one length. Shares carry 95 % intervals over strings."""

    length: int
    """characters of each source"""
    samples: int
    trained: bool
    """whether strings of this length occur in training"""
    exact_match: Estimate
    """greedy, with the model's own `<eos>`: the whole string is right"""
    character_accuracy: Estimate
    """greedy: characters right at their position, of the target's"""
    teacher_forced: Estimate
    """the same with the right previous character as input: the accuracy usually published"""
    alignment: Estimate | None
    """share of characters whose largest weight lies on the ideal source position; None where model or task has none"""
    entropy: float | None
    """mean entropy of the attention weights at the target's characters, nats; None without attention"""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        alignment, entropy = record["alignment"], record["entropy"]
        return cls(
            length=int(record["length"]),
            samples=int(record["samples"]),
            trained=bool(record["trained"]),
            exact_match=Estimate.from_json(record["exact_match"]),
            character_accuracy=Estimate.from_json(record["character_accuracy"]),
            teacher_forced=Estimate.from_json(record["teacher_forced"]),
            alignment=None if alignment is None else Estimate.from_json(alignment),
            entropy=None if entropy is None else float(entropy),
        )
