"""The settings that a file and its overrides write, each once, in today's spelling.

Release 0.1 spelled some keys differently and wrote every setting of every part, whatever was chosen; runs hold such configs.
So old spellings are renamed, and a setting that the chosen part does not have is dropped if it is at its default. An
override that chooses another part also drops the file's settings that the new part does not have. Any other setting without
effect is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from seq2attn.config.describing import describe_errors, kind_of
from seq2attn.config.keys import CHOICES, OLDER, flat_values
from seq2attn.config.schema import ARCHITECTURES, Config, ModelConfig, TransformerConfig, architecture_of
from seq2attn.config.yaml_files import DEEPEST, read_text
from seq2attn.errors import Problem, Seq2AttnError, shown
from seq2attn.registry import Choice

Path = tuple[str, ...]

_OLDER: dict[Path, Path] = {tuple(old.split(".")): tuple(new.split(".")) for old, new in OLDER.items()}
_CHOICES = {tuple(key.split(".")): part for key, part in CHOICES.items()}
_TRANSFORMER = ("model", "transformer")  # release 0.1's section of Transformer settings, with these defaults:
_SIZES = {
    name: one.default for name, one in TransformerConfig.model_fields.items() if name not in ModelConfig.model_fields
}

_WHY_NOT = {
    "model.attention.score": "its attention is the scaled dot product, by definition",
    "model.attention.mask_padding": "its layers always mask padding",
    "model.attention.window": "a window needs a recurrent decoder, which attends step by step",
    "model.attention.history": "history needs a recurrent decoder, which attends step by step",
    "model.attention.scalable_softmax": "PyTorch's layers have a plain softmax",
    "model.padding_embedding": "its layers always mask padding",
    "model.embedding": "its embeddings have the width model.hidden",
    "model.cell": "it has no recurrent cell",
    "model.decoder": "this is an arrangement of a recurrent decoder",
    "model.bidirectional": "its encoder has no direction",
}
"""keys of recurrent models -> why a Transformer accepts only their defaults; it ignores `initial_state`"""


@dataclass(frozen=True)
class Setting:
    """A value, its path in the spelling that was used, and whether an override wrote it."""

    value: Any
    written: Path
    overrides: bool


class Settings:
    """What `values` and `overrides` ("model.hidden=64") set. `places` says where keys of `values` are written."""

    def __init__(self, values: Mapping[str, Any], overrides: Sequence[str], places: dict[str, str]) -> None:
        self.found: dict[Path, Setting] = {}
        self.places = places
        self.problems: list[Problem] = []
        layers: list[tuple[Path, Any, str]] = [((), values, "")]
        for override in overrides:
            where = f"--set {shown(override)}"
            try:
                layers.append((*_parse(override), where))
            except Seq2AttnError as error:
                self.problems.append(Problem("", str(error), where))
        leaves = dict(leaf for path, value, _ in layers for leaf in _leaves(path, value))
        self.written_architecture = leaves.get(("model", "architecture"), "gru")
        self.architecture = architecture_of({"architecture": self.written_architecture})
        for path, value, where in layers:
            try:
                self._write(path, value, where)
            except Seq2AttnError as error:
                self.problems.append(Problem("", str(error), where))
        self._drop_unowned()
        self._drop_other_architecture()

    def values(self, without: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
        """As nested mappings, without the dotted keys in `without` and everything above or below them."""
        paths = [tuple(key.split(".")) for key in without]
        wrong = {path[:-1] if path[-1] == "name" and path[:-1] in _CHOICES else path for path in paths}
        above = {path[:length] for path in wrong for length in range(1, len(path) + 1)}
        return _nested(
            {
                path: setting
                for path, setting in self.found.items()
                if path not in above and not any(path[:length] in wrong for length in range(1, len(path)))
            }
        )

    def resolve_files(self, folder: FilePath) -> None:
        """Make the paths of data files absolute: relative ones start at `folder`, in overrides at the working directory."""
        for path, setting in self.found.items():
            is_file = path[:-1] in _CHOICES and any(path[-1] in one.files for one in _CHOICES[path[:-1]].registry)
            if is_file and isinstance(setting.value, str) and setting.value:
                base = FilePath() if setting.overrides else folder
                absolute = os.path.abspath(base / FilePath(setting.value).expanduser())
                self.found[path] = replace(setting, value=absolute)

    def locate(self, problem: Problem) -> Problem:
        """The problem with the place where its key, or the nearest key above it, was written."""
        path = problem.path
        setting = self.found.get(tuple(path.split(".")))
        if setting is not None and path.endswith(".name") and setting.written[-1] != "name":  # window: local_m
            path = path.removesuffix(".name")
        return replace(problem, path=path, where=problem.where or self._place(path))

    def _place(self, path: str) -> str | None:
        while path:
            if path in self.places:
                return self.places[path] or None
            for written, place in self.places.items():
                if place and written.startswith(f"{path}."):  # `--set a.b.c=1` writes a.b and a too
                    return place
            path = path.rpartition(".")[0]
        return None

    def _write(self, path: Path, value: Any, where: str) -> None:
        if where:
            if path not in _CHOICES or isinstance(value, dict):  # the name of a choice leaves its options as they are
                self.found = {
                    key: setting
                    for key, setting in self.found.items()
                    if key[: len(path)] != path and setting.written[: len(path)] != path
                }
                self.places = {key: one for key, one in self.places.items() if not key.startswith(_dotted(path) + ".")}
            self.places[_dotted(path)] = where
        for leaf, inner in sorted(_leaves(path, value), key=lambda leaf: self._rename(leaf[0]) != leaf[0]):
            self._add(leaf, inner, where)

    def _add(self, path: Path, value: Any, where: str) -> None:
        key = self._rename(path)
        if key in _CHOICES:
            if path in _OLDER and value != {}:
                message = f"expected keys and values (a mapping), found {kind_of(value)}"
                self.problems.append(Problem(_dotted(path), message))
            if path in _OLDER or value == {}:
                return
            key = (*key, "name")
        for above in (key[:length] for length in range(1, len(key) if where else 0)):
            if above in self.found and self.found[above].value not in (None, {}):
                raise Seq2AttnError(f"{_dotted(above)} has no keys below it")
        if key in self.found and not where:
            message = f"is now called {_dotted(key)}, which is written too; keep one"
            self.problems.append(Problem(_dotted(path), message))
            return
        self.found[key] = Setting(value, path, bool(where))
        if key != path:
            self.places[_dotted(key)] = where or self.places.get(_dotted(path), "")

    def _rename(self, path: Path) -> Path:
        """The path as it is spelled today. Sizes of a Transformer that is not chosen keep their old spelling."""
        if path[:2] == _TRANSFORMER and (len(path) < 3 or (self.architecture == "gru" and path[2] in _SIZES)):
            return path
        return next((new + path[len(old) :] for old, new in _OLDER.items() if path[: len(old)] == old), path)

    def _drop_unowned(self) -> None:
        """Drop the options that the chosen parts do not have, where that is allowed; the schema reports the others."""
        for key, part in _CHOICES.items():
            name = self.found.get((*key, "name"), Setting(part.default, (), overrides=False))
            try:
                owned = part.registry.get(str(name.value)).options
            except Seq2AttnError:  # reported by the schema
                continue
            for path in [path for path in self.found if path[:-1] == key and path[-1] not in (*owned, "name")]:
                setting, owners = self.found[path], part.registry.owners(path[-1])
                is_default = any(owner.options[path[-1]].default == setting.value for owner in owners)
                is_asked_for = setting.overrides and setting.written == path  # by an override in today's spelling
                if (is_default and not is_asked_for) or (owners and name.overrides and not setting.overrides):
                    del self.found[path]

    def _drop_other_architecture(self) -> None:
        """Drop what belongs to the architecture that is not chosen; report it unless it is at its default."""
        others = {name for section in ARCHITECTURES.values() for name in section.model_fields}
        others -= ARCHITECTURES[self.architecture].model_fields.keys()
        foreign = {
            path: self.found.pop(path)
            for path in list(self.found)
            if (path[:2] == _TRANSFORMER and (path[2:] or self.found[path].value == {}))  # else reported by the schema
            or (path[0] == "model" and path[1:2] and path[1] in others)
        }
        if self.written_architecture != self.architecture:  # reported by the schema
            return
        if self.architecture == "transformer":
            self.problems += _recurrent_problems(foreign)
            return
        wrong = {
            path[: 3 if path[:2] == _TRANSFORMER else 2]: None
            for path, setting in foreign.items()
            if path[:2] != _TRANSFORMER or setting.value != _SIZES.get(path[-1], {})
        }
        message = "has no effect with architecture 'gru'; set model.architecture to transformer, or leave this out"
        self.problems += [Problem(_dotted(path), message, rests_on=("model.architecture",)) for path in wrong]


def _recurrent_problems(foreign: Mapping[Path, Setting]) -> list[Problem]:
    """What is wrong with the settings of recurrent models in the config of a Transformer."""
    try:
        found = flat_values(Config.model_validate({"model": _nested(foreign).get("model", {})}))
    except ValidationError as error:
        return describe_errors(error)
    problems, defaults = [], flat_values(Config())
    for path, why in _WHY_NOT.items():
        value, default = found[path], defaults[path]
        if value != default:
            message = f"{_yaml(value)} does not go with architecture 'transformer': {why}; "
            message += f"set it to {_yaml(default).strip(chr(39))}, or model.architecture to gru"
            problems.append(Problem(path, message, rests_on=("model.architecture",)))
    return problems


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shown(value)


def _parse(override: str) -> tuple[Path, Any]:
    """`"a.b=3e-3"` -> `(("a", "b"), 0.003)`: the value is read as YAML."""
    dotted, equals, text = override.partition("=")
    path = tuple(part.strip() for part in dotted.split("."))
    if not equals or not all(path) or len(path) > DEEPEST:
        raise Seq2AttnError("expected KEY=VALUE with a dotted key, such as model.hidden=64")
    value = read_text(text, source="value").value
    if isinstance(value, str) and value == text.strip() != text:  # not in quotes: YAML drops the spaces around it
        raise Seq2AttnError(
            f"YAML drops the spaces at the start and end of this value; leave them out, or quote it: "
            f"--set '{dotted.strip()}=\"{text}\"'"
        )
    return path, value


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Every path at and below `path` whose value is not a mapping, or an empty one."""
    if isinstance(value, Choice):
        value = {"name": value.name, **value.options}
    if isinstance(value, Mapping) and (value or not path):
        for key, inner in value.items():
            yield from _leaves((*path, str(key)), inner)
    else:
        yield path, {} if isinstance(value, Mapping) else value


def _nested(settings: Mapping[Path, Setting]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path in sorted(settings, key=len):
        section = result
        for part in path[:-1]:
            if not isinstance(section.get(part), dict):
                section[part] = {}
            section = section[part]
        section[path[-1]] = settings[path].value
    return result


def _dotted(path: Path) -> str:
    return ".".join(path)
