"""Runs as bytes: what is packed, that it comes back the same, and what is refused."""

import hashlib
import io
import os
import tarfile

import pytest

from seq2attn.errors import Seq2AttnError
from seq2attn.runs import packing
from seq2attn.runs.lock import BeingTrained, training_lock
from seq2attn.runs.packing import PackedRun, pack, unpack
from seq2attn.runs.run import Run


def contents(run):
    files = [path for path in run.path.rglob("*") if path.is_file()]
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in files}


def packed_as(*members):
    """What a worker would send whose tar file holds these `TarInfo`s, or names of files with their contents."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for member, data in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return PackedRun(archive.getvalue(), hashlib.sha256(archive.getvalue()).hexdigest())


def link(name, kind):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


CONFIG = ("config.yaml", b"seed: 1\n")


def test_a_run_comes_back_the_same(runs_copy, tmp_path):
    run, other = Run(runs_copy / "tiny"), Run(tmp_path / "elsewhere" / "tiny")
    unpack(pack(run), other)
    assert contents(other) == contents(run)
    assert {"config.yaml", "metrics.jsonl", "checkpoints/last.safetensors"} <= contents(other).keys()
    assert [path.name for path in other.path.parent.iterdir()] == ["tiny"]


def test_only_the_run_s_own_plain_files_are_packed(runs_copy, tmp_path):
    run, other = Run(runs_copy / "tiny"), Run(tmp_path / "other")
    before = contents(run)
    run.lock_file.write_text("1\n")
    (run.path / ".config.yaml.1-12345678").write_text("cut")
    (run.path / "secret").symlink_to("/etc/passwd")
    (run.path / "mine").mkdir()
    (run.path / "mine" / "notes").write_text("not seq2attn's")
    unpack(pack(run), other)
    assert contents(other) == before


def test_a_newer_state_replaces_the_older_one_and_leaves_other_files(runs_copy):
    run = Run(runs_copy / "tiny")
    packed = pack(run)
    whole = contents(run)
    run.metrics_file.write_text("")
    run.checkpoint("last").unlink()
    (run.path / "notes.txt").write_text("mine")
    unpack(packed, run)
    assert contents(run) == {**whole, "notes.txt": b"mine"}


def test_the_status_is_written_last_and_checkpoints_after_records(runs_copy, monkeypatch):
    written = []
    monkeypatch.setattr(packing, "write_atomically", lambda path, data: written.append(path.name))
    unpack(pack(Run(runs_copy / "tiny")), Run(runs_copy / "other"))
    assert written[-3:] == ["best.safetensors", "last.safetensors", "status.json"]


def test_a_run_that_is_trained_here_is_not_overwritten(runs_copy):
    run = Run(runs_copy / "tiny")
    packed = pack(run)
    before = contents(run)
    with training_lock(run), pytest.raises(BeingTrained):
        unpack(packed, run)
    assert contents(run) == before


@pytest.mark.parametrize(
    "member",
    [
        ("/tmp/outside", b""),
        ("../outside", b""),
        ("checkpoints/../../outside", b""),
        ("checkpoints/deep/outside", b""),
        (".hidden", b""),
        ("C:\\outside", b""),
        (link("metrics.jsonl", tarfile.SYMTYPE), b""),
        (link("metrics.jsonl", tarfile.LNKTYPE), b""),
        (link("metrics.jsonl", tarfile.FIFOTYPE), b""),
        (link("checkpoints", tarfile.DIRTYPE), b""),
        CONFIG,
    ],
    ids=lambda member: getattr(member[0], "name", member[0]),
)
def test_anything_but_files_of_a_run_is_refused_before_anything_is_written(tmp_path, member):
    with pytest.raises(Seq2AttnError, match=r"run 'a' as sent by a worker is refused: it holds .*not a file of a run"):
        unpack(packed_as(CONFIG, member), Run(tmp_path / "a"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda packed: PackedRun(packed.data[:-1], packed.sha256), "its checksum does not match"),
        (lambda packed: PackedRun(b"x" * 600, hashlib.sha256(b"x" * 600).hexdigest()), "it cannot be read"),
        (lambda packed: packed_as(("status.json", b"{}")), "it has no config.yaml"),
        (lambda packed: packed_as(CONFIG, *[(f"f{number}", b"") for number in range(4)]), "more than 4 files"),
        (lambda packed: packed_as(CONFIG, ("big", b"x" * 20_000)), "larger than 20,000 bytes"),
    ],
)
def test_damaged_or_oversized_bytes_are_refused(tmp_path, monkeypatch, change, reason):
    monkeypatch.setattr(packing, "MOST_FILES", 4)
    monkeypatch.setattr(packing, "LARGEST", 20_000)
    with pytest.raises(Seq2AttnError, match=reason):
        unpack(change(packed_as(CONFIG)), Run(tmp_path / "a"))
    assert os.listdir(tmp_path) == []
