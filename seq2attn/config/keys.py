"""Dotted keys such as `model.attention.window.radius`: the list of all, their values and their older spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from seq2attn.config.schema import Config, Part
from seq2attn.registry import Choice

OLDER = {
    "model.attention.options": "model.attention.score",
    "model.attention.radius": "model.attention.window.radius",
    "model.attention.centre": "model.attention.window.centre",
    "model.attention.filters": "model.attention.history.filters",
    "model.attention.kernel": "model.attention.history.kernel",
    "model.input_feeding": "model.decoder.input_feeding",
    "model.transformer": "model",
}
"""how release 0.1 spelled keys -> how they are spelled now"""


def current_key(key: str) -> str:
    """`model.attention.radius` -> `model.attention.window.radius`; a key that has not moved is unchanged."""
    for old, new in OLDER.items():
        if f"{key}.".startswith(f"{old}."):
            return new + key.removeprefix(old)
    return key


def part_of(field: FieldInfo) -> Part | None:
    """The kind of part that a choice chooses; None for any other key."""
    return next((one for one in field.metadata if isinstance(one, Part)), None)


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation: itself, the members of a union, the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in sections_of(inner)]


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every dotted key below `model` with its field, those of each member of a union; sections are not listed themselves."""
    for name, field in model.model_fields.items():
        sections = sections_of(field.annotation)
        for section in sections:
            yield from fields_of(section, f"{prefix}{name}.")
        if not sections:
            yield prefix + name, field


CHOICES: dict[str, Part] = {key: part for key, field in fields_of(Config) if (part := part_of(field)) is not None}
"""the keys whose value is a choice"""


def all_keys(model: type[BaseModel] = Config) -> dict[str, tuple[Any, ...]]:
    """Every dotted key that values of `model` can have, options included, with the types of its values."""
    found: dict[str, tuple[Any, ...]] = {}
    for key, field in fields_of(model):
        found[key] = get_args(field.annotation) or (field.annotation,)
        part = part_of(field)
        for entry in part.registry if part is not None else ():
            for name, option in entry.options.items():
                found[f"{key}.{name}"] = (option.type,)
    return found


def value_at(config: Config, key: str) -> Any:
    """The value at a dotted key, as plain JSON. Raises `KeyError` if there is none.

    A choice is its name if all its options have their defaults, otherwise a mapping of its name and the other options.
    """
    key = current_key(key)
    value: Any = config
    for part in key.split("."):
        if isinstance(value, Choice):
            value = {"name": value.name, **value.options}
        value = (value if isinstance(value, dict) else dict(value) if isinstance(value, BaseModel) else {})[part]
    if isinstance(value, Choice):
        defaults = CHOICES[key].registry.get(value.name).defaults()
        changed = {name: found for name, found in value.options.items() if found != defaults.get(name)}
        return {"name": value.name, **changed} if changed else value.name
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, tuple) else value


def flat_values(config: Config) -> dict[str, Any]:
    """Every dotted key with its value as plain JSON; the key of a choice has its name, and its options are keys below it."""
    return dict(_flat(config.model_dump(mode="json"), ""))


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = prefix + name
        if not isinstance(value, dict):
            yield key, value
            continue
        if key in CHOICES:
            yield key, value["name"]
            value = {option: value[option] for option in value if option != "name"}
        yield from _flat(value, f"{key}.")
