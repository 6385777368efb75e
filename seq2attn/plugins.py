"""Plug-ins: Python files named on the command line (`--plugin`), never in a config or a run."""

from __future__ import annotations

import hashlib
import shlex
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from seq2attn.config.load import flat_values
from seq2attn.config.schema import PARTS, Config
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.registry import place_of
from seq2attn.text import short_path

MODULE = "seq2attn_plugin_"  # prefix of the module that a plug-in's file becomes
MOST_FRAMES = 5  # of a plug-in's, shown with an exception
loaded: dict[Path, str] = {}
"""the files of plug-ins that this process has run, and the SHA-256 of their contents then"""


def load_plugins(paths: str | Path | Iterable[Path | str]) -> list[str]:
    """Load each file, or a single one; returns the files' names."""
    names = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for name in names:
        load_plugin(Path(name))
    return names


def load_plugin(path: Path) -> list[type]:
    """Run the Python file `path`; returns the classes of the parts that it registered.

    Parts that the same file registered before, as in a notebook's cell that is run again, are
    replaced. An error in the file becomes a `Seq2AttnError` with file and line.
    """
    name = f"{MODULE}{path.stem}"
    if getattr(sys.modules.get(name), "__file__", None) == str(path.absolute()):
        for registry in PARTS.values():
            registry.forget(name)
    before = foreign_parts()
    if not path.is_file():
        raise Seq2AttnError(f"plugin {path}: no such Python file")
    code = path.read_bytes()
    sys.modules[name] = module = ModuleType(name)
    module.__file__ = file = str(path.absolute())
    try:
        exec(compile(code, file, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == file
        ]
        message, hint = f"{type(error).__name__}: {error}", None
        if isinstance(error, SyntaxError) and error.filename == file:
            lines, message = [error.lineno], f"{type(error).__name__}: {error.msg}"
        if isinstance(error, Seq2AttnError):
            message, hint = error.message, error.hint
        raise Seq2AttnError(
            f"plugin {path}{f':{lines[-1]}' if lines else ''}: {message}", hint=hint
        ) from error
    added = [cls for cls in foreign_parts() if cls not in before]
    if not added:
        hint = 'from seq2attn import Score, register    and above your class, derived from Score: @register("name")'
        raise Seq2AttnError(f"plugin {path}: registered nothing", hint=hint)
    loaded[path.resolve()] = hashlib.sha256(code).hexdigest()
    return added


def foreign_parts(config: Config | None = None) -> list[type]:
    """The classes of parts that plug-ins and installed packages have registered: all, or those that
    `config` names.
    """
    names = {} if config is None else flat_values(config)
    return [
        entry.implementation
        for key, registry in PARTS.items()
        for entry in registry
        if isinstance(entry.implementation, type)
        and not entry.implementation.__module__.startswith("seq2attn.")
        if config is None or names.get(key) == entry.name
    ]


def described(cls: type) -> str:
    """The class of a foreign part, with its kind and place, which one typed into an interpreter
    does not have.
    """
    return f"{cls.registry.kind} {cls.__name__} ({place_of(cls)})"  # type: ignore[attr-defined]


def how_to_check(cls: type) -> str:
    """The command that checks a foreign part."""
    return f"seq2attn check --plugin {shlex.quote(_file_of(cls))}"


def changed_plugins(config: Config, contents: Sequence[str]) -> list[str]:
    """The files of plug-ins with a part that `config` chose, and other contents than these, given
    as SHA-256, if any.
    """
    files = dict.fromkeys(map(_file_of, foreign_parts(config))) if contents else ()
    return [file for file in files if loaded.get(Path(file).resolve()) not in (None, *contents)]


def plugin_error(error: BaseException) -> Seq2AttnError | None:
    """An exception with the traceback cut to the frames of plug-ins; None if it passed through
    none.

    An error that a plug-in reports itself, and a lack of memory, stay as they are.
    """
    classes = {cls.__module__: cls for cls in foreign_parts()}
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame, line) for frame, line in trace if frame.f_globals.get("__name__") in classes]
    if not frames or isinstance(error, Seq2AttnError) or is_out_of_memory(error):
        return None
    summary = traceback.StackSummary.extract(frames)[-MOST_FRAMES:]
    shown = [
        f"  {short_path(one.filename)}:{one.lineno}, in {one.name}: {one.line}" for one in summary
    ]
    where = f"{short_path(summary[-1].filename)}:{summary[-1].lineno}"
    hint = f"Check it: {how_to_check(classes[frames[-1][0].f_globals['__name__']])}"
    return Seq2AttnError(
        "\n".join([f"{where}: {type(error).__name__}: {error}", *shown]), hint=hint, exit_code=1
    )


def _file_of(cls: type) -> str:
    return short_path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "interpreter")
