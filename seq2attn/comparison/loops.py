"""Training loops of the user's own, as the trials of a comparison get them, with a checksum of what
each does, by which a comparison notices that one was changed since its runs were made. Imports no
torch.
"""

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from seq2attn.errors import Seq2AttnError, error_text, quoted, short_path

Train = Callable[[Any], object]
"""a function that trains the `NewModel` it is given"""


class Loop(NamedTuple):
    """A function of the user's that trains a model, in a form that other processes can be given."""

    key: str
    """its name and its `fingerprint`, which a run keeps: another function of this name has another
    key"""
    pickled: bytes

    def train(self, model: Any) -> None:
        """Train a model. What the user's function raises becomes a `Seq2AttnError` with file and
        line, except Ctrl-C, and what is one already.
        """
        try:
            pickle.loads(self.pickled)(model)
        except (KeyboardInterrupt, Seq2AttnError):
            raise
        except BaseException as error:  # a loop may also call `exit()`
            *_, frame = traceback.extract_tb(error.__traceback__)  # the innermost call
            where = f"{short_path(frame.filename)}:{frame.lineno}"
            message = f"train: {where}: {error_text(error)}"
            raise Seq2AttnError(message, exit_code=1) from error


def read_loops(train: Train | Mapping[str, Train] | None) -> dict[str, Loop]:
    """Return the loops by name: those of a mapping, a single function by its own name, or of None
    one without a key, which stands for `seq2attn.train`.

    Raises `Seq2AttnError` for what cannot be called with one argument, a model, or has no
    signature, and for a function that cannot be sent to another process.
    """
    if train is None:
        return {"": Loop("", b"")}
    # (a `functools.partial` has no name of its own: it is called "")
    functions = train if isinstance(train, Mapping) else {getattr(train, "__name__", ""): train}
    loops = {}
    for name, function in functions.items():
        try:
            inspect.signature(function).bind("a model")
        except (TypeError, ValueError):  # ValueError: some builtins have no signature
            raise Seq2AttnError(
                f"train: expected a function of a model, or a mapping of names to such functions; "
                f"found {quoted(function)}"
            ) from None
        loops[str(name)] = Loop(f"{name} {fingerprint(function)}", _pickled(function))
    return loops


def _pickled(function: Train) -> bytes:
    """Return a function as bytes for other processes: its name if they can import it, otherwise its
    code, which needs the package cloudpickle. Without that package, a function of a script goes by
    its name, too: workers of this machine import the script.

    Raises `Seq2AttnError` for a function that cannot be sent, as without cloudpickle one of a
    notebook, a lambda, or one inside another function.
    """
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    name = getattr(function, "__name__", function)
    file = getattr(sys.modules.get(function.__module__), "__file__", None)  # None: a notebook
    try:
        # pickle would write its name alone, which no other process can import
        if file is None and pickler is pickle:
            raise pickle.PicklingError(f"{name} is in no file")
        return bytes(pickler.dumps(function))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Seq2AttnError(
            f"train: {name} cannot be given to other processes: {error}",
            hint="Put the function into a file and import it, or: pip install cloudpickle",
        ) from None


# ---- what a function does ----


def fingerprint(function: Any) -> str:
    """Return a checksum of a function and of what it uses: the variables around it, and the
    functions, classes, modules and values of the user's files that its code names.

    A run keeps the checksum of the loop that trained it, and is not continued by another loop. Of a
    library, only the names count. Another version of Python gives another checksum, since its
    bytecode is different.
    """
    checksum = hashlib.blake2b(digest_size=4)  # short, since messages show it
    values = [function]  # all are kept, so that each `id` stays that of one value
    taken_apart = set()  # the `id` of each; functions may call each other in circles
    for value in values:  # and its parts, which are appended meanwhile
        checksum.update(_text(value).encode())
        if id(value) not in taken_apart:
            taken_apart.add(id(value))
            values += _parts(value)
    return checksum.hexdigest()


def _text(value: Any) -> str:
    """Return a value as text, such as an array's numbers: of a function, class or module its name;
    its type where the text would have an address in memory, another one in each process.
    """
    if isinstance(value, set | frozenset):  # whose order differs from one process to the next
        value = sorted(value, key=repr)
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    text = repr(name or value)
    return repr(type(value)) if " at 0x" in text else text


def _parts(value: Any) -> list[Any]:
    """Return what a function, class or module of the user's uses, and what a partial or a method
    consists of; an empty list for all other values, which `_text` alone tells apart.
    """
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if not isinstance(value, FunctionType | type | ModuleType) or not _is_users(value):
        return []
    return _used_by_function(value) if isinstance(value, FunctionType) else _members(value)


def _is_users(value: Any) -> bool:
    """Return whether a function, class or module is of the user's files, or of a notebook."""
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    if name.partition(".")[0] in ("seq2attn", *sys.stdlib_module_names):
        return False
    file = str(getattr(sys.modules.get(name), "__file__", ""))  # nothing: a notebook
    return "site-packages" not in file and "dist-packages" not in file


def _members(value: type | ModuleType) -> list[Any]:
    """Return what a class or module of the user's defines, and the classes that it extends."""
    parts: list[Any] = [*getattr(value, "__bases__", ())]
    for name, member in vars(value).items():
        # of names such as `__doc__` and `__call__`, only those of methods compute anything
        if not name.startswith("__") or isinstance(member, FunctionType):
            # a class method or static method (`__func__`) or property (`fget`) hides its function
            parts.append(getattr(member, "__func__", getattr(member, "fget", member)))
    return parts


def _used_by_function(function: FunctionType) -> list[Any]:
    """Return what a function of the user's consists of: defaults, variables of enclosing functions,
    bytecode, constants and names; and the global values that have these names.
    """
    parts: list[Any] = [function.__defaults__, function.__kwdefaults__]
    with contextlib.suppress(ValueError):  # one of the variables around it has no value yet
        parts += inspect.getclosurevars(function).nonlocals.values()
    codes = [function.__code__]
    for code in codes:  # and those of the functions inside it, which are appended meanwhile
        for constant in code.co_consts:
            (codes if isinstance(constant, CodeType) else parts).append(constant)
        parts += [code.co_code, code.co_names]
        parts += map(function.__globals__.get, code.co_names)  # None: an attribute, or built in
    return parts
