"""How values, names and paths are shown in messages. Imports nothing heavy."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

MOST_NAMES = 10  # runs or comparisons listed in one message


def did_you_mean(found: str, allowed: Iterable[str]) -> str:
    """`did you mean 'scaled'? ` if an allowed name is similar, otherwise the empty string."""
    close = difflib.get_close_matches(found.lower(), list(allowed), n=1)
    return f"did you mean '{close[0]}'? " if close else ""


def first_of(names: Sequence[str]) -> str:
    """`b, a, ...`: the first names, with `...` if there are more."""
    return f"{', '.join(names[:MOST_NAMES])}{', ...' if len(names) > MOST_NAMES else ''}"


def character_name(symbol: str) -> str:
    """A symbol for a message, with its code points where its look could mislead: `'a'`, `'é'
    (U+00E9)`, `U+0303`.
    """
    if symbol.isascii():
        return quoted(symbol)
    points = " ".join(f"U+{ord(character):04X}" for character in symbol)
    return f"{symbol!r} ({points})" if is_visible(symbol) else points


def is_visible(symbol: str) -> bool:
    """Whether a symbol can be seen and stands alone: it is neither blank nor a combining mark."""
    printable = symbol.isprintable() and not symbol.isspace()
    return printable and not unicodedata.category(symbol[0]).startswith("M")


def short_path(name: str) -> str:
    """A file's path, relative if it is below the current directory."""
    path, here = Path(name), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else name


def quoted(value: object, limit: int = 60) -> str:
    """`repr(value)`, with JSON's escapes, as all that is printed has, cut to `limit` characters."""
    text = re.sub(r"(\\\\)|\\x", lambda found: found[1] or r"\u00", repr(value))
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
