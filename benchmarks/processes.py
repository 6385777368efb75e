"""Whole processes: start-up, and the seconds from `seq2attn train` to a model that makes no mistake."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import median, ratio

PYTHON = [sys.executable]
COMMAND = [sys.executable, "-m", "seq2attn"]
ROOT = Path(__file__).parents[1]


def seconds(command: list[str], **options: Any) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, **options)
    return time.perf_counter() - start


def in_turn(commands: dict[str, list[str]], repeats: int) -> dict[str, list[float]]:
    for command in commands.values():
        seconds(command)
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            found[name].append(seconds(command))
    return found


def start_up(*, repeats: int) -> list[dict[str, Any]]:
    """`--help`, a config error and `predict` against `python -c pass` and `import torch`."""
    with tempfile.TemporaryDirectory() as runs:
        config = ROOT / "configs" / "scaled.yaml"
        quick = ["--set", "training.steps=2", "--set", "training.warmup=0", "--set", "evaluation.samples=1"]
        seconds([*COMMAND, "train", "--config", str(config), "--runs-dir", runs, *quick])
        found = in_turn(
            {
                "python -c pass": [*PYTHON, "-c", "pass"],
                "seq2attn --help": [*COMMAND, "--help"],
                "seq2attn list": [*COMMAND, "list"],
                "python -c 'import torch'": [*PYTHON, "-c", "import torch"],
                'seq2attn predict "hello"': [*COMMAND, "predict", "hello", "--runs-dir", runs],
            },
            repeats,
        )
    base, torch = found["python -c pass"], found["python -c 'import torch'"]
    return [
        {
            "command": name,
            "seconds": median(figures),
            "times_pass": ratio(figures, base),
            "times_import_torch": ratio(figures, torch),
        }
        for name, figures in found.items()
    ]


TARGETS = {
    "configs/scaled.yaml": ["--set", "training.target=0.999"],
    "configs/scaled.yaml, lengths 3-8": [
        *("--set", "training.target=0.999", "--set", "task.min_length=3", "--set", "task.max_length=8"),
    ],
}


def to_target(*, seeds: int) -> list[dict[str, Any]]:
    """Seconds of the whole process, until 0.999 greedy exact match at every trained length on the validation strings."""
    records = []
    for name, options in TARGETS.items():
        times, steps = [], []
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as runs:
                config = str(ROOT / "configs" / "scaled.yaml")
                command = [*COMMAND, "train", "--config", config, "--runs-dir", runs, "--seed", str(seed), *options]
                times.append(seconds(command))
                (status,) = Path(runs).glob("*/status.json")
                found = json.loads(status.read_text())
                steps.append(found["step"] if found["exact_match_worst"] >= 0.999 else None)
        records.append({"recipe": name, "seconds": times, "median": median(times), "worst": max(times), "steps": steps})
    return records
