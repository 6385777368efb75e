"""A full disk at every write, a directory that cannot be written or goes away, a clock that is set back."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
from outcomes import same_outcome
from test_stop import until

from seq2attn.build import build_model
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.run import Run

TRAIN = ("train", "-c", "tiny.yaml", "--name", "tiny")
KINDS = ("half a file", "before a name", "half a record")
ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root mounts a small disk")
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


@pytest.fixture
def disk(work):
    """`disk(size)`: `runs` is a file system of its own of that many KiB."""
    folder = work / "runs"
    folder.mkdir()
    mounted = []

    def mount(size, *options):
        remount = ("remount",) if mounted else ()
        words = ",".join([*remount, f"size={size}k", *options])
        subprocess.run(["mount", "-t", "tmpfs", "-o", words, "tmpfs", str(folder)], check=True)
        mounted.append(size)

    yield mount
    if mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@ROOT
@pytest.mark.parametrize("size", [pytest.param(size, marks=pytest.mark.slow) for size in range(8, 240, 8)])
def test_a_small_disk(server, reference, work, disk, size):
    disk(size)
    done = server.call(work, *TRAIN)
    if done[0] == 0:  # it was not too small
        return
    refused(done)
    run = Run(work / "runs" / "tiny")
    if run.path.exists():
        checkpoints_are_whole(run)
    disk(10_000)
    goes_on(server, work, reference)


def fill(path):
    """Write until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@ROOT
@pytest.mark.slow
def test_a_full_disk_in_other_commands(server, reference, work, disk):
    disk(4_000)
    shutil.copytree(reference.path, work / "runs" / "tiny")
    old = work / "runs" / "map.png"
    old.write_bytes(b"the old figure")
    fill(work / "runs" / "filler")
    out, err = refused(server.call(work, "eval", "tiny", "--lengths", "1"))
    assert out.startswith("length\t")
    assert "runs/tiny/evaluations" in err
    refused(server.call(work, "predict", "ab", "--run", "tiny", "--plot", "runs/map.png"))
    assert old.read_bytes() == b"the old figure"
    refused(server.call(work, "train", "-c", "tiny.yaml"))
    assert sorted(path.name for path in (work / "runs").iterdir()) == ["filler", "map.png", "tiny"]


@ROOT
@pytest.mark.slow
def test_a_read_only_disk(server, reference, work, disk):
    disk(4_000)
    shutil.copytree(reference.path, work / "runs" / "tiny")
    (work / "runs" / "tiny" / "checkpoints" / "last.safetensors").unlink()
    disk(4_000, "ro")
    for command in (TRAIN[:3], ("train", "--resume", "tiny")):
        refused(server.call(work, *command), "Read-only file system")
    out, err = refused(server.call(work, "eval", "tiny", "--lengths", "1"), "Read-only file system")
    assert out.startswith("length\t")
    assert "runs/tiny/evaluations" in err
    assert server.call(work, "predict", "ab", "--run", "tiny")[0] == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_directory(server, reference, run_copy, work):
    run_copy.checkpoint("last").unlink()
    run_copy.path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        refused(server.call(work, "train", "--resume", "tiny"), "Permission denied")
    finally:
        run_copy.path.chmod(0o755)


def test_a_run_that_is_removed_during_training(server, work):
    server.start(work, *TRAIN)
    until(lambda: (work / "err").exists() and "step 4: " in (work / "err").read_text())
    (work / "runs" / "tiny").rename(work / "removed")
    status = server.wait()
    refused((status, "", (work / "err").read_text()), "No such file or directory")
    assert not (work / "runs" / "tiny").exists()


@pytest.mark.slow
def test_divergence_is_reported(server, work):
    words = (
        "--set",
        "training.learning_rate=1e6",
        "--set",
        "training.weight_decay=0.3",
        "--set",
        "training.evaluate_every=3",
    )
    status, _, err = server.call(work, *TRAIN, *words)
    assert status == 1
    assert re.search(
        r"^error: training diverged at step \d+: loss (nan|inf|[0-9.e+]+), gradient norm (nan|inf)$", err, re.M
    )
    assert err.endswith(
        "\nThe last checkpoint is from before the divergence. Try a smaller training.learning_rate, or a warm-up.\n"
    )
    run = Run(work / "runs" / "tiny")
    assert run.status().state == "failed"
    load_weights(run.checkpoint("last"), load_checkpoint(run.checkpoint("last")), build_model(run.config()))


@pytest.mark.slow
def test_a_clock_set_back_does_not_change_a_resumed_run(server, reference, work, monkeypatch):
    assert server.call(work, *TRAIN, fault=["half a record", 60])[0] < 0
    run = Run(work / "runs" / "tiny")
    (events,) = run.path.glob("events.out.*")
    assert events.stat().st_size > 0
    checkpoint = load_checkpoint(run.checkpoint("last"))
    later = events.with_name(re.sub(r"\.\d{10}\.", f".{int(time.time()) + 10**7}.", events.name))
    events.rename(later)
    data = run.checkpoint("last").read_bytes()
    assert events.name in checkpoint.state["positions"]
    with monkeypatch.context():
        rename_in_checkpoint(run.checkpoint("last"), checkpoint, events.name, later.name)
    assert run.checkpoint("last").read_bytes() != data
    goes_on(server, work, reference)


def rename_in_checkpoint(path: Path, checkpoint, old, new):
    from seq2attn.runs.checkpoint import save_checkpoint

    positions = checkpoint.state["positions"]
    positions[new] = positions.pop(old)
    save_checkpoint(path, checkpoint.tensors, checkpoint.state)
