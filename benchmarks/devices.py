"""A training step on a GPU, with PyTorch's fused operations and with the formulas alone, beside the
compiled kernels on one thread of a CPU; and which of the two `--device auto` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from seq2attn.build import build_model, build_training_data
from seq2attn.config import Config, load_config
from seq2attn.kernels import prefers_cpu
from seq2attn.runs.create import keep_freed_memory
from seq2attn.training.step import TrainingStep

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SIZES = ((64, 64), (64, 96), (64, 128), (64, 192), (64, 256), (256, 96), (512, 96), (512, 256))
LENGTHS = (8, 12, 30)
FILES = (
    "configs/scaled.yaml",
    "configs/records/reverse.yaml",
    "configs/dates.yaml",
    "configs/transformer.yaml",
)


def cases(*, quick: bool) -> dict[str, Config]:
    """The configs to measure, by a description."""
    found = {}
    for file in FILES[: 1 if quick else None]:
        found[file] = load_config(file)
    for score, (batch, hidden), length in product(
        ("scaled", "additive"), SIZES[: 2 if quick else None], LENGTHS[: 1 if quick else None]
    ):
        if length != LENGTHS[1] and (batch, hidden) not in SIZES[:2]:
            continue
        overrides = [
            f"model.attention.score={score}",
            f"model.hidden={hidden}",
            f"training.batch_size={batch}",
            f"task.max_length={length}",
        ]
        words = f"{score}, batch {batch}, hidden {hidden}, lengths to {length}"
        found[words] = load_config("configs/scaled.yaml", overrides)
    return found


def step_of(config: Config, device: torch.device, *, formulas: bool) -> Callable[[], object]:
    """One step of `seq2attn train` on a device, formulas: of the model itself."""
    training = TrainingStep(build_model(config).to(device), config, device)
    if formulas:
        training.faster_form = None
    batches = build_training_data(config, device).batches()

    def step() -> None:
        batch = next(batches)
        losses = training.losses(training.forward(batch, 0), batch)
        norm = training.gradients(losses["loss"])
        if device.type == "cpu":
            losses["loss"].item(), norm.item()
        training.update(1e-3)

    return step


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One record per config: milliseconds of a step, the GPU's gain over the CPU and over its own
    formulas.
    """
    keep_freed_memory()
    torch.set_num_threads(1)
    records = []
    for words, config in cases(quick=quick).items():
        found = interleaved(
            {
                "cpu": step_of(config, CPU, formulas=False),
                "gpu": step_of(config, GPU, formulas=False),
                "formulas": step_of(config, GPU, formulas=True),
            },
            repeats=5,
            seconds=0.1,
            wait=torch.cuda.synchronize,
        )
        rows = config.training.batch_size
        records.append(
            {
                "unit": words,
                "B x D^2": rows * config.model.hidden**2,
                "cpu_ms": 1e3 * median(found["cpu"]),
                "gpu_ms": 1e3 * median(found["gpu"]),
                "formulas_ms": 1e3 * median(found["formulas"]),
                "times_cpu": ratio(found["cpu"], found["gpu"]),
                "times_formulas": ratio(found["formulas"], found["gpu"]),
                "auto": "cpu" if prefers_cpu(build_model(config), rows) else "gpu",
            }
        )
    return records
