"""The results on pairs of strings, as plain records. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Self

from seq2attn.inference.edits import Edit
from seq2attn.inference.intervals import Estimate, bootstrap_ratio, share
from seq2attn.inference.results import LengthResult


@dataclass(frozen=True)
class PairAnswer:
    """The model's answer to one source, beside the right one."""

    source: str
    right: str
    """the right answer; of several, the one closest to the model's"""
    answer: str
    source_length: int
    """symbols, features counted"""
    right_length: int
    edits: tuple[Edit, ...]
    """what turns the right answer into the model's: the errors of a cheapest alignment, in order"""
    finished: bool
    """False if the model wrote no `<eos>`: the answer is then wrong"""
    unseen: int = 0
    """symbols of the source that are not in the model's vocabulary"""
    reachable: bool = True
    """False if the right answer has a symbol that the model cannot write"""

    @property
    def is_right(self) -> bool:
        """Whether the answer is exactly right."""
        return not self.edits and self.finished


@dataclass(frozen=True)
class PairsResult:
    """Results on pairs of strings. A source with several right answers is one word, right if any of them is given."""

    answers: tuple[PairAnswer, ...]
    """one per different source, in the order of the pairs"""
    loss: float
    """cross-entropy under teacher forcing over all pairs, nats per symbol, `<eos>` counted"""
    lengths: list[LengthResult]
    """by source length, ascending"""

    def __repr__(self) -> str:
        rates = f"word error rate {self.wer.value:.3f}, symbol error rate {self.ser:.3f}"
        return f"PairsResult({len(self.answers):,} words: {rates})"

    @cached_property
    def wer(self) -> Estimate:
        """Word error rate: the share of words whose answer is not exactly right; Wilson's 95 % interval."""
        return share(sum(not one.is_right for one in self.answers) / len(self.answers), len(self.answers))

    @property
    def ser(self) -> float:
        """Symbol error rate (phoneme or character error rate): all edits / all symbols of the right answers."""
        return sum(len(one.edits) for one in self.answers) / sum(one.right_length for one in self.answers)

    @cached_property
    def ser_estimate(self) -> Estimate:
        """`ser` with a 95 % bootstrap interval over words."""
        return bootstrap_ratio(
            [len(one.edits) for one in self.answers], [one.right_length for one in self.answers], seed=0
        )

    @cached_property
    def unseen(self) -> Estimate:
        """Share of the sources' symbols that are not in the model's vocabulary; bootstrap over words."""
        return bootstrap_ratio(
            [one.unseen for one in self.answers], [one.source_length for one in self.answers], seed=0
        )

    @cached_property
    def unreachable(self) -> Estimate:
        """Share of words whose right answer has a symbol that the model cannot write; Wilson's interval."""
        return share(sum(not one.reachable for one in self.answers) / len(self.answers), len(self.answers))

    def rates(self) -> dict[str, Estimate]:
        """The four rates by their names."""
        return {
            "wer": self.wer,
            "ser": self.ser_estimate,
            "unseen_symbols": self.unseen,
            "unreachable_words": self.unreachable,
        }

    def summary(self) -> dict[str, float]:
        """What metrics.jsonl and status.json record."""
        return {"wer": self.wer.value, "ser": self.ser, "dev_loss": self.loss}

    def confusions(self) -> list[tuple[Edit, int]]:
        """Every edit and how often it occurs, the most frequent first."""
        counts = Counter(edit for one in self.answers for edit in one.edits)
        return sorted(counts.items(), key=lambda found: (-found[1], found[0]))

    def errors(self) -> list[PairAnswer]:
        """The wrong answers, for reading: few edits first, and the same edits together, frequent ones first."""
        wrong = [one for one in self.answers if not one.is_right]
        counts = Counter(one.edits for one in wrong)
        return sorted(wrong, key=lambda one: (len(one.edits), -counts[one.edits], one.edits, one.source))

    def to_json(self) -> dict[str, Any]:
        """Plain values: the rates, the confusions, and every answer."""
        return {
            **{name: asdict(rate) for name, rate in self.rates().items()},
            "words": len(self.answers),
            "loss": self.loss,
            "confusions": [[*edit, count] for edit, count in self.confusions()],
            "lengths": [one.to_json() for one in self.lengths],
            "answers": [asdict(one) | {"edits": [list(edit) for edit in one.edits]} for one in self.answers],
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What `to_json` wrote. Raises ValueError for anything else."""
        result: Self = _reader().validate_python({name: record.get(name) for name in ("answers", "loss", "lengths")})
        if not result.answers:
            raise ValueError("there are no answers")
        return result


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # not at the top: `--help` does not wait for it

    return TypeAdapter(PairsResult)


def errors_table(answers: Sequence[PairAnswer]) -> str:
    """Wrong answers as tab-separated lines under a header: source, features if there are any, right answer, answer,
    number of edits, and the edits as `a>b` (written b), `a>` (left out) or `>b` (added).
    """
    features = any("\t" in one.source for one in answers)
    lines = ["\t".join(["source", *["features"][:features], "right", "answer", "edits", "what"])]
    for one in answers:
        source = one.source if not features or "\t" in one.source else f"{one.source}\t"
        what = " ".join(map(str, one.edits)) + ("" if one.finished else " (cut off)")
        lines.append("\t".join([source, one.right, one.answer, str(len(one.edits)), what.strip()]))
    return "".join(f"{line}\n" for line in lines)
