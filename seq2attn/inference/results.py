"""The results of an evaluation, as plain records. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from seq2attn.inference.intervals import Estimate
from seq2attn.parts import FAMILIES, RANDOM

Place = tuple[str, int]  # a family of strings and their length
SHARES = ("exact_match", "character_accuracy", "teacher_forced", "alignment")
LONGEST, MOST_SAMPLES, LARGEST_ENTROPY = 10**9, 10**12, 100.0  # beyond what can be measured; entropy in nats


@dataclass(frozen=True)
class LengthResult:
    """Results on `samples` strings of one length and family. Accuracies have 95 % intervals over strings."""

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
    family: str = RANDOM
    """of the strings"""

    def to_json(self) -> dict[str, object]:
        """Plain values; without the family where the strings are random."""
        record = asdict(self)
        if self.family == RANDOM:
            del record["family"]
        return record

    def __repr__(self) -> str:
        return (
            f"LengthResult(length {self.length}: exact match {self.exact_match.value:.3f} of {self.samples:,} strings)"
        )

    def __post_init__(self) -> None:
        if not (1 <= self.length <= LONGEST and 1 <= self.samples <= MOST_SAMPLES):
            raise ValueError(f"{self.samples} samples of length {self.length} are not a measurement")
        if self.family not in FAMILIES.names():
            raise ValueError(f"unknown family {self.family!r}")
        if self.entropy is not None and not 0 <= self.entropy <= LARGEST_ENTROPY:
            raise ValueError(f"entropy must be a number from 0 to {LARGEST_ENTROPY}, found {self.entropy}")
        for name in SHARES:
            estimate = getattr(self, name)
            if estimate is not None and not estimate.is_share:
                raise ValueError(f"{name}, {estimate.value} in [{estimate.low}, {estimate.high}], is not a share")


def worst_place(values: Mapping[Place, float]) -> Place | None:
    """Family and length of the worst family's lowest value, the first on a tie; None if no family is worse than another.

    The worst family has the lowest value, and on a tie the lowest mean.
    """
    families = {family: [value for (one, _), value in values.items() if one == family] for family, _ in values}
    ranks = {family: (min(found), fmean(found)) for family, found in families.items()}
    if len(set(ranks.values())) < 2:
        return None
    worst = min(ranks, key=lambda family: ranks[family])
    return min((place for place in values if place[0] == worst), key=lambda place: values[place])


@dataclass(frozen=True)
class Summary:
    """Means over the trained lengths of one evaluation, or over all its lengths if none is trained."""

    exact_match: float
    teacher_forced: float
    alignment: float | None
    entropy: float | None
    worst: LengthResult
    """the length with the lowest exact match, the first on a tie"""

    def to_json(self) -> dict[str, float]:
        """What metrics.jsonl and status.json record."""
        record = {"exact_match_worst": self.worst.exact_match.value, "exact_match_mean": self.exact_match}
        return record if self.entropy is None else {**record, "attention_entropy": self.entropy}


def summarise(results: Sequence[LengthResult]) -> Summary:
    """The summary of an evaluation of at least one length."""
    trained = [result for result in results if result.trained] or results
    alignments = [result.alignment.value for result in trained if result.alignment is not None]
    entropies = [result.entropy for result in trained if result.entropy is not None]
    return Summary(
        exact_match=fmean(result.exact_match.value for result in trained),
        teacher_forced=fmean(result.teacher_forced.value for result in trained),
        alignment=fmean(alignments) if alignments else None,
        entropy=fmean(entropies) if entropies else None,
        worst=min(trained, key=lambda result: result.exact_match.value),
    )
