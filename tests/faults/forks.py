"""Starts `seq2attn` commands as processes of their own, forked from a server that has imported
torch once.
"""

import errno
import multiprocessing
import os
import signal
import stat
import sys
import time
from pathlib import Path

from inline import HANDLERS, OUTPUT_VARIABLES, Done, read, split_words
from outcomes import same_outcome

import seq2attn
from seq2attn.doctor.processes import EXAMINER, OF_LAYERS

TINY = """\
task: {alphabet: abc, max_length: 2}
model: {hidden: 8, embedding: 4}
training: {steps: 24, batch_size: 4, log_every: 1, evaluate_every: 4,
  validation_samples: 2, word_dropout: 0.3, snapshots: 6, watched: a}
evaluation: {samples: 2}
"""  # small, with many writes
TRAIN = "train -c tiny.yaml --name tiny"
RESUME = "train --resume tiny"
CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = "seq2attn.cli.runs seq2attn.training.session seq2attn.plotting.attention".split()
CONTEXT.set_forkserver_preload([*PRELOADED, EXAMINER, OF_LAYERS])


class Server:
    """Runs one command at a time: `start` it, do something to it, `wait` for it."""

    process = None

    def start(self, folder, *arguments, fault=None, terminal=None, environment=None):
        """Begin `seq2attn ARGUMENTS` in `folder`, whose files `out` and `err` receive its output,
        or on a terminal of its own; returns its number. `fault`: the arguments of `Fault`.
        """
        order = (folder, arguments, fault or (None, 0), terminal, environment or {})
        self.process = CONTEXT.Process(target=run, args=order)
        self.process.start()
        return self.process.pid

    def wait(self):
        """The exit status of the command that was started; minus the signal's number if one ended
        it.
        """
        self.process.join()
        return self.process.exitcode

    def call(self, folder, *arguments, **options):
        """`start` and `wait` -> exit status, standard output, standard error."""
        self.start(folder, *arguments, **options)
        return Done(self.wait(), *(read(folder / name) for name in ("out", "err")))

    def until(self, text, file):
        """Wait until `file` contains `text`."""
        end = time.monotonic() + 60
        while not file.exists() or text not in read(file):
            assert time.monotonic() < end
            time.sleep(0.005)

    def complete(self, work, reference, commands=(TRAIN, RESUME)):
        """What a user does after a fault: resume the run, or start it if there is none; it ends as
        `reference`.
        """
        run = seq2attn.Run(work / "runs/tiny")
        self.call(work, commands[run.path.exists()]).check()
        same_outcome(run, reference)

    def end(self):
        """Kill the command that a failed test left running."""
        if self.process is not None:
            self.process.kill()
            self.process.join()


class Fault:
    """Kills the process at the `count`-th write of one kind, or counts them where `count` is 0.

    full: from that write on the disk is full instead.
    """

    def __init__(self, kind, count, full=False):
        self.kind = kind
        self.count = count
        self.full = full
        self.seen = 0

    def strike(self):
        """Do it if it is time."""
        self.seen += 1
        if not self.count or self.seen < self.count:
            return
        if not self.full:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, "No space left on device")

    def install(self):
        fsync = os.fsync
        replace = os.replace
        write = os.write
        truncate = os.truncate

        def half_a_file(descriptor):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                if self.seen + 1 == self.count:
                    os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
                self.strike()
            fsync(descriptor)

        def before_it_takes_its_name(*names):
            self.strike()
            replace(*names)

        def after_it_took_its_name(*names):
            replace(*names)
            self.strike()

        def half_a_record(descriptor, data):
            if self.seen + 1 == self.count:
                write(descriptor, data[: len(data) // 2])
            self.strike()
            return write(descriptor, data)

        def in_the_cutting(path, size):
            self.strike()
            truncate(path, size)

        patches = {
            "half a file": (os, "fsync", half_a_file),
            "before a name": (os, "replace", before_it_takes_its_name),
            "after a name": (os, "replace", after_it_took_its_name),
            "half a record": (os, "write", half_a_record),
            "cutting": (os, "truncate", in_the_cutting),
        }
        if self.kind is not None:
            setattr(*patches[self.kind])


def refuse_network_and_compiler(event, arguments):
    """Compilers of torch's take a second to import, which nothing here needs."""
    if event == "import" and arguments[0].startswith("torch._dynamo"):
        raise SystemExit(f"import {arguments[0]}")
    ways = "connect bind getaddrinfo gethostbyname sendto".split()
    if event.startswith("socket.") and event.removeprefix("socket.") in ways:
        raise SystemExit(f"network: {event} {arguments}")


def run(folder, arguments, fault, terminal, environment):
    """The command, in its process."""
    from seq2attn.cli import main

    os.chdir(folder)
    for name in OUTPUT_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(environment)
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
    if "OFFLINE" in environment:
        sys.addaudithook(refuse_network_and_compiler)
    if terminal is not None:
        os.setsid()  # the first terminal that a session opens to read controls it
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    for number, name, errors in ((1, "out", "strict"), (2, "err", "backslashreplace")):
        out = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(terminal, os.O_RDWR) if terminal else os.open(name, out), number)
        setattr(sys, f"std{name}", os.fdopen(number, "w", encoding=encoding, errors=errors))
    struck = Fault(*fault)
    struck.install()
    sys.argv = ["seq2attn", *split_words(*arguments)]
    try:
        main()
    finally:
        if fault[0] is not None and struck.count == 0:
            Path("count").write_text(str(struck.seen))
