"""Our messages for pydantic's errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from seq2attn.config.keys import all_keys, sections_of
from seq2attn.config.schema import ARCHITECTURES, Config
from seq2attn.errors import Problem, closest, did_you_mean, shown

Location = tuple[str | int, ...]


def describe_errors(error: ValidationError, model: type[BaseModel] = Config) -> list[Problem]:
    """Every problem found when validating a `model`, under its dotted key."""
    problems = []
    for detail in error.errors(include_url=False):
        location, path = detail["loc"], _dotted(detail["loc"])
        if detail["type"] == "choice":  # has a list of problems below its key
            below: list[Problem] = detail["ctx"]["problems"]
            problems += [replace(one, path=".".join(filter(None, [path, one.path]))) for one in below]
        elif detail["type"] == "extra_forbidden":
            problems.append(Problem(path, _unknown_key(location, model)))
        else:
            problems.append(Problem(path, _message(detail)))
    return problems


def kind_of(value: object) -> str:
    """A value found in place of keys and values."""
    return "nothing" if value is None else "a list" if isinstance(value, list) else shown(value)


def _message(detail: Any) -> str:
    value, context = detail["input"], detail.get("ctx", {})
    found = "nothing" if value is None else shown(value)
    limit = {name: f"{limit:,}" if isinstance(limit, int | float) else str(limit) for name, limit in context.items()}
    quotes = "; put it in quotes" if isinstance(value, bool | int | float) else ""
    section = f"expected keys and values (a mapping), found {kind_of(value)}"
    messages = {
        "int_type": f"expected a whole number, found {found}",
        "float_type": f"expected a number, found {found}",
        "bool_type": f"expected true or false, found {found}",
        "string_type": f"expected text, found {found}{quotes}",
        "model_type": section,
        "dict_type": section,
        "dataclass_type": section,
        "list_type": f"expected a list, found {found}",
        "tuple_type": f"expected a list, found {found}",
        "missing": "is missing",
        "value_error": str(context.get("error")),
        "greater_than": f"must be above {limit.get('gt')}, found {found}",
        "greater_than_equal": f"must be at least {limit.get('ge')}, found {found}",
        "less_than": f"must be below {limit.get('lt')}, found {found}",
        "less_than_equal": f"must be at most {limit.get('le')}, found {found}",
        "finite_number": f"must be a finite number, found {found}",
    }
    return messages.get(detail["type"], str(detail["msg"]))


def _unknown_key(location: Location, model: type[BaseModel]) -> str:
    key = str(location[-1])
    here = sorted(_keys_at(location[:-1], model))
    guess = did_you_mean(key, here)
    if not guess:
        section = _dotted(location[:-1])
        below = {path.rpartition(".")[2]: path for path in all_keys(model) if path.rsplit(".", 2)[0] == section}
        close = closest(key, below)  # an option of one of the parts here
        elsewhere = [path for path in all_keys(model) if path.rpartition(".")[2] == key]
        elsewhere += [below[close]] if close else []
        guess = f"did you mean '{elsewhere[0]}'? " if elsewhere else ""
    return f"unknown key; {guess}allowed here: {', '.join(here)}"


def _keys_at(location: Location, model: type[BaseModel]) -> list[str]:
    members = [model]
    for key in location:
        if isinstance(key, int):  # an item of a list
            continue
        if len(members) > 1:  # a union; pydantic names the member
            members = [ARCHITECTURES[key]]
            continue
        members = sections_of(members[0].model_fields[key].annotation)
    return [field.alias or name for name, field in members[0].model_fields.items()]


def _dotted(location: Location) -> str:
    """The key of a location, without the name of the union's member: ("model", "gru", "hidden") -> model.hidden."""
    parts = list(location)
    if parts[:1] == ["model"] and len(parts) > 1 and parts[1] in ARCHITECTURES:
        del parts[1]
    return ".".join(map(str, parts))
