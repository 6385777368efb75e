"""How values, names and places appear in messages, and what is wrong with a value. Imports nothing
heavy.
"""

import difflib
import inspect
import traceback
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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
    printable = symbol.isprintable() and not symbol.isspace()
    return printable and not unicodedata.category(symbol[0]).startswith("M")


def short_path(name: str) -> str:
    """Return a file's path, relative if it is below the current directory."""
    path, here = Path(name), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else name


def line_of(cls: type, error: BaseException | None = None) -> str:
    """Return where a class, or an error in it, is in its file, as `mine.py:7`.

    The line is the innermost one of the error's traceback that is in the class's module; without an
    error, or without such a line, the first line of the class. For a class without a file, as one
    typed into Python, return `interpreter`.
    """
    trace = traceback.walk_tb(error.__traceback__ if error else None)
    lines = [line for frame, line in trace if frame.f_globals.get("__name__") == cls.__module__]
    try:
        line = lines[-1] if lines else inspect.getsourcelines(cls)[1]
        return f"{short_path(inspect.getfile(cls))}:{line}"
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


def quoted(value: object, limit: int = 60) -> str:
    """Return `repr(value)`, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


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
    `should be at least 1, found 0`. By the kind of error, from `SENTENCES`; for other kinds, in
    pydantic's words. A missing value, and a message of our own, stand alone.

    error: one of pydantic's `ValidationError.errors()`.
    """
    kind, value = error["type"], error["input"]
    if kind == "value_error":  # of a function of this package, with a message of its own
        return str(error["ctx"]["error"])
    if kind == "missing":
        return "is missing"
    message = error["msg"]
    # where pydantic parses a text, it calls `int_type` `int_parsing`
    expected = SENTENCES.get(kind.replace("_parsing", "_type"))
    if expected is not None:
        message = expected.format(**error.get("ctx", {}))
    found = "nothing" if value is None else quoted(value)
    # YAML reads nothing, or a comment, as null
    if value is None and kind == "string_type":
        found += '; an empty string is written "", and # is written "#"'
    return f"{message}, found {found}"
