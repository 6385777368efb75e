"""Loads what FILE:NAME means, and says how other people's code ended."""

import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.text import error_text, quoted

MODULE = "seq2attn_examined"
MAIN = 'Remove it, or put it below `if __name__ == "__main__":`.'
EXITS = f"It calls exit(), which ends the program before it is examined. {MAIN}"
ASKS = f"It calls input(), and nobody types while it is examined. {MAIN}"


def load_attention(place: str) -> Any:
    """Return what FILE:NAME means: a function, a module, or a class of modules. Raises
    `Seq2AttnError` if there is no such file or name, and whatever the file raises.
    """
    path, _, name = place.rpartition(":")
    file = Path(path).absolute()
    if not file.is_file():
        raise Seq2AttnError(f"{path}: no such Python file")
    loaded = ModuleType(MODULE)
    loaded.__file__ = str(file)
    sys.modules[MODULE] = loaded
    sys.path.append(str(file.parent))  # last: its names hide no library's
    exec(compile(file.read_bytes(), str(file), "exec", dont_inherit=True), vars(loaded))
    if not hasattr(loaded, name):
        names = [known for known, value in vars(loaded).items() if callable(value)]
        raise Seq2AttnError(f"{path} has no {quoted(name)}; it has: {', '.join(names)}")
    return getattr(loaded, name)


def ending(error: BaseException, path: str) -> str:
    """Say how the code of the file `path` ended, with its last line that the exception passed."""
    file = str(Path(path).absolute())
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    text = error_text(error)
    if isinstance(error, SystemExit):
        text = EXITS
    elif isinstance(error, EOFError) and "reading a line" in text:
        text = ASKS
    elif isinstance(error, SyntaxError) and error.filename == file:
        lines, text = [error.lineno], f"{type(error).__name__}: {error.msg}"
    return f"line {lines[-1]}: {text}" if lines else text
