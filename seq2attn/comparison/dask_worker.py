"""What a Dask worker does for a comparison: run trials in place where it sees the runs directory, or send the runs back.

A worker process runs one call at a time and needs no more than an installed seq2attn.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from seq2attn.comparison.trial import STOP_REQUEST, Job, Outcome, run_bundle
from seq2attn.config.plugins import load_plugin
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.packing import PackedRun, pack, unpack
from seq2attn.runs.records import steps_done

POLL = 0.25  # seconds
_ONE_CALL = threading.Lock()
_stopped: set[str] = set()  # tokens of the comparisons that were asked to stop
_plugins: dict[str, str] = {}  # name of a loaded plug-in's file -> checksum of its contents


@dataclass(frozen=True)
class Call:
    """Trials to run, with all that a worker on another machine needs."""

    token: str
    """of the comparison"""
    probe: Path
    """a file of the runs directory that holds the token: a worker that can read it works in place"""
    folder: Path
    """the working directory of the comparison, for the relative paths of data files"""
    bundle: bytes
    """the jobs, pickled: configs with parts of plug-ins can be read once these are loaded"""
    plugins: tuple[tuple[str, bytes], ...]
    """names and contents of files"""
    runs: dict[str, PackedRun]
    """what the trials' runs hold already"""
    versions: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """How the trials ended, and the runs of a worker that does not see the runs directory."""

    outcomes: Sequence[Outcome]
    runs: dict[str, PackedRun]


@functools.cache
def versions() -> dict[str, str]:
    """Those that must be the same everywhere; of torch without the part that names its build."""
    return {"seq2attn": metadata.version("seq2attn"), "torch": metadata.version("torch").partition("+")[0]}


def dask_setup(worker: Any) -> None:
    """As a preload of a local cluster's workers: Ctrl-C in the terminal is for the comparison alone, which tells them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def request_stop(token: str) -> None:
    """Make the running trials of this comparison save and stop."""
    _stopped.add(token)


def run_call(call: Call) -> Answer:
    """Run the trials of `call` in the calling thread. Never raises: an error becomes the outcomes."""
    import torch
    from distributed import get_worker

    worker = get_worker()
    with _ONE_CALL:
        torch.set_num_threads(1)  # of this thread
        try:
            _check_versions(call.versions, worker.address)
            _load_plugins(call)
            jobs: tuple[Job, ...] = pickle.loads(call.bundle)
            with _working_directory(call.folder), _watched(worker, call.token) as watched:
                return _run(call, jobs, watched)
        except Seq2AttnError as error:
            failed = Outcome("failed", str(error))
        except Exception as error:
            failed = Outcome("failed", f"worker {worker.address}: {type(error).__name__}: {error}")
        return Answer([failed], {})


def _run(call: Call, jobs: Sequence[Job], watched: list[Job]) -> Answer:
    if _holds(call.probe, call.token):
        watched += jobs
        return Answer(run_bundle(jobs), {})
    root = Path(tempfile.gettempdir()) / f"seq2attn-{call.token}"  # shared by the workers of this machine
    root.mkdir(mode=0o700, exist_ok=True)
    jobs = [replace(job, root=root) for job in jobs]
    for job in jobs:
        if job.trial.name in call.runs and not job.run.path.exists():
            unpack(call.runs[job.trial.name], job.run)
    watched += jobs
    outcomes = run_bundle(jobs)
    ended = [job for job, outcome in zip(jobs, outcomes, strict=True) if outcome.state != "busy"]
    runs = {job.trial.name: pack(job.run) for job in ended if job.run.config_file.is_file()}
    for job in ended:
        shutil.rmtree(job.run.path, ignore_errors=True)
    with contextlib.suppress(OSError):
        root.rmdir()  # if it is empty
    return Answer(outcomes, runs)


def _holds(probe: Path, token: str) -> bool:
    try:
        return probe.read_text() == token and os.access(probe.parent, os.W_OK)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _working_directory(folder: Path) -> Iterator[None]:
    """Work in `folder`, if this machine has it."""
    before = Path.cwd()
    with contextlib.suppress(OSError):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _watched(worker: Any, token: str) -> Iterator[list[Job]]:
    """Report the steps of the jobs that are put into the list; stop them when asked, or when nobody waits for them."""
    key, ended, jobs = worker.get_current_task(), threading.Event(), list[Job]()

    def watch() -> None:
        reported: dict[str, int] = {}
        while not ended.wait(POLL):
            task = worker.state.tasks.get(key)
            wanted = task is not None and task.state != "cancelled" and worker.status.name == "running"
            if not wanted or token in _stopped:
                STOP_REQUEST.signal = signal.SIGTERM
            steps = {job.trial.name: steps_done(job.run) for job in list(jobs)}
            if wanted and steps != reported:
                worker.log_event(token, steps)
                reported = steps

    STOP_REQUEST.signal = signal.SIGTERM if token in _stopped else None
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield jobs
    finally:
        ended.set()
        watcher.join()
        STOP_REQUEST.signal = None


def _check_versions(expected: dict[str, str], address: str) -> None:
    found = versions()
    for name, version in expected.items():
        if found[name] != version:
            raise Seq2AttnError(
                f"worker {address} has {name} {found[name]}, and this comparison {version}",
                hint="Install the same version everywhere, and start the workers again.",
                exit_code=1,
            )


def _load_plugins(call: Call) -> None:
    for name, contents in call.plugins:
        digest = hashlib.sha256(contents).hexdigest()
        if _plugins.get(name) == digest:
            continue
        if name in _plugins:
            raise Seq2AttnError(
                f"plugin {name} has changed since this worker loaded it", hint="Start the workers again."
            )
        folder = Path(tempfile.mkdtemp(prefix="seq2attn-plugin-"))  # kept: messages quote its lines
        (folder / Path(name).name).write_bytes(contents)
        load_plugin(folder / Path(name).name)
        _plugins[name] = digest
