"""What a function of the user's does, as a checksum, by which a comparison notices that a training
loop was changed since its runs were made. Imports no torch.
"""

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_STANDARD = sysconfig.get_path("stdlib")  # the folder of Python's own library


def fingerprint(function: Any) -> str:
    """Return a checksum of a function and of what it uses: the variables around it, and the
    functions, classes, modules and values of the user's files that its code names.

    A run keeps the checksum of the loop that trained it, and is not continued by another loop. Of a
    library, only the names count. Another version of Python gives another checksum, since its
    bytecode is different.
    """
    checksum = hashlib.blake2b(digest_size=4)  # short, since messages show it
    for part in _parts(function, set()):
        checksum.update(part)
    return checksum.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Yield the bytes that the checksum is made of: of a container those of its members, as of a
    partial or a method those of its function and of what that is bound to; of the user's own
    functions, classes, modules and objects those of all that they use; of anything else its name or
    text.

    seen: the `id` of each of the user's own that was taken apart already, since these may refer to
    each other in circles.
    """
    if isinstance(value, functools.partial):
        yield from _all_parts((value.func, value.args, value.keywords), seen)
    elif isinstance(value, MethodType):
        yield from _all_parts((value.__func__, value.__self__), seen)
    elif isinstance(value, FunctionType | type | ModuleType):
        yield repr(getattr(value, "__qualname__", value.__name__)).encode()
        if id(value) not in seen and _is_users(value):
            seen.add(id(value))
            if isinstance(value, FunctionType):
                yield from _all_parts(_used_by_function(value), seen)
            else:
                yield from _all_parts(_members(value), seen)
    elif isinstance(value, Mapping):
        yield from _all_parts(value.items(), seen)
    elif isinstance(value, list | tuple):
        yield from _all_parts(value, seen)
    elif isinstance(value, set | frozenset):
        # the order of a set differs from one process to the next
        yield from sorted(b"".join(_parts(member, seen)) for member in value)
    elif _is_users(type(value)) and id(value) not in seen:
        seen.add(id(value))
        yield from _all_parts((type(value), getattr(value, "__dict__", {})), seen)
    else:  # a library's, or an object that was taken apart already
        yield _text(value).encode()


def _all_parts(values: Iterable[Any], seen: set[int]) -> Iterator[bytes]:
    for value in values:
        yield from _parts(value, seen)


def _text(value: Any) -> str:
    """Return a value as text, such as an array's numbers; its type where the text is an address."""
    text = repr(value)
    return repr(type(value)) if " at 0x" in text else text


def _is_users(value: Any) -> bool:
    """Return whether a function, class or module is of the user's files, or of a notebook."""
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    if name.partition(".")[0] == "seq2attn" or name in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None) or ""  # none: a notebook
    return not ("site-packages" in file or "dist-packages" in file or file.startswith(_STANDARD))


def _members(value: type | ModuleType) -> Iterator[Any]:
    """Yield what a class or module of the user's defines, and the classes that it extends."""
    for name, member in sorted(vars(value).items()):
        # of names such as `__doc__` and `__call__`, only those of methods compute anything
        if not name.startswith("__") or isinstance(member, FunctionType):
            # a class method or static method (`__func__`) or property (`fget`) hides its function
            yield getattr(member, "__func__", getattr(member, "fget", member))
    yield from getattr(value, "__bases__", ())


def _used_by_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function of the user's consists of: defaults, variables of enclosing functions,
    bytecode, constants and names; and the global values that have these names.
    """
    yield function.__defaults__
    yield function.__kwdefaults__
    for cell in function.__closure__ or ():
        yield _content(cell)
    for code in _codes(function.__code__):
        yield code.co_code
        yield [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        yield code.co_names
        for name in code.co_names:
            yield function.__globals__.get(name)  # None for attributes and what is built in


def _content(cell: Any) -> Any:
    """Return the value of a variable of an enclosing function; None if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
