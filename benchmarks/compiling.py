"""Training steps with `training.compile`, beside the same without."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from benchmarks.stacking import CPU, alone, together
from seq2attn.config import load_config
from seq2attn.runs.machine import keep_freed_memory

CONFIGS = {
    "configs/scaled.yaml": [],
    "the same with cell lstm": ["model.cell=lstm"],
    "the same with additive and history location": [
        "model.attention.score=additive",
        "model.attention.history=location",
    ],
    "Transformer, 2 layers": ["model={architecture: transformer, hidden: 64, layers: 2, heads: 4, dropout: 0.0}"],
}


def measure(seeds: Sequence[int], *, repeats: int, device: torch.device = CPU) -> list[dict[str, Any]]:
    """A step of so many seeds, one alone and several together, with and without `training.compile`."""
    keep_freed_memory()
    records = []
    for name, overrides in CONFIGS.items():
        for count in seeds:
            actions = {}
            for kind in ("false", "true"):
                keys = [*overrides, f"training.compile={kind}"]
                configs = [load_config("configs/scaled.yaml", [*keys, f"seed={seed}"]) for seed in range(count)]
                actions[kind] = alone(configs[0], device) if count == 1 else together(configs, device)
            begin = time.perf_counter()
            actions["true"]()
            compiling = time.perf_counter() - begin
            wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
            times = interleaved(actions, repeats=repeats, seconds=0.5, wait=wait)
            records.append(
                {
                    "config": name,
                    "seeds": count,
                    "ms": 1000 * median(times["false"]),
                    "ms compiled": 1000 * median(times["true"]),
                    "speed-up": ratio(times["false"], times["true"]),
                    "s for the first step": compiling,
                }
            )
    return records
