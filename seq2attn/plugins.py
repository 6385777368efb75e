"""Plug-ins: Python files named on the command line (`--plugin`), never in a config or a run."""

import hashlib
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel

from seq2attn.config import Config
from seq2attn.errors import Seq2AttnError, error_text, is_out_of_memory, line_of, short_path
from seq2attn.parts import EXTENSIBLE
from seq2attn.registry import Options

MAX_FRAMES = 5  # of plug-ins, listed with an exception
loaded: dict[Path, str] = {}
"""the files of plug-ins that this process has run, and the SHA-256 of their contents then"""


def load_plugins(paths: str | Path | Iterable[Path | str]) -> list[str]:
    """Load each file, or a single one, and return the files' names."""
    names = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for name in names:
        load_plugin(Path(name))
    return names


def load_plugin(path: Path) -> list[type]:
    """Run a Python file, and return the classes of the parts that it registers. Raises
    `Seq2AttnError` if it registers none when it is first loaded.

    Parts that the same file registered before, as in a notebook's cell that is run again, are
    replaced. An error in the file becomes a `Seq2AttnError` with file and line.
    """
    name = f"seq2attn_plugin_{path.stem}"  # of the module that the file becomes
    before = foreign_parts()
    code = _run_file(path, name)
    added = [cls for cls in foreign_parts() if cls not in before]
    # (of a file that is loaded again, parts may be in modules that are not run again)
    if not added and path.resolve() not in loaded:
        raise Seq2AttnError(
            f"plugin {path}: registered nothing",
            hint="from seq2attn import Score, register    and above your class, derived from "
            'Score: @register("name")',
        )
    # runs record this hash of the file's contents, which may have changed from one run to the next
    loaded[path.resolve()] = hashlib.sha256(code).hexdigest()
    return added


def _run_file(path: Path, name: str) -> bytes:
    """Run a Python file as the module `name`, and return the bytes that were run. An error becomes
    a `Seq2AttnError` with file and line.
    """
    if not path.is_file():
        raise Seq2AttnError(f"plugin {path}: no such Python file")
    code = path.read_bytes()
    file = str(path.absolute())
    sys.modules[name] = module = ModuleType(name)  # where pickle and dataclasses look for it
    module.__file__ = file
    try:
        exec(compile(code, file, "exec"), vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file may also call `exit()`
        where = ""  # of a syntax error: it is raised before any line of the file runs
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == file:  # the innermost frame, which comes last, counts
                where = f":{frame.lineno}"
        message, hint = error_text(error), None
        if isinstance(error, Seq2AttnError):
            message, hint = error.message, error.hint
        raise Seq2AttnError(f"plugin {path}{where}: {message}", hint=hint) from error
    return code


def foreign_parts(config: Config | None = None) -> list[type]:
    """Return the classes of parts that plug-ins, or the user's own code, have registered: all, or
    those that `config` chose.
    """
    if config:
        entries = [part.entry for part in _chosen(config)]
    else:
        entries = [entry for registry in EXTENSIBLE for entry in registry]
    # (the implementation of a part in parts.toml is not a class, but a text that says where it is)
    return [one.implementation for one in entries if isinstance(one.implementation, type)]


def _chosen(section: BaseModel) -> Iterator[Options]:
    """Yield the parts that a config, or a section of one, chose."""
    for _, value in section:
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Options):
                yield one
            elif isinstance(one, BaseModel):
                yield from _chosen(one)


def described(cls: type) -> str:
    """Return the kind, name and place of a foreign part's class."""
    return f"{cls.registry.kind} {cls.__name__} ({line_of(cls)})"  # type: ignore[attr-defined]


def how_to_check(file: str) -> str:
    """Return the command that checks the parts of a plug-in's file."""
    return f"seq2attn check --plugin {shlex.quote(file)}"


def changed_plugins(config: Config, contents: Sequence[str]) -> list[str]:
    """Return the files of plug-ins that have changed since a run was made, of those with a part
    that `config` names: the SHA-256 of what was loaded from them now is none of `contents`.

    contents: the SHA-256 of each plug-in's file when the run was made.
    """
    if not contents:  # the run has no record of such files
        return []
    files = dict.fromkeys(map(file_of, foreign_parts(config)))
    # None: the part is not from a plug-in, but from the user's own code, of which no run has a hash
    return [file for file in files if loaded.get(Path(file).resolve()) not in (None, *contents)]


def plugin_error(error: BaseException) -> Seq2AttnError | None:
    """Return the message for an exception that was raised in a plug-in, or below a call from one:
    with the last `MAX_FRAMES` lines of plug-ins in its traceback, the innermost of which it names
    first, and the command that checks the plug-in.

    None for an exception whose traceback has no line of a plug-in, and for those that have a
    message of their own: errors that a plug-in reports as `Seq2AttnError`, a lack of memory, and
    Ctrl-C.
    """
    if isinstance(error, Seq2AttnError | KeyboardInterrupt) or is_out_of_memory(error):
        return None
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        # of a StopIteration that a plug-in raises in one of our generators, Python makes such a
        # RuntimeError, whose traceback does not reach the plug-in
        error = error.__cause__
    frames = plugin_frames(error)
    if not frames:  # no line of a plug-in took part
        return None
    lines = [
        f"{short_path(frame.filename)}:{frame.lineno}, in {frame.name}: {frame.line}"
        for frame in frames[-MAX_FRAMES:]
    ]
    file = short_path(frames[-1].filename)
    message = "\n  ".join([f"{file}:{frames[-1].lineno}: {error_text(error)}", *lines])
    return Seq2AttnError(message, hint=f"Check it: {how_to_check(file)}", exit_code=1)


def plugin_frames(error: BaseException) -> traceback.StackSummary:
    """Return the lines of plug-ins, a notebook's too, in the traceback of an exception, the
    innermost last.
    """
    modules = {cls.__module__ for cls in foreign_parts()}
    trace = traceback.walk_tb(error.__traceback__)
    frames = ((frame, line) for frame, line in trace if frame.f_globals.get("__name__") in modules)
    return traceback.StackSummary.extract(frames)


def file_of(cls: type) -> str:
    """Return the file of a foreign part's class; `interpreter` if it has none."""
    return short_path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "interpreter")
