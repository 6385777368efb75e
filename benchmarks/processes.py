"""Whole processes: start-up time, and the time that `seq2attn train` takes to reach a model without
mistakes.
"""

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
    """`--help`, `list` and `predict` compared with `python -c pass` and `import torch`."""
    with tempfile.TemporaryDirectory() as runs:
        config = ROOT / "configs" / "scaled.yaml"
        quick = [
            "--set",
            "training.steps=2",
            "--set",
            "training.warmup=0",
            "--set",
            "evaluation.samples=1",
        ]
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


RECIPES = {  # options of `train`, and the trained lengths
    "configs/scaled.yaml": ([], "1-12"),
    "configs/scaled.yaml, 900 steps": (["--set", "training.steps=900"], "1-12"),
    "configs/scaled.yaml, lengths 3-8, 500 steps": (
        ["--set", "task.min_length=3", "--set", "task.max_length=8", "--set", "training.steps=500"],
        "3-8",
    ),
}


def to_target(*, seeds: int) -> list[dict[str, Any]]:
    """Seconds for the whole process `seq2attn train`, and the accuracy of its model on 1,000
    strings of each length.
    """
    records = []
    for name, (options, lengths) in RECIPES.items():
        times, worst = [], []
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as runs:
                config = [
                    "--config",
                    str(ROOT / "configs" / "scaled.yaml"),
                    "--set",
                    f"seed={seed}",
                    "--runs-dir",
                    runs,
                ]
                times.append(seconds([*COMMAND, "train", *config, *options]))
                evaluation = [
                    *COMMAND,
                    "eval",
                    "--lengths",
                    lengths,
                    "--checkpoint",
                    "last",
                    "--runs-dir",
                    runs,
                    "--json",
                ]
                done = subprocess.run(evaluation, check=True, capture_output=True, text=True)
                rows = json.loads(done.stdout)["rows"]
                worst.append(min(row["value"] for row in rows if row["metric"] == "exact_match"))
        records.append(
            {
                "recipe": name,
                "median": median(times),
                "worst": max(times),
                "exact_match_worst": min(worst),
            }
        )
    return records


def launches(*, quick: bool) -> list[dict[str, Any]]:
    """Launches of a training step (`benchmarks/launches.py`), counted in a process of its own."""
    command = [*PYTHON, "-m", "benchmarks.launches", *["--quick"] * quick]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    records: list[dict[str, Any]] = json.loads(done.stdout)
    return records
