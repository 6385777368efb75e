"""A full disk at every write, a directory that cannot be written or goes away, a clock that is set back."""

import re
import shutil

import pytest
from outcomes import same_outcome
from test_stop import until

from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import Run

TRAIN = ("train", "-c", "tiny.yaml", "--name", "tiny")
KINDS = ("half a file", "before a name", "half a record")
FULL = "No space left on device"


def refused(done, reason=FULL):
    """A failure of the work, in a sentence that names a file and the reason."""
    status, out, err = done
    assert status == 1, err
    assert "Traceback" not in err
    assert re.search(rf"^error: .+: {reason}$", err, re.MULTILINE), err
    return out, err


def checkpoints_are_whole(run):
    for file in run.path.glob("checkpoints/*"):
        if not file.name.startswith("."):
            load_checkpoint(file)


def goes_on(server, work, reference):
    run = Run(work / "runs" / "tiny")
    status, _, err = server.call(work, *(("train", "--resume", "tiny") if run.path.exists() else TRAIN))
    assert status == 0, err
    same_outcome(run, reference)


def full_from(server, reference, work, kind, count):
    """The disk is full from the `count`-th write of one kind on, and later has room again."""
    shutil.rmtree(work / "runs", ignore_errors=True)
    _, err = refused(server.call(work, *TRAIN, fault=[kind, count, True]))
    run = Run(work / "runs" / "tiny")
    checkpoints_are_whole(run)
    if run.checkpoint("last").exists():
        assert err.endswith("The last checkpoint is intact. Continue with: seq2attn train --resume tiny\n")
    goes_on(server, work, reference)


@pytest.mark.parametrize(
    ("kind", "count"), [("half a file", 9), pytest.param("half a record", 77, marks=pytest.mark.slow)]
)
def test_a_disk_that_fills_up_at_one_write(server, reference, work, kind, count):
    full_from(server, reference, work, kind, count)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fills_up_at_any_write(server, reference, work, record_figure, kind):
    assert server.call(work, *TRAIN, fault=[kind, 0])[0] == 0
    writes = int((work / "count").read_text())
    counts = range(1, writes + 1, 1 + writes // 40)
    for count in counts:
        full_from(server, reference, work, kind, count)
    record_figure(writes=len(counts))


def test_a_run_that_is_removed_during_training(server, work):
    server.start(work, *TRAIN)
    until(lambda: (work / "err").exists() and "step 4: " in (work / "err").read_text())
    (work / "runs" / "tiny").rename(work / "removed")
    status = server.wait()
    refused((status, "", (work / "err").read_text()), "No such file or directory")
    assert not (work / "runs" / "tiny").exists()
