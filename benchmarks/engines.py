"""What it costs to run trials on Dask workers instead of the pool of processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import median, ratio
from seq2attn.comparison.engine import Engine
from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.pool import TrialPool
from seq2attn.comparison.running import run_jobs
from seq2attn.comparison.trial import Job
from seq2attn.config.shipped import find_config

WORKERS = 2
STEPS = 100  # about a second with measuring, on a quiet core
AT_A_TIME = 50  # trials
SHORT = [f"training.steps={STEPS}", f"training.evaluate_every={STEPS}", "evaluation.samples=20", "training.warmup=10"]


class Kept(Engine):
    """An engine that stays open when a comparison ends."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.steps = engine.steps  # type: ignore[method-assign]
        self.check = engine.check  # type: ignore[method-assign]

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        return self.engine.submit(call, *arguments, **keywords)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...


def is_installed() -> bool:
    return find_spec("distributed") is not None


def measure(trials: int) -> list[dict[str, Any]]:
    """Seconds of a trial on each engine, both started before: they take turns of 50 trials, until each has run `trials`."""
    from seq2attn.comparison.dask_engine import open_dask

    with tempfile.TemporaryDirectory() as folder:
        roots = {name: Path(folder, name) for name in ("processes", "dask")}
        engines = {"processes": TrialPool(WORKERS), "dask": open_dask(None, roots["dask"], workers=WORKERS)}
        jobs = {name: _jobs(root, trials + 2 * WORKERS) for name, root in roots.items()}
        times: dict[str, list[float]] = {name: [] for name in engines}
        try:
            for name, engine in engines.items():
                _seconds(jobs[name][trials:], engine)  # imports
            for first in range(0, trials, AT_A_TIME):
                for name, engine in engines.items():
                    now = jobs[name][first : min(first + AT_A_TIME, trials)]
                    times[name].append(_seconds(now, engine) / len(now))
        finally:
            for engine in engines.values():
                engine.shutdown()
    return [
        {
            "engine": name,
            "trials": trials,
            "workers": WORKERS,
            "seconds a trial": median(found),
            "times_processes": ratio(found, times["processes"]),
        }
        for name, found in times.items()
    ]


def _jobs(root: Path, count: int) -> list[Job]:
    experiment = compose_experiment(
        configs=[find_config(Path("configs/none.yaml"))], vary=[f"seed=1-{count}"], overrides=SHORT
    )
    return [Job(trial, root, "cpu") for trial in make_plan(experiment, root).trials]


def _seconds(jobs: Sequence[Job], engine: Engine) -> float:
    start = time.perf_counter()
    outcomes = run_jobs(jobs, lambda: Kept(engine), WORKERS)
    assert all(outcome.state == "done" for outcome in outcomes.values())
    return time.perf_counter() - start
