"""kill -9 at any moment: the resumed run is bit-identical, and every step is recorded once."""

import contextlib
import json
import os
import random
import shutil
import signal
import time

import pytest
from outcomes import same_outcome

from seq2attn.runs.run import Run

KINDS = ("half a file", "before a name", "after a name", "half a record")
WRITES = 15  # of each kind in one training, at least
TRAIN = ("train", "-c", "tiny.yaml", "--name", "tiny")
RESUME = ("train", "--resume", "tiny")


def begin(work):
    """The command after a crash: resume the run, or start it if it does not exist."""
    return RESUME if (work / "runs" / "tiny").exists() else TRAIN


def killed_some_time(server, work, choose):
    """Kill the training after a random time; whether it was still running."""
    pid = server.start(work, *begin(work))
    time.sleep(choose.uniform(0, 1.2))
    with contextlib.suppress(ProcessLookupError):  # it may have ended before
        os.kill(pid, signal.SIGKILL)
    return server.wait() == -signal.SIGKILL


def killed_in_a_write(server, work, choose):
    """Make the training kill itself in the middle of one of its writes."""
    kind = choose.choice((*KINDS, "cutting") if begin(work) == RESUME else KINDS)
    fault = [kind, choose.randint(1, 2 if kind == "cutting" else WRITES)]
    return server.call(work, *begin(work), fault=fault)[0] == -signal.SIGKILL


def torture(server, reference, work, seed, kills):
    """Trainings that are killed once or twice and then resumed, until `kills` have been survived; how many trainings."""
    choose = random.Random(seed)
    done = trainings = 0
    while done < kills:
        shutil.rmtree(work / "runs", ignore_errors=True)
        here = 0
        for _ in range(choose.choice((1, 1, 2, 3))):
            here += choose.choice((killed_some_time, killed_in_a_write))(server, work, choose)
        status, _, err = server.call(work, *begin(work))
        assert status == 0, err
        same_outcome(Run(work / "runs" / "tiny"), reference)
        done += here
        trainings += here > 0
    return done, trainings


def test_a_killed_training_resumes_to_identical_weights(server, reference, work):
    torture(server, reference, work, seed=1, kills=1)


@pytest.mark.slow
def test_a_hundred_killed_trainings_resume_to_identical_weights(server, reference, work, record_figure):
    done, trainings = torture(server, reference, work, seed=20, kills=100)
    record_figure(kills=done, trainings_resumed_to_identical_bytes=trainings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_every_other_write(server, reference, work, record_figure, kind):
    assert server.call(work, *TRAIN, fault=[kind, 0])[0] == 0
    counts = range(1, int((work / "count").read_text()) + 1, 2)
    for count in counts:
        shutil.rmtree(work / "runs", ignore_errors=True)
        assert server.call(work, *TRAIN, fault=[kind, count])[0] == -signal.SIGKILL
        assert server.call(work, *begin(work))[0] == 0
        same_outcome(Run(work / "runs" / "tiny"), reference)
    record_figure(kills=len(counts))


def test_a_killed_run_is_listed_as_stopped(server, work):
    assert server.call(work, *TRAIN, fault=["half a record", 12])[0] == -signal.SIGKILL
    assert "tiny\tstopped\t" in server.call(work, "runs")[1]


def test_a_kill_between_checkpoint_and_status(server, reference, run_copy, work):
    run_copy.status_file.write_text(json.dumps({**run_copy.status().to_json(), "state": "training", "step": 20}))
    assert server.call(work, *RESUME)[0] == 0
    same_outcome(run_copy, reference)
