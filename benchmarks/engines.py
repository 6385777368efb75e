"""What it costs to run trials on Dask workers instead of the pool of processes: trials per second of both, side by side."""

from __future__ import annotations

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
    """Seconds of a trial on each engine, from the first trials that ended to the last, without start-up; A B A B."""
    from seq2attn.comparison.dask_engine import open_dask

    seconds: dict[str, list[float]] = {"processes": [], "dask": []}
    for _ in range(repeats):
        for name, found in seconds.items():
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                make: Callable[[], Executor] = lambda root=root, name=name: (  # noqa: E731
                    TrialPool(WORKERS) if name == "processes" else open_dask(None, root, workers=WORKERS)
                )
                found.append(_seconds_per_trial(root, trials, make))
    pairs = [dask / pool for dask, pool in zip(seconds["dask"], seconds["processes"], strict=True)]
    return [
        {
            "trials": trials,
            "workers": WORKERS,
            "seconds a trial, processes": seconds["processes"],
            "seconds a trial, dask": seconds["dask"],
            "dask / processes": pairs,
        }
    ]


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
