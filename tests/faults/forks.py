"""Starts `seq2attn` commands as processes of their own, without importing torch for each: one server, one fork a command.

Orders come as lines of JSON on standard input; the server answers with the process's number, and with its exit status once
it has ended. A command runs as `python -m seq2attn` would, but for `fault`: the write at which it kills itself, or from
which on the disk is full.
"""

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEERING = ("SEQ2ATTN_RUNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS")


class Server:
    """The test's end: `start` a command, do something to it, `wait` for it."""

    def __init__(self):
        environment = {name: value for name, value in os.environ.items() if name not in STEERING}
        environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._running = None
        self._answer()

    def start(self, folder, *arguments, fault=None, terminal=None, environment=None):
        """Begin `seq2attn ARGUMENTS` in `folder`, where `out` and `err` receive its output, or on a terminal of its own;
        returns its number.
        """
        order = {"folder": str(folder), "arguments": arguments, "fault": fault, "terminal": terminal}
        order["environment"] = environment or {}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._running = int(self._answer())
        return self._running

    def wait(self):
        """The exit status of the command that was started; minus the signal's number if one ended it."""
        self._running = None
        return int(self._answer())

    def end(self):
        """Kill the command that a failed test left running."""
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._running, signal.SIGKILL)
            self.wait()

    def call(self, folder, *arguments, fault=None):
        """`start` and `wait` -> exit status, standard output, standard error."""
        self.start(folder, *arguments, fault=fault)
        status = self.wait()
        return status, (Path(folder) / "out").read_text(), (Path(folder) / "err").read_text()

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, "the server is gone"
        return line


# ---- the server's end ----


class Fault:
    """Kills the process at the `count`-th write of one kind, or counts them where `count` is 0.

    full: from that write on the disk is full instead.
    """

    def __init__(self, kind, count, full=False):
        self.kind, self.count, self.full, self.seen = kind, count, full, 0

    def due(self):
        self.seen += 1
        return self.seen >= self.count if self.full and self.count else self.seen == self.count

    def strike(self):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        from seq2attn.runs.files import AppendFile

        fsync, replace, add, truncate = os.fsync, os.replace, AppendFile.add, os.truncate

        def half_a_file(descriptor):
            if stat.S_ISREG(os.fstat(descriptor).st_mode) and self.due():
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
                self.strike()
            fsync(descriptor)

        def before_it_takes_its_name(*names):
            if self.due():
                self.strike()
            replace(*names)

        def after_it_took_its_name(*names):
            replace(*names)
            if self.due():
                self.strike()

        def half_a_record(file, data):
            if data and self.due():
                file._file = HalfWriter(file._file, self)
            add(file, data)

        def in_the_cutting(path, size):
            if self.due():
                self.strike()
            truncate(path, size)

        patches = {
            "half a file": (os, "fsync", half_a_file),
            "before a name": (os, "replace", before_it_takes_its_name),
            "after a name": (os, "replace", after_it_took_its_name),
            "half a record": (AppendFile, "add", half_a_record),
            "cutting": (os, "truncate", in_the_cutting),
        }
        if self.kind is not None:
            setattr(*patches[self.kind])


class HalfWriter:
    """A file that takes half of what it is given, and then strikes."""

    def __init__(self, file, fault):
        self.file, self.fault, self.half = file, fault, True

    def write(self, data):
        if self.half:
            self.half = False
            return self.file.write(data[: len(data) // 2])
        return self.fault.strike()

    def __getattr__(self, name):
        return getattr(self.file, name)


def refuse_the_network(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise SystemExit(f"network: {event} {arguments}")


def run(order):
    from seq2attn.cli import main

    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if "OFFLINE" in order["environment"]:
        sys.addaudithook(refuse_the_network)
    if order["terminal"] is not None:
        os.setsid()
        terminal = os.open(order["terminal"], os.O_RDWR)  # the first that a session opens controls it
        for number in range(3):
            os.dup2(terminal, number)
    else:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name, number in (("stdout", 1), ("stderr", 2)):
        encoding = order["environment"].get("PYTHONIOENCODING", "utf-8")
        errors = "backslashreplace" if number == 2 else "strict"
        setattr(sys, name, os.fdopen(number, "w", encoding=encoding, errors=errors))
    fault = Fault(*(order["fault"] or (None, 0)))
    fault.install()
    sys.argv = ["seq2attn", *order["arguments"]]
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 99
    if fault.count == 0 and fault.kind is not None:
        Path("count").write_text(str(fault.seen))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = 98
    os._exit(status)


def prepare():
    """Import, and draw once, what every command would otherwise do for itself."""
    import io

    import seq2attn.training.loop
    from seq2attn.cli.app import app
    from seq2attn.inference.maps import AttentionMap
    from seq2attn.plotting.attention import attention_figure

    figure = attention_figure([AttentionMap("a", "a", ("a",), ("a",), ((1.0,),))])
    figure.savefig(io.BytesIO())
    return app, seq2attn.training.loop


def serve():
    prepare()
    answers = os.fdopen(os.dup(1), "w")
    print("ready", file=answers, flush=True)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
        print(pid, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)


if __name__ == "__main__":
    serve()
