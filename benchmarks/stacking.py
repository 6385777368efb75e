"""Training steps of several seeds in one program, compared with as many steps of one seed after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from seq2attn.build import build_model, build_training_data
from seq2attn.config import Config, load_config
from seq2attn.runs.machine import keep_freed_memory
from seq2attn.training.stacking import StackedStep
from seq2attn.training.step import TrainingStep

CPU = torch.device("cpu")
RATE = 1e-3
CONFIGS = {
    "configs/scaled.yaml": [],
    "the same with history location": ["model.attention.score=additive", "model.attention.history=location"],
    "Transformer, 2 layers": ["model={architecture: transformer, hidden: 64, layers: 2, heads: 4, dropout: 0.0}"],
}


def measure(seeds: Sequence[int], *, repeats: int, device: torch.device = CPU) -> list[dict[str, Any]]:
    """A step of so many seeds together, beside a step of one, which on a CPU uses the C."""
    keep_freed_memory()
    records = []
    for name, overrides in CONFIGS.items():
        configs = [load_config("configs/scaled.yaml", [*overrides, f"seed={seed}"]) for seed in range(max(seeds))]
        for count in seeds:
            actions = {"alone": alone(configs[0], device), "together": together(configs[:count], device)}
            wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
            times = interleaved(actions, repeats=repeats, seconds=0.5, wait=wait)
            records.append(
                {
                    "config": name,
                    "seeds": count,
                    "ms of one alone": 1000 * median(times["alone"]),
                    "ms of all together": 1000 * median(times["together"]),
                    "in steps of one": ratio(times["together"], times["alone"]),
                    "speed-up": count / ratio(times["together"], times["alone"]),
                }
            )
    return records


def alone(config: Config, device: torch.device) -> Callable[[], object]:
    """A training step of one seed."""
    step = TrainingStep(build_model(config).to(device), config, device)
    batches = build_training_data(config, device).batches()

    def run() -> None:
        step.gradients(next(batches), 0)
        step.update(RATE)

    return run


def together(configs: Sequence[Config], device: torch.device) -> Callable[[], object]:
    """A training step of all these seeds in one program."""
    step = StackedStep([TrainingStep(build_model(config).to(device), config, device) for config in configs])
    streams = [build_training_data(config, device).batches() for config in configs]

    def run() -> None:
        step.gradients([next(stream) for stream in streams], 0)
        step.update(RATE)

    return run
