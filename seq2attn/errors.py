"""Exceptions for users' mistakes, and checks that raise them. Imports nothing heavy, so that errors
appear at once.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

from seq2attn.text import did_you_mean, quoted

LESS_MEMORY = (
    "Make model.hidden, training.batch_size or the strings smaller, or use a machine with more "
    "memory."
)
MAX_PROBLEMS = 50  # listed in one message


class Seq2AttnError(ValueError):
    """A mistake that the user can fix, reported as one message, never as a traceback. In a config,
    pydantic collects it.

    The message says what is wrong, where, what was found and what is allowed; `hint` says what to
    do next, and `settings`, as `KEY=VALUE`, would mend it. `exit_code` is that of the process: 2
    for an invalid request, 1 for a failure while running.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        settings: Sequence[str] = (),
        exit_code: int = 2,
    ) -> None:
        """Make the error; the docstring of the class describes the arguments."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.settings = settings
        self.exit_code = exit_code

    def __str__(self) -> str:
        overrides = f"overrides={list(self.settings)}" if self.settings else None
        return "\n".join(filter(None, (self.message, self.hint, overrides)))


@dataclass(frozen=True)
class Problem:
    """One problem of a config: dotted key, message, and where the value was written.

    `rests_on`: other keys that the problem depends on.
    """

    path: str
    message: str
    where: str | None = None
    rests_on: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        if not self.path:
            return f"{self.message}{where}"
        return f"{self.path[:200]}{where}: {self.message}"


class ConfigError(Seq2AttnError):
    """All problems of one config; the first of them are listed, and all are counted."""

    def __init__(
        self, source: str, problems: Sequence[Problem], *, hint: str | None = None
    ) -> None:
        """Make the error, with a message of a line for each of the first `MAX_PROBLEMS` problems.

        source: what the message calls the config, such as its file. hint: what to do next.
        """
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
        lines = [f"{source}: {count}", *(f"  {problem}" for problem in problems[:MAX_PROBLEMS])]
        if len(problems) > MAX_PROBLEMS:
            lines.append("  ...")
        super().__init__("\n".join(lines), hint=hint)


def unknown(
    what: str, name: object, allowed: Iterable[str], synonyms: Iterable[str] = ()
) -> Seq2AttnError:
    """Return an error for a name that is none of those allowed, with the one that may be meant."""
    names = list(allowed)
    guess = did_you_mean(str(name), [*names, *synonyms])
    return Seq2AttnError(f"unknown {what} {quoted(name)}; {guess}allowed: {', '.join(names)}")


def need_count(name: str, value: object, minimum: int = 1) -> None:
    """Raise `Seq2AttnError` unless a value is a whole number from `minimum`, NumPy's too."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < minimum:
        raise Seq2AttnError(f"{name} must be a whole number from {minimum}; found {quoted(value)}")


def memory_error(error: BaseException) -> Seq2AttnError | None:
    """Return what a user can do if memory was short; None for another error."""
    if not is_out_of_memory(error):
        return None
    reason = (str(error) or "the system has none left").splitlines()[0]
    return Seq2AttnError(f"out of memory: {reason}", hint=LESS_MEMORY, exit_code=1)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory was short. torch raises a RuntimeError then: on a GPU of a class of its
    own, on a CPU recognisable only by its message.
    """
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    words = "out of memory|can't allocate memory|not enough memory"
    return re.search(words, str(error), re.IGNORECASE) is not None
