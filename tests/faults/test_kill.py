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
WRITES = {"cutting": 2, "half a record": 150}  # in one training, at least; 15 of each other kind
TRAIN = ("train", "-c", "tiny.yaml", "--name", "tiny")
RESUME = ("train", "--resume", "tiny")
COMMANDS = (TRAIN, RESUME)
PAIRS = """\
task: {name: pairs, train: train.tsv, dev: dev.tsv}
model: {hidden: 8, embedding: 4, bidirectional: true, dropout: 0.2, attention: {score: additive}}
training: {epochs: 4, batch_size: 4, log_every: 1, label_smoothing: 0.1, patience: 9}
"""
PAIRS_COMMANDS = (("train", "-c", "pairs.yaml", "--name", "tiny"), (*RESUME, "-c", "pairs.yaml"))


def begin(work, commands=COMMANDS):
    """The command after a crash: resume the run, or start it if it does not exist."""
    return commands[(work / "runs" / "tiny").exists()]


def killed_some_time(server, work, choose, commands):
    """Kill the training after a random time; whether it was still running."""
    pid = server.start(work, *begin(work, commands))
    time.sleep(choose.uniform(0, 1.2))
    with contextlib.suppress(ProcessLookupError):  # it may have ended before
        os.kill(pid, signal.SIGKILL)
    return server.wait() == -signal.SIGKILL


def killed_in_a_write(server, work, choose, commands):
    """Make the training kill itself in the middle of one of its writes."""
    command = begin(work, commands)
    kind = choose.choice((*KINDS, "cutting") if command == commands[1] else KINDS)
    fault = [kind, choose.randint(1, WRITES.get(kind, 15))]
    return server.call(work, *command, fault=fault)[0] == -signal.SIGKILL


def torture(server, reference, work, seed, kills, commands=COMMANDS):
    """Trainings that are killed once or twice and then resumed, until `kills` have been survived; how many trainings."""
    choose = random.Random(seed)
    done = trainings = 0
    while done < kills:
        shutil.rmtree(work / "runs", ignore_errors=True)
        here = 0
        for _ in range(choose.choice((1, 1, 2, 3))):
            here += choose.choice((killed_some_time, killed_in_a_write))(server, work, choose, commands)
        status, _, err = server.call(work, *begin(work, commands))
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


@pytest.fixture
def on_pairs(server, work):
    """An undisturbed run on files of pairs; the files are in `work`, where another is trained."""
    words = ["ab", "ba", "aab", "abb", "b", "a", "bab", "aba", "bba", "abab"]
    for name, chosen in (("train.tsv", words), ("dev.tsv", ["bb", "aa", "abba"])):
        (work / name).write_text("".join(f"{word}\t{word[::-1]}\n" for word in chosen))
    (work / "pairs.yaml").write_text(PAIRS)
    status, _, err = server.call(work, *PAIRS_COMMANDS[0])
    assert status == 0, err
    return Run((work / "runs").rename(work / "undisturbed") / "tiny")


def test_a_killed_training_on_pairs_resumes_to_identical_weights(server, on_pairs, work):
    torture(server, on_pairs, work, seed=2, kills=2, commands=PAIRS_COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_every_other_write(server, reference, work, record_figure, kind):
    assert server.call(work, *TRAIN, fault=[kind, 0])[0] == 0
    writes = int((work / "count").read_text())
    counts = range(1, writes + 1, 2 + writes // 40)
    for count in counts:
        shutil.rmtree(work / "runs", ignore_errors=True)
        assert server.call(work, *TRAIN, fault=[kind, count])[0] == -signal.SIGKILL
        assert server.call(work, *begin(work))[0] == 0
        same_outcome(Run(work / "runs" / "tiny"), reference)
    record_figure(kills=len(counts))


def test_a_killed_run_is_listed_as_stopped(server, work):
    assert server.call(work, *TRAIN, fault=["half a record", 60])[0] == -signal.SIGKILL
    assert "tiny\tstopped\t" in server.call(work, "runs")[1]


def test_a_kill_between_checkpoint_and_status(server, reference, run_copy, work):
    status = json.loads(run_copy.status_file.read_text())
    run_copy.status_file.write_text(json.dumps({**status, "state": "training", "step": 20}))
    assert server.call(work, *RESUME)[0] == 0
    same_outcome(run_copy, reference)
