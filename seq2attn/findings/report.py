"""Findings of one examination, as plain data. Imports nothing heavy."""

from collections.abc import Sequence
from dataclasses import dataclass

LEVELS = ("fault", "care", "note")
"""wrong results; it fails in some settings; a property"""


@dataclass(frozen=True)
class Finding:
    """What is wrong with an attention, or a property of it."""

    level: str
    """one of `LEVELS`"""
    code: str
    text: str
    """with the evidence"""
    look_at: str = ""
    """what usually causes it"""

    def __str__(self) -> str:
        text = f"{self.level}: {self.code}: {self.text}"
        return text if self.level == "note" else f"{text}\n    look at: {self.look_at}"


@dataclass(frozen=True)
class Report:
    """What was found, and how the attention was called."""

    findings: Sequence[Finding]
    """faults first; of one level, causes before consequences"""
    adapter: str

    @property
    def faults(self) -> list[Finding]:
        """The findings of level `fault`."""
        return [finding for finding in self.findings if finding.level == "fault"]

    def __str__(self) -> str:
        called = "It was called as follows. If that is wrong, correct it:"
        return "\n".join([*map(str, self.findings), called, self.adapter])
