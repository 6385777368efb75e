"""YAML file + overrides -> `Config`, with every problem reported together under its key and line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seq2attn.config.describing import describe_errors, kind_of
from seq2attn.config.keys import CHOICES, current_key, value_at
from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import Config
from seq2attn.config.settings import Settings
from seq2attn.config.shipped import find_config
from seq2attn.config.yaml_files import read_file, write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, shown

HINT = "`seq2attn inspect CONFIG` shows every key with its value."
OWN_PART = "A {} of your own needs --plugin FILE."


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Read a config file, the user's or a shipped one, and apply `overrides` ("model.hidden=64") to it.

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
    return _check(document.value, overrides, places, str(path), file.parent)


def load_changed(path: Path | str, overrides: Sequence[str]) -> tuple[Config, list[str]]:
    """`load_config`, and the `changes` that the overrides made."""
    config = load_config(path, overrides)
    try:
        original = load_config(path) if overrides else None
    except Seq2AttnError:
        original = None
    return config, changes(config, original, overrides)


def check_config(values: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "config") -> Config:
    """Like `load_config`, for values in memory; the paths of data files are relative to the working directory."""
    return _check(values, overrides, {}, source, Path())


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides whose order would matter: of one key, or of a key and one below it.

    A part's name and its options may go together: `window=local_m` and `window.radius=3`.
    """
    for index, override in enumerate(overrides):
        key = _written_key(override)
        for other in overrides[:index]:
            other_key = _written_key(other)
            if f"{key}.".startswith(f"{other_key}.") or f"{other_key}.".startswith(f"{key}."):
                raise Seq2AttnError(f"--set {shown(other)} and --set {shown(override)} set the same key; keep one")


def changes(config: Config, original: Config | None, overrides: Sequence[str]) -> list[str]:
    """`KEY=VALUE` for each key that `overrides` gave another value than it has in `original`, sorted by key.

    original: the config without the overrides; None if it is not valid without them.
    """
    values = {key: _value(config, key) for key in sorted(map(_written_key, overrides))}
    return [
        f"{key.removesuffix('.name')}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
        if original is None or _value(original, key) != value
    ]


def _value(config: Config, key: str) -> Any:
    """The value at a key; None if the config does not have it."""
    try:
        return value_at(config, key)
    except KeyError:
        return None


def _written_key(override: str) -> str:
    """The key that an override writes; the name of a part is written to `name`."""
    key, _, text = override.partition("=")
    key = current_key(".".join(part.strip() for part in key.split(".")))
    return f"{key}.name" if key in CHOICES and not text.lstrip().startswith("{") else key


def _check(
    values: dict[str, Any], overrides: Sequence[str], places: dict[str, str], source: str, folder: Path
) -> Config:
    settings = Settings(values, overrides, places)
    settings.resolve_files(folder)
    problems = settings.problems
    try:
        config = Config.model_validate(settings.values())
        problems += combination_problems(config)
        if not problems:
            return config
    except ValidationError as error:
        found = describe_errors(error)
        problems += found + _combinations_of_the_rest(settings, {problem.path for problem in found})
    kinds = [part.registry.kind for part in CHOICES.values()]
    unknown = [kind for kind in kinds if any(f"unknown {kind} '" in problem.message for problem in problems)]
    hint = f"{HINT} {OWN_PART.format(unknown[0])}" if unknown else HINT
    raise ConfigError(source, [settings.locate(problem) for problem in problems], hint=hint)


def _combinations_of_the_rest(settings: Settings, wrong: set[str]) -> list[Problem]:
    """The combination problems that involve none of the keys in `wrong`, whose values are invalid."""
    try:
        config = Config.model_validate(settings.values(without=wrong))
    except ValidationError:
        return []
    return [problem for problem in combination_problems(config) if not _rests_on(problem, wrong)]


def _rests_on(problem: Problem, wrong: set[str]) -> bool:
    keys = [f"{key}.name" if key in CHOICES else key for key in (problem.path, *problem.rests_on)]
    return any(f"{path}.".startswith(f"{key}.") or key.startswith(f"{path}.") for key in keys for path in wrong)
