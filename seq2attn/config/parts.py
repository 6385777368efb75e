"""How a config writes a choice: the name of a part alone, or a mapping of its name and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from seq2attn.errors import Problem, Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Choice, Entry, Registry


@dataclass(frozen=True)
class Part:
    """How pydantic reads and writes a `Choice` from `registry`; a mapping without a name means the part `default`."""

    registry: Registry
    default: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(write_choice)
        )

    def read(self, value: Any) -> Choice:
        """`"location"` or `{"name": "location", "kernel": 7}` -> the choice, with every problem reported together."""
        if isinstance(value, Choice):
            value = {"name": value.name, **value.options}
        mapping = value if isinstance(value, Mapping) else {"name": value}
        options = {key: given for key, given in mapping.items() if key != "name"}
        name = mapping.get("name", self.default)
        try:
            if not isinstance(name, str):
                found = "nothing" if name is None else "a list" if isinstance(name, list) else shown(name)
                raise Seq2AttnError(
                    f"expected the name of a {self.registry.kind}, or its name and options; found {found}"
                )
            entry = self.registry.get(name)
        except Seq2AttnError as error:
            raise _choice_error([Problem("name" if mapping is value else "", str(error))]) from error
        problems = [Problem(key, text) for key, given in options.items() if (text := self._problem(entry, key, given))]
        if problems:
            raise _choice_error(problems)
        for key, given in options.items():
            if entry.options[key].type is float and given is not None:
                options[key] = float(given)
        return Choice(entry.name, {**entry.defaults(), **options})

    def _problem(self, entry: Entry, key: str, value: Any) -> str | None:
        if key in entry.options:
            return entry.options[key].problem(value)
        kind = self.registry.kind
        owners = [owner.name for owner in self.registry.owners(key)]
        if owners:
            return (
                f"has no effect with {kind} {entry.name!r}; set the {kind} to {' or '.join(owners)}, or leave this out"
            )
        guess = did_you_mean(key, entry.options)
        return f"unknown option of {kind} {entry.name!r}; {guess}allowed: {', '.join(entry.options) or 'none'}"


def _choice_error(problems: list[Problem]) -> PydanticCustomError:
    text = "; ".join(str(problem) for problem in problems)
    return PydanticCustomError("choice", "{text}", {"text": text, "problems": problems})


def write_choice(choice: Choice) -> Any:
    """The choice as a config writes it: its name alone where the part has no options."""
    return {"name": choice.name, **choice.options} if choice.options else choice.name
