"""What a function of the user's does, as a checksum. Imports no torch."""

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_STANDARD = sysconfig.get_path("stdlib")


def fingerprint(function: Any) -> str:
    """Return a checksum of a function and of what it uses: the variables around it, and the
    functions, classes, modules and values of the user's files that its code names.

    A library counts by its names only. The checksum is another one under another Python.
    """
    checksum = hashlib.blake2b(digest_size=4)
    for part in _parts(function, set()):
        checksum.update(part)
    return checksum.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Yield what a value consists of; what was seen before, or is of a library, by its name."""
    if isinstance(value, functools.partial):
        yield from _all_parts((value.func, value.args, value.keywords), seen)
    elif isinstance(value, MethodType):
        yield from _all_parts((value.__func__, value.__self__), seen)
    elif isinstance(value, FunctionType | type | ModuleType):
        yield repr(getattr(value, "__qualname__", value.__name__)).encode()
        if id(value) not in seen and _is_users(value):
            seen.add(id(value))
            yield from _all_parts(_used(value), seen)
    elif isinstance(value, Mapping):
        yield from _all_parts(value.items(), seen)
    elif isinstance(value, list | tuple):
        yield from _all_parts(value, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(b"".join(_parts(member, seen)) for member in value)
    elif _is_users(type(value)) and id(value) not in seen:
        seen.add(id(value))
        yield from _all_parts((type(value), getattr(value, "__dict__", {})), seen)
    else:
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
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return not ("site-packages" in file or "dist-packages" in file or file.startswith(_STANDARD))


def _used(value: Any) -> Iterator[Any]:
    """Yield what a function, class or module of the user's is made of."""
    if not isinstance(value, FunctionType):
        for name, member in sorted(vars(value).items()):
            if not name.startswith("__") or isinstance(member, FunctionType):
                yield getattr(member, "__func__", getattr(member, "fget", member))
        yield from getattr(value, "__bases__", ())
        return
    yield value.__defaults__
    yield value.__kwdefaults__
    for cell in value.__closure__ or ():
        yield _content(cell)
    for code in _codes(value.__code__):
        yield code.co_code
        yield [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        yield code.co_names
        for name in code.co_names:
            yield value.__globals__.get(name)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # of a name that is not set yet
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
