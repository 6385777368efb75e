"""Ctrl-C, SIGTERM, a closed terminal or pipe, a second training: all is saved, and the command to
resume is printed.
"""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from forks import TRAIN
from inline import ROOT, read
from refusal import refused
from tables import slow

from seq2attn.runs.run import Run, is_training, training_lock

STEPS = "--set training.steps=1000000"
LONG = f"{TRAIN} {STEPS} --set training.log_every=10 --set training.evaluate_every=1000"


@pytest.mark.parametrize("name", ["SIGINT", slow("SIGTERM"), slow("SIGHUP")])
def test_a_signal(server, reference, work, name):
    number = getattr(signal, name)
    pid = server.start(work, TRAIN)
    server.until("step 4: ", work / "err")
    os.kill(pid, number)
    assert server.wait() == 128 + number
    *_, stopped, hint = read(work / "err").splitlines()
    assert stopped.startswith(f"stopped by {name} after step ")
    assert stopped.endswith("; everything is saved.")
    assert hint == "Continue with: seq2attn train --resume tiny"
    assert server.call(work, "runs").out.splitlines()[1].startswith("tiny\tinterrupted\t")
    server.complete(work, reference)


def test_a_closed_terminal(server, reference, work):
    ours, theirs = pty.openpty()
    server.start(work, TRAIN, terminal=os.ttyname(theirs))
    seen = b""
    while b"step 4" not in seen:
        seen += os.read(ours, 1000)
    os.close(theirs)
    os.close(ours)
    assert server.wait() == 128 + signal.SIGHUP
    assert Run(work / "runs/tiny").status().state == "interrupted"
    server.complete(work, reference)


def test_a_closed_stdout(server, run_copy, work):
    os.mkfifo(work / "out")
    server.start(work, "eval tiny --samples 1 --lengths 9")  # where it has nothing to note
    os.close(os.open(work / "out", os.O_RDONLY))
    assert server.wait() == 141
    assert len(list(run_copy.evaluations.iterdir())) == 1
    assert read(work / "err") == ""


def test_a_full_stdout(server, work):
    (work / "out").symlink_to("/dev/full")
    server.start(work, "list --json")
    assert server.wait() == 1
    said = "error: reading or writing failed: No space left on device\n"
    assert read(work / "err") == said


TOO_LARGE = "$S train -c tiny.yaml --set training.batch_size=1000000 --set model.hidden=128"
TOO_WIDE = "$S train -c tiny.yaml --set model.hidden=65536"
MEMORY = (
    "error: out of memory: .*\nMake model.hidden, training.batch_size or the strings smaller, .*"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script, status, err",
    [
        ("$S list --json | true", 141, ""),
        (f"ulimit -v 6000000; {TOO_LARGE}", 1, MEMORY),
        (f"ulimit -v 6000000; {TOO_WIDE}", 1, MEMORY),
    ],
)
def test_what_a_shell_does_to_a_command(work, script, status, err):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "S": f"{sys.executable} -m seq2attn"}
    words = ["bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(
        words, cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert bool(err) == bool(done.stderr)
    assert re.search(f"{err}$", done.stderr)


@pytest.mark.slow
def test_an_interrupt_of_another_command(server, run_copy, work):
    pid = server.start(work, "eval tiny --samples 100000000 --lengths 2")
    time.sleep(0.5)
    os.kill(pid, signal.SIGINT)
    assert server.wait() == 130
    assert "Traceback" not in read(work / "err")


@pytest.mark.slow
def test_two_signals_stop_immediately_and_lose_nothing(server, reference, work):
    pid = server.start(work, TRAIN)
    server.until("step 8: ", work / "err")
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    assert server.wait() in (-signal.SIGTERM, 128 + signal.SIGTERM)
    server.complete(work, reference)


def test_a_second_training_is_refused_until_the_first_ends(server, work, cli):
    run = Run(work / "runs/tiny")
    server.start(work, LONG)
    server.until("loss", run.metrics_file)
    message = (
        "error: run 'tiny' is being trained by another process\nWait for it, or stop "
        "it; then resume.\n"
    )
    for _ in range(2):  # looking does not take the lock
        assert "tiny\ttraining\t" in cli("runs").out
        assert cli("train --resume tiny") == (2, "", message)
    server.process.kill()
    assert server.wait() == -signal.SIGKILL
    assert not is_training(run)
    with training_lock(run):
        assert is_training(run)
        with refused("is being trained"), training_lock(run):
            pass
