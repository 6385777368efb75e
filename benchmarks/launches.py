"""Launches of a training step on a GPU, counted on a simulated one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from benchmarks.simulated_device import DEVICE, launches
from benchmarks.training import QUICK, UNITS, Unit
from seq2attn.build import build_model, build_training_data
from seq2attn.config import Config, load_config
from seq2attn.training.step import TrainingStep


def count(config: Config, *, formulas: bool = False) -> int:
    """Count the launches of one step.

    formulas: of the model itself, not of its faster form.
    """
    step = TrainingStep(build_model(config).to(DEVICE), config, DEVICE)
    if formulas:
        step.faster_form = None
    batch = next(build_training_data(config, DEVICE).batches())
    launches.clear()
    losses = step.losses(step.forward(batch, 0), batch)
    step.gradients(losses["loss"])
    step.update(1e-3)
    return launches.total()


def measure(units: tuple[Unit, ...]) -> list[dict[str, Any]]:
    """One record per unit, and one of configs/scaled.yaml: launches of a step, and of the
    formulas.
    """
    configs = {"configs/scaled.yaml": load_config("configs/scaled.yaml")}
    for unit in units:
        configs[replace(unit, threads=1).describe()] = unit.config()
    records = []
    for name, config in configs.items():
        formulas = count(config, formulas=True)
        records.append({"unit": name, "launches": count(config), "formulas": formulas})
    return records


if __name__ == "__main__":
    print(json.dumps(measure(QUICK if "--quick" in sys.argv else UNITS)))
