"""The metrics of an evaluation. A new metric is declared here, computed in `evaluation`, and shown
by tables, comparisons and messages without further changes. Imports no torch.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A number, at least 0, that says how well a model does, or what its attention is like."""

    name: str
    heading: str
    """in tables and figures; empty: they leave it out"""
    largest: float = 1.0
    """the largest possible value; a record with a larger one is damaged"""
    is_share: bool = True
    """True if it is the mean of a number from 0 to 1 for each sample, so that it has an interval"""
    lower_is_better: bool | None = False
    """None: neither lower nor higher is better"""
    of_file: bool = False
    """True if it is one number for all pairs of a file; False: one for each length of strings"""


_ALL = (
    Metric(
        # the whole string is right when the model reads its own output
        "exact_match",
        "exact match",
    ),
    Metric(
        # share of the characters that are right when the model is given the right previous
        # ones, as papers usually report
        "teacher_forced",
        "teacher-forced",
    ),
    Metric(
        # share of the characters whose largest weight lies on the ideal source position
        "alignment",
        "alignment",
    ),
    Metric(
        # of the attention weights, in nats, mean over the characters
        "entropy",
        "entropy",
        largest=100.0,
        is_share=False,
        lower_is_better=None,
    ),
    Metric(
        # share of the target's characters that are right at their position
        "character_accuracy",
        "characters",
    ),
    Metric(  # the "fine" of Grefenstette et al. 2015, whose "coarse" is the exact match
        # share of the target's characters that precede the first wrong one
        "correct_prefix",
        "before the first error",
    ),
    Metric(
        # share of the words whose answer is not exactly right
        "wer",
        "word error rate",
        lower_is_better=True,
        of_file=True,
    ),
    Metric(
        # edits of all answers / symbols of all right answers
        "ser",
        "symbol error rate",
        largest=1e6,
        is_share=False,
        lower_is_better=True,
        of_file=True,
    ),
    Metric(
        # share of the words whose answer reached the longest output allowed, without `<eos>`
        "cut_off",
        "cut off",
        lower_is_better=True,
        of_file=True,
    ),
    Metric(
        # under teacher forcing, nats per symbol
        "loss",
        "",
        largest=1e6,
        is_share=False,
        lower_is_better=True,
        of_file=True,
    ),
)
METRICS = {metric.name: metric for metric in _ALL}
