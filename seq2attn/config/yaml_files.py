"""Finds a config: the user's own, or one that comes with seq2attn. Reads YAML safely: plain values
only, with line numbers. Writes YAML that is read back unchanged.

Differs from YAML 1.1 where that is surprising: `3e-3` is a number, `no` and `on` are words;
duplicate keys, aliases and tags are refused. A file cannot execute code.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seq2attn.errors import LARGEST_FILE, Seq2AttnError
from seq2attn.text import first_of, quoted

DEEPEST = 20  # levels
CONFIGS = "configs"
_PACKAGE = Path(__file__).parent.parent
_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_SCALARS = {  # YAML 1.2's core schema: kind -> what an unquoted one looks like
    "null": "null|Null|NULL|~|",
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?[0-9]{1,300}",
    "float": rf"{_NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}


@dataclass(frozen=True)
class Document:
    """The value of a YAML text, and the line (from 1) of each key, by its path."""

    value: Any
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)


def read_file(path: Path) -> Document:
    """Read a YAML file. Raises `Seq2AttnError` with its name if that fails."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE["config"] + 1)
        if len(data) > LARGEST_FILE["config"]:
            raise ValueError(f"it is larger than {LARGEST_FILE['config']:,} bytes")
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise Seq2AttnError(f"{path}: no such file", hint=hint_for_missing(path)) from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    return read_text(text, source=str(path))


@functools.lru_cache(maxsize=64)  # the trials of a grid read the same text
def read_text(text: str, source: str) -> Document:
    """Read a YAML text; `source` names it in messages. Do not change the value."""
    document = Document(None)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return Document(
            None if node is None else _value(loader, node, (), document.lines), document.lines
        )
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        words = [getattr(error, name, None) for name in ("context", "problem")]
        message = ", ".join(word for word in words if word) or " ".join(str(error).split())
        raise Seq2AttnError(
            f"{source}{f':{mark.line + 1}' if mark else ''}: not plain YAML: {message}"
        ) from None


class _Loader(yaml.SafeLoader):
    """Composes nodes of plain values only: `3e-3` is a number, `no` is text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  (filled below, instead of YAML 1.1's)
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.depth += 1
        if event.anchor is not None or event.tag is not None or self.depth > DEEPEST + 1:
            raise _refusal(
                event, f"found an alias, a tag, or more than {DEEPEST} levels; write plain values"
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _value(
    loader: _Loader, node: Any, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]
) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(loader, item, (*path, index), lines) for index, item in enumerate(node.value)
        ]
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_object(node)
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refusal(key, "a key must be a word")
        here = (*path, key.value)
        if here in lines:
            raise _refusal(key, f"duplicate key {quoted(key.value)}, first on line {lines[here]}")
        lines[here] = key.start_mark.line + 1
        result[key.value] = _value(loader, value, here, lines)
    return result


def _refusal(at: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def write_yaml(value: Any, *, width: int = 110) -> str:
    """`value` as YAML, keys in their own order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width))


class _Dumper(yaml.SafeDumper):
    """Quotes text that would be read as something else, by `_Loader` too: PyYAML's own leaves
    `0123456789` unquoted.
    """


for _kind, _pattern in _SCALARS.items():
    for _side in (_Loader, _Dumper):
        _side.add_implicit_resolver(
            f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), None
        )
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))  # `010` is ten


# ---- the user's own files, and those that come with seq2attn ----


def find_config(path: Path | str) -> Path:
    """The file that `path` names: itself if it exists, otherwise the shipped one, otherwise `path`
    itself.

    A shipped config is named by its path in the repository, `configs/chapter/dot.yaml`, or in
    short: `chapter/dot`.
    """
    path = Path(path)
    parts = path.parts[1:] if path.parts[:1] == (CONFIGS,) else path.parts
    if (
        os.path.isfile(path)
        or path.is_absolute()
        or not parts
        or ".." in parts
        or "\0" in str(path)
    ):
        return path
    named = shipped_folder().joinpath(*parts)
    return next(
        (file for file in (named, named.with_name(f"{named.name}.yaml")) if file.is_file()), path
    )


def shipped_folder() -> Path:
    """`configs/` beside the package, or its copy in an installed one."""
    installed = _PACKAGE / CONFIGS
    return installed if installed.is_dir() else _PACKAGE.parent / CONFIGS


def shipped_names() -> list[str]:
    """What `--config` calls the shipped configs from any directory: `scaled`, `pairs/small`."""
    folder = shipped_folder()
    return sorted(
        file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml")
    )


def hint_for_missing(path: Path) -> str:
    """A hint for a config that does not exist: the shipped ones and those in its folder, the most
    similar first.
    """
    folder = path if path.is_dir() else path.parent
    names = {f"{CONFIGS}/{name}.yaml" for name in shipped_names()}
    with contextlib.suppress(OSError):
        names |= set(map(str, folder.glob("*.yaml")))
    return (
        f"There are: {first_of(difflib.get_close_matches(str(path), sorted(names), len(names), 0))}"
    )
