"""YAML file + overrides -> `Config`, with every problem reported together under its key and line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seq2attn.config.describing import describe_errors, kind_of
from seq2attn.config.keys import CHOICES, OLDER, current_key
from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import Config
from seq2attn.config.settling import move_older, set_at, settle
from seq2attn.config.shipped import shipped_config
from seq2attn.config.yaml_reader import DEEPEST, read_file, read_text
from seq2attn.config.yaml_writer import write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, shown

HINT = "`seq2attn inspect CONFIG` shows every key with its value."
OWN_PART = "A {} of your own needs --plugin FILE."


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Read a config file and apply `overrides` ("model.hidden=64") to it.

    Raises `ConfigError` with every problem found, or `Seq2AttnError` when the file cannot be read as YAML.
    """
    path = Path(path)
    document = read_file(path if path.exists() else shipped_config(path) or path)
    if document.value is None:
        raise Seq2AttnError(f"{path}: empty", hint="Every key has a default, so one line is enough: seed: 1")
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{path}: expected keys and values (a mapping), found {kind_of(document.value)}")
    places = {".".join(map(str, key)): f"{path}:{line}" for key, line in document.lines.items()}
    return _check(document.value, overrides, places, str(path))


def check_config(values: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "config") -> Config:
    """The same for values that are already in memory."""
    return _check(values, overrides, {}, source)


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides whose order would decide: of one key, or of a key and one below it.

    The name of a part and its options go together: `window=local_m` and `window.radius=3`.
    """
    for index, override in enumerate(overrides):
        key = _written_key(override)
        for other in overrides[:index]:
            other_key = _written_key(other)
            if f"{key}.".startswith(f"{other_key}.") or f"{other_key}.".startswith(f"{key}."):
                raise Seq2AttnError(f"--set {shown(other)} and --set {shown(override)} set the same key; keep one")


def _written_key(override: str) -> str:
    """The key that an override writes; that of a part's name alone is its `name`."""
    key, _, text = override.partition("=")
    key = current_key(".".join(part.strip() for part in key.split(".")))
    return f"{key}.name" if key in CHOICES and not text.lstrip().startswith("{") else key


def _check(values: dict[str, Any], overrides: Sequence[str], places: dict[str, str], source: str) -> Config:
    values = copy.deepcopy(values)
    overridden: set[str] = set()
    problems = move_older(values, places)
    for override in overrides:
        try:
            written = _override(values, override, places)
        except Seq2AttnError as error:
            problems.append(Problem("", str(error), f"--set {shown(override)}"))
            continue
        overridden |= {current_key(key) for key in written}
    problems += settle(values, overridden, places)
    config, found = _validate(values)
    problems += found
    if config is not None and not problems:
        return config
    placed = [replace(item, where=item.where or _place(item.path, places)) for item in problems]
    unknown = [
        part.registry
        for part in CHOICES.values()
        for one in problems
        if f"unknown {part.registry.kind} '" in one.message
    ]
    raise ConfigError(source, placed, hint=f"{HINT} {OWN_PART.format(unknown[0].kind)}" if unknown else HINT)


def _override(values: dict[str, Any], override: str, places: dict[str, str]) -> list[str]:
    """Apply `a.b=value`, the value read as YAML, to `values`; returns the keys that were written, as they were spelled."""
    dotted, equals, text = override.partition("=")
    parts = [part.strip() for part in dotted.split(".")]
    if not equals or not all(parts) or len(parts) > DEEPEST:
        raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
    value = read_text(text, source="value").value
    written = ".".join(parts)
    pairs = {written: value}
    if OLDER.get(written) in CHOICES and isinstance(value, dict):  # options: {width: 8}
        pairs = {f"{written}.{name}": option for name, option in value.items()}
    for old, given in pairs.items():
        is_size = old.startswith("model.transformer")  # which stays until the architecture is known
        key = old if is_size else current_key(old)
        set_at(values, key, given)
        if not is_size and key.startswith("model.") and isinstance(values["model"].get("transformer"), dict):
            values["model"]["transformer"].pop(key.removeprefix("model."), None)
        if key in CHOICES and isinstance(given, str):
            places.pop(f"{key}.name", None)
        else:
            for below in [place for place in places if place.startswith(f"{key}.")]:
                del places[below]  # the override replaced it
        places[key] = f"--set {shown(override)}"
    return list(pairs)


def _validate(values: dict[str, Any]) -> tuple[Config | None, list[Problem]]:
    """The config, or every problem: of single values, and of combinations among the values that are right."""
    try:
        config = Config.model_validate(values)
        return config, combination_problems(config)
    except ValidationError as error:
        problems = describe_errors(error)
    # Check the combinations too, with what was wrong left at its default.
    wrong = {problem.path for problem in problems}
    removed = {path.removesuffix(".name") if path.removesuffix(".name") in CHOICES else path for path in wrong}
    try:
        config = Config.model_validate(_without(values, {tuple(path.split(".")) for path in removed}))
    except ValidationError:
        return None, problems
    return None, problems + [one for one in combination_problems(config) if not _rests_on(one, wrong)]


def _rests_on(problem: Problem, wrong: set[str]) -> bool:
    """Whether a combination's problem speaks of a value that is wrong in itself, and so was not looked at."""
    keys = [f"{key}.name" if key in CHOICES else key for key in (problem.path, *problem.rests_on)]
    return any(f"{path}.".startswith(f"{key}.") or key.startswith(f"{path}.") for key in keys for path in wrong)


def _without(values: Any, paths: set[tuple[str, ...]]) -> Any:
    """`values` without what stands at `paths` (or above, where a path leads into something that is not a mapping)."""
    if () in paths or not isinstance(values, dict):
        return {} if () in paths else values
    inside: dict[str, set[tuple[str, ...]]] = {}
    for first, *rest in paths:
        inside.setdefault(first, set()).add(tuple(rest))
    result = {}
    for key, value in values.items():
        below = inside.get(key, set())
        if () in below or (below and not isinstance(value, dict)):
            continue
        result[key] = _without(value, below) if below else value
    return result


def _place(path: str, places: dict[str, str]) -> str | None:
    """Where `path`, or the nearest key above it, was written; `--set a.b.c=1` writes a.b and a too."""
    while path:
        if path in places:
            return places[path] or None
        for written, place in places.items():
            if place and written.startswith(f"{path}."):
                return place
        path = path.rpartition(".")[0]
    return None
