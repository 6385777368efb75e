"""The one exception that a user's mistake raises, and the words it is told in.

This module imports nothing heavy: an error has to be instant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_PROBLEMS = 50  # told in one message
MOST_NAMES = 10  # of runs and comparisons, told to who named none of them
LONGEST_PATH = 200  # characters of a dotted key that are told


class Seq2AttnError(Exception):
    """Something the user can mend: told as one message, never as a traceback.

    The message says what is wrong, where, what was found and what is allowed; `hint` says what to do next.
    `exit_code` is the process's: 2 for a mistake in what was asked, 1 for work that failed on the way.
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 2) -> None:
        super().__init__(message if hint is None else f"{message}\n{hint}")
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a config: the dotted key, what is wrong with it, and where it was written.

    `rests_on` names the other keys that the judgement depends on.
    """

    path: str
    message: str
    where: str | None = None
    rests_on: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        path = self.path if len(self.path) <= LONGEST_PATH else f"{self.path[: LONGEST_PATH - 3]}..."
        return f"{path}{where}: {self.message}" if path else f"{self.message}{where}"


class ConfigError(Seq2AttnError):
    """Every problem of one config, reported together; at most so many are told, and all are counted."""

    def __init__(
        self, source: str, problems: Sequence[Problem], *, hint: str | None = None, most: int = MOST_PROBLEMS
    ) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
        lines = [f"  {problem}" for problem in problems[:most]]
        lines += [f"  and {len(problems) - most:,} more"] if len(problems) > most else []
        super().__init__("\n".join([f"{source}: {count}", *lines]), hint=hint)


class CheckpointError(Seq2AttnError):
    """A checkpoint that is missing, damaged, or belongs to something else."""


def closest(found: str, allowed: Iterable[str]) -> str | None:
    """The name that `found` is a near miss of, if there is one."""
    return next(iter(difflib.get_close_matches(found.lower(), list(allowed), n=1, cutoff=0.6)), None)


def did_you_mean(found: str, allowed: Iterable[str]) -> str:
    """`Did you mean 'scaled'? ` for a near miss, otherwise the empty string."""
    close = closest(found, allowed)
    return f"did you mean '{close}'? " if close else ""


def first_of(names: Sequence[str]) -> str:
    """`b, a, ...`: the first of many names, with a sign where others are left out."""
    return f"{', '.join(names[:MOST_NAMES])}{', ...' if len(names) > MOST_NAMES else ''}"


def shown(value: object, limit: int = 60) -> str:
    """`value` as Python would write it, cut to `limit` characters so that a message stays one message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
