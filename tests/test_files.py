import errno
import json
import os
import stat
import struct
import tracemalloc

import pytest
from inline import read, write
from refusal import refused
from tables import table

import seq2attn
from seq2attn.files import write_atomically, write_json
from seq2attn.runs import records


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "value.bin"
    path.write_bytes(b"old")
    return path


def only_file(path):
    return os.listdir(path.parent) == [path.name]


@table(
    "call",
    """
replace
fsync
""",
)
@pytest.mark.parametrize(
    "fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failed_write_keeps_the_old_file(target, monkeypatch, call, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr(os, call, fail)
    with pytest.raises((seq2attn.Seq2AttnError, KeyboardInterrupt)) as caught:
        write_atomically(target, b"new")
    if isinstance(fault, OSError):
        assert caught.value.exit_code == 1
        assert caught.value.message == f"{target}: cannot be written: No space left on device"
    assert target.read_bytes() == b"old"
    assert only_file(target)


def test_data_is_synced_before_the_rename(target, monkeypatch):
    order = []
    sync = os.fsync
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (order.append("sync"), sync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *names: (order.append("replace"), replace(*names)))
    write_atomically(target, b"new")
    assert order == ["sync", "replace", "sync"]  # the file, its name, the directory
    assert target.read_bytes() == b"new"
    assert only_file(target)


def test_a_directory_that_cannot_be_synced_is_ignored(target, monkeypatch):
    sync = os.fsync

    def files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")  # what some network disks answer
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"


@table(
    "name",
    """
missing/file
file/below
""",
)
def test_a_missing_directory_is_reported(tmp_path, name):
    write(tmp_path / "file", "not a directory")
    with refused("cannot be written") as caught:
        write_atomically(tmp_path / name, b"data")
    assert caught.value.exit_code == 1
    assert os.listdir(tmp_path) == ["file"]


def test_json_is_indented_and_ends_with_a_newline(tmp_path):
    value = {"name": "naïve", "numbers": [1, 2.5, None], "bytes": "\udcff"}
    write_json(tmp_path / "value.json", value)
    text = read(tmp_path / "value.json")
    assert json.loads(text) == value
    assert text.startswith('{\n  "name": "naïve",\n')
    assert text.endswith("}\n")


# ---- foreign files, which may be far larger than they look on a disk ----

LARGE = "cannot be read: larger than 200,000,000 bytes"
TENSOR = (
    '{"x": {"dtype": "F32", "shape": [975000000], "data_offsets": [0, 3900000000]}, '
    '"__metadata__": {}}'
)
CHECKPOINT = struct.pack("<Q", len(TENSOR)) + TENSOR.encode()


@table(
    "file, command, message",
    f"""
tiny/metrics.jsonl | plot accuracy --plot x.svg | {LARGE}
tiny/attention.jsonl | plot attention --plot map.svg | {LARGE}
tiny/evaluations/best-001.json | plot accuracy --by-length --plot a.svg | {LARGE}
tiny/environment.json | eval --samples 1 --lengths 1 | nothing
tiny/status.json | runs | nothing
tiny/config.yaml | inspect tiny | cannot be read: larger than 200,000 bytes
tiny/checkpoints/best.safetensors | predict ab | damaged: its size is 3,900,00
.grid.comparison.json | report grid | {LARGE}
""",
)  # file, a command, and what it says of the file
def test_a_sparse_file_is_refused_before_it_fills_the_memory(
    cli, runs_copy, file, command, message
):
    path = runs_copy / file
    path.parent.mkdir(exist_ok=True)
    if file.endswith("safetensors"):
        path.write_bytes(CHECKPOINT)
    path.touch()
    os.truncate(path, len(CHECKPOINT) + 3_900_000_000)
    tracemalloc.start()
    try:
        done = cli(command)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    refused = message != "nothing"
    assert (done.code > 0) == refused
    assert "Traceback" not in done.err
    assert (f"runs/{file}: {message}" in done.err) == refused
    assert (
        f"{LARGE}\nMove it elsewhere: the run can be used without it." in done.err
    ) == file.endswith("jsonl")
    assert peak < 80_000_000


def test_a_link_to_a_config_is_followed(cli):
    write("real.yaml", "seed: 5\n")
    os.symlink("real.yaml", "link.yaml")
    assert "seed: 5" in cli("inspect link.yaml").check().out


def test_a_log_has_a_bounded_number_of_lines(cli, runs_copy, monkeypatch):
    lines = len((runs_copy / "tiny/metrics.jsonl").read_bytes().splitlines())
    monkeypatch.setattr(records, "MAX_LINES", lines)
    cli("plot accuracy --plot accuracy.svg").check()
    monkeypatch.setattr(records, "MAX_LINES", lines - 1)
    assert (
        f"runs/tiny/metrics.jsonl: cannot be read: it has more than {lines - 1} lines"
        in cli("plot accuracy --plot a.svg").err
    )
