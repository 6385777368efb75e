"""YAML file + overrides -> `Config`, with every problem reported together under its key and line.

An override replaces the value at its key. The name of a part, as in `model.attention.window=local_m`, is written to `name`
below that key, so that the part's other options stay; `={name: local_m}` replaces them too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import PARTS, Config, all_keys, registry_of, sections_of
from seq2attn.config.shipped import find_config
from seq2attn.config.yaml_files import DEEPEST, read_file, read_text, write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, closest, shown

Overrides = str | Sequence[str] | Mapping[str, Any]
"""`"model.hidden=64"`, several of them, or `{"model.hidden": 64}`"""

HINT = "`seq2attn inspect CONFIG` shows every key with its value."


def load_config(path: Path | str, overrides: Overrides = ()) -> Config:
    """Read a config file, the user's or a shipped one, and apply `overrides` to it; the last one of a key counts.

    The paths of data files become absolute: they are relative to the config's file, in overrides to the working directory.
    None of them is opened.

    Raises `ConfigError` with every problem found, or `Seq2AttnError` when the file cannot be read as YAML.
    """
    file = find_config(path)
    document = read_file(file)
    if document.value is None:
        raise Seq2AttnError(f"{path}: empty", hint="Every key has a default, so one line is enough: seed: 1")
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{path}: expected keys and values (a mapping), found {kind_of(document.value)}")
    places = {".".join(map(str, key)): f"{path}:{line}" for key, line in document.lines.items()}
    return _check(_absolute(document.value, file.parent), overrides, places, str(path))


def load_changed(path: Path | str, overrides: Overrides) -> tuple[Config, list[str]]:
    """`load_config`, and `KEY=VALUE` for each key that the overrides gave another value than the file does, sorted."""
    config = load_config(path, overrides)
    try:
        before = flat_values(load_config(path))
    except Seq2AttnError:
        before = {}
    written = [_key(override) for override in override_list(overrides)]
    names, below = {key.removesuffix(".name") for key in written}, tuple(f"{key}." for key in written)
    return config, [
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted(flat_values(config).items())
        if (key in names or key.startswith(below)) and (key not in before or before[key] != value)
    ]


def check_config(values: Mapping[str, Any], overrides: Overrides = (), *, source: str = "config") -> Config:
    """Like `load_config`, for values in memory; the paths of data files are relative to the working directory."""
    return _check(values, overrides, {}, source)


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def override_list(overrides: Overrides) -> list[str]:
    """Overrides as `KEY=VALUE`."""
    if isinstance(overrides, Mapping):
        return [f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in overrides.items()]
    return [overrides] if isinstance(overrides, str) else list(overrides)


def value_at(config: Config, key: str) -> Any:
    """The value at a dotted key, as plain JSON. Raises `KeyError` if there is none.

    A part is its name if all its options have their defaults, otherwise a mapping of its name and the other options.
    """
    values = flat_values(config)
    if key not in PARTS:
        return values[key.removesuffix(".name")] if key.removesuffix(".name") in PARTS else values[key]
    defaults = PARTS[key].choose(values[key]).keywords
    changed = {name: values[f"{key}.{name}"] for name in defaults if values[f"{key}.{name}"] != defaults[name]}
    return {"name": values[key], **changed} if changed else values[key]


def flat_values(config: Config) -> dict[str, Any]:
    """Every dotted key with its value as plain JSON; the key of a part has its name, and its options are keys below it."""
    return dict(_flat(config.model_dump(mode="json"), ""))


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = (prefix + name).removesuffix(".name" if prefix[:-1] in PARTS else "")
        if isinstance(value, dict):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _check(values: Mapping[str, Any], overrides: Overrides, places: dict[str, str], source: str) -> Config:
    problems = []
    for override in override_list(overrides):
        where = f"--set {shown(override)}"
        try:
            key, value = _key(override), _parse(override)
            values = _set(values, tuple(key.split(".")), value)
        except Seq2AttnError as error:
            problems.append(Problem("", str(error), where))
            continue
        places = {one: place for one, place in places.items() if not one.startswith(f"{key}.")} | {key: where}
    values = _absolute(values, Path())
    try:
        config = Config.model_validate(values)
        problems += combination_problems(config)
        if not problems:
            return config
    except ValidationError as error:
        wrong = describe_errors(error, Config, values)
        problems += wrong + _combinations_of_the_rest(values, {problem.path for problem in wrong})
    unknown = [part.kind for part in PARTS.values() if any(f"unknown {part.kind} '" in one.message for one in problems)]
    hint = f"{HINT} A {unknown[0]} of your own needs --plugin FILE." if unknown else HINT
    idle = [one.path.rpartition(".")[0] for one in problems if one.message.startswith("has no effect with ")]
    hint += f"\n--set '{idle[0]}={{...}}' replaces all of {idle[0]}." if idle and overrides else ""
    placed = [replace(problem, where=problem.where or place_of(problem, places)) for problem in problems]
    raise ConfigError(source, placed, hint=hint)


def _key(override: str) -> str:
    """The key that an override writes; the name of a part is written to `name`."""
    written, _, text = override.partition("=")
    key = ".".join(word.strip() for word in written.split("."))
    return f"{key}.name" if key in PARTS and not text.lstrip().startswith("{") else key


def _parse(override: str) -> Any:
    """The value of an override, read as YAML."""
    key, equals, text = override.partition("=")
    if not equals or not all(map(str.strip, key.split("."))) or key.count(".") >= DEEPEST:
        raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
    value = read_text(text, source="value").value
    if isinstance(value, str) and value == text.strip() != text:  # not in quotes
        raise Seq2AttnError(
            f"YAML drops the spaces at the start and end of this value; leave them out, or quote it: "
            f"--set '{key.strip()}=\"{text}\"'"
        )
    return value


def _set(values: Any, path: tuple[str, ...], value: Any, above: str = "") -> Any:
    """A copy of `values` with another value at `path`."""
    if not path:
        return value
    if not isinstance(values, Mapping):
        if values is not None and above not in PARTS:
            raise Seq2AttnError(f"{above} has no keys below it")
        values = {} if values is None else {"name": values}
    below = _set(values.get(path[0]), path[1:], value, f"{above}.{path[0]}".lstrip("."))
    return {**values, path[0]: below}


def _absolute(values: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """A copy of `values` in which the relative paths of data files start at `folder`."""
    task = values.get("task")
    if not isinstance(task, Mapping):
        return values
    files = {name for entry in PARTS["task"] for name in entry.files}
    paths = {name: path for name, path in task.items() if name in files and isinstance(path, str) and path}
    absolute = {name: os.path.abspath(folder / Path(path).expanduser()) for name, path in paths.items()}
    return {**values, "task": {**task, **absolute}}


def place_of(problem: Problem, places: Mapping[str, str]) -> str | None:
    """Where the problem's key is written, one below it, a key that the problem rests on, or the nearest key above."""
    above = problem.path.split(".")[:-1]
    for key in (problem.path, *problem.rests_on):
        below = (place for written, place in places.items() if written.startswith(f"{key}."))
        place = places.get(f"{key}.name") or places.get(key) or next(below, None)
        if place:
            return place
    keys = (".".join(above[:length]) for length in range(len(above), 0, -1))
    return next((places[key] for key in keys if key in places), None)


def _combinations_of_the_rest(values: Mapping[str, Any], wrong: set[str]) -> list[Problem]:
    """The combination problems that involve none of the keys in `wrong`, whose values are invalid."""
    try:
        config = Config.model_validate(_without(values, wrong))
    except ValidationError:
        return []
    found = combination_problems(config)
    return [one for one in found if not any(_is_in(key, path) for key in (one.path, *one.rests_on) for path in wrong)]


def _is_in(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")


def _without(values: Mapping[str, Any], wrong: set[str], prefix: str = "") -> dict[str, Any]:
    return {
        name: _without(value, wrong, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in values.items()
        if f"{prefix}{name}" not in wrong
    }


# ---- our messages for pydantic's errors ----


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


def _unknown_key(location: tuple[str | int, ...], model: type[BaseModel], values: Any) -> str:
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
