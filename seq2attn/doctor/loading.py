"""Loads what FILE:NAME means, says how other people's code ended, and notices what it puts in the
place of what examines it.
"""

import ast
import builtins
import contextlib
import inspect
import json
import linecache
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import nn

from seq2attn.errors import Seq2AttnError, error_text, quoted

MODULE = "seq2attn_examined"
MAIN = 'Remove it, or put it below `if __name__ == "__main__":`.'
EXITS = f"It calls exit(), which ends the program before it is examined. {MAIN}"
ASKS = f"It calls input(), and nobody types while it is examined. {MAIN}"
DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
"""what is run of a notebook"""
OUTER = (builtins, torch, nn.functional)
"""modules whose functions the doctor computes with"""
CLASSES = (torch.Tensor, nn.Module)
"""classes of torch whose methods the doctor calls"""
OWN = ("seq2attn.doctor.", "seq2attn.findings.")
"""how the names of the doctor's own modules begin"""


def load_attention(place: str) -> Any:
    """Return what FILE:NAME means: a function, a module, or a class of modules; FILE may be a
    notebook, of which only definitions are run. It may import its neighbours, as by `from .layers
    import Linear`. Folders are added to `sys.path`, and stay there: that of its packages, that of
    the file, and those between it and the current directory.

    Raises `Seq2AttnError` if there is no such file or name, and whatever a Python file raises; of a
    notebook, `SyntaxError` for a cell that is not Python (see `_cells`), but what its definitions
    raise when they are run is ignored.
    """
    path, _, name = place.rpartition(":")
    file = Path(path).absolute()
    if not file.is_file():
        raise Seq2AttnError(f"{path}: no such Python file")
    loaded = ModuleType(MODULE)
    loaded.__file__ = str(file)
    sys.modules[MODULE] = loaded  # where dataclasses, for one, look up the names in annotations
    top = file.parent  # in the end, the folder that holds the outermost package
    while (top / "__init__.py").is_file():
        top = top.parent
    # its other imports may start at any folder of the project; these come last, so that names in
    # them hide no library's
    project = [one for one in file.parents if one.is_relative_to(Path.cwd())]
    # relative imports may go up to the outermost of these folders, but for one with a dot in its
    # name, such as `project-1.0`. It is made the package MODULE, whose name no library has, and the
    # folders below it are packages in that one, even without an `__init__.py`
    parts = file.parent.relative_to
    outermost = [one for one in (top, *project) if "." not in "".join(parts(one).parts)][-1]
    loaded.__path__ = [str(outermost)]
    loaded.__package__ = ".".join([MODULE, *parts(outermost).parts])
    sys.path += map(str, (top, file.parent, *project))
    if file.suffix == ".ipynb":
        for code in _cells(file):
            with contextlib.suppress(Exception):  # it may need statements that are left out
                exec(code, vars(loaded))
    else:
        exec(compile(file.read_bytes(), str(file), "exec", dont_inherit=True), vars(loaded))
    if not hasattr(loaded, name):
        made = vars(loaded).items()
        names = [known for known, value in made if getattr(value, "__module__", "") == MODULE]
        listed = ", ".join(names) or "nothing"
        raise Seq2AttnError(f"{path} has no {quoted(name)}; it defines: {listed}")
    return getattr(loaded, name)


def _cells(file: Path) -> Iterator[CodeType]:
    """Yield each definition in the cells of a notebook, compiled, without its magic and shell
    commands. Raises `SyntaxError` for a cell that is not Python without these either, unless it
    says that it is of another language.

    The text of a cell is put into `linecache`, under "FILE, cell NUMBER", so that tracebacks and
    `inspect.getsource` find it.
    """
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells, start=1):
        text, name = "".join(cell["source"]), f"{file}, cell {number}"
        if cell["cell_type"] != "code":
            continue
        try:
            body = ast.parse(text, name).body
        except SyntaxError:  # magic and shell commands are no Python: once more without them
            lines = text.splitlines(keepends=True)
            text = "".join("\n" if line.lstrip()[:1] in ("%", "!") else line for line in lines)
            try:
                body = ast.parse(text, name).body
            except SyntaxError:
                if lines[0].startswith("%%"):  # in another language, as after %%bash
                    continue
                raise
        # None in place of a file's time: with a time, linecache would look for the file on disk
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        for node in filter(_is_definition, body):
            yield compile(ast.Module([node], []), name, "exec", dont_inherit=True)


def _is_definition(node: ast.stmt) -> bool:
    """Return whether a statement only defines, as `try: import einops` with an `except` does."""
    if isinstance(node, ast.If | ast.Try):
        return all(map(_is_definition, node.body))
    return isinstance(node, DEFINITIONS)


def ending(error: BaseException, path: str) -> str:
    """Say by what exception the code of the file `path` ended, as in "line 12: NameError: ...":
    with the innermost line of the traceback that is in this file, if any is. In a notebook, where
    each cell has a name such as "path, cell 3", that is "cell 3 line 12: ...". An exception of
    `exit()` or `input()` is told by what to do about the call.
    """
    file = str(Path(path).absolute())
    frames = traceback.extract_tb(error.__traceback__)
    places: list[Any] = [(frame.filename, frame.lineno) for frame in frames]
    text = error_text(error)
    if isinstance(error, SystemExit):
        text = EXITS
    elif isinstance(error, EOFError) and "reading a line" in text:  # as of `input()`
        text = ASKS
    elif isinstance(error, SyntaxError) and (error.filename or "").startswith(file):
        places.append((error.filename, error.lineno))  # no frame of the traceback has that line
        text = f"{type(error).__name__}: {error.msg}"
    where = ""
    for name, line in places:  # the last of them in the file is the innermost
        if name.startswith(file):
            cell = name.removeprefix(file).removeprefix(", ")
            where = f"{cell} line {line}: ".lstrip()
    return where + text


def bind() -> dict[str, Any]:
    """Return the objects that names of the doctor, and of what it computes with, refer to now, by
    name: values in modules ("torch.exp"), the code of functions ("torch.exp, its code"), and
    attributes of classes ("Tensor.add").

    The names are bound once before and once after a file of a user runs: a file that patches one of
    these functions could make its own attention look right.
    """
    bound: dict[str, Any] = {}
    classes = [*CLASSES]
    # a copy: to look at a value may import a module, which changes `sys.modules`
    for module_name, module in sys.modules.copy().items():
        is_outer = module in OUTER
        if not is_outer and not module_name.startswith(OWN):
            continue
        for name, value in vars(module).items():
            # what cannot be called in torch is a setting, which a file may change
            if callable(value) or not is_outer:
                bound[f"{module_name}.{name}"] = value
            # a function whose code is exchanged stays the same object
            bound[f"{module_name}.{name}, its code"] = getattr(value, "__code__", None)
            if inspect.isclass(value) and str(getattr(value, "__module__", "")).startswith(OWN):
                classes.append(value)
    for cls in classes:
        for name in dir(cls):
            # static: a class method that is got from its class is a new object each time
            bound[f"{cls.__name__}.{name}"] = inspect.getattr_static(cls, name)
    return bound


def replaced(bound: dict[str, Any]) -> list[str]:
    """Return the names that refer to something else now than when `bind` returned `bound`."""
    now = bind()
    return [name for name, value in bound.items() if now.get(name) is not value]
