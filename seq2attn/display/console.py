"""Where text goes: results on standard output, messages on standard error.

What people see passes `printable` here: Rich's output in the consoles of `stdout()` and `stderr()`,
all else in `Screen`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment

_RAW = "\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff"  # a class of a pattern
_UNITS = re.compile(
    r"\s*(?:`[^`]*`\S*|(?<=: )(?:seq2attn|pip) .*?(?:;(?= )|$)|\S+)"
)  # commands and words


def printable(text: str, also: str = "") -> str:
    """`text` with what could control a terminal escaped as in JSON; of control characters only the
    line feed is left.

    That is control characters, the characters that set the direction of writing or end a line, and
    surrogates. also: further characters to escape.
    """
    return re.sub(f"[{_RAW}{re.escape(also)}]", lambda found: json.dumps(found[0])[1:-1], text)


class Screen:
    """A standard stream that people may read: what is written is escaped, except by Rich, which
    escapes for itself.
    """

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream  # Rich's name for the stream that it writes to instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text.expandtabs()))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))


def escape_streams() -> None:
    """Have all that this process writes to standard error, and to a terminal on standard output,
    escaped.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and (name == "stderr" or stream.isatty()):
            setattr(sys, name, Screen(stream))


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def write_line(text: str) -> None:
    """Write one line of a result, as it is."""
    sys.stdout.write(f"{text}\n")


def write_json(value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, in ASCII unless the stream is Unicode."""
    write_line(
        json_text(
            value, indent=indent, ensure_ascii="utf" not in (sys.stdout.encoding or "").lower()
        )
    )


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps(value, **options)`, printable, with null for numbers that are not finite, which
    JSON does not have.
    """
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    return printable(json.dumps(finite, **options))


def say(text: str, style: str = "dim", console: Console | None = None) -> None:
    """Print a message for people, by default on standard error. A terminal gets lines broken
    between words.
    """
    from rich.text import Text

    console, text = console or stderr(), printable(text)
    if console.is_terminal:
        text = "\n".join(
            broken for line in text.split("\n") for broken in _broken(line, console.width)
        )
    message = Text(text, style)
    message.highlight_regex("^error: ", "bold red")
    console.print(message)


def _broken(line: str, width: int) -> Iterator[str]:
    """A line in pieces of at most `width` cells, indented as it is. Commands, and words that are
    wider, stay whole.
    """
    from rich.cells import cell_len

    indent = line[: len(line) - len(line.lstrip())]
    piece = ""
    for unit in _UNITS.findall(line):
        if piece and cell_len(piece + unit) > width:
            yield piece
            piece, unit = indent, unit.lstrip()
        piece += unit
    yield piece


say_once = functools.cache(say)


def print_error(error: Seq2AttnError) -> None:
    """Print an error: its message, and what to do."""
    say(f"error: {error.message}", style="")
    if error.hint:
        say(error.hint)


def stdout() -> Console:
    """A console for results."""
    return _console(sys.stdout)


def stderr() -> Console:
    """A console for messages. Writing to a terminal or pipe that was closed does nothing."""
    return _console(sys.stderr, _Messages)


def _console(stream: Any, through: Callable[[Any], Any] = lambda stream: stream) -> Console:
    from rich.console import Console

    class Escaping(Console):
        def render(self, *what: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*what, **options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  (rich calls this while it handles a BrokenPipeError, and would exit with code 1)

    while below := getattr(
        stream, "rich_proxied_file", None
    ):  # below a `Screen`, and what Rich's progress puts there
        stream = below
    return Escaping(file=through(stream), highlight=False, soft_wrap=True)


class _Messages:
    """A stream whose `write` and `flush` ignore that it was closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()
