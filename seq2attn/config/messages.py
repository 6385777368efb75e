"""What is said of wrong values and unknown keys: pydantic's errors in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from seq2attn.config.schema import all_keys
from seq2attn.errors import Problem
from seq2attn.options import UNKNOWN_KEY
from seq2attn.text import did_you_mean, quoted


def describe_errors(error: ValidationError) -> list[Problem]:
    """Describe every problem that was found, under its dotted key."""
    problems = []
    for detail in error.errors(include_url=False):
        path, value = ".".join(map(str, detail["loc"])), detail["input"]
        message = (
            detail["msg"]
            .removeprefix("Value error, ")
            .removeprefix("Input ")
            .partition(" or instance of ")[0]
        )
        if detail["type"] == UNKNOWN_KEY:
            message = _unknown_key(path, detail["ctx"])
        elif detail["type"] == "missing":
            message = "is missing"
        elif message.startswith("should "):
            message += f", found {'nothing' if value is None else quoted(value)}"
        problems.append(Problem(path, message))
    return problems


def _unknown_key(path: str, context: Mapping[str, Any]) -> str:
    """Say that there is no such key, where there is one of this name, or which similar one, and
    what is allowed.
    """
    name, allowed = path.rpartition(".")[2], context["allowed"]
    elsewhere = next((key for key, _ in all_keys() if key.rpartition(".")[2] == name), path)
    guess = did_you_mean(name, allowed)
    if not guess and elsewhere != path:
        guess = f"did you mean {elsewhere!r}? "
    part = f" of {context['part']!r}" if context["part"] is not None else ""
    return f"unknown key{part}; {guess}allowed here: {', '.join(allowed) or 'none'}"
