import errno
import json
import os
import stat

import pytest

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically, write_json


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "value.bin"
    path.write_bytes(b"old")
    return path


def only_file(path):
    return [other.name for other in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(target, monkeypatch, call, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr(os, call, fail)
    with pytest.raises((Seq2AttnError, KeyboardInterrupt)) as caught:
        write_atomically(target, b"new")
    if isinstance(fault, OSError):
        assert caught.value.exit_code == 1
        assert caught.value.message == f"{target}: cannot be written: No space left on device"
    assert target.read_bytes() == b"old"
    assert only_file(target)


def test_data_is_synced_before_the_rename(target, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
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


@pytest.mark.parametrize("name", ["missing/file", "file/below"])
def test_a_missing_directory_is_reported(tmp_path, name):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(Seq2AttnError, match="cannot be written") as caught:
        write_atomically(tmp_path / name, b"data")
    assert caught.value.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_json_is_indented_and_ends_with_a_newline(tmp_path):
    value = {"name": "naïve", "numbers": [1, 2.5, None], "bytes": "\udcff"}
    write_json(tmp_path / "value.json", value)
    text = (tmp_path / "value.json").read_text(encoding="utf-8")
    assert json.loads(text) == {**value, "bytes": "?"}
    assert text.startswith('{\n  "name": "naïve",\n')
    assert text.endswith("}\n")
