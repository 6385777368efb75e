"""Makes instances of a class: guesses from names what its constructor takes."""

import inspect
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from seq2attn.doctor.call import S
from seq2attn.doctor.words import CONFIGS, GUESSES, PLACED, required, words
from seq2attn.errors import Seq2AttnError
from seq2attn.text import error_text

HEADS, EVEN = 4, 64
LONG, SHORT = 32, S  # the lengths of sources of a constructor
SQUARE = (3, 3)  # the sides of an image of S places


class SimpleNamespace(types.SimpleNamespace):
    """A config object that answers any name, and shows what it was asked.

    It has the name of its base, which its `repr` begins with: a line that makes an instance of it
    can be run anywhere.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as Python asks for, to copy it or to find what it can do
            raise AttributeError(name)
        setattr(self, name, guess(name, self.width))
        return getattr(self, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, as a dictionary does."""
        return getattr(self, name) if default is None else default


def guess(name: str, width: int, longest: Any = LONG, rest: int | None = None) -> Any:
    """Guess from the words of its name what an argument of a constructor may be. width: for a name
    such as `dim`. longest: of the sources, for a name such as `max_length`. rest: for a name that
    tells nothing; the width by default.
    """
    if words(name) & CONFIGS:
        return SimpleNamespace(width=width)
    for value, known in GUESSES.items():
        if words(name) & known:  # a value is an expression, such as "W // H"
            return eval(value, {"W": width, "H": HEADS, "LONG": longest, "nn": nn})
    return rest or width


HAS_PARTS = re.compile("'int' object (is not subscriptable|is not iterable|has no attribute)")


def instances(cls: Any, sizes: Sequence[Any], width: int) -> Iterator[tuple[Any, str]]:
    """Yield instances of a class, with the line of code that makes each.

    sizes: what the constructor is given; if it is empty, that is guessed from the names of its
    arguments (see `guess`), in several ways. The first is for long sources. The next ones are for
    sources of exactly the length that the doctor draws, with a small number where a name tells
    nothing. If none of these works, a width is tried that more sizes of heads divide, and then, if
    a number was asked for its parts or its attributes, a pair, or an object, in place of each.
    """
    problems: list[str] = []
    tried: list[dict[str, Any]] = []
    works = False
    # nothing is guessed beside `sizes`: then all ways are the same, and one is tried
    needed = [] if sizes else [name for name, is_needed in required(cls).items() if is_needed]
    arguments = inspect.signature(cls).parameters
    by_place = [name for name in needed if arguments[name].kind is PLACED]
    ways = [(LONG, width), (SHORT, HEADS), (SQUARE, HEADS), (SQUARE[0], HEADS)]
    usual = [{name: guess(name, width, *way) for name in needed} for way in ways]
    even = {name: guess(name, EVEN) for name in needed}
    parts = [(width, width), SimpleNamespace(width=width)]
    parted = [{**usual[0], name: part} for part in parts for name in needed]
    for number, given in enumerate((*usual, even, *parted)):
        if given in tried or (works and number >= len(usual)):
            continue
        if number > len(usual) and not HAS_PARTS.search(problems[0]):
            break
        tried.append(given)
        placed = [*sizes, *(given[name] for name in by_place)]
        named = {name: value for name, value in given.items() if name not in by_place}
        shown = [*map(repr, placed), *(f"{name}={value!r}" for name, value in named.items())]
        try:
            instance = cls(*placed, **named)
        except Exception as error:
            problems.append(error_text(error))
            continue
        works = True
        yield instance, f"attention = {cls.__name__}({', '.join(shown)})"
    if not works:
        raise Seq2AttnError(
            f"{cls.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
        )
