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

from seq2attn import parts
from seq2attn.config.load import flat_values
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
    except (Exception, SystemExit) as error:
        raise _load_error(error, path, spec.origin) from error
    finally:
        sys.dont_write_bytecode = writes
    added = [part for part in _registered() if part not in before]
    if not added:
        raise Seq2AttnError(
            f"plugin {path}: registered nothing",
            hint='Decorate a class with @register("name"): from seq2attn.model.scores import Score, register.',
        )
    return added


def _registered() -> list[tuple[str, str]]:
    return [(registry.kind, name) for registry in parts.EXTENSIBLE for name in registry.names()]


def _load_error(error: BaseException, path: Path, origin: str | None) -> Seq2AttnError:
    """An exception of the file as a message with the line in which it passed through the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == origin]
    where = f"plugin {path}:{lines[-1]}" if lines else f"plugin {path}"
    if isinstance(error, Seq2AttnError):
        return Seq2AttnError(f"{where}: {error.message}", hint=error.hint)
    if isinstance(error, SyntaxError):
        module = f": {error.filename}" if error.filename not in (None, origin) else ""  # one that the plug-in imports
        return Seq2AttnError(f"{where}{module}:{error.lineno}: {error.msg}")
    return Seq2AttnError(f"{where}: {type(error).__name__}: {error}")


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
    names = {} if config is None else flat_values(config)
    chosen = {(registry.kind, names.get(key)) for key, registry in PARTS.items()}
    return [
        ForeignPart(registry.kind, entry.name, entry.implementation)
        for registry in parts.EXTENSIBLE
        for entry in registry
        if isinstance(entry.implementation, type) and not entry.implementation.__module__.startswith("seq2attn.")
        if config is None or (registry.kind, entry.name) in chosen
    ]


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
