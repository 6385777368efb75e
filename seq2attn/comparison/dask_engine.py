"""Dask as the place where trials run: a cluster's scheduler, or a cluster of this machine (`pip install "seq2attn[dask]"`).

Workers that see the runs directory work in place. Others send each run back as bytes. What a lost worker was doing is done
again by another, from the last checkpoint if it can reach that: in the runs directory, or on the same machine.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import pickle
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2attn.comparison.dask_worker import Answer, Call, request_stop, run_call, versions
from seq2attn.comparison.engine import Bundle, Engine, EngineLost
from seq2attn.comparison.trial import Job, Outcome, find_evaluation
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import not_written
from seq2attn.runs.lock import BeingTrained, is_training, remote_lock
from seq2attn.runs.machine import available_cores
from seq2attn.runs.packing import pack, unpack

ANSWER = 10  # seconds for a scheduler to answer
LEAN = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}
"""of workers: without sampling their calls a hundred times a second, and with fewer looks at their event loop"""
STOP_AGAIN = 1.0  # seconds after which a request to stop is sent again: a worker may have joined
KILLED = "the workers that ran it died: killed, or out of memory"


def open_dask(address: str | None, root: Path, plugins: Sequence[str] = (), workers: int | None = None) -> DaskEngine:
    """The engine of the scheduler at `address`, or of a cluster of this machine, whose `workers` are by default one a core.

    Raises `Seq2AttnError` if it cannot be reached, or if a worker cannot run trials: its versions, its threads.
    """
    distributed = _import()
    cluster = None
    if address is None:
        import dask

        with dask.config.set(LEAN):
            cluster = distributed.LocalCluster(
                n_workers=workers or available_cores(),
                threads_per_worker=1,
                dashboard_address=":0",
                preload="seq2attn.comparison.dask_worker",
            )
    try:
        client = distributed.Client(cluster or address, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = "Start one with: dask scheduler    and workers with: dask worker ADDRESS --nthreads 1"
        raise Seq2AttnError(f"no Dask scheduler answers at {address}: {error}", hint=hint, exit_code=1) from None
    try:
        _check_workers(client, versions())
    except Seq2AttnError:
        client.close()
        raise
    return DaskEngine(client, cluster, root, plugins)


def _import() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise Seq2AttnError(
            f"--executor dask needs the package distributed ({error})", hint='Install it: pip install "seq2attn[dask]"'
        ) from None
    for name in ("distributed", "distributed.client", "distributed.nanny", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is in our messages
    return distributed


def _check_workers(client: Any, needed: dict[str, str]) -> None:
    """Raise `Seq2AttnError` if a worker of now cannot run trials; those that join later check themselves."""
    for address, threads in client.nthreads().items():
        if threads != 1:
            raise Seq2AttnError(
                f"worker {address} has {threads} threads; trials need worker processes of one thread each",
                hint="Start workers with: dask worker ADDRESS --nthreads 1 --nworkers N",
                exit_code=1,
            )
    for address, found in client.run(versions, on_error="return").items():
        if found != needed:
            theirs = f"it reports {found!r}" if isinstance(found, Exception) else f"it has {_listed(found)}"
            raise Seq2AttnError(
                f"worker {address} cannot run these trials: they need {_listed(needed)}, and {theirs}",
                hint="Install the same versions there, and start the worker again.",
                exit_code=1,
            )


def _listed(found: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in found.items())


class DaskEngine(Engine):
    """The trials of one comparison on a Dask cluster."""

    def __init__(self, client: Any, cluster: Any, root: Path, plugins: Sequence[str]) -> None:
        self.client = client
        self.cluster = cluster
        self.root = root.resolve()
        self.plugins = tuple((name, Path(name).read_bytes()) for name in plugins)
        self.versions = versions()
        self.token = secrets.token_hex(16)
        self.address = client.scheduler.address
        self._steps: dict[str, int] = {}
        self._tasks: dict[Future[Sequence[Outcome]], Any] = {}
        self._stopping = False
        self._workers, self._counted = 0, -1.0
        self.probe = self.root / f".probe-{self.token}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.probe.write_text(self.token)
        except OSError as error:
            raise not_written(self.root, error) from error
        client.subscribe_topic(self.token, self._hear)

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """`run_bundle` and a bundle of jobs; those that somebody else is at work on, or has done, are not sent."""
        (bundle,) = arguments
        result: Future[Sequence[Outcome]] = Future()
        known: dict[str, Outcome] = {}
        claims = contextlib.ExitStack()  # as long as they are away, others see that they are being trained
        for job in bundle:
            try:
                if is_training(job.run):
                    raise BeingTrained(f"run {job.trial.name!r} is being trained by another process")
                claims.enter_context(remote_lock(job.run))
                if find_evaluation(job.trial, job.root) is not None:
                    known[job.trial.name] = Outcome("done")
            except BeingTrained as error:
                known[job.trial.name] = Outcome("busy", error.message)
        sent = tuple(replace(job, root=self.root, claimed=True) for job in bundle if job.trial.name not in known)
        if not sent:
            claims.close()
            result.set_result([known[job.trial.name] for job in bundle])
            return result
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a run which is sent along is large
            task = self.client.submit(run_call, self._call(sent), key=f"trial-{secrets.token_hex(16)}", pure=False)
        self._tasks[result] = task

        def receive(task: Any) -> None:
            try:
                outcomes = {**known, **self._received(task, sent)}
                claims.close()
                result.set_result([outcomes[job.trial.name] for job in bundle])
            except Exception as error:
                claims.close()
                result.set_exception(error)
            self._tasks.pop(result, None)

        task.add_done_callback(receive)
        return result

    def _call(self, jobs: Bundle) -> Call:
        runs = {job.trial.name: pack(job.run) for job in jobs if job.run.config_file.is_file()}
        return Call(self.token, self.probe, Path.cwd(), pickle.dumps(jobs), self.plugins, runs, self.versions)

    def _received(self, task: Any, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """The outcomes of a task that ended, after its runs are in the runs directory."""
        if task.status == "cancelled":
            if self._stopping:
                return dict.fromkeys((job.trial.name for job in jobs), Outcome("stopped"))
            raise self._lost()
        if task.status == "error":
            error = task.exception()
            killed = type(error).__name__ == "KilledWorker"
            reason = KILLED if killed else f"{type(error).__name__}: {error}"
            return {job.trial.name: Outcome("failed", reason) for job in jobs}
        answer: Answer = task.result()
        outcomes = list(answer.outcomes)
        if len(outcomes) < len(jobs):  # the call failed as a whole
            outcomes *= len(jobs)
        found = {}
        for job, outcome in zip(jobs, outcomes, strict=True):
            name = job.trial.name
            try:
                if name in answer.runs and find_evaluation(job.trial, job.root) is None:
                    unpack(answer.runs[name], job.run)
            except BeingTrained as error:
                outcome = Outcome("busy", error.message)
            except Seq2AttnError as error:
                outcome = Outcome("failed", str(error))
            found[name] = outcome
        return found

    def _hear(self, event: tuple[float, dict[str, int]]) -> None:
        self._steps.update(event[1])

    def steps(self, job: Job) -> int:
        return self._steps.get(job.trial.name, 0)

    def capacity(self) -> int:
        """One call for each worker, and one before there is any."""
        if time.monotonic() - self._counted > 1:
            with contextlib.suppress(Exception):  # `check` tells what is wrong
                self._workers = len(self.client.nthreads())
            self._counted = time.monotonic()
        return max(1, self._workers)

    def check(self) -> None:
        if self.client.status != "running":
            raise self._lost()

    def _lost(self) -> EngineLost:
        return EngineLost(
            f"the connection to the Dask scheduler at {self.address} is lost; finished trials are kept",
            hint="Start the scheduler and its workers again; then the same command continues.",
            exit_code=1,
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while wait and self._tasks and self.client.status == "running":
            if cancel_futures:
                self._stop()
            concurrent.futures.wait(list(self._tasks), timeout=STOP_AGAIN)
        self.probe.unlink(missing_ok=True)
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        if self.cluster is not None:
            self.cluster.close()

    def _stop(self) -> None:
        """Make the trials save and stop; those that no worker has begun are forgotten."""
        self._stopping = True
        with contextlib.suppress(Exception):  # a worker that is just lost
            self.client.run(request_stop, self.token, on_error="ignore")
            begun = {key for keys in self.client.processing().values() for key in keys}
            begun |= {key for key, holders in self.client.who_has().items() if holders}  # ended meanwhile
            self.client.cancel([task for task in self._tasks.values() if task.key not in begun])
