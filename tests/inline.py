"""Commands and the trials of a comparison in the process of the test."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import seq2attn
from seq2attn.cli import main

TINY = """\
model: {hidden: 8, embedding: 4}
task: {min_length: 1, max_length: 3}
training: {steps: 2, batch_size: 4, validation_samples: 2, snapshots: 0}
evaluation: {samples: 2}
"""
ROOT = Path(__file__).parent.parent
OUTPUT_VARIABLES = (
    "SEQ2ATTN_RUNS FORCE_COLOR NO_COLOR COLORTERM TTY_COMPATIBLE TTY_INTERACTIVE COLUMNS".split()
)
HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
"""of a process that a terminal starts"""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def refusal(self):
        """What was said instead of an answer: exit code 2, nothing printed, and no traceback."""
        assert self.code == 2, self
        assert self.out == "", self
        assert "Traceback" not in self.err, self
        return self.err

    def check(self):
        """This, if it succeeded."""
        assert self.code == 0, self.err
        return self

    @property
    def json(self):
        """The JSON that it printed."""
        return json.loads(self.check().out)

    def rows(self, code=0):
        """The tab-separated lines under the header, one dict a line."""
        assert self.code == code, self.err
        header, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(header, line, strict=True)) for line in lines]


def process(folder, *arguments, **environment):
    """`python ARGUMENTS` as a process of its own, and what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in OUTPUT_VARIABLES}
    kept |= {
        "PYTHONPATH": str(Path(seq2attn.__file__).parent.parent),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    words = [sys.executable, *split_words(*arguments)]
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


class Terminal(io.StringIO):
    """A terminal: what was typed, or what was printed."""

    def isatty(self):
        return True


def plain(text):
    """`text` without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def contents(folder):
    """Every file below a folder with its bytes, and every folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write(file, text):
    """Write a file of the working folder, in folders that are made for it."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def read(file):
    """The text of a file of the working folder."""
    return Path(file).read_text("utf-8")


def read_json(file):
    return json.loads(read(file))


def write_lines(file, values):
    """Write each as JSON in a line of its own."""
    write(file, "".join(f"{json.dumps(one)}\n" for one in values))


def change_json(file, **values):
    """Change these values of a mapping in a file."""
    write(file, json.dumps(read_json(file) | values))


def split_words(line="", *words):
    """The words of a command, the first of which may be many: `"eval tiny", "--samples", 1`."""
    return [*line.split(), *map(str, words)]


def call_main(*arguments, stdin="", terminal=False):
    """`seq2attn ARGUMENTS`, in a pipe or on a terminal. `stdin`: its text, or a file."""
    out = Terminal() if terminal else io.StringIO()
    err = io.StringIO()
    return Done(exit_code(arguments, stdin, out, err), out.getvalue(), err.getvalue())


def exit_code(arguments, stdin, out, err):
    """`seq2attn ARGUMENTS` with these streams."""
    with (
        mock.patch("sys.argv", ["seq2attn", *split_words(*arguments)]),
        mock.patch("sys.stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


class Inline(Executor):
    """Runs each call immediately in this process; the part of the Executor interface that is
    needed.
    """

    def __init__(self):
        self.shut = []

    def submit(self, call, /, *arguments, **keywords):
        future = Future()
        future.set_result(call(*arguments, **keywords))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.shut.append(cancel_futures)
