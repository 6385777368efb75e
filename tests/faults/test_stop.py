"""Ctrl-C, SIGTERM, a closed terminal, a closed pipe: everything is saved, and the command to resume is printed."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from outcomes import same_outcome

from seq2attn.runs.run import Run

TRAIN = ("train", "-c", "tiny.yaml", "--name", "tiny")
PYTHON = [sys.executable, "-m", "seq2attn"]


def until(found, seconds=60):
    """Wait until `found()` is true."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def goes_on(server, work, reference):
    assert server.call(work, "train", "--resume", "tiny")[0] == 0
    same_outcome(Run(work / "runs" / "tiny"), reference)


@pytest.mark.parametrize("name", ["SIGINT", *(pytest.param(n, marks=pytest.mark.slow) for n in ("SIGTERM", "SIGHUP"))])
def test_a_signal(server, reference, work, name):
    number = getattr(signal, name)
    pid = server.start(work, *TRAIN)
    until(lambda: (work / "err").exists() and "step 4: " in (work / "err").read_text())
    os.kill(pid, number)
    assert server.wait() == 128 + number
    lines = (work / "err").read_text().splitlines()
    assert lines[-2].startswith(f"stopped by {name} after step ")
    assert lines[-2].endswith("; everything is saved.")
    assert lines[-1] == "Continue with: seq2attn train --resume tiny"
    assert Run(work / "runs" / "tiny").status().state == "interrupted"
    goes_on(server, work, reference)


def test_a_closed_terminal(server, reference, work):
    ours, theirs = pty.openpty()
    server.start(work, *TRAIN, terminal=os.ttyname(theirs))
    seen = b""
    while b"step 4" not in seen:
        seen += os.read(ours, 1000)
    os.close(theirs)
    os.close(ours)
    assert server.wait() == 128 + signal.SIGHUP
    assert Run(work / "runs" / "tiny").status().state == "interrupted"
    goes_on(server, work, reference)


def test_a_closed_stdout(server, run_copy, work):
    os.mkfifo(work / "out")
    server.start(work, "eval", "tiny", "--samples", "1")
    os.close(os.open(work / "out", os.O_RDONLY))
    assert server.wait() == 141
    assert len(list(run_copy.evaluations.iterdir())) == 1
    assert (work / "err").read_text() == ""


def piped(folder, script):
    """A line of shell, `$S` standing for the command -> exit status of its first command, standard error."""
    done = subprocess.run(
        ["bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env={**os.environ, "S": " ".join(PYTHON)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_list_piped_into_head(work):
    assert piped(work, "$S list --json | true") == (141, "")


def test_a_full_disk_behind_standard_output(work):
    status, err = piped(work, "$S list --json > /dev/full")
    assert (status, err) == (1, "error: reading or writing failed: No space left on device\n")


@pytest.mark.slow
def test_an_interrupt_of_another_command(server, run_copy, work):
    pid = server.start(work, "eval", "tiny", "--samples", "100000000", "--lengths", "2")
    time.sleep(0.5)
    os.kill(pid, signal.SIGINT)
    assert server.wait() == 130
    assert "Traceback" not in (work / "err").read_text()


@pytest.mark.slow
def test_two_signals_stop_immediately_and_lose_nothing(server, reference, work):
    pid = server.start(work, *TRAIN)
    until(lambda: (work / "err").exists() and "step 8: " in (work / "err").read_text())
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    assert server.wait() in (-signal.SIGTERM, 128 + signal.SIGTERM)
    goes_on(server, work, reference)
