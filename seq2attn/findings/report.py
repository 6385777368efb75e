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
    lines: Sequence[str] = ()
    """lines of the attention, with what should stand there"""

    def __repr__(self) -> str:
        return f"{self.level}: {self.code}: {self.text}"

    def __str__(self) -> str:
        texts = [repr(self)]
        if self.level != "note":
            texts += [f"look at: {self.look_at}", *self.lines]
        return "\n    ".join(texts)


@dataclass(frozen=True)
class Report:
    """What was found, and how the attention was called."""

    findings: Sequence[Finding]
    """faults first; of one level, causes before consequences"""
    adapter: str
    """the call that was found, as code; "" if it was given"""

    @property
    def faults(self) -> list[Finding]:
        """The findings of level `fault`."""
        return [finding for finding in self.findings if finding.level == "fault"]

    def require(self) -> "Report":
        """Raise `AssertionError`, which says everything, if there is a fault; return the report."""
        if self.faults:
            # pytest's summary shows the first line
            raise AssertionError(f"{', '.join(one.code for one in self.faults)}\n{self}")
        return self

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        if self.adapter:
            lines += ["It was called as follows. If that is wrong, correct it:", self.adapter]
        return "\n".join(lines)
