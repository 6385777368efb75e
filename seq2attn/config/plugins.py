"""Plug-ins: Python files named on the command line (`--plugin`), never in a config or a run."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn import parts
from seq2attn.config.schema import PARTS, Config
from seq2attn.errors import Seq2AttnError, is_out_of_memory

MODULE = "seq2attn_plugin_"  # prefix of the module that a plug-in's file becomes
MOST_FRAMES = 5  # of a plug-in's, shown with an exception


def load_plugins(paths: Iterable[Path | str]) -> list[str]:
    """Load each file; returns the files' names."""
    names = [str(path) for path in paths]
    for name in names:
        load_plugin(Path(name))
    return names


def load_plugin(path: Path) -> list[tuple[str, str]]:
    """Run the Python file `path`; returns the kind and name of each part that it registered, as ("score", "mine").

    An error in the file becomes a `Seq2AttnError` with file and line.
    """
    before = _registered()
    if not path.is_file():
        raise Seq2AttnError(f"plugin {path}: no such file")
    name = f"{MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Seq2AttnError(f"plugin {path}: not a Python file (its name must end with .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # no __pycache__ among the user's files
    try:
        spec.loader.exec_module(module)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"plugin {path}{_line(error, spec.origin)}: {error.message}", hint=error.hint) from error
    except SyntaxError as error:
        imported = error.filename not in (None, spec.origin)  # the mistake is in a module that the plug-in imports
        where = f"{path}{_line(error, spec.origin)}: {error.filename}" if imported else str(path)
        raise Seq2AttnError(f"plugin {where}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = _line(error, spec.origin)
        raise Seq2AttnError(f"plugin {path}{line}: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes
    added = [part for part in _registered() if part not in before]
    if not added:
        raise Seq2AttnError(
            f"plugin {path}: registered nothing",
            hint='Decorate a class with @register("name"), such as a Score: '
            "from seq2attn.model.scores import Score, register.",
        )
    return added


def _registered() -> list[tuple[str, str]]:
    return [(registry.kind, name) for registry in parts.EXTENSIBLE for name in registry.names()]


def _line(error: BaseException, origin: str | None) -> str:
    """`:7` for the last line of the file `origin` in the traceback of `error`; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin]
    return f":{frames[-1].lineno}" if frames else ""


@dataclass(frozen=True)
class ForeignPart:
    """A registered part whose class is not one of seq2attn's."""

    kind: str
    name: str
    cls: type

    @property
    def file(self) -> str:
        """Its file, relative to the current directory; empty for a class typed into an interpreter."""
        try:
            return _shown_path(inspect.getsourcefile(self.cls) or "")
        except TypeError:
            return ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} (class {self.cls.__name__}{f', {self.file}' if self.file else ''})"

    @property
    def check(self) -> str:
        """The command that checks the part."""
        of_file = self.cls.__module__.startswith(MODULE)
        what = f"--plugin {shlex.quote(self.file)}" if of_file else f"{self.kind.replace(' ', '-')}/{self.name}"
        return f"seq2attn check {what}"


def foreign_parts(config: Config | None = None) -> list[ForeignPart]:
    """The parts that plug-ins and installed packages have registered: all, or those that `config` names."""
    chosen = None if config is None else set(_chosen(config))
    return [
        ForeignPart(registry.kind, entry.name, entry.implementation)
        for registry in parts.EXTENSIBLE
        for entry in registry
        if isinstance(entry.implementation, type) and not entry.implementation.__module__.startswith("seq2attn.")
        if chosen is None or (registry.kind, entry.name) in chosen
    ]


def _chosen(config: Config) -> Iterable[tuple[str, str]]:
    for key, registry in PARTS.items():
        part: Any = config
        for name in key.split("."):
            part = getattr(part, name, None)
        if part is not None:  # None: the other architecture's
            yield registry.kind, part.name


def plugin_error(error: BaseException) -> Seq2AttnError | None:
    """An exception with the traceback cut to the frames of plug-ins; None if it passed through none.

    An error that a plug-in reports itself, and a lack of memory, stay as they are.
    """
    modules = {part.cls.__module__: part for part in foreign_parts()}
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in modules
    ]
    if not frames or isinstance(error, Seq2AttnError) or is_out_of_memory(error):
        return None
    summary = traceback.StackSummary.extract(frames)[-MOST_FRAMES:]
    shown = [f"  {_shown_path(one.filename)}:{one.lineno}, in {one.name}: {one.line}" for one in summary]
    where = f"{_shown_path(summary[-1].filename)}:{summary[-1].lineno}"
    part = modules[frames[-1][0].f_globals["__name__"]]
    message = "\n".join([f"{where}: {type(error).__name__}: {error}", *shown])
    return Seq2AttnError(message, hint=f"Check it: {part.check}", exit_code=1)


def _shown_path(name: str) -> str:
    """A file's path, relative if it is below the current directory."""
    path, here = Path(name), Path.cwd()
    return os.path.relpath(path, here) if path.is_absolute() and path.is_relative_to(here) else name
