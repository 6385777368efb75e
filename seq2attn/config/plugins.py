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
    name = f"{MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise Seq2AttnError(f"plugin {path}: no such Python file")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # no __pycache__ among the user's files
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        where = f"plugin {path}{f':{lines[-1]}' if lines else ''}"
        if isinstance(error, Seq2AttnError):
            raise Seq2AttnError(f"{where}: {error.message}", hint=error.hint) from error
        raise Seq2AttnError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes
    added = [part for part in _registered() if part not in before]
    if not added:
        raise Seq2AttnError(f"plugin {path}: registered nothing", hint='Decorate a class with @register("name").')
    return added


def _registered() -> list[tuple[str, str]]:
    return [(registry.kind, name) for registry in parts.EXTENSIBLE for name in registry.names()]


@dataclass(frozen=True)
class ForeignPart:
    """A registered part whose class is not one of seq2attn's."""

    kind: str
    name: str
    cls: type

    def __str__(self) -> str:
        file = _file_of(self.cls)
        return f"{self.kind} {self.name!r} (class {self.cls.__name__}{file and f', {file}'})"

    @property
    def check(self) -> str:
        """The command that checks the part."""
        if self.cls.__module__.startswith(MODULE):
            return f"seq2attn check --plugin {shlex.quote(_file_of(self.cls))}"
        return f"seq2attn check {self.kind.replace(' ', '-')}/{self.name}"


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
    checks = {part.cls.__module__: part.check for part in foreign_parts()}
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame, line) for frame, line in trace if frame.f_globals.get("__name__") in checks]
    if not frames or isinstance(error, Seq2AttnError) or is_out_of_memory(error):
        return None
    summary = traceback.StackSummary.extract(frames)[-MOST_FRAMES:]
    shown = [f"  {_shown_path(one.filename)}:{one.lineno}, in {one.name}: {one.line}" for one in summary]
    where = f"{_shown_path(summary[-1].filename)}:{summary[-1].lineno}"
    hint = f"Check it: {checks[frames[-1][0].f_globals['__name__']]}"
    return Seq2AttnError("\n".join([f"{where}: {type(error).__name__}: {error}", *shown]), hint=hint, exit_code=1)


def _file_of(cls: type) -> str:
    """A class's file, as it is shown; empty for one typed into an interpreter."""
    try:
        return _shown_path(inspect.getsourcefile(cls) or "")
    except TypeError:
        return ""


def _shown_path(name: str) -> str:
    """A file's path, relative if it is below the current directory."""
    path, here = Path(name), Path.cwd()
    return os.path.relpath(path, here) if path.is_absolute() and path.is_relative_to(here) else name
