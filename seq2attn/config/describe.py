"""Our messages for pydantic's errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from seq2attn.config.schema import Config, all_keys, registry_of, sections_of
from seq2attn.errors import Problem, closest, shown

Location = tuple[str | int, ...]


def describe_errors(error: ValidationError, model: type[BaseModel] = Config, values: Any = None) -> list[Problem]:
    """Every problem found when `values` were validated as a `model`, under its dotted key."""
    problems = []
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        unknown = detail["type"] == "extra_forbidden"
        message = _unknown_key(location, model, values) if unknown else _message(detail)
        problems.append(Problem(".".join(map(str, location)), message))
    return problems


def kind_of(value: object) -> str:
    """A value found in place of keys and values."""
    return "nothing" if value is None else "a list" if isinstance(value, list) else shown(value)


def _message(detail: Any) -> str:
    value, context = detail["input"], detail.get("ctx", {})
    found = "nothing" if value is None else shown(value)
    limit = {
        name: f"{bound:,}".removesuffix(".0") if isinstance(bound, int | float) else str(bound)
        for name, bound in context.items()
    }
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
        "literal_error": f"must be {limit.get('expected', '').replace(chr(39), '')}, found {found}",
        "greater_than": f"must be above {limit.get('gt')}, found {found}",
        "greater_than_equal": f"must be at least {limit.get('ge')}, found {found}",
        "less_than": f"must be below {limit.get('lt')}, found {found}",
        "less_than_equal": f"must be at most {limit.get('le')}, found {found}",
        "finite_number": f"must be a finite number, found {found}",
    }
    return messages.get(detail["type"], str(detail["msg"]))


def _unknown_key(location: Location, model: type[BaseModel], values: Any) -> str:
    """What is wrong with a key that the section or the chosen part does not have."""
    key, root, registry, name = str(location[-1]), model, None, ""
    for word in location[:-1]:
        if isinstance(word, int):  # an item of a list
            continue
        values = values.get(word) if isinstance(values, Mapping) else None
        field = model.model_fields[word]
        registry, models = registry_of(field), sections_of(field)
        if registry is not None:
            written = values if isinstance(values, Mapping) else {}
            entry = registry.get(written.get(registry.key, registry.default))
            name, models = entry.name, [entry.options]
        model = models[0]
    owners = [entry.name for entry in registry or () if key in entry.options.model_fields]
    if registry is not None and owners:
        kind, others = registry.kind, " or ".join(owners)
        return f"has no effect with {kind} {name!r}; set the {kind} to {others}, or leave this out"
    here = sorted(field.alias or one for one, field in model.model_fields.items() if one != "name")
    paths = {path.rpartition(".")[2]: path for path, _ in reversed(list(all_keys(root)))}
    guess = closest(key, here) or paths.get(key) or paths.get(closest(key, paths) or "")
    return f"unknown key; {f'did you mean {guess!r}? ' if guess else ''}allowed here: {', '.join(here) or 'none'}"
