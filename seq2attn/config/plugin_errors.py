"""Messages about the code of plug-ins and of installed packages: which part it is, where it is, and how to check it."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any

from seq2attn.config.schema import PARTS, Config
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.parts import EXTENSIBLE
from seq2attn.registry import Entry

MOST_FRAMES = 5  # of a plug-in's, shown with an exception
NOT_OWN = {"seq2attn", "torch", *sys.stdlib_module_names}  # packages
PLUGIN_MODULE = "seq2attn_plugin_"  # prefix of the module that a plug-in's file becomes


@dataclass(frozen=True)
class OwnPart:
    """A registered part whose class is not one of seq2attn's."""

    kind: str
    name: str
    cls: type

    def __str__(self) -> str:
        """`score 'mine' (class Mine, parts.py:12)`"""
        try:
            place = f", {shown_path(inspect.getsourcefile(self.cls) or '')}:{inspect.getsourcelines(self.cls)[1]}"
        except (OSError, TypeError):  # typed into an interpreter
            place = ""
        return f"{self.kind} {self.name!r} (class {self.cls.__name__}{place})"

    @property
    def check(self) -> str:
        """The command that checks the part."""
        if self.cls.__module__.startswith(PLUGIN_MODULE):
            return f"seq2attn check --plugin {shlex.quote(shown_path(inspect.getsourcefile(self.cls) or ''))}"
        return f"seq2attn check {self.kind.replace(' ', '-')}/{shlex.quote(self.name)}"


def is_own(cls: type) -> bool:
    """Whether a class is neither seq2attn's nor torch's nor Python's."""
    return cls.__module__.partition(".")[0] not in NOT_OWN


def registered_parts() -> list[OwnPart]:
    """The parts that plug-ins and installed packages have registered."""
    return [part for registry in EXTENSIBLE for entry in registry if (part := _own(registry.kind, entry))]


def chosen_parts(config: Config) -> list[OwnPart]:
    """Those of them that `config` names."""
    found = []
    for key, registry in PARTS.items():
        try:
            chosen: Any = reduce(getattr, key.split("."), config)
        except AttributeError:  # the other architecture's
            continue
        part = _own(registry.kind, registry.get(chosen.name))
        found += [part] if part else []
    return found


def part_of_class(cls: type) -> OwnPart | None:
    """The registered part that is an instance of `cls`."""
    return next((part for part in registered_parts() if part.cls is cls), None)


def plugin_error(error: BaseException) -> Seq2AttnError | None:
    """`error` as a message with part, file and line and the plug-in's own frames; None if it passed through none.

    An error that the plug-in reports itself, and a lack of memory, stay as they are.
    """
    if isinstance(error, Seq2AttnError) or is_out_of_memory(error):
        return None
    parts = registered_parts()
    files = {filename for part in parts for filename in _files(part.cls)}
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename in files]
    if not frames:
        return None
    summary = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in files]
    last = summary[-1]
    part = _part_of_frames(frames, parts)
    shown = [f"  {shown_path(one.filename)}:{one.lineno}, in {one.name}: {one.line}" for one in summary[-MOST_FRAMES:]]
    message = f"{part} raised {type(error).__name__} in line {last.lineno}: {error}"
    return Seq2AttnError("\n".join([message, *shown]), hint=f"Check it: {part.check}", exit_code=1)


def suspects_error(error: Exception, config: Config, doing: str) -> Seq2AttnError | None:
    """A message for an exception outside the plug-ins' code while the parts of `config` were used; None if it has none."""
    if isinstance(error, Seq2AttnError | OSError) or is_out_of_memory(error):
        return None
    parts = chosen_parts(config)
    if not parts:
        return None
    message = f"{doing} failed with {', '.join(map(str, parts))}: {type(error).__name__}: {error}"
    return Seq2AttnError(message, hint=check_hint(parts), exit_code=1)


def check_hint(parts: list[OwnPart]) -> str:
    """What to run for parts of which one may be wrong."""
    return f"Check {'it' if len(parts) == 1 else 'them'}: {'; '.join(dict.fromkeys(part.check for part in parts))}"


def shown_path(name: str) -> str:
    """A file's path, relative if it is below the current directory."""
    path, here = Path(name), Path.cwd()
    return os.path.relpath(path, here) if path.is_absolute() and path.is_relative_to(here) else name


def _own(kind: str, entry: Entry) -> OwnPart | None:
    cls = entry.implementation
    return OwnPart(kind, entry.name, cls) if isinstance(cls, type) and is_own(cls) else None


def _files(cls: type) -> Iterator[str]:
    """The names by which tracebacks know the files of the class and of its own base classes."""
    for base in cls.__mro__:
        if is_own(base):
            codes = (getattr(getattr(one, "fget", one), "__code__", None) for one in vars(base).values())
            yield from (code.co_filename for code in codes if code is not None)


def _part_of_frames(frames: list[FrameType], parts: list[OwnPart]) -> OwnPart:
    """The innermost part that ran: by the frame's `self`, or else one defined in the frame's file."""
    for frame in reversed(frames):
        for part in parts:
            if type(frame.f_locals.get("self")) is part.cls:
                return part
    filename = frames[-1].f_code.co_filename
    return next(part for part in parts if filename in set(_files(part.cls)))
