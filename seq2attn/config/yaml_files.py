"""Reads YAML safely: plain values only, with line numbers. Writes YAML that is read back unchanged.

Differs from YAML 1.1 where that is surprising: `3e-3` is a number, `no` and `on` are words; duplicate keys, aliases and tags
are refused. A file cannot execute code.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seq2attn.config.shipped import hint_for_missing
from seq2attn.errors import Seq2AttnError, shown

LARGEST_FILE = 200_000  # bytes
DEEPEST = 20

_SCALARS = (  # YAML 1.2's core schema
    (re.compile(r"(?:null|Null|NULL|~|)"), lambda text: None),
    (re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)"), lambda text: -math.inf if text[0] == "-" else math.inf),
    (re.compile(r"\.(?:nan|NaN|NAN)"), lambda text: math.nan),
)

_RESOLVER = yaml.resolver.Resolver()  # says which tag a plain scalar has when none is written

KeyPath = tuple[str | int, ...]


def plain_value(text: str) -> Any:
    """The value of an unquoted scalar: `3e-3` is a number, `no` is text."""
    for pattern, convert in _SCALARS:
        if pattern.fullmatch(text):
            return convert(text)
    return text


@dataclass(frozen=True)
class Document:
    """The value of a YAML text, and the line (from 1) of each key, by its path."""

    value: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)


def read_file(path: Path) -> Document:
    """Read a YAML file. Raises `Seq2AttnError` with its name if that fails."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise Seq2AttnError(f"{path}: no such file", hint=hint_for_missing(path)) from None
    except IsADirectoryError:
        raise Seq2AttnError(f"{path} is a directory, not a file", hint=hint_for_missing(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Seq2AttnError(f"{path}: cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise Seq2AttnError(f"{path}: larger than {LARGEST_FILE:,} bytes; that is not a config")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Seq2AttnError(f"{path}: not UTF-8 text (byte {error.start})", hint="Save it as UTF-8.") from None
    return read_text(text, source=str(path))


def read_text(text: str, source: str) -> Document:
    """Read a YAML text; `source` names it in messages."""
    return copy.deepcopy(_parse(text, source))


@functools.lru_cache(maxsize=64)
def _parse(text: str, source: str) -> Document:
    """`read_text`; a grid of trials reads the same text for each."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except RecursionError:
        raise Seq2AttnError(f"{source}: nested deeper than {DEEPEST} levels") from None
    except yaml.MarkedYAMLError as error:
        raise Seq2AttnError(_syntax_message(error, text, source)) from None
    except yaml.YAMLError as error:
        raise Seq2AttnError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    lines: dict[KeyPath, int] = {}
    return Document(None if node is None else _Builder(source, lines).build(node, ()), lines)


class _Builder:
    def __init__(self, source: str, lines: dict[KeyPath, int]) -> None:
        self.source = source
        self.lines = lines
        self.seen: set[int] = set()

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        if id(node) in self.seen:
            raise self.refusal(node, "an alias (*name)", "write the value out each time")
        self.seen.add(id(node))
        if len(path) > DEEPEST:
            raise Seq2AttnError(f"{self.source}: nested deeper than {DEEPEST} levels")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self.check_tag(node, "tag:yaml.org,2002:seq")
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self.scalar(node)

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        self.check_tag(node, "tag:yaml.org,2002:map")
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.refusal(key_node, "a key that is not a word", "write key: value")
            self.build(key_node, path)  # refuses an alias and a tag
            key = key_node.value
            if key in result:
                first = self.lines[(*path, key)]
                raise self.refusal(key_node, f"a duplicate key {shown(key)} (first on line {first})", "keep one")
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            result[key] = self.build(value_node, (*path, key))
        return result

    def scalar(self, node: yaml.ScalarNode) -> Any:
        if node.style is not None:
            self.check_tag(node, "tag:yaml.org,2002:str")
            return node.value
        self.check_tag(node, _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False)))  # type: ignore[no-untyped-call]
        return plain_value(node.value)

    def check_tag(self, node: yaml.Node, expected: str) -> None:
        if node.tag != expected:
            raise self.refusal(node, f"the tag {shown(node.tag)}", "write a plain value")

    def refusal(self, node: yaml.Node, what: str, instead: str) -> Seq2AttnError:
        return Seq2AttnError(f"{self.source}:{node.start_mark.line + 1}: found {what}; {instead}")


def _syntax_message(error: yaml.MarkedYAMLError, text: str, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    context = error.context or ""
    problem = " ".join((error.problem or context or "syntax error").split())
    if problem.startswith("but "):  # PyYAML's sentence begins in the context
        problem = f"{context} {problem}"
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]:
        return f"{source}:{line}: a tab in the indentation; YAML requires spaces"
    if error.context_mark and "while parsing a flow" in (error.context or "") and "but got" in problem:
        sign, start = "[" if "sequence" in (error.context or "") else "{", error.context_mark.line + 1
        instead = "" if "stream end" in problem else f", or a comma is missing, by line {line}"
        return f"{source}:{start}: not YAML: this '{sign}' is not closed{instead}"
    if "found character '\\t'" in problem:
        return f"{source}:{line}: a tab where YAML requires a space"
    return f"{source}:{line}: not YAML: {problem}"


def write_yaml(value: Any, *, flow: bool = False, width: int = 110) -> str:
    """`value` as YAML, keys in their own order; flow: in one line, as `[1, 2]`."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=width
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes text that would be read as something else: PyYAML leaves `0123456789` unquoted."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(plain_value(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)
