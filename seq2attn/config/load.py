"""YAML file + overrides -> `Config`, with every problem reported together under its key and line.

An override replaces the value at its key. The name of a part, as in
`model.attention.window=local_m`, is written to `name` below that key, so that the part's other
options stay; `={name: local_m}` replaces them too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seq2attn.config.messages import describe_errors
from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import PARTS, Config
from seq2attn.config.yaml_files import DEEPEST, find_config, read_file, read_text, write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError
from seq2attn.text import quoted

Overrides = str | Sequence[str] | Mapping[str, Any]
"""`"model.hidden=64"`, several of them, or `{"model.hidden": 64}`"""

HINT = "`seq2attn inspect CONFIG` shows every key with its value. A part of your own needs --plugin FILE."
REPLACED = "A part that --set names keeps the options that the file has; --set 'KEY={name: NAME}' replaces them too."


def load_config(
    config: str | Path | Mapping[str, Any] | Config, overrides: Overrides = ()
) -> Config:
    """A config file, the user's or a shipped one, or a config in memory, with `overrides`; the last
    one of a key counts.

    The paths of data files become absolute: they are relative to the config's file, in overrides
    and in memory to the working directory. None of them is opened.

    Raises `ConfigError` with every problem found, or `Seq2AttnError` when the file cannot be read
    as YAML.
    """
    if not isinstance(config, str | Path):
        if not isinstance(config, Mapping | Config):
            kind = type(config).__name__
            raise Seq2AttnError(
                f"expected a config: a file's name, or its keys and values; found a {kind}"
            )
        return check_config(
            config.model_dump(mode="json") if isinstance(config, Config) else config, overrides
        )
    file = find_config(config)
    document = read_file(file)
    if not isinstance(document.value, dict):
        raise Seq2AttnError(
            f"{config}: expected keys and values", hint="One line is enough: seed: 1"
        )
    places = {".".join(map(str, key)): f"{config}:{line}" for key, line in document.lines.items()}
    return _check(_absolute(document.value, file.parent), overrides, places, str(config))


def check_config(values: Mapping[str, Any], overrides: Overrides = ()) -> Config:
    """The config of these keys and values, as `load_config` checks it."""
    return _check(values, overrides, {}, "config")


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def override_list(overrides: Overrides) -> list[str]:
    """Overrides as `KEY=VALUE`."""
    if isinstance(overrides, Mapping):
        return [
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in overrides.items()
        ]
    several = isinstance(overrides, Iterable) and not isinstance(overrides, str)
    made: list[str] = list(overrides) if several else [overrides]  # type: ignore[list-item]
    for override in made:
        if not isinstance(override, str):
            raise Seq2AttnError(f"an override is KEY=VALUE; found {quoted(override)}")
    return made


def flat_values(config: Config | Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every dotted key with its value as plain JSON; the key of a part has its name, and its
    options are keys below it.
    """
    values = config.model_dump(mode="json") if isinstance(config, Config) else config
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}".removesuffix(".name")
        flat |= flat_values(value, f"{key}.") if isinstance(value, dict) else {key: value}
    return flat


def _check(
    values: Mapping[str, Any], overrides: Overrides, places: dict[str, str], source: str
) -> Config:
    problems = []
    for override in override_list(overrides):
        where = f"--set {quoted(override)}"
        try:
            key, value = parse_override(override)
            values = _set(values, tuple(key.split(".")), value)
        except Seq2AttnError as error:
            problems.append(Problem("", str(error), where))
            continue
        places = {other: place for other, place in places.items() if not _is_in(other, key)}
        places[key.removesuffix(".name")] = where
    config, wrong = _validated(_absolute(values, Path()))
    problems += wrong
    if not problems:
        return config
    problems = [replace(one, where=one.where or place_of(one, places)) for one in problems]
    kept = overrides and any(one.message.startswith("unknown key of '") for one in problems)
    raise ConfigError(source, problems, hint=REPLACED if kept else HINT)


def parse_override(override: str) -> tuple[str, Any]:
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
    paths = {
        name: path
        for name, path in task.items()
        if name in files and isinstance(path, str) and path
    }
    absolute = {
        name: os.path.abspath(folder / Path(path).expanduser()) for name, path in paths.items()
    }
    return {**values, "task": {**task, **absolute}}


def _validated(values: Mapping[str, Any]) -> tuple[Config, list[Problem]]:
    """The config, and every problem: with invalid values, the others and their combinations are
    checked.
    """
    problems = list(surrogates(values))
    while True:
        try:
            config = Config.model_validate(values)
            break
        except ValidationError as error:
            found = describe_errors(error)
            problems += found
            smaller = reduce(_without, [problem.path.split(".") for problem in found], values)
            values = smaller if smaller != values else {}
    wrong = [problem.path for problem in problems]
    for problem in combination_problems(config):
        if not any(
            _is_in(key, path) for key in (problem.path, *problem.rests_on) for path in wrong
        ):
            problems.append(problem)
    return config, problems


def surrogates(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Text that no file can hold: half of a pair of code points, or a byte of a file's name that is
    not UTF-8.
    """
    for key, value in flat_values(values).items():
        found = re.search(
            "[\ud800-\udfff]",
            key + json.dumps(value, ensure_ascii=False, default=str, skipkeys=True),
        )
        if found:
            yield Problem(
                key,
                f"{quoted(value)} holds U+{ord(found[0]):04X}, which is not a character; leave it out",
            )


def _without(values: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """A copy of `values` without the key at `path`, or without the list that has something there."""
    name, *below = path
    value = values.get(name)
    if below and isinstance(value, Mapping):
        return {**values, name: _without(value, below)}
    return {key: value for key, value in values.items() if key != name}


def _is_in(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")


def place_of(problem: Problem, places: Mapping[str, str]) -> str | None:
    """Where the problem's key is written, one below it, a key that the problem rests on, or the
    nearest key above.
    """
    for key in (problem.path, *problem.rests_on):
        for written, place in places.items():
            if _is_in(written, key):
                return place
    above = [written for written in places if _is_in(problem.path, written)]
    return places[max(above, key=len)] if above else None
