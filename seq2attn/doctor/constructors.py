"""Makes instances of a class: guesses from names what its constructor takes."""

import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from seq2attn.doctor.call import B, S
from seq2attn.doctor.words import CONFIGS, GUESSES, OF_SIDES, required, words
from seq2attn.errors import Seq2AttnError, error_text

HEADS = 4
EVEN = 32  # a width that common numbers of groups of channels divide
LONG, SHORT = 32, S  # lengths of sources for which an attention is made
SQUARE = (3, 3)  # the sides of an image of S places
SIDE = 6  # of an image that is given as such: with more places than a head is wide


class SimpleNamespace(types.SimpleNamespace):
    """A config object that answers any name, and shows what it was asked.

    It has the name of its base, which its `repr` begins with: a line that makes an instance of it
    can be run anywhere.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as Python asks for, to copy it or to find what it can do
            raise AttributeError(name)
        setattr(self, name, guess(name, self.width, LONG, self.width))
        return getattr(self, name)

    def __getitem__(self, name: str | int) -> Any:
        return self.width if isinstance(name, int) else getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, as a dictionary does."""
        return getattr(self, name) if default is None else default


def guess(name: str, width: int, longest: Any, rest: int) -> Any:
    """Return what an argument of a constructor may be, guessed from the words of its name: an
    object with any attributes for a config, or else the value of the first entry of `GUESSES` that
    has one of the words.

    width: for a name such as `dim`.
    longest: for a name such as `max_length`: the length of sources, or the sides of an image.
    rest: for a name that tells nothing.
    """
    if words(name) & CONFIGS:
        return SimpleNamespace(width=width)
    for expression, known in GUESSES.items():  # such as "W // H", and words such as `head_dim`
        if words(name) & known:
            numbers = {"W": width, "H": HEADS, "B": B, "LONG": longest}
            return eval(expression, {**numbers, "nn": nn, "torch": torch})
    return rest


def instances(cls: Any, sizes: Sequence[Any], width: int) -> Iterator[tuple[Any, str]]:
    """Yield instances of a class, each with the line of code that makes it: of each of several ways
    to call its constructor, if that works. Raises `Seq2AttnError`, with the first error, if none
    does.

    sizes: what the constructor is given, in order. If it is empty, all arguments without a default
        are guessed from their names (see `guess`), in several ways. The first is for long sources,
        with `width` where a name tells nothing. The next ones are for sources of exactly the length
        that the doctor draws, with a small number where a name tells nothing: as a sequence, as an
        image whose sides are a pair, and as one whose side is a number. Then sides of an image that
        have a default are given as well, or widths; and in the end, all widths are EVEN.
    width: of query and keys, for which an instance is made.
    """
    problems: list[str] = []
    tried: list[dict[str, Any]] = []
    # nothing is guessed beside `sizes`: then all ways are the same, and one is tried
    needed = [] if sizes else [name for name, is_needed in required(cls).items() if is_needed]
    defaults = inspect.signature(cls).parameters.items() if not sizes else ()
    numbers = {name: one.default for name, one in defaults if type(one.default) is int}
    # windows are not shifted by default, by 0, but it shows more if they are
    needed += [name for name, value in numbers.items() if value == 0 and "shift" in words(name)]
    # a default of 0 or 1 may be the number of an axis, as of `dim=1`, and no width
    of_width = [name for name in numbers if words(name) & GUESSES["W"]]
    widths = [name for name in of_width if numbers[name] > 1 or not words(name) & {"dim"}]
    sides = [name for name in (*needed, *numbers) if words(name) & OF_SIDES]
    if sides == ["width"]:  # without a height, it is that of a model
        sides = []
    ways = [  # the names that are given, and what `guess` takes: width, longest, rest
        (needed, width, LONG, width),
        (needed, width, SHORT, HEADS),
        (needed, width, SQUARE, HEADS),
        (needed, width, SQUARE[0], HEADS),
        *([(needed + sides, width, SIDE, HEADS)] if sides else []),
        (needed + widths, width, LONG, width),
        (needed + widths, EVEN, LONG, EVEN),
    ]
    for names, wide, longest, rest in ways:
        given = {name: guess(name, wide, longest, rest) for name in names}
        given |= {name: longest for name in given if name in sides}
        if given in tried:  # another way guessed the same
            continue
        tried.append(given)
        shown = [*map(repr, sizes), *(f"{name}={value!r}" for name, value in given.items())]
        try:
            instance = cls(*sizes, **given)
        except Exception as error:
            problems.append(error_text(error))
            continue
        yield instance, f"attention = {cls.__name__}({', '.join(shown)})"
    if len(problems) == len(tried):
        raise Seq2AttnError(
            f"{cls.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
        )
