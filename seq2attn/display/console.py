"""Where text goes: results on standard output, messages on standard error."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from rich.console import Console


def printable(text: str) -> str:
    """`text` with control characters escaped, so that a file's content cannot control the terminal.

    Every text of foreign origin (names, symbols, paths) passes here before it is shown.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def write_line(text: str) -> None:
    """Write one line of a result, as it is."""
    sys.stdout.write(f"{text}\n")


def write_json(value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, in ASCII unless the stream is Unicode."""
    write_line(json_text(value, indent=indent, ensure_ascii="utf" not in (sys.stdout.encoding or "").lower()))


def json_text(value: Any, **options: Any) -> str:
    """`json.dumps(value, **options)`, with null for numbers that are not finite, which JSON does not have."""
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(finite, allow_nan=False, **options)


def note(text: str, style: str = "dim") -> None:
    """Print a message for people on standard error."""
    with contextlib.suppress(OSError):
        stderr().print(printable(text), style=style, markup=False)


def print_error(error: Seq2AttnError) -> None:
    """Print an error: its message, and what to do."""
    with contextlib.suppress(OSError):
        stderr().print("error: ", style="bold red", end="")
    note(error.message, style="")
    if error.hint:
        note(error.hint)


def stdout() -> Console:
    """A console for results."""
    return _console(sys.stdout)


def stderr() -> Console:
    """A console for messages. Writing to a terminal that was closed does nothing."""
    return _console(_Messages(sys.stderr))


def _console(file: Any) -> Console:
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  (rich calls this while it handles a BrokenPipeError, and would exit with code 1)

    return Patient(file=file, highlight=False, soft_wrap=True)


class _Messages:
    """A stream whose `write` and `flush` ignore that its terminal was closed, but not that a reader left its pipe."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._stream, name)
        return functools.partial(self._call, attribute) if name in ("write", "flush") else attribute

    def _call(self, function: Callable[..., Any], *arguments: str) -> Any:
        try:
            return function(*arguments)
        except BrokenPipeError:
            raise
        except (OSError, ValueError):
            return None
