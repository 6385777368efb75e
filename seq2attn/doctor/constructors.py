"""Makes instances of a class: guesses from names what its constructor takes."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from dis import Bytecode
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import torch
from torch import nn

from seq2attn.doctor.call import B, S
from seq2attn.doctor.words import CONFIGS, GUESSES, OF_SIDES, required, words
from seq2attn.errors import Seq2AttnError, error_text

HEADS = 4
EVEN = 32  # a width that common numbers of groups of channels divide
LONG, SHORT = 40, S  # lengths of sources for which an attention is made
SQUARE = (3, 3)  # the sides of an image of S places
Number = Callable[[int], int]
"""makes a number, or what answers as one"""
NONE = type(None)
SIDE = 6  # of an image that is given as such: with more places than a head is wide


class Anything(int):
    """A number that answers, too, as a config object, a dictionary, a list of two or a class does,
    or is equal to the first string that it is compared with. Its `repr` is code for what it was
    asked to be.
    """

    _form: str
    _asked: dict[Any, Any]
    _inner: Number

    def __new__(cls, number: int, inner: Number = int) -> Self:
        """Make a number whose items are made by `inner`."""
        made = super().__new__(cls, number)
        made._form, made._asked, made._inner = "", {}, inner
        return made

    def _answer(self, form: str, key: Any) -> Any:
        """Return what a name or an index stands for, the same each time. form: see `__repr__`."""
        forms = ["object", "dictionary", "list", ""]  # the likeliest first
        if self._form in forms[forms.index(form) :]:
            self._form = form
        if key not in self._asked:
            self._asked[key] = guess(str(key), int(self), LONG, int(self), self._inner)
        return self._asked[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as Python asks for, to copy it or to find what it can do
            raise AttributeError(name)
        return self._answer("object", name)

    def __getitem__(self, key: str | int) -> Any:
        return self._answer("list" if isinstance(key, int) else "dictionary", key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, as a dictionary does."""
        return self[key] if default is None else default

    def keys(self) -> list[Any]:
        """Return the names that were asked for, as a dictionary does."""
        return [*self._asked]

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[Any]:
        return iter([self[0], self[1]])

    def __call__(self, *arguments: Any, **options: Any) -> nn.Module:
        self._form = "nn.Identity"
        return nn.Identity()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and self._inner is not int:
            self._form = self._form or repr(other)
            return self._form == repr(other)
        return super().__eq__(other)

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        match self._form:
            case "object":
                named = ", ".join(f"{name}={value!r}" for name, value in self._asked.items())
                return f"SimpleNamespace({named})"
            case "dictionary":
                return repr(self._asked)
            case "list":
                return repr([*self])
        return self._form or super().__repr__()


def anything(number: int) -> Anything:
    """Return a number that answers as `Anything` does, and so do its items."""
    return Anything(number, anything)


def guess(name: str, width: int, longest: Any, rest: int, number: Number = int) -> Any:
    """Return what an argument of a constructor may be, guessed from the words of its name: an
    object with any attributes for a config, or else the value of the first entry of `GUESSES` that
    has one of the words.

    width: for a name such as `dim`.
    longest: for a name such as `max_length`: the length of sources, or the sides of an image.
    rest: for a name that tells nothing.
    number: makes the numbers that are returned.
    """
    if words(name) & CONFIGS:
        return Anything(width, number)
    for expression, known in GUESSES.items():  # such as "W // H", and words such as `head_dim`
        if words(name) & known:
            numbers = {"W": width, "H": HEADS, "B": B, "S": S, "LONG": longest}
            value = eval(expression, {**numbers, "nn": nn, "torch": torch})
            return number(value) if type(value) is int else value
    return number(rest)


def _of_type(kind: Any, make: Callable[[str], Any]) -> Any:
    """Return an instance of a dataclass, such as a config, with what `make` guesses from the names
    of its numbers, whose defaults may be large, and of fields without a default; None for another
    type.
    """
    if not is_dataclass(kind):
        return None
    guessed = {}
    for field in fields(kind):
        if field.default is field.default_factory is MISSING or type(field.default) is int:
            guessed[field.name] = make(field.name)
    dataclass: Any = kind
    return dataclass(**guessed)


def _inner(cls: Any, name: str) -> nn.Module | None:
    """Return an instance of another attention that the file of a class knows, for an argument of
    its constructor that is named `attention`, say; None for other names, or if there is none.
    """
    if name not in ("attention", "inner_attention", "attn"):
        return None
    for other in getattr(cls.__init__, "__globals__", {}).values():
        is_other = isinstance(other, type) and issubclass(other, nn.Module) and other is not cls
        if is_other and "attention" in words(other.__name__) and not any(required(other).values()):
            return other()
    return None


def _chosen(cls: Any, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield for each string with which the code of a class compares one of these arguments of its
    constructor the argument with this string, such as {"score": "dot"}.
    """
    for function in filter(inspect.isfunction, vars(cls).values()):
        # the name is loaded, and then what it is compared with, a string or several
        for one, other in pairwise(Bytecode(function)):
            if one.argval in names and other.opname == "LOAD_CONST":
                several = other.argval if isinstance(other.argval, tuple) else [other.argval]
                for value in several:
                    if isinstance(value, str):
                        yield {one.argval: value}


def _shown(value: Any) -> str:
    """Return the code of a value that was guessed: tensors are ones, modules have no options."""
    if isinstance(value, nn.Module) and type(value).__module__ != nn.Linear.__module__:
        return f"{type(value).__name__}()"
    return f"torch.ones{tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


class Way(NamedTuple):
    """A way to guess what a constructor is given."""

    names: Sequence[str]
    """of the arguments that are given"""
    width: int
    longest: Any
    rest: int
    """these three as `guess` takes them"""
    told: Mapping[str, Any]
    """arguments that are given without a guess"""


def _ways(cls: Any, width: int) -> tuple[list[Way], list[Way]]:
    """Return the ways to call the constructor of a class, as `instances` describes them: the usual
    ones, and those that are tried if none of these works.
    """
    needed = [name for name, is_needed in required(cls).items() if is_needed]
    defaults = inspect.signature(cls).parameters.items()
    # None may stand for a number
    numbers = {name: one.default for name, one in defaults if type(one.default) in (int, NONE)}
    # windows are not shifted by default, by 0, but it shows more if they are
    needed += [name for name, value in numbers.items() if value == 0 and "shift" in words(name)]
    # a default of 0 or 1 may be the number of an axis, as of `dim=1`, and no width
    of_width = [name for name in numbers if words(name) & GUESSES["W"]]
    of_axes = [name for name in of_width if words(name) & GUESSES["W"] == {"dim"}]
    widths = [name for name in of_width if numbers[name] not in (0, 1) or name not in of_axes]
    sides = [name for name in (*needed, *numbers) if words(name) & OF_SIDES]
    if all(words(name) & OF_SIDES == {"width"} for name in sides):  # of a model, or of heads
        sides = []

    def way(names: Sequence[str], width: int, longest: Any, rest: int, **told: Any) -> Way:
        """Return a way in which sides of an image are as long as sources."""
        of_sides = {name: longest for name in names if name in sides}
        return Way(names, width, longest, rest, of_sides | told)

    usual = [
        way(needed, width, LONG, width),
        way(needed, width, SHORT, HEADS),
        way(needed, width, SQUARE, HEADS),
        way(needed, width, SQUARE[0], HEADS),
        *([way(needed + sides, width, SIDE, HEADS)] if sides else []),
        way(needed + widths, width, LONG, width),
        way(needed + widths, EVEN, LONG, EVEN),
    ]
    of_heads = [name for name in numbers if words(name) & (GUESSES["H"] | GUESSES["W // H"])]
    flags = [{name: not one.default} for name, one in defaults if type(one.default) is bool]
    last = [
        *(way(needed, width, LONG, width, **chosen) for chosen in _chosen(cls, needed)),
        way(needed + widths + of_heads, width, LONG, width),
        *(way(needed, width, LONG, width, **flag) for flag in flags),
    ]
    return usual, last


def instances(cls: Any, sizes: Sequence[Any], width: int) -> Iterator[tuple[Any, str, bool]]:
    """Yield instances of a class, each with the line of code that makes it, and with whether its
    constructor was given numbers: of each of several ways to call the constructor, if that works.
    If none works with numbers, they are tried with `anything` in place of these. Raises
    `Seq2AttnError`, with the first error, if none works at all.

    sizes: what the constructor is given, in order. If it is empty, all arguments without a default
        are guessed from their names (see `guess`), in several ways. The first is for long sources,
        with `width` where a name tells nothing. The next ones are for sources of exactly the length
        that the doctor draws, with a small number where a name tells nothing: as a sequence, as an
        image whose sides are a pair, and as one whose side is a number. Then sides of an image that
        have a default are given as well, or widths; and then all widths are EVEN. If none of these
        works, strings are tried that the code compares an argument with, sizes of heads that have a
        default, and the opposite of each True or False.
    width: of query and keys, for which an instance is made.
    """
    problems: list[str] = []
    tried: list[tuple[Number, str]] = []
    is_made = False
    # nothing is guessed beside `sizes`
    usual, last = ([Way((), 0, 0, 0, {})], []) if sizes else _ways(cls, width)
    tries: list[tuple[Number, Way, bool]] = [
        *product([int], usual, [False]),
        *product([int], last, [True]),
        *product([anything], usual, [True]),
    ]
    types = {name: one.annotation for name, one in inspect.signature(cls).parameters.items()}
    for number, way, is_last in tries:
        if is_made and is_last:
            return
        make = partial(guess, width=way.width, longest=way.longest, rest=way.rest, number=number)
        given = {
            name: _of_type(types[name], make) or _inner(cls, name) or make(name)
            for name in way.names
        }
        given |= way.told
        if (number, str(given)) in tried:  # another way guessed the same
            continue
        tried.append((number, str(given)))
        try:
            instance = cls(*sizes, **given)
        except Exception as error:
            problems.append(error_text(error))
            continue
        is_made = True
        shown = [*map(repr, sizes), *(f"{name}={_shown(value)}" for name, value in given.items())]
        yield instance, f"attention = {cls.__name__}({', '.join(shown)})", number is int
    if not is_made:
        raise Seq2AttnError(
            f"{cls.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
        )
