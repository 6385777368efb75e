"""Two trainings of one run: the second is refused until the first process is dead."""

import os
import signal

import pytest
from test_stop import until

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.lock import is_training, training_lock
from seq2attn.runs.run import Run

LONG = (
    "train",
    "-c",
    "tiny.yaml",
    "--name",
    "tiny",
    "--set",
    "training.steps=1000000",
    "--set",
    "training.log_every=10",
)
LONG = (*LONG, "--set", "training.evaluate_every=1000")


def test_a_second_training_is_refused_until_the_first_ends(server, work, cli):
    pid = server.start(work, *LONG)
    until((work / "runs" / "tiny" / "training.lock").exists)
    until((work / "runs" / "tiny" / "metrics.jsonl").exists)
    assert cli("train", "--resume", "tiny") == (
        2,
        "",
        "error: run 'tiny' is being trained by another process\nWait for it, or stop it; then resume.\n",
    )
    assert "tiny\ttraining\t" in cli("runs").out
    os.kill(pid, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    with training_lock(Run(work / "runs" / "tiny")):
        assert is_training(Run(work / "runs" / "tiny"))


def test_is_training_does_not_take_the_lock(run_copy):
    assert not is_training(run_copy)
    with training_lock(run_copy):
        assert is_training(run_copy)
        with (
            pytest.raises(Seq2AttnError, match="is being trained by another process"),
            training_lock(run_copy),
        ):
            pass
        assert is_training(run_copy)
    assert not is_training(run_copy)
