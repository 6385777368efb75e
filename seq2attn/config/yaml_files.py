"""Find config files, the user's and those that come with seq2attn, and read and write YAML.

Only plain values are read, with line numbers, and `3e-3` is a number and `no` a word, unlike in
YAML 1.1. Duplicate keys, aliases and tags are refused. A file cannot execute code.
"""

import difflib
import functools
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from seq2attn.errors import Seq2AttnError, first_of, quoted
from seq2attn.files import open_plain

MAX_LEVELS = 20  # of nested values
LARGEST = 200_000  # bytes; PyYAML takes seconds for more
CONFIGS = "configs"
_PACKAGE = Path(__file__).parent.parent
_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_SCALARS = {  # the core schema of YAML 1.2: type -> what an unquoted value of it looks like
    "null": "null|Null|NULL|~|",
    "bool": "true|True|TRUE|false|False|FALSE",
    "int": "[-+]?[0-9]{1,300}",
    "float": rf"{_NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}


class Document(NamedTuple):
    """The value of a YAML text, and the line, from 1, of each dotted key."""

    value: Any
    lines: dict[str, int]


def read_file(path: Path) -> Document:
    """Read a YAML file. Raises `Seq2AttnError` with its name if that fails."""
    try:
        with open_plain(path, most=LARGEST) as file:
            text = file.read().decode("utf-8-sig")  # without a byte order mark
    except FileNotFoundError:
        raise Seq2AttnError(f"{path}: no such file", hint=hint_for_missing(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error  # an OSError's words, without its number
        raise Seq2AttnError(f"{path}: cannot be read: {reason}") from None
    return read_text(text, source=str(path))


def read_text(text: str, source: str) -> Document:
    """Read a YAML text; `source` names it in messages. Do not change the value: it is cached."""
    try:
        return _document(text)
    except yaml.MarkedYAMLError as error:
        # (PyYAML counts lines from 0)
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        message = ", ".join(filter(None, (error.context, error.problem)))
        raise Seq2AttnError(f"{source}{where}: not plain YAML: {message}") from None
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())  # in one line
        raise Seq2AttnError(f"{source}: not plain YAML: {message}") from None


@functools.lru_cache(maxsize=64)  # the trials of a grid read the same text
def _document(text: str) -> Document:
    loader = _Loader(text)
    node = loader.get_single_node()
    return Document(None if node is None else loader.value_of(node), loader.lines)


class _Loader(yaml.SafeLoader):
    """Composes nodes of plain values only, and makes values of them."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  (filled below, instead of those of YAML 1.1)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.lines: dict[str, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node as PyYAML does, unless it is an alias, has a tag, or lies too deep."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.depth += 1
        # 1 more: below the keys of the last level, their values are nodes, too
        if event.anchor is not None or event.tag is not None or self.depth > MAX_LEVELS + 1:
            problem = f"found an alias, a tag, or more than {MAX_LEVELS} levels; write plain values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def value_of(self, node: Any, prefix: str = "") -> Any:
        """Return the value of a node, and note the line of each key in it.

        prefix: the dotted key of the node, with a dot at its end.
        """
        if isinstance(node, yaml.ScalarNode):
            return self.construct_object(node)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.value_of(item, f"{prefix}{index}.") for index, item in items]
        values: dict[str, Any] = {}
        for name, below in node.value:
            problem = None
            key = f"{prefix}{name.value}"
            if not isinstance(name, yaml.ScalarNode):
                problem = "a key must be a word"
            elif key in self.lines:
                problem = f"duplicate key {quoted(name.value)}, first on line {self.lines[key]}"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=name.start_mark)
            self.lines[key] = name.start_mark.line + 1
            values[name.value] = self.value_of(below, f"{key}.")
        return values


def write_yaml(value: Any, *, width: int = 110) -> str:
    """Return `value` as YAML, keys in their own order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width))


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes text that `_Loader` would read as something else, such as `0123456789`, which PyYAML
    leaves unquoted. In C, where PyYAML comes with it, it takes a quarter of the time.
    """


for _type, _pattern in _SCALARS.items():
    _unquoted = re.compile(rf"(?:{_pattern})\Z")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_type}", _unquoted, None)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_type}", _unquoted, None)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))  # `010` is ten


# ---- the user's files, and those that come with seq2attn ----


def find_config(path: Path | str) -> Path:
    """Return the user's file at `path` if it exists, otherwise the shipped config of that name if
    there is one, otherwise `path`.

    A shipped config is named by its path in the repository, `configs/chapter/dot.yaml`, or in
    short: `chapter/dot`.
    """
    path = Path(path)
    # a path that is absolute or leads upwards names no shipped config
    if os.path.isfile(path) or path.is_absolute() or ".." in path.parts:
        return path
    named = shipped_folder() / path.as_posix().removeprefix(f"{CONFIGS}/")
    for file in (named, named.with_name(f"{named.name}.yaml")):
        if os.path.isfile(file):
            return file
    return path


def shipped_folder() -> Path:
    """Return `configs/` beside the package, or in the package if it is installed."""
    installed = _PACKAGE / CONFIGS
    return installed if installed.is_dir() else _PACKAGE.parent / CONFIGS


def shipped_names() -> list[str]:
    """Return what `--config` calls the shipped configs: `scaled`, which others begin with, then
    `pairs/small` and so on.
    """
    folder = shipped_folder()
    files = sorted(folder.rglob("*.yaml"))
    names = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    return sorted(names, key=lambda name: (name != "scaled", "/" in name, name))


def hint_for_missing(path: Path) -> str:
    """Return a hint that lists the shipped configs and those in the folder of `path`, the most
    similar names first.
    """
    folder = path if path.is_dir() else path.parent
    names = {f"{CONFIGS}/{name}.yaml" for name in shipped_names()}
    names.update(map(str, folder.glob("[!.]*.yaml")))
    # a cutoff of 0 leaves none out: all of them, sorted by their likeness
    similar = difflib.get_close_matches(str(path), sorted(names), len(names), cutoff=0)
    return f"There are: {first_of(similar)}"
