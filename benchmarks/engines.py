"""What it costs to run trials on Dask workers instead of the pool of processes."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.pool import TrialPool
from seq2attn.comparison.running import Display, run_jobs
from seq2attn.comparison.trial import Job, Outcome
from seq2attn.config.shipped import find_config

WORKERS = 2
STEPS = 100  # about a second with measuring, on a quiet core


class Times(Display):
    """When each trial ended."""

    def __init__(self) -> None:
        self.ended_at: list[float] = []

    def ended(self, job: Job, outcome: Outcome) -> None:
        assert outcome.state == "done", outcome.reason
        self.ended_at.append(time.perf_counter())


def is_installed() -> bool:
    return find_spec("distributed") is not None


def measure(trials: int, *, repeats: int) -> list[dict[str, Any]]:
    """Seconds of a trial on each engine, A B A B: from the first trials that ended to the last, without start-up; and of
    processor time, all processes and start-up included, which a busy machine changes less.
    """
    from seq2attn.comparison.dask_engine import open_dask

    records = []
    for number in range(repeats):
        for name in ("processes", "dask"):
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                make: Callable[[], Executor] = lambda root=root, name=name: (  # noqa: E731
                    TrialPool(WORKERS) if name == "processes" else open_dask(None, root, workers=WORKERS)
                )
                before = _processor_seconds()
                seconds = _seconds_per_trial(root, trials, make)
                used = _processor_seconds() - before
            records.append(
                {
                    "round": number + 1,
                    "engine": name,
                    "trials": trials,
                    "workers": WORKERS,
                    "seconds a trial": seconds,
                    "processor seconds in all": used,
                }
            )
    return records


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _seconds_per_trial(root: Path, trials: int, make: Callable[[], Executor]) -> float:
    short = [
        f"training.steps={STEPS}",
        f"training.evaluate_every={STEPS}",
        "evaluation.samples=20",
        "training.warmup=10",
    ]
    experiment = compose_experiment(
        configs=[find_config(Path("configs/none.yaml"))], vary=[f"seed=1-{trials}"], overrides=short
    )
    jobs = [Job(trial, root, "cpu") for trial in make_plan(experiment, root).trials]
    times = Times()
    run_jobs(jobs, make, WORKERS, times)
    first = times.ended_at[WORKERS - 1]  # every worker has started
    return (times.ended_at[-1] - first) / (trials - WORKERS)
