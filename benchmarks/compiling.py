"""Training steps with `training.compile`, beside the same without."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from seq2attn.build import build_model, build_training_data
from seq2attn.config import Config, load_config
from seq2attn.runs.machine import keep_freed_memory
from seq2attn.training.losses import training_losses
from seq2attn.training.step import TrainingStep

CPU = torch.device("cpu")
RATE = 1e-3
CONFIGS = {
    "configs/scaled.yaml": [],
    "the same with cell lstm": ["model.cell=lstm"],
    "the same with additive and history location": [
        "model.attention.score=additive",
        "model.attention.history=location",
    ],
    "Transformer, 2 layers": ["model={architecture: transformer, hidden: 64, layers: 2, heads: 4, dropout: 0.0}"],
}


def measure(*, repeats: int, device: torch.device = CPU) -> list[dict[str, Any]]:
    """A step with and without `training.compile`."""
    keep_freed_memory()
    records = []
    for name, overrides in CONFIGS.items():
        actions = {
            kind: alone(load_config("configs/scaled.yaml", [*overrides, f"training.compile={kind}"]), device)
            for kind in ("false", "true")
        }
        begin = time.perf_counter()
        actions["true"]()
        compiling = time.perf_counter() - begin
        wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        times = interleaved(actions, repeats=repeats, seconds=0.5, wait=wait)
        records.append(
            {
                "config": name,
                "ms": 1000 * median(times["false"]),
                "ms compiled": 1000 * median(times["true"]),
                "speed-up": ratio(times["false"], times["true"]),
                "s for the first step": compiling,
            }
        )
    return records


def alone(config: Config, device: torch.device) -> Callable[[], object]:
    """A training step."""
    step = TrainingStep(build_model(config).to(device), config, device)
    batches = build_training_data(config, device).batches()

    def run() -> None:
        batch = next(batches)
        step.gradients(training_losses(step.forward(batch, 0), batch, config.training).total)
        step.update(RATE)

    return run
