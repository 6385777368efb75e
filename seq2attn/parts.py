"""Everything that a config can name: the catalogue `parts.toml` as registries.

Nothing here imports torch: `seq2attn list` and checking a config are instant. CONTRIBUTING.md says
how to add a part.
"""

import builtins
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from seq2attn.registry import Entry, Registry, composed, option, options
from seq2attn.text import character_name

LONGEST = 100_000  # positions of a string, as in parts.toml
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ACCENTED = "".join(filter(str.isalpha, map(chr, range(0xC0, 0x104))))
SYMBOLS = LETTERS + LETTERS.upper() + DIGITS + _ACCENTED
"""128 letters and digits: those of ASCII, then the letters from À (U+00C0) to ă (U+0103)"""


# ---- checks of the values of options ----


def _alphabet(alphabet: str) -> str:
    """Return an alphabet as it is. Raises `ValueError` if it is empty, repeats a character, or has
    one at which Python's `splitlines` ends a line.
    """
    if not alphabet:
        raise ValueError("must not be empty")
    repeated = sorted(character for character, count in Counter(alphabet).items() if count > 1)
    if repeated:
        raise ValueError(f"repeats {', '.join(map(character_name, repeated))}")
    for character in alphabet:
        if _ends_line(character):
            raise ValueError(f"contains a line end, {character!r}")
    return alphabet


def _ends_line(text: str) -> bool:
    return len(f"a{text}b".splitlines()) > 1


def _odd(size: int) -> int:
    if size % 2 == 0:
        raise ValueError(f"must be odd, so that it is symmetric; found {size}")
    return size


def _separator(separator: str) -> str:
    """Refuse what separates the columns of a line, or lines, as separator of symbols."""
    if "\t" in separator or _ends_line(separator):
        raise ValueError(
            "must not contain a tab or a line end, which separate columns and pairs; found "
            f"{separator!r}"
        )
    return separator


def _delimiter(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter in '\0"\r\n':
        raise ValueError(f"must be one character, such as ',' or ';'; found {delimiter!r}")
    return delimiter


def _column(column: Any) -> int | str:
    """Return a column's number, or its name in Unicode's normal form C."""
    if isinstance(column, str) and column:
        return composed(column)
    if type(column) is int and 1 <= column <= 1000:
        return column
    raise ValueError(f"must be a column's number, from 1 to 1,000, or its name; found {column!r}")


def _quotes(quotes: str) -> str:
    if len(quotes) > 2:
        raise ValueError(f"must be one sign, such as '/', or two, such as '[]'; found {quotes!r}")
    return quotes


# ---- the catalogue ----

_CATALOGUE = tomllib.loads(Path(__file__).with_name("parts.toml").read_text(encoding="utf-8"))
_CHECKS = {
    "alphabet": _alphabet,
    "odd": _odd,
    "separator": _separator,
    "delimiter": _delimiter,
    "column": _column,
    "quotes": _quotes,
}


def _option(values: dict[str, Any]) -> tuple[Any, Any]:
    """Return the type and the field of an option, as pydantic takes them.

    values: the option's table in parts.toml. Its `type` is a list of the words that are allowed, or
        the name of one of Python's types, such as "int"; for any other name, such as "column",
        which is a number or a text, the table's `check` decides. Without `default`, it is None.
    """
    about = {"default": None, **values}
    kind = about.pop("type")
    kind = Literal[*kind] if isinstance(kind, list) else getattr(builtins, kind, Any)
    if "check" in about:  # the name of a function
        about["check"] = _CHECKS[about["check"]]
    return option(kind, **about)


def _registry(kind: str, default: str = "", *, many: bool = False) -> Registry:
    """Return the parts of one kind, such as "score", in the order of the catalogue.

    default: the part of a config that names none; "": the first one. many: True if a config names a
    list of such parts.
    """
    entries: dict[str, Entry] = {}
    for name, values in _CATALOGUE[kind].items():
        about = dict(values)
        chosen = about.get("options")
        if isinstance(chosen, str):  # a part listed above, which has the same options
            about["options"] = entries[chosen].options
        elif chosen:
            about["options"] = options(**{key: _option(field) for key, field in chosen.items()})
        entries[name] = Entry(name, **about)
    return Registry(kind.replace("_", " "), list(entries.values()), default=default, many=many)


SCORES = _registry("score", default="scaled")
TASKS = _registry("task")
NORMALISERS = _registry("normaliser")
WINDOWS = _registry("window")
HISTORIES = _registry("history")
ARCHITECTURES = _registry("architecture")
CELLS = _registry("cell")
ENCODERS = _registry("encoder")
DECODERS = _registry("decoder")
INITIAL_STATES = _registry("initial_state", default="bridge")
LOSSES = _registry("loss", many=True)
FAMILIES = _registry("family")
SCHEDULES = _registry("schedule")

RANDOM = "random"
"""the family that every task has"""
KINDS = {
    "scores": ("model.attention.score", SCORES),
    "tasks": ("task", TASKS),
    "normalisers": ("model.attention.normaliser", NORMALISERS),
    "windows": ("model.attention.window", WINDOWS),
    "histories": ("model.attention.history", HISTORIES),
    "cells": ("model.cell", CELLS),
    "encoders": ("model.encoder", ENCODERS),
    "decoders": ("model.decoder", DECODERS),
    "initial-states": ("model.initial_state", INITIAL_STATES),
    "losses": ("training.losses", LOSSES),
    "architectures": ("model.architecture", ARCHITECTURES),
    "schedules": ("training.schedule", SCHEDULES),
    "families": ("evaluation.families", FAMILIES),
}
"""kinds of parts: the key of a config that chooses them, and the parts"""
CLOSED = ("architectures", "schedules", "families")
EXTENSIBLE = [registry for kind, (_, registry) in KINDS.items() if kind not in CLOSED]
"""those that plug-ins can add to"""
