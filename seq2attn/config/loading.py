"""YAML file + overrides -> `Config`, with every problem reported together under its key and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from seq2attn.config.schema import Config
from seq2attn.config.shipped import shipped_config
from seq2attn.config.yaml_reader import DEEPEST, read_file, read_text
from seq2attn.config.yaml_writer import write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown

HINT = "`seq2attn inspect CONFIG` shows every key with its value."
OWN_SCORE = "A score of your own needs --plugin FILE."


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Read a config file and lay `overrides` ("model.hidden=64") over it.

    Raises `ConfigError` with every problem found, or `Seq2AttnError` when the file is no readable YAML.
    """
    path = Path(path)
    document = read_file(path if path.exists() else shipped_config(path) or path)
    if document.value is None:
        raise Seq2AttnError(f"{path}: empty", hint="Every key has a default, so one line is enough: seed: 1")
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{path}: expected keys and values (a mapping), found {_kind(document.value)}")
    places = {_dotted(key): f"{path}:{line}" for key, line in document.lines.items()}
    return _check(document.value, overrides, places, str(path))


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides whose order would decide: of one key, or of a key and one below it."""
    for index, override in enumerate(overrides):
        path = f"{_key(override)}."
        for other in overrides[:index]:
            if path.startswith(f"{_key(other)}.") or f"{_key(other)}.".startswith(path):
                raise Seq2AttnError(f"--set {shown(other)} and --set {shown(override)} speak of the same key; keep one")


def _key(override: str) -> str:
    return ".".join(key.strip() for key in override.partition("=")[0].split("."))


def check_config(values: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "config") -> Config:
    """The same for values that are already in memory."""
    return _check(values, overrides, {}, source)


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def _check(values: dict[str, Any], overrides: Sequence[str], places: dict[str, str], source: str) -> Config:
    problems: list[Problem] = []
    for override in overrides:
        try:
            values = _with_override(values, override, places)
        except Seq2AttnError as error:
            problems.append(Problem("", str(error), f"--set {shown(override)}"))
    config, found = _validate(values)
    problems += found
    if config is not None and not problems:
        return config
    placed = [replace(item, where=item.where or _place(item.path, places)) for item in problems]
    unknown_score = any("unknown score" in problem.message for problem in problems)
    raise ConfigError(source, placed, hint=f"{HINT} {OWN_SCORE}" if unknown_score else HINT)


def _with_override(values: dict[str, Any], override: str, places: dict[str, str]) -> dict[str, Any]:
    """A copy of `values` with `a.b=value` applied; the value is read as YAML."""
    dotted, equals, text = override.partition("=")
    keys = [key.strip() for key in dotted.split(".")]
    if not equals or not all(keys) or len(keys) > DEEPEST:
        raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
    value = read_text(text, source="value").value
    result = dict(values)
    level = result
    for depth, key in enumerate(keys[:-1]):
        inner = level.get(key, {})
        if inner is None:
            inner = {}
        if not isinstance(inner, dict):
            raise Seq2AttnError(f"{'.'.join(keys[: depth + 1])} has no keys below it")
        level[key] = dict(inner)
        level = level[key]
    level[keys[-1]] = value
    path = ".".join(keys)
    for below in [place for place in places if place.startswith(f"{path}.")]:
        del places[below]  # the override replaced it
    places[path] = f"--set {shown(override)}"
    return result


def _validate(values: dict[str, Any]) -> tuple[Config | None, list[Problem]]:
    """The config, or every problem: of single values, and of combinations among the values that are right."""
    try:
        return Config.model_validate(values), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    if any(detail["type"] == "combination" for detail in details):
        return None, [problem for detail in details for problem in detail["ctx"]["problems"]]
    problems = [describe(detail) for detail in details]
    # Look at the combinations too, with what was wrong left at its default.
    bad = {problem.path for problem in problems}
    mended = _without(values, {tuple(map(str, detail["loc"])) for detail in details})
    try:
        Config.model_validate(mended)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] == "combination":
                problems += [p for p in detail["ctx"]["problems"] if not _rests_on(p, bad)]
    return None, problems


def _rests_on(problem: Problem, bad: set[str]) -> bool:
    """Whether a combination's problem speaks of a value that is wrong in itself, and so was not looked at."""
    keys = (problem.path, *problem.rests_on)
    return any(f"{path}.".startswith(f"{key}.") or key.startswith(f"{path}.") for key in keys for path in bad)


def _without(values: Any, paths: set[tuple[str, ...]]) -> Any:
    """`values` less what stands at `paths` (or above, where a path leads into something that is no mapping)."""
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


def describe(detail: Any, model: type[BaseModel] = Config) -> Problem:
    """One of pydantic's errors on a `model`, in our words."""
    location = tuple(detail["loc"])
    path = _dotted(location)
    found = "nothing" if detail["input"] is None else shown(detail["input"])
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return Problem(path, _unknown_key(location, model))
    limit = {name: _number(value) for name, value in context.items()}
    messages = {
        "int_type": f"expected a whole number, found {found}",
        "float_type": f"expected a number, found {found}",
        "bool_type": f"expected true or false, found {found}",
        "string_type": f"expected text, found {found}{_quote_hint(detail['input'])}",
        "model_type": f"expected keys and values (a mapping), found {_kind(detail['input'])}",
        "dict_type": f"expected keys and values (a mapping), found {_kind(detail['input'])}",
        "greater_than": f"must be above {limit.get('gt')}, found {found}",
        "greater_than_equal": f"must be at least {limit.get('ge')}, found {found}",
        "less_than": f"must be below {limit.get('lt')}, found {found}",
        "less_than_equal": f"must be at most {limit.get('le')}, found {found}",
        "string_too_short": "must not be empty",
        "string_too_long": f"must have at most {context.get('max_length')} characters, found {found}",
        "finite_number": f"must be a finite number, found {found}",
    }
    return Problem(path, messages.get(kind, detail["msg"]))


def _unknown_key(location: tuple[str | int, ...], model: type[BaseModel]) -> str:
    key = str(location[-1])
    here = sorted(_keys_at(location[:-1], model))
    guess = did_you_mean(key, here)
    if not guess:
        elsewhere = [path for path in _all_paths(model) if path.rpartition(".")[2] == key]
        guess = f"did you mean '{elsewhere[0]}'? " if elsewhere else ""
    return f"unknown key; {guess}allowed here: {', '.join(here)}"


def _keys_at(location: tuple[str | int, ...], model: type[BaseModel]) -> list[str]:
    for key in location:
        if isinstance(key, int):  # an item of a list, whose model the list's own key led to
            continue
        annotation = model.model_fields[key].annotation
        inner = [annotation, *get_args(annotation)]  # `tuple[Figures, ...]` is a list of Figures
        model = next(kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel))
    return [field.alias or name for name, field in model.model_fields.items()]


def _all_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _all_paths(field.annotation, f"{prefix}{name}.")


def _dotted(location: tuple[str | int, ...]) -> str:
    return ".".join(map(str, location))


def _place(path: str, places: dict[str, str]) -> str | None:
    """Where `path`, or the nearest key above it, was written; `--set a.b.c=1` writes a.b and a too."""
    while path:
        for written, place in places.items():
            if f"{written}.".startswith(f"{path}."):
                return place
        path = path.rpartition(".")[0]
    return None


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return shown(value)


def _number(value: object) -> str:
    """A limit as people read it: 1,000,000."""
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _quote_hint(value: object) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""
