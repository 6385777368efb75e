"""The messages about invalid values and unknown keys, in place of those of pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from seq2attn.config.schema import all_keys
from seq2attn.errors import Problem
from seq2attn.options import UNKNOWN_KEY
from seq2attn.text import did_you_mean, quoted


def describe_errors(error: ValidationError) -> list[Problem]:
    """Return a problem for each error, under its dotted key."""
    problems = []
    for detail in error.errors():
        path, value = ".".join(map(str, detail["loc"])), detail["input"]
        message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if detail["type"] == UNKNOWN_KEY:
            message = _unknown_key(path, detail["ctx"])
        elif detail["type"] == "missing":
            message = "is missing"
        elif message.startswith("should "):
            message = message.partition(" or instance of ")[0]
            message += f", found {'nothing' if value is None else quoted(value)}"
        problems.append(Problem(path, message))
    return problems


def _unknown_key(path: str, context: Mapping[str, Any]) -> str:
    """Return the message for an unknown key: the allowed ones, and the one that may be meant."""
    name, allowed = path.rpartition(".")[2], context["allowed"]
    part = "" if context["part"] is None else f" of {context['part']!r}"
    guess = did_you_mean(name, allowed)
    elsewhere = next((key for key, _ in all_keys() if key.rpartition(".")[2] == name), path)
    if not guess and elsewhere != path:
        guess = f"did you mean {elsewhere!r}? "
    return f"unknown key{part}; {guess}allowed here: {', '.join(allowed) or 'none'}"
