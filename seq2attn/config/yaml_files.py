"""Reads YAML safely: plain values only, with line numbers. Writes YAML that is read back unchanged.

Differs from YAML 1.1 where that is surprising: `3e-3` is a number, `no` and `on` are words; duplicate keys, aliases and tags
are refused. A file cannot execute code.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seq2attn.config.shipped import hint_for_missing
from seq2attn.errors import LARGEST_FILE, Seq2AttnError, shown

DEEPEST = 20  # levels
_SCALARS = (  # YAML 1.2's core schema
    (re.compile(r"null|Null|NULL|~|"), lambda text: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)


def _plain(text: str) -> Any:
    """The value of an unquoted scalar: `3e-3` is a number, `no` is text."""
    return next((convert(text) for pattern, convert in _SCALARS if pattern.fullmatch(text)), text)


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
        text = data.decode("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError) as error:
        what = ": no such file" if isinstance(error, FileNotFoundError) else " is a directory, not a file"
        raise Seq2AttnError(f"{path}{what}", hint=hint_for_missing(path)) from None
    except UnicodeDecodeError as error:
        raise Seq2AttnError(f"{path}: not UTF-8 text (byte {error.start})", hint="Save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        raise Seq2AttnError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > LARGEST_FILE["config"]:
        raise Seq2AttnError(f"{path}: larger than {LARGEST_FILE['config']:,} bytes; that is not a config")
    return read_text(text, source=str(path))


@functools.lru_cache(maxsize=64)  # the trials of a grid read the same text
def read_text(text: str, source: str) -> Document:
    """Read a YAML text; `source` names it in messages. Do not change the value."""
    try:
        loader = _Loader(text)
        loader.name = source
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise Seq2AttnError(_syntax_message(error, text, source)) from None
    except yaml.YAMLError as error:
        raise Seq2AttnError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    document = Document(None)
    return Document(None if node is None else _value(node, (), document.lines, source), document.lines)


class _Loader(yaml.SafeLoader):
    """Composes nodes of plain values only; `name` is the text's name in messages."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.depth += 1
        if self.depth > DEEPEST + 1:
            raise Seq2AttnError(f"{self.name}: nested deeper than {DEEPEST} levels")
        if event.anchor is not None:
            raise _refusal(self.name, event, "an alias (&name, *name)", "write the value out each time")
        if event.tag is not None:
            raise _refusal(self.name, event, f"the tag {shown(event.tag)}", "write a plain value")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _value(node: yaml.Node, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], source: str) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, index), lines, source) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style is not None else _plain(node.value)
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refusal(source, key, "a key that is not a word", "write key: value")
        here = (*path, key.value)
        if here in lines:
            raise _refusal(source, key, f"a duplicate key {shown(key.value)} (first on line {lines[here]})", "keep one")
        lines[here] = key.start_mark.line + 1
        result[key.value] = _value(value, here, lines, source)
    return result


def _refusal(source: str, at: Any, what: str, instead: str) -> Seq2AttnError:
    return Seq2AttnError(f"{source}:{at.start_mark.line + 1}: found {what}; {instead}")


def _syntax_message(error: yaml.MarkedYAMLError, text: str, source: str) -> str:
    mark, context = error.problem_mark or error.context_mark, error.context or ""
    line = mark.line + 1 if mark else 1
    problem = " ".join((error.problem or context or "syntax error").split())
    written = next(iter(text.splitlines()[line - 1 : line]), "")
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return f"{source}:{line}: a tab in the indentation; YAML requires spaces"
    if "found character '\\t'" in problem:
        return f"{source}:{line}: a tab where YAML requires a space"
    if error.context_mark and "while parsing a flow" in context and "but got" in problem:
        sign, start = "[" if "sequence" in context else "{", error.context_mark.line + 1
        comma = "" if "stream end" in problem else f", or a comma is missing, by line {line}"
        return f"{source}:{start}: not YAML: this '{sign}' is not closed{comma}"
    return f"{source}:{line}: not YAML: {f'{context} {problem}' if problem.startswith('but ') else problem}"


def write_yaml(value: Any, *, flow: bool = False, width: int = 110) -> str:
    """`value` as YAML, keys in their own order; flow: in one line, as `[1, 2]`."""
    options: Any = {"default_flow_style": flow, "sort_keys": False, "allow_unicode": True, "width": width}
    return str(yaml.dump(value, Dumper=_Dumper, **options))


class _Dumper(yaml.SafeDumper):
    """Quotes text that would be read as something else: PyYAML leaves `0123456789` unquoted."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        style = None if isinstance(_plain(text), str) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _Dumper.represent_str)
