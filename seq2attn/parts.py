"""Everything that a config can name: the catalogue `parts.toml` as registries, and what plug-ins
register beside it.

Nothing here imports torch: `seq2attn list` and checking a config are instant. CONTRIBUTING.md says
how to add a part.
"""

import builtins
import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from seq2attn.errors import Seq2AttnError
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


# ---- what plug-ins register ----

_PLAIN = (bool, int, float, str)
PartType = TypeVar("PartType", bound=type)


def register(
    name: str,
    *,
    formula: str = "",
    source: str = "",
    synonyms: tuple[str, ...] = (),
    equal_widths: bool = False,
) -> Callable[[PartType], PartType]:
    """Register the decorated class as the part `name`; its base class determines the kind.

    Its options are the parameters of the constructor that have a default, and are bool, int, float
    or str by annotation or, without it, by their default: `width: int | None = None`. A line of the
    class's docstring such as `width: the hidden layer's width` is an option's meaning; a class
    attribute `limits = {"width": (1, None)}` its smallest and largest value. The summary is the
    docstring's first line.

    name: the name in a config.
    formula, source: for `seq2attn list`: what it computes, and the paper that describes it.
    synonyms: other names, which a config may use, too.
    equal_widths: for a score function, True to refuse configs whose queries and keys differ in
        width.
    """

    def decorate(cls: PartType) -> PartType:
        """Add the class to the registry of its kind, an attribute that its base class has."""
        registry = getattr(cls, "registry", None)
        if not isinstance(registry, Registry):
            raise Seq2AttnError(
                f"@register({name!r}) decorates {cls.__name__}, which is not a part that a config "
                "can name",
                hint="Decorate a class derived from seq2attn's Score, Normaliser, Window, History, "
                "Cell, Encoder, Decoder, InitialState, Loss, StringTask or Task.",
            )
        first_line, _, _ = inspect.cleandoc(cls.__doc__ or "").partition("\n")
        entry = Entry(
            name,
            formula,
            first_line,
            source,
            cls,
            options=options(**_options_of(cls, f"{registry.kind} {name!r}")),
            synonyms=synonyms,
            equal_widths=equal_widths,
            makes_weights=getattr(cls, "makes_weights", False),
            needs_attention=getattr(cls, "needs_attention", False),
            is_recurrent=getattr(cls, "is_recurrent", False),
        )
        registry.add(entry)
        return cls

    return decorate


def _options_of(cls: type, part: str) -> dict[str, tuple[Any, Any]]:
    """Return the options of a part's class, as `signature_options` does: name -> option. Raises
    `Seq2AttnError` for a class that cannot be a part: one that lacks a method, or whose constructor
    needs more than every part of its kind is given.

    part: its kind and name, for messages.
    """
    # (`__abstractmethods__` would say so of classes derived from `ABC` only)
    missing = [
        member
        for member in dir(cls)
        if getattr(getattr(cls, member, None), "__isabstractmethod__", False)
    ]
    if missing:
        names = ", ".join(missing)
        raise Seq2AttnError(f"{part}: class {cls.__name__} does not define {names}")
    # The base class of its kind, such as `Score`, needs what every part of that kind is given. This
    # class takes the same first; whatever it needs beyond that, no config could leave out.
    base = next(parent for parent in cls.__mro__ if "registry" in vars(parent))
    needed = _needed(cls)[len(_needed(base)) :]
    if needed:
        raise Seq2AttnError(
            f"{part}: option {needed[0]!r} of {cls.__name__} has no default",
            hint=f"A config may leave options out: write {needed[0]}: int = 8, for example.",
        )
    return signature_options(cls)


def _needed(cls: type) -> list[str]:
    """Return the parameters of the constructor that have no default, without `*args`."""
    return [
        parameter.name
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty and not parameter.kind.name.startswith("VAR_")
    ]


def signature_options(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return name -> option, its type and its pydantic field, for each parameter of the constructor
    that has a default and is one of bool, int, float and str, by annotation or else by its default.

    Its meaning is a line `NAME: meaning` of the class's docstring; its limits are those that the
    class attribute `limits` has for it, (minimum, maximum). A parameter whose name begins with `_`
    is not an option.
    """
    try:
        parameters = inspect.signature(cls, eval_str=True).parameters
    except Exception:  # an annotation that names something not imported at run time
        parameters = inspect.signature(cls).parameters
    limits = getattr(cls, "limits", {})
    text = inspect.cleandoc(cls.__doc__ or "")
    fields = {}
    for name, parameter in parameters.items():
        default = parameter.default
        kinds = _kinds(parameter)  # (a parameter of several kinds is not an option)
        if len(kinds) == 1 and default is not parameter.empty and not name.startswith("_"):
            # `NAME: meaning`, and the lines below it that are indented further
            line = re.search(rf"^( *){name}: *(.+(?:\n\1 +.+)*)", text, re.MULTILINE)
            meaning = " ".join(line[2].split()) if line else f"default: {json.dumps(default)}"
            fields[name] = option(kinds[0], default, meaning, *limits.get(name, ()))
    return fields


def _kinds(parameter: inspect.Parameter) -> list[Any]:
    """Return those of bool, int, float and str that a parameter may be, by its annotation, such as
    `int | None`, or if that names none of them, by its default.
    """
    annotation = parameter.annotation
    annotated = [kind for kind in _PLAIN if kind in (annotation, *get_args(annotation))]
    return annotated or [kind for kind in _PLAIN if kind is type(parameter.default)]
