"""A run as bytes, to send it to another machine. What comes back is checked before anything is written. Imports no torch."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import not_written, read_plain, write_atomically
from seq2attn.runs.lock import training_lock
from seq2attn.runs.run import Run

LARGEST = 1 << 32  # bytes of a run
MOST_FILES = 10_000
_NAME = re.compile(r"((checkpoints|evaluations)/)?[A-Za-z0-9_][A-Za-z0-9._-]*")  # of a run's own files: none is hidden


@dataclass(frozen=True)
class PackedRun:
    """The plain files of a run as a tar file, and its checksum."""

    data: bytes
    sha256: str


def pack(run: Run) -> PackedRun:
    """The files of `run` that seq2attn writes, but for its lock. Links are left out."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in (run.path, run.checkpoints, run.evaluations):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                name = path.relative_to(run.path).as_posix()
                if path == run.lock_file or path.is_symlink() or not path.is_file() or not _NAME.fullmatch(name):
                    continue
                member = tarfile.TarInfo(name)
                contents = read_plain(path, LARGEST)
                member.size = len(contents)
                tar.addfile(member, io.BytesIO(contents))
    data = archive.getvalue()
    return PackedRun(data, hashlib.sha256(data).hexdigest())


def unpack(packed: PackedRun, run: Run) -> None:
    """Write the files of `packed` into `run`, which may exist: the newer checkpoint and status last.

    Raises `Seq2AttnError`, before anything is written, if the bytes are damaged or hold anything but files of a run; and
    `BeingTrained` if a process of this machine trains the run.
    """
    files = _read(packed, run)
    if run.path.exists():
        with training_lock(run):
            _write(files, run)
        return
    made = Run(run.path.with_name(f".new-{secrets.token_hex(8)}"))
    try:
        made.path.mkdir(parents=True)
        _write(files, made)
        made.path.rename(run.path)
    except OSError as error:
        raise not_written(run.path, error) from error
    finally:
        shutil.rmtree(made.path, ignore_errors=True)


def _write(files: dict[str, bytes], run: Run) -> None:
    """In an order in which a run that lacks the rest can be continued: checkpoints after records, the status last."""
    for folder in (run.checkpoints, run.evaluations):
        folder.mkdir(exist_ok=True)
    last = run.status_file.name
    for name in sorted(files, key=lambda name: (name == last, name.startswith("checkpoints/"), name)):
        write_atomically(run.path / name, files[name])


def _read(packed: PackedRun, run: Run) -> dict[str, bytes]:
    """The files by name, all checked."""
    if len(packed.data) > LARGEST:
        raise _refused(run, f"larger than {LARGEST:,} bytes")
    if hashlib.sha256(packed.data).hexdigest() != packed.sha256:
        raise _refused(run, "its checksum does not match")
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed.data), mode="r:") as tar:
            for member in tar:
                if not member.isreg() or member.issparse() or not _NAME.fullmatch(member.name) or member.name in files:
                    raise _refused(run, f"it holds {member.name[:100]!r}, which is not a file of a run")
                if len(files) == MOST_FILES:
                    raise _refused(run, f"it holds more than {MOST_FILES:,} files")
                contents = tar.extractfile(member)
                assert contents is not None, "it is a plain file"
                files[member.name] = contents.read()
    except (tarfile.TarError, OSError, ValueError) as error:
        raise _refused(run, f"it cannot be read: {error}") from None
    if Run(Path()).config_file.name not in files:
        raise _refused(run, "it has no config.yaml")
    return files


def _refused(run: Run, reason: str) -> Seq2AttnError:
    return Seq2AttnError(f"run {run.name!r} as sent by a worker is refused: {reason}", exit_code=1)
