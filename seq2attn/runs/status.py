"""status.json: how far the training of a run has come. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from seq2attn.runs.reading import check_count

LARGEST_VALUES = {
    "exact_match_worst": 1.0,
    "exact_match_mean": 1.0,
    "attention_entropy": 100.0,
    "wer": 1.0,
    "ser": 1e6,
    "dev_loss": 1e6,
}


@dataclass(frozen=True)
class Status:
    """The contents of status.json; None for what is unknown."""

    state: str | None = None
    """training, finished, interrupted or failed, when it was written"""
    step: int | None = None
    """optimiser steps done"""
    steps: int | None = None
    task: str | None = None
    score: str | None = None
    seed: int | None = None
    exact_match_worst: float | None = None
    """of the trained lengths, in the last evaluation"""
    exact_match_mean: float | None = None
    attention_entropy: float | None = None
    wer: float | None = None
    """word error rate on the dev file, of a run on pairs of strings, as the next two"""
    ser: float | None = None
    dev_loss: float | None = None
    problem: str | None = None
    """why the file cannot be read, in which case all else is unknown"""

    def __post_init__(self) -> None:
        for name in ("step", "steps", "seed"):
            check_count(name, getattr(self, name))
        for name, largest in LARGEST_VALUES.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value <= largest:
                raise ValueError(f"{name} must be a number from 0 to {largest:g}, found {value}")

    def to_json(self) -> dict[str, Any]:
        """The file's contents: what is known."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_summary(values: Mapping[str, Any]) -> bool:
    """Whether `values` are those of an evaluation, by the names that status.json has for them."""
    try:
        Status(**values)
    except (TypeError, ValueError):
        return False
    return values.keys() <= LARGEST_VALUES.keys()
