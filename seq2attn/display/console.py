"""Where text goes: results on standard output, messages and progress on standard error.

All that people see passes `printable` here: Rich's output in the consoles of `stdout()` and
`stderr()`, everything else in `Screen`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment

_RAW = (  # a class of a pattern
    "\x00-\x09\x0b-\x1f\x7f-\x9f"  # control characters, but not the line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction of writing
    "\u2028\u2029\ud800-\udfff"  # ends of lines and paragraphs; surrogates
)
# what is between backquotes; what follows Try, Next, or a colon before the name of a program
_COMMAND = re.compile(r"`[^`]*`|(?<=^Try: ).*|(?<=^Next: ).*|(?<=: )(?:seq2attn|pip) .*?(?=; |$)")
_NO_BREAK = "\u00a0"  # a space that is not broken at
QUIET_SECONDS = 10.0  # between two lines about steps
AVERAGED_SECONDS = 300.0  # over which speed is averaged for the time left


def printable(text: str, also: str = "") -> str:
    """Escape what could control a terminal, as JSON does; of control characters only the line feed
    is left.

    That is control characters, those that set the direction of writing or end a line, and
    surrogates. also: further characters to escape.
    """
    return re.sub(f"[{_RAW}{re.escape(also)}]", lambda match: json.dumps(match[0])[1:-1], text)


class Screen:
    """A standard stream that people may read. All that is written to it is escaped; only Rich goes
    past it, since the consoles of this module escape for themselves.
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
    """Escape all that this process writes to standard error, and to standard output if that is a
    terminal.
    """
    if sys.stdout and on_terminal():
        sys.stdout = Screen(sys.stdout)
    if sys.stderr:
        sys.stderr = Screen(sys.stderr)


# ---- results ----


def on_terminal() -> bool:
    """Return True if results go to a terminal."""
    return sys.stdout.isatty()


def write_json(value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, in ASCII unless the stream is Unicode."""
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    print(json_text(value, indent=indent, ensure_ascii=ascii_only))


def json_text(value: Any, **options: Any) -> str:
    """Return printable JSON, with null for numbers that are not finite, which JSON lacks. options:
    of `json.dumps`.
    """
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)  # NaN, Infinity
    return printable(json.dumps(finite, **options))


# ---- messages ----


def say(text: str, console: Console | None = None) -> None:
    """Print a message for people, by default on standard error. A terminal gets lines broken
    between words. `error: ` at its beginning is red.
    """
    from rich.text import Text

    console = console or stderr()
    text = printable(text)
    if console.is_terminal:
        text = "\n".join(_broken(line, console.width) for line in text.split("\n"))
    message = Text(text)
    message.highlight_regex("^error: ", "bold red")
    console.print(message)


def _broken(line: str, width: int) -> str:
    """Break a line between words into lines of at most `width` characters, all indented as it is.
    Commands, and words that are wider, stay whole.
    """
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), line)
    indent = " " * (len(line) - len(line.lstrip()))
    wrapped = textwrap.fill(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace(_NO_BREAK, " ")


say_once = functools.cache(say)


def print_error(error: Seq2AttnError) -> None:
    """Print an error: its message, and what to do."""
    say(f"error: {error.message}")
    if error.hint:
        say(error.hint)


# ---- consoles ----


def stdout() -> Console:
    """Return a console for results."""
    return _console(_innermost(sys.stdout))


def stderr() -> Console:
    """Return a console for messages. Writing to a terminal or pipe that was closed does nothing."""
    return _console(_Messages(_innermost(sys.stderr)))


def _innermost(stream: Any) -> Any:
    """Return the stream below a `Screen`, and below what Rich's progress puts there."""
    while below := getattr(stream, "rich_proxied_file", None):
        stream = below
    return stream


def _console(stream: Any) -> Console:
    """Return a console of Rich that escapes all texts, but not the control codes of Rich itself."""
    from rich.console import Console

    class Escaping(Console):
        def render(self, *what: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*what, **options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

        def on_broken_pipe(self) -> None:
            # Rich calls this while it handles a BrokenPipeError. Its own method would exit with
            # code 1; this one raises the error again, for the caller.
            raise  # noqa: PLE0704

    return Escaping(file=stream, highlight=False, soft_wrap=True)


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


# ---- progress: bars on a terminal, lines elsewhere, or nothing ----


class Display(AbstractContextManager["Display"]):
    """Lines: one for each evaluation and each end; every few seconds one about the steps of all
    trials, if there is anything new.

    Trials are told apart by their names; that of a training alone is empty.
    """

    def __init__(self, console: Console | None = None) -> None:
        """Make a display; `console`: where it shows the lines; None: nowhere."""
        self._console = console
        self._last_time = time.monotonic()
        self._last_line = ""
        self._running: dict[str, str] = {}  # trial -> its text

    def begin(self, trial: str, total: int, text: str = "") -> None:
        """Begin a trial of `total` steps."""
        self._running[trial] = text

    def step(self, trial: str, step: float, text: str) -> None:
        """Keep the trial's text, which says that it has done `step` steps; only `Bars` needs the
        number. At most once in `QUIET_SECONDS`, as this is called often, show a line with the texts
        of all trials that are running, unless the last line was the same.
        """
        self._running[trial] = text
        if time.monotonic() - self._last_time < QUIET_SECONDS:
            return
        self._last_time = time.monotonic()
        line = "; ".join(_named(name, said) for name, said in self._running.items() if said)
        if line != self._last_line:
            self._last_line = line
            self.say(line)

    def end(self, trial: str, text: str = "") -> None:
        """End a trial."""
        self._running.pop(trial, None)
        if text:
            self.say(_named(trial, text))

    def say(self, text: str) -> None:
        """Show a line that stays."""
        if self._console:
            say(text, self._console)

    def __exit__(self, *_: object) -> None: ...


def _named(trial: str, text: str) -> str:
    return f"{trial}: {text}" if trial else text


def make_display(wanted: bool | None = True) -> Display:
    """Return the display that suits standard error: bars on a terminal that can move its cursor
    (not a dumb one), lines anywhere else.

    wanted: False: show nothing; None: show something on a terminal and in a notebook, but nothing
        elsewhere, such as in a file; True: show something everywhere.
    """
    console = stderr()
    if wanted is False:
        return Display()
    if console.is_terminal and not console.is_dumb_terminal:
        return Bars(console)
    in_notebook = "ipykernel" in sys.modules
    return Display(console if wanted or in_notebook or console.is_terminal else None)


class Bars(Display):
    """A bar with a text and the time left for each running trial; evaluations and ends scroll by
    above them. At the end of a `with`, the bars are cleared from the screen.
    """

    def __init__(self, console: Console) -> None:
        """Make Rich's progress, which is shown from the first `step` on."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__(console)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),  # as wide as the other columns allow
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
            speed_estimate_period=AVERAGED_SECONDS,
            transient=True,  # cleared from the screen at the end
        )
        self._bars: dict[str, Any] = {}  # trial -> Rich's number of its bar

    def begin(self, trial: str, total: int, text: str = "") -> None:
        self._bars[trial] = self._progress.add_task(trial, total=total, text=text)

    def step(self, trial: str, step: float, text: str) -> None:
        self._progress.start()  # the first time; later it does nothing
        self._progress.update(self._bars[trial], completed=step, text=text)

    def end(self, trial: str, text: str = "") -> None:
        if trial in self._bars:
            self._progress.remove_task(self._bars.pop(trial))
        super().end(trial, text)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
