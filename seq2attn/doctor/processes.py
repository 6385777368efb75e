"""Examines attentions of other people's files, each in a process of its own.

This process runs none of them, and needs no torch. A server that has imported torch and the doctor
forks for each of them; where nothing can be forked, each process imports them anew. A process
leaves its answer in a folder that is made for it, with a token; what it prints goes to a file
there. Each ends as a `Row`, also one that leaves no answer. The files are called hand-ins: they may
be broken, or written to look right.
"""

import contextlib
import faulthandler
import json
import multiprocessing
import os
import pkgutil
import re
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from seq2attn.errors import Seq2AttnError
from seq2attn.findings.report import Finding, Report

METHOD = "forkserver" if hasattr(os, "fork") else "spawn"
EXAMINER = "seq2attn.doctor.examine"
OF_LAYERS = "torch.fx.experimental.symbolic_shapes"
"""what torch's own attention imports for the first mask, in a third of a second"""
STARTS = {"forkserver": 0.0, "spawn": 30.0}
"""seconds that a process gets beyond its limit, to import torch, by how it is started"""
TICK = 0.1  # seconds between two looks at what a process prints
PRINTED = 4000  # bytes of what it prints that are kept
FILE_SIZE = 256 << 20  # bytes that a process may write to a file
MEMORY = 2 << 30  # bytes that it may take, beyond those of torch


@dataclass(frozen=True)
class Row:
    """How the examination of an attention ended."""

    place: str
    """FILE:NAME"""
    status: str
    """examined; refused: it cannot be called; error: the file raised an exception; silent: it ended
    its process; killed: by a signal; hung: it took too long"""
    text: str = ""
    """why it was not examined"""
    report: Report | None = None
    printed: str = ""
    """the beginning of what it printed"""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0: examined, and without a fault; 1: with one; 2: not examined."""
        return 2 if self.report is None else int(bool(self.report.faults))


def examine_places(
    places: Mapping[str, Mapping[str, Any]],
    *,
    timeout: float,
    jobs: int,
    scores: str = "",
    method: str = METHOD,
) -> Iterator[Row]:
    """Examine attentions, each in a process of its own, and yield their rows as they end. Processes
    that still run when the caller stops early are ended.

    places: by FILE:NAME, the options of `check_attention`. timeout: seconds for each. jobs: how
    many run at once. scores: "package.module:function", a function that returns the scores that may
    be named; by default none are. method: how processes are started, "forkserver" or "spawn".
    """
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        # what the server imports once for all that it forks; OF_LAYERS saves time only for several
        preloaded = [EXAMINER, *[OF_LAYERS] * (len(places) > 1), scores.partition(":")[0]]
        context.set_forkserver_preload([*filter(None, preloaded)])
    waiting = list(places.items())
    running: list[_Child] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                place, options = waiting.pop(0)
                task = {"place": place, "options": options, "scores": scores, "timeout": timeout}
                running.append(_Child(context, task))
            # until one ends, or it is time to look at what they print
            connection.wait([child.process.sentinel for child in running], TICK)
            for child in running.copy():
                if row := child.row():
                    running.remove(child)
                    yield row
    finally:
        for child in running:
            child.end()


# ---- in this process ----


class _Child:
    """A process that examines an attention, with a folder for its answer and for what it prints. An
    answer counts only with the token that the process got.
    """

    def __init__(self, context: Any, task: dict[str, Any]) -> None:
        self.task = task
        self.folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self.printed = Path(self.folder.name, "printed")
        self.printed.touch()  # `row` reads it from the first, and the process opens what is there
        Path(self.folder.name, "lines").touch()
        self.token = secrets.token_hex(16)
        self.process = context.Process(target=_work, args=(task, self.folder.name, self.token))
        with _without_own_imports():  # the process gets what it needs from the server
            self.process.start()
        self.began = time.monotonic()
        self.limit = task["timeout"] + STARTS[context.get_start_method()]

    def row(self) -> Row | None:
        """Return how it ended, or None if it still runs and has time left. When its time is up, it
        is ended. The file of what it prints is cut short when it grows, as the system kills a
        process whose file exceeds FILE_SIZE.
        """
        if self.printed.stat().st_size > FILE_SIZE / 4:  # early, as it grows until the next look
            os.truncate(self.printed, PRINTED)
        seconds = time.monotonic() - self.began
        if seconds < self.limit and self.process.is_alive():
            return None
        self.end()
        answer = self._answer() or self._ending(seconds)
        with self.folder, self.printed.open("rb") as file:  # then the folder is removed
            printed = file.read(PRINTED).decode(errors="replace")
        return Row(self.task["place"], **answer, printed=printed, seconds=round(seconds, 2))

    def _answer(self) -> dict[str, Any]:
        """Return the fields of a `Row` that its process left in the file `answer`, or an empty
        dictionary if there is no whole answer with the token: the examined file may have written
        one of its own.
        """
        try:
            answer = json.loads(Path(self.folder.name, "answer").read_bytes())
            if answer.pop("token") != self.token:
                return {}
            if report := answer.get("report"):
                findings = [Finding(**finding) for finding in report["findings"]]
                answer["report"] = Report(findings, report["adapter"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}
        return answer

    def _ending(self, seconds: float) -> dict[str, Any]:
        """Return the fields of a `Row` for a process that left no answer.

        seconds: how long it ran.
        """
        code = self.process.exitcode
        if seconds >= self.limit:
            text = f"no result within {self.task['timeout']:g} s{self._place()}"
            return {"status": "hung", "text": f"{text}: a loop that never ends?"}
        if code < 0:  # minus the number of a signal
            return {"status": "killed", "text": f"{signal.Signals(-code).name} ended its process"}
        text = f"its process ended with exit code {code}, without a result, as by os._exit()"
        return {"status": "silent", "text": text}

    def _place(self) -> str:
        """Return in which line of its file the process was, as it noted before its time was up."""
        file = Path(self.task["place"].rpartition(":")[0]).absolute()
        noted = Path(self.folder.name, "lines").read_text(errors="replace")
        lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', noted)
        return f", in line {lines[0]}" if lines else ""

    def end(self) -> None:
        """End the process, and those that it started."""
        with contextlib.suppress(OSError, AttributeError):  # without fork there are no groups
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()


@contextlib.contextmanager
def _without_own_imports() -> Iterator[None]:
    """Let a process that is started meanwhile import neither this one's main module, as
    multiprocessing does, nor what lies in the current directory.
    """
    main, before = sys.modules["__main__"], dict(os.environ)
    sys.modules["__main__"] = ModuleType("__main__")  # of no file, so nothing to import
    os.environ["PYTHONSAFEPATH"] = "1"  # leaves the current directory out of the path of imports
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        os.environ.clear()
        os.environ.update(before)


# ---- in the process of an attention ----


def _work(task: dict[str, Any], folder: str, token: str) -> None:
    """Examine an attention, leave the answer in the folder, with the token, and end the process.
    The token tells this answer from one that the examined file wrote itself.

    task: `place` (FILE:NAME), `options` of `check_attention`, `scores` and `timeout`, as
    `examine_places` takes them. What is needed after the file has run, such as `os._exit`, is
    looked up before: the file may replace it.
    """
    import torch

    from seq2attn.doctor.examine import check_attention
    from seq2attn.doctor.loading import bind, ending, load_attention, replaced
    from seq2attn.findings.engine import finding

    torch.set_num_threads(1)
    _separate(Path(folder), task["timeout"])
    # a little before the end, the calls that are running are noted
    lines = Path(folder, "lines").open("w")  # noqa: SIM115
    faulthandler.dump_traceback_later(0.9 * task["timeout"], file=lines)
    place, answer = task["place"], dict[str, Any](token=token)
    scores = pkgutil.resolve_name(task["scores"])() if task["scores"] else ()
    own, leave, bound = os.getpid(), os._exit, bind()
    try:
        report = check_attention(load_attention(place), **task["options"], scores=scores)
        if names := replaced(bound):  # what the doctor computes with: no finding can be trusted
            report = Report([finding("patched", ", ".join(names[:3]))], report.adapter)
        answer |= {"status": "examined", "report": asdict(report)}
    except Seq2AttnError as error:
        answer |= {"status": "refused", "text": str(error)}
    except BaseException as error:
        answer |= {"status": "error", "text": ending(error, place.rpartition(":")[0])}
    with contextlib.suppress(BaseException):
        if os.getpid() == own:  # and not a copy of this process that the file forked
            Path(folder, "answer").write_text(json.dumps(answer))
    leave(0)


def _separate(folder: Path, timeout: float) -> None:
    """Give this process streams of its own: it reads nothing, and what it prints goes to the file
    `printed` in the folder. Where there is fork, also give it a session, limits, and a parent of
    its own: code that ends its parent does not end the server.

    timeout: seconds after which this process is killed, at the earliest.
    """
    output = os.open(folder / "printed", os.O_WRONLY | os.O_APPEND)
    # the streams 0, 1 and 2: input, output and errors
    for stream, target in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(target, stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    del sys.argv[1:]  # arguments that the file may parse are not its own
    # by lines: what ends the process may write nothing more
    sys.stdout = sys.stderr = open(  # noqa: SIM115
        1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False
    )
    if hasattr(os, "fork"):
        os.setsid()
        _limit()
        # no earlier than the process that waits for the answer stops waiting
        _guard(timeout + max(STARTS.values()))
        # close the pipes of the server, and of the process that started it: the file must not write
        # to them. After `_guard`, as the parent that it makes keeps them open until it ends
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _limit() -> None:
    """Limit the memory of this process to MEMORY bytes beyond what torch has taken, where that is
    known, and the size of each of its files to FILE_SIZE bytes; no core is dumped.
    """
    import resource

    limits = {resource.RLIMIT_FSIZE: FILE_SIZE, resource.RLIMIT_CORE: 0}
    with contextlib.suppress(OSError):  # only Linux has this file, which says what is taken
        lines = Path("/proc/self/status").read_text().splitlines()
        (taken,) = [int(line.split()[1]) for line in lines if line.startswith("VmData")]  # in KiB
        limits[resource.RLIMIT_DATA] = 1024 * taken + MEMORY
    for kind, most in limits.items():
        with contextlib.suppress(OSError, ValueError):  # a lower limit holds already
            resource.setrlimit(kind, (most, most))


def _guard(seconds: float) -> None:
    """Fork, and return in the child only. The parent waits, and ends as the child does, by the same
    exit code or signal. After `seconds`, rounded up, it kills the child, all that this started, and
    itself, even if nobody waits for them any more.

    Call it after `os.setsid`: all processes of the group are killed.
    """
    child = os.fork()
    if not child:
        return
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))  # 0: its own group
    signal.alarm(int(seconds) + 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:  # minus the number of the signal that ended the child: end by the same
        # also if Python ignores or handles it; the handler of SIGKILL cannot be set
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        signal.pause()  # until it arrives
    os._exit(code)
