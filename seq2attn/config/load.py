"""YAML file + overrides -> `Config`, with every problem reported together under its key and line.

An override replaces the value at its key. The name of a part, as in `model.attention.window=local_m`, is written to `name`
below that key, so that the part's other options stay; `={name: local_m}` replaces them too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import PARTS, Config, all_keys, registry_of, sections_of
from seq2attn.config.shipped import find_config
from seq2attn.config.yaml_files import DEEPEST, read_file, read_text, write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, closest, shown
from seq2attn.registry import Options

Overrides = str | Sequence[str] | Mapping[str, Any]
"""`"model.hidden=64"`, several of them, or `{"model.hidden": 64}`"""

HINT = "`seq2attn inspect CONFIG` shows every key with its value. A part of your own needs --plugin FILE."


def load_config(path: Path | str, overrides: Overrides = ()) -> Config:
    """Read a config file, the user's or a shipped one, and apply `overrides` to it; the last one of a key counts.

    The paths of data files become absolute: they are relative to the config's file, in overrides to the working directory.
    None of them is opened.

    Raises `ConfigError` with every problem found, or `Seq2AttnError` when the file cannot be read as YAML.
    """
    file = find_config(path)
    document = read_file(file)
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{path}: expected keys and values", hint="One line is enough: seed: 1")
    places = {".".join(map(str, key)): f"{path}:{line}" for key, line in document.lines.items()}
    return _check(_absolute(document.value, file.parent), overrides, places, str(path))


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
    plain, value = flat_values(config)[key], reduce(getattr, key.split("."), config)
    return value.model_dump(mode="json", exclude_defaults=True) if isinstance(value, Options) else plain


def flat_values(config: Config) -> dict[str, Any]:
    """Every dotted key with its value as plain JSON; the key of a part has its name, and its options are keys below it."""
    return dict(_flat(config.model_dump(mode="json"), ""))


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = (prefix + name).removesuffix(".name")
        if isinstance(value, dict):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _check(values: Mapping[str, Any], overrides: Overrides, places: dict[str, str], source: str) -> Config:
    problems = []
    for override in override_list(overrides):
        where = f"--set {shown(override)}"
        try:
            key, value = _parse(override)
            values = _set(values, tuple(key.split(".")), value)
        except Seq2AttnError as error:
            problems.append(Problem("", str(error), where))
            continue
        places = {other: place for other, place in places.items() if not _is_in(other, key)}
        places[key.removesuffix(".name")] = where
    config, wrong = _validated(_absolute(values, Path()))
    problems += wrong
    if config is not None and not problems:
        return config
    raise ConfigError(source, [replace(one, where=one.where or place_of(one, places)) for one in problems], hint=HINT)


def _parse(override: str) -> tuple[str, Any]:
    """The key and the value of an override, read as YAML; the name of a part is written to `name`."""
    written, equals, text = override.partition("=")
    keys = [word.strip() for word in written.split(".")]
    if not equals or not all(keys) or len(keys) > DEEPEST:
        raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
    key, value = ".".join(keys), read_text(text, source="value").value
    return f"{key}.name" if key in PARTS and not isinstance(value, dict) else key, value


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


def _validated(values: Mapping[str, Any]) -> tuple[Config | None, list[Problem]]:
    """The config, and every problem: with invalid values, the combinations of the others are checked."""
    problems: list[Problem] = []
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems = describe_errors(error, Config, values)
        try:
            config = Config.model_validate(_without(values, {problem.path for problem in problems}))
        except ValidationError:
            return None, problems
    wrong = [problem.path for problem in problems]
    for problem in combination_problems(config):
        if not any(_is_in(key, path) for key in (problem.path, *problem.rests_on) for path in wrong):
            problems.append(problem)
    return config, problems


def _without(values: Mapping[str, Any], wrong: set[str], prefix: str = "") -> dict[str, Any]:
    return {
        name: _without(value, wrong, f"{prefix}{name}.") if isinstance(value, Mapping) else value
        for name, value in values.items()
        if f"{prefix}{name}" not in wrong
    }


def _is_in(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")


def place_of(problem: Problem, places: Mapping[str, str]) -> str | None:
    """Where the problem's key is written, one below it, a key that the problem rests on, or the nearest key above."""
    for key in (problem.path, *problem.rests_on):
        for written, place in places.items():
            if _is_in(written, key):
                return place
    above = [written for written in places if _is_in(problem.path, written)]
    return places[max(above, key=len)] if above else None


# ---- pydantic's errors ----


def describe_errors(error: ValidationError, model: type[BaseModel] = Config, values: Any = None) -> list[Problem]:
    """Every problem found when `values` were validated as a `model`, under its dotted key."""
    problems = []
    for detail in error.errors(include_url=False):
        location, value = detail["loc"], detail["input"]
        message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").partition(" or instance of ")[0]
        if detail["type"] == "missing":
            message = "is missing"
        elif detail["type"] == "extra_forbidden":
            message = _unknown_key(location, model, values)
        elif message.startswith("should "):
            message += f", found {'nothing' if value is None else shown(value)}"
        problems.append(Problem(".".join(map(str, location)), message))
    return problems


def _unknown_key(location: tuple[str | int, ...], model: type[BaseModel], values: Any) -> str:
    """What is wrong with a key that the section or the chosen part does not have."""
    root, part = model, ""
    for word in location[:-1]:
        if isinstance(word, int):  # an item of a list
            continue
        field = model.model_fields[word]
        values = values.get(word) if isinstance(values, Mapping) else None
        registry, part = registry_of(field), ""
        if registry is None:
            model = sections_of(field)[0]
        else:
            written = values if isinstance(values, Mapping) else {}
            entry = registry.get(written.get(registry.key, registry.default))
            model, part = entry.options, f" of {registry.kind} {entry.name!r}"
    here = sorted(field.alias or name for name, field in model.model_fields.items() if name != "name")
    key, paths = str(location[-1]), {path.rpartition(".")[2]: path for path, _ in reversed(list(all_keys(root)))}
    guess = closest(key, here) or paths.get(closest(key, paths) or "")
    if guess == ".".join(map(str, location)):  # an option of another part
        guess = None
    return f"unknown key{part}; {f'did you mean {guess!r}? ' if guess else ''}allowed here: {', '.join(here) or 'none'}"
