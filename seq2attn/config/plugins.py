"""Plug-ins: Python files named on the command line (`--plugin`), never in a config or a run."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from seq2attn import parts
from seq2attn.errors import Seq2AttnError


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
    name = f"seq2attn_plugin_{path.stem}"
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
