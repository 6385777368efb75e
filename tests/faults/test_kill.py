"""kill -9 or a full disk at any moment: the resumed run is bit-identical, and every step is
recorded once.
"""

import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from forks import RESUME, TRAIN
from inline import change_json, read
from outcomes import same_outcome

from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import Run

KINDS = ("half a file", "before a name", "after a name", "half a record")
WRITES = {"cutting": 2, "half a record": 150}  # in one training, at least; 15 of each other kind
PAIRS = """\
task: {name: pairs, train: train.tsv, dev: dev.tsv}
model: {hidden: 8, embedding: 4, bidirectional: true, dropout: 0.2, attention: {score: additive}}
training: {epochs: 4, batch_size: 4, log_every: 1, patience: 9, snapshots: 1, watched: a,
  losses: {name: cross_entropy, label_smoothing: 0.1}}
"""
PAIRS_COMMANDS = ("train -c pairs.yaml --name tiny", RESUME)
WIDE = "--set model.hidden=64 --set training.batch_size=256 --set training.steps=3"


def refused(err, reason):
    """A failure of the work, in a sentence that names a file and the reason."""
    assert "Traceback" not in err
    assert re.search(rf"^error: .+: {reason}$", err, re.MULTILINE), err


def strike(server, reference, work, *fault):
    """A training that is killed at one write, or whose disk is full from then on, and the same
    without the fault.
    """
    shutil.rmtree(work / "runs", ignore_errors=True)
    status, _, err = server.call(work, TRAIN, fault=fault)
    run = Run(work / "runs/tiny")
    full = len(fault) == 3
    for file in run.path.glob("checkpoints/[!.]*"):
        load_checkpoint(file)
    if full:
        refused(err, "No space left on device")
        hint = "The last checkpoint is intact. Continue with: seq2attn train --resume tiny\n"
        assert status == 1
        assert err.endswith(hint) == run.checkpoint("last").exists()
    else:
        assert status == -signal.SIGKILL
        listed = server.call(work, "runs").out
        assert not run.path.exists() or re.search("^tiny\t(stopped|no checkpoint)\t", listed, re.M)
    server.complete(work, reference)


@pytest.mark.parametrize("fault", [("half a file", 9, True), ("half a record", 60)], ids=str)
def test_a_fault_at_one_write(server, reference, work, fault):
    strike(server, reference, work, *fault)


@pytest.mark.slow
@pytest.mark.parametrize("full", [(), (True,)], ids=["kill", "full disk"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_every_other_write(server, reference, work, record_figure, kind, full):
    server.call(work, TRAIN, fault=(kind, 0)).check()
    writes = int(read(work / "count"))
    counts = range(1, writes + 1, 2 + writes // 40)
    for count in counts:
        strike(server, reference, work, kind, count, *full)
    record_figure(writes=len(counts))


def torture(server, reference, work, seed, kills, commands=(TRAIN, RESUME)):
    """Trainings that are killed up to three times and then resumed, until `kills` have been
    survived.
    """
    choose = random.Random(seed)
    survived = 0
    while survived < kills:
        shutil.rmtree(work / "runs", ignore_errors=True)
        for _ in range(choose.choice((1, 1, 2, 3))):
            kind = choose.choice((*KINDS, "cutting"))
            fault = (
                (kind, choose.randint(1, WRITES.get(kind, 15))) if choose.random() < 0.5 else None
            )
            server.start(work, commands[(work / "runs/tiny").exists()], fault=fault)
            if fault is None:
                time.sleep(choose.uniform(0, 1.2))
                server.process.kill()
            survived += server.wait() == -signal.SIGKILL
        server.complete(work, reference, commands)
    return survived


@pytest.mark.slow
def test_a_hundred_killed_trainings_resume_to_identical_weights(
    server, reference, work, record_figure
):
    record_figure(kills=torture(server, reference, work, seed=20, kills=100))


def test_a_killed_training_on_pairs_resumes_to_identical_weights(server, work):
    words = "ab ba aab abb b a bab aba bba abab".split()
    for name, chosen in (("train.tsv", words), ("dev.tsv", ["bb", "aa", "abba"])):
        (work / name).write_text("".join(f"{word}\t{word[::-1]}\n" for word in chosen))
    (work / "pairs.yaml").write_text(PAIRS)
    server.call(work, PAIRS_COMMANDS[0]).check()
    reference = Run((work / "runs").rename(work / "undisturbed") / "tiny")
    torture(server, reference, work, seed=2, kills=1, commands=PAIRS_COMMANDS)


def test_a_kill_between_checkpoint_and_status(server, reference, run_copy, work):
    change_json(run_copy.status_file, state="training", step=20)
    server.complete(work, reference)


@pytest.mark.slow
def test_a_killed_comparison_continues_with_the_same_command(server, work, cli, trials_here):
    words = "compare -c tiny.yaml --vary seed=1-2 --name e --workers 1"
    server.start(work, words)
    server.until("loss", Path(work / "runs/e-seed_2/metrics.jsonl"))
    server.process.kill()
    server.wait()
    assert len(cli(words).rows()) == 2
    runs = (work / "runs").glob("e-seed_*")
    assert [len(list(run.glob("evaluations/*"))) for run in runs] == [1, 1]


def test_a_run_that_is_removed_during_training(server, work):
    server.start(work, TRAIN)
    server.until("step 4: ", work / "err")
    (work / "runs/tiny").rename(work / "removed")
    assert server.wait() == 1
    err = read(work / "err")
    refused(err, "No such file or directory")
    assert "intact" not in err
    assert not (work / "runs/tiny").exists()


def test_training_is_deterministic_with_threads(server, work):
    for name in ("one", "two"):
        server.call(work, f"train -c tiny.yaml --name {name} {WIDE} --threads 2").check()
    one, two = (Run(work / "runs" / name) for name in ("one", "two"))
    assert one.environment.threads == 2
    same_outcome(one, two)
