"""What users are told: exceptions for their mistakes, checks that raise them, how values, names and
places appear in messages, and what is wrong with a value. Imports nothing heavy, so that errors
appear at once.
"""

import difflib
import inspect
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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
    return Seq2AttnError(f"out of memory: {error_text(error)}", hint=LESS_MEMORY, exit_code=1)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory was short. Python raises a MemoryError then, and torch a RuntimeError:
    on a GPU of a class of its own, on a CPU recognisable only by its message.
    """
    words = "MemoryError|out of memory|can't allocate memory|not enough memory"
    return re.search(words, error_text(error), re.IGNORECASE) is not None


# ---- how values, names and places appear in messages ----

MAX_NAMES = 10  # runs or comparisons listed in one message
MAX_TEXT = 2000  # characters of what somebody else's exception says


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return `did you mean 'scaled'? ` if an allowed name is similar, otherwise nothing."""
    similar = difflib.get_close_matches(name, allowed, n=1)
    return f"did you mean '{similar[0]}'? " if similar else ""


def first_of(names: Iterable[object], most: int = MAX_NAMES) -> str:
    """Return `b, a, ...`: the first names, with `...` if there are more."""
    texts = list(map(str, names))
    return f"{', '.join(texts[:most])}{', ...' if len(texts) > most else ''}"


def left_out_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence for the malformed lines of each file that are left out."""
    return [f"malformed lines left out of {name}: {count:,}" for name, count in counts.items()]


def character_name(symbol: str) -> str:
    """Return a symbol for a message, with its code points where its look could mislead: `'a'`,
    `'é' (U+00E9)`, `U+0303`.
    """
    if symbol.isascii():
        return quoted(symbol)
    points = " ".join(f"U+{ord(character):04X}" for character in symbol)
    return f"{symbol!r} ({points})" if is_visible(symbol) else points


def is_visible(symbol: str) -> bool:
    """Return True if a symbol is neither blank nor begins with a combining mark."""
    is_mark = unicodedata.category(symbol[0]).startswith("M")
    return symbol.isprintable() and not symbol.isspace() and not is_mark


def short_path(name: str) -> str:
    """Return a file's path, relative if it is below the current directory."""
    here = os.path.join(os.getcwd(), "")
    return name.removeprefix(here)


def line_of(cls: type) -> str:
    """Return where a class is in its file, as `mine.py:7`; for a class without a file, as one typed
    into Python, `interpreter`.
    """
    try:
        return f"{short_path(inspect.getfile(cls))}:{inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return "interpreter"


def error_text(error: BaseException) -> str:
    """Return an exception as `ValueError: the first line of its text`, or its class alone if it has
    no text; at most `MAX_TEXT` characters. This works even if `str(error)` raises.
    """
    name = type(error).__name__
    try:
        text = str(error).strip().partition("\n")[0]
    except BaseException:  # `str` may do anything in a class of somebody else
        text = "its text cannot be shown"
    return (f"{name}: {text}" if text else name)[:MAX_TEXT]


def quoted(value: object) -> str:
    """Return `repr(value)`, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---- what pydantic finds wrong ----

SENTENCES = {
    "bool_type": "should be true or false",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "string_type": "should be text",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "dict_type": "should be keys and values",
    "model_type": "should be keys and values",
    "greater_than": "should be above {gt}",
    "greater_than_equal": "should be at least {ge}",
    "less_than": "should be below {lt}",
    "less_than_equal": "should be at most {le}",
    "literal_error": "should be {expected}",
    "too_short": "should list at least {min_length}",
    "too_long": "should list at most {max_length}",
}
"""by the type of pydantic's error; other errors are said in pydantic's words"""


def sentence(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, and which value was found, to follow the name of a key:
    `should be at least 1, found 0`. `SENTENCES` says what is wrong, by the kind of error; what it
    lacks is said in pydantic's words. For a missing key, and in a message of our own, no value that
    was found is added.

    error: one of pydantic's `ValidationError.errors()`.
    """
    kind, value = error["type"], error["input"]
    if kind == "value_error":  # of a function of this package, with a message of its own
        return str(error["ctx"]["error"])
    if kind == "missing":
        return "is missing"
    message = error["msg"]
    # pydantic's name for an `int_type` in a text that it parses is `int_parsing`
    expected = SENTENCES.get(kind.replace("_parsing", "_type"))
    if expected is not None:
        message = expected.format(**error.get("ctx", {}))
    found = "nothing" if value is None else quoted(value)
    # YAML reads nothing, or a comment, as null
    if value is None and kind == "string_type":
        found += '; an empty string is written "", and # is written "#"'
    return f"{message}, found {found}"
