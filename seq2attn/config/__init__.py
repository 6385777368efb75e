"""From a YAML file and overrides to a frozen, checked `Config`, with all problems reported together
under their keys and lines. Imports no torch.

An override replaces the value at its key. The name of a part, as in
`model.attention.window=local_m`, is written to `name` below that key, so that the part's other
options stay; `={name: local_m}` replaces them too.
"""

import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seq2attn.config.rules import combination_problems
from seq2attn.config.schema import (
    PARTS,
    Config,
    RecurrentConfig,
    TrainingConfig,
    TransformerConfig,
    all_keys,
)
from seq2attn.config.yaml_files import MAX_LEVELS, find_config, read_file, read_text, write_yaml
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, quoted, sentence

__all__ = [
    "Config", "RecurrentConfig", "TrainingConfig", "TransformerConfig", "check_config",
    "dump_config", "flat_values", "load_config",
]  # fmt: skip

Values = Mapping[str, Any]
"""keys and values of a config, nested"""
Overrides = str | Sequence[str] | Values
"""`"model.hidden=64"`, several of them, or `{"model.hidden": 64}`"""

HINT = (
    "`seq2attn inspect CONFIG` shows every key with its value. "
    "A part of your own needs --plugin FILE."
)
KEPT_OPTIONS = (
    "A part that --set names keeps the options that the file has; "
    "--set 'KEY={name: NAME}' replaces them too."
)


def load_config(config: str | Path | Values | Config, overrides: Overrides = ()) -> Config:
    """Return the config of a file, the user's or a shipped one, or of keys and values, with
    `overrides`; the last one for a key counts.

    A relative path of a data file starts at the folder of the config's file; in an override, or in
    a config that is not a file, at the working directory. None of these files is opened.

    Raises `ConfigError` with every problem, or `Seq2AttnError` if the file is missing or does not
    hold keys and values in YAML.
    """
    if isinstance(config, Config):
        config = config.model_dump(mode="json")
    if isinstance(config, Mapping):
        return check_config(config, overrides)
    file = find_config(config)
    document = read_file(file)
    if not isinstance(document.value, dict):
        raise Seq2AttnError(
            f"{config}: expected keys and values", hint="One line is enough: seed: 1"
        )
    places = {key: f"{config}:{line}" for key, line in document.lines.items()}
    return check_config(_absolute(document.value, file.parent), overrides, str(config), places)


def check_config(
    values: Values,
    overrides: Overrides = (),
    source: str = "config",
    written: Mapping[str, str] | None = None,
) -> Config:
    """Return the config of these keys and values with `overrides`. Raises `ConfigError` with every
    problem.

    source: what messages call the config, such as its file. written: where each dotted key is in
    it, such as `mine.yaml:7`, for messages.
    """
    values, places, unusable = _overridden(values, override_list(overrides), written or {})
    values = _absolute(values, Path())  # paths of overrides; those of a file are absolute already
    config, problems = _validate(values)
    problems += _unwritable(values)
    invalid = [problem.path for problem in problems]
    for problem in combination_problems(config):
        # `config` has defaults in place of invalid values: a rule that rests on one is not broken
        # by what the user wrote.
        keys = (problem.path, *problem.rests_on)
        rests_on_default = any(_is_in(key, path) for key in keys for path in invalid)
        if not rests_on_default:
            problems.append(problem)
    if not unusable and not problems:
        return config
    located = [replace(problem, where=place_of(problem, places)) for problem in problems]
    # An option unknown to a part may be left from the part that an override has replaced.
    of_part = any(problem.message.startswith("unknown key of '") for problem in problems)
    hint = KEPT_OPTIONS if overrides and of_part else HINT
    raise ConfigError(source, unusable + located, hint=hint)


def _overridden(
    values: Values, overrides: Sequence[str], places: Mapping[str, str]
) -> tuple[Values, dict[str, str], list[Problem]]:
    """Return values after overrides, where each dotted key is now written, and a problem for each
    override that cannot be read. An override of a part, such as `model.attention.score=dot`, sets
    its name: `model.attention.score.name`.

    places: where each dotted key was written before.
    """
    places = dict(places)
    unusable = []
    for override in overrides:
        where = f"--set {quoted(override)}"
        written, equals, text = override.partition("=")
        words = [word.strip() for word in written.split(".")]
        key = ".".join(words)
        try:
            if not equals or not all(words) or len(words) > MAX_LEVELS:
                raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
            value = read_text(text, source="value").value
            # (a mapping says itself which of its values is the name; a list chooses several parts)
            is_name = key in PARTS and not isinstance(value, dict | list)
            changed = f"{key}.name" if is_name else key
            values = _replaced(values, changed, value)
        except Seq2AttnError as error:
            unusable.append(Problem("", str(error), where))  # of no key
            continue
        for other in list(places):
            if _is_in(other, changed):  # the override has replaced what was written there
                del places[other]
        places[key.removesuffix(".name")] = where  # problems of a part are under the part's key
    return values, places, unusable


def _validate(values: Values) -> tuple[Config, list[Problem]]:
    """Return the config of the valid values, and a problem for each of the others.

    The config lets the caller look for combinations that cannot work, too, so that all problems are
    reported together. Pydantic finds some errors only once others are gone: what is left without
    the invalid values is validated again.
    """
    try:
        return Config.model_validate(values), []
    except ValidationError as error:
        problems = _elsewhere(problems_of(error), values)
    valid = _without(values, [problem.path for problem in problems])
    if valid == values:  # nothing could be left out: only the defaults are surely valid
        valid = {}
    config, others = _validate(valid)  # ends, since `valid` has fewer values each time
    return config, problems + others


def dump_config(config: Config) -> str:
    """Return the config as YAML that `load_config` reads back to an equal one."""
    return write_yaml(config.model_dump(mode="json"))


def flat_values(config: Config | Values, prefix: str = "") -> dict[str, Any]:
    """Return every dotted key with its value as plain JSON. The value of a part's key is the part's
    name; its options are keys below that.

    prefix: what comes before each key, such as `model.`, where `config` is a section of one.
    """
    values = config.model_dump(mode="json") if isinstance(config, Config) else config
    flat = {}
    for name, value in values.items():
        key = f"{prefix}{name}".removesuffix(".name")
        if isinstance(value, dict):
            flat.update(flat_values(value, f"{key}."))
        else:
            flat[key] = value
    return flat


# ---- overrides ----


def override_list(overrides: Overrides) -> list[str]:
    """Return overrides as texts `KEY=VALUE`: a single one, several, or a mapping from key to value.
    Raises `Seq2AttnError` if one of several is not a text; whether it has a `=` is seen later.
    """
    if isinstance(overrides, Mapping):
        return [  # JSON is YAML, too; a path becomes text
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in overrides.items()
        ]
    listed = [overrides] if isinstance(overrides, str) else list(overrides)
    for override in listed:
        if not isinstance(override, str):
            raise Seq2AttnError(f"an override is KEY=VALUE; found {quoted(override)}")
    return listed


def _replaced(values: Values, key: str, value: Any) -> Values:
    """Return a copy of a config's values with another value at a dotted key. Raises `Seq2AttnError`
    if the key is below something that has no keys, such as a number.

    >>> _replaced({"seed": 1}, "model.hidden", 64)
    {'seed': 1, 'model': {'hidden': 64}}
    """
    changed = section = dict(values)
    *above, name = key.split(".")
    for number, word in enumerate(above, 1):
        below = section.get(word)
        path = ".".join(above[:number])
        if path in PARTS and not isinstance(below, Mapping | list | None):
            below = {"name": below}  # a part that is written as its name alone
        if not isinstance(below, Mapping | None):
            raise Seq2AttnError(f"{path} has no keys below it")
        section[word] = section = dict(below or {})
    section[name] = value
    return changed


# ---- values ----


def _absolute(values: Values, folder: Path) -> Values:
    """Return a copy of the values of a config in which relative paths of data files are made
    absolute: they start at `folder`, or at the user's home if they begin with `~`.
    """
    task = values.get("task")
    if not isinstance(task, Mapping):  # a task's name alone, which has no options
        return values
    # (the name of the task may be wrong, so data files of any task count)
    files = {name for entry in PARTS["task"] for name in entry.files}
    absolute = {}
    for name, path in task.items():
        if name in files and isinstance(path, str) and path:
            absolute[name] = os.path.abspath(folder / os.path.expanduser(path))
    return {**values, "task": {**task, **absolute}}


def _without(values: Values, paths: Iterable[str]) -> Values:
    """Return a copy of `values` without what is at these dotted keys; a path into a list removes
    the list.
    """
    kept = copy.deepcopy(dict(values))
    for path in paths:
        section, words = kept, path.split(".")
        while len(words) > 1 and isinstance(section.get(words[0]), dict):
            section = section[words.pop(0)]
        section.pop(words[0], None)
    return kept


def _unwritable(values: Values) -> list[Problem]:
    """Return a problem if a text cannot be written as UTF-8, as a run writes its config: it has
    half of a surrogate pair, or a byte of a file's name that is not UTF-8.
    """
    try:
        json.dumps(values, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError as error:
        # the character, with what stands around it
        text = quoted(error.object[max(0, error.start - 20) : error.start + 1])
        return [Problem("", f"{text} ends with what is not a character; leave it out")]
    return []


def _is_in(key: str, section: str) -> bool:
    """Return True if a dotted key is this one, or one below it."""
    return f"{key}.".startswith(f"{section}.")


def place_of(problem: Problem, places: Mapping[str, str]) -> str | None:
    """Return the place of the first of these that is written: the problem's key; a key below it; a
    key that the problem rests on, or one below that; the nearest key above the problem's. None if
    none of them is.

    places: dotted key -> file and line, or the override.
    """
    if problem.path in places:
        return places[problem.path]
    for key in (problem.path, *problem.rests_on):
        for written, place in places.items():
            if _is_in(written, key):
                return place
    # the nearest is the longest of those above
    above = [written for written in places if _is_in(problem.path, written)]
    return places[max(above, key=len)] if above else None


# ---- messages ----


def problems_of(error: ValidationError) -> list[Problem]:
    """Return a problem for each error that pydantic found in a `Section`, under its dotted key."""
    return [Problem(".".join(map(str, one["loc"])), sentence(one)) for one in error.errors()]


def _elsewhere(problems: Sequence[Problem], values: Values) -> list[Problem]:
    """Return problems of a config, in which those of unknown keys say the first key that ends with
    the same word, if a config with these values may take it (`_takes`).
    """
    rest = _without(values, [problem.path for problem in problems])
    found = []
    for problem in problems:
        if problem.message.startswith("unknown key"):
            word = problem.path.rpartition(".")[2]
            for key, _ in all_keys():
                is_other = key.rpartition(".")[2] == word and key != problem.path
                if is_other and _takes(rest, key):
                    problem = replace(problem, message=f"{problem.message}; elsewhere: {key}")
                    break
        found.append(problem)
    return found


def _takes(values: Values, key: str) -> bool:
    """Return whether a config with these values takes a key, or may take it once its part is
    chosen, which they leave open.
    """
    part = key.rpartition(".")[0]
    if not any(_is_in(written, part) for written in flat_values(values)):
        return True
    try:
        Config.model_validate(_replaced(values, key, 0))
    except Seq2AttnError:  # it is below a list
        return False
    except ValidationError as error:  # 0 may be wrong for it
        messages = {one.path: one.message for one in problems_of(error)}
        return not messages.get(key, "").startswith("unknown key")
    return True
