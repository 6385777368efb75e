"""Training steps of seq2attn, compared with the plain loop of `reference.py` and with a bare matrix
product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from benchmarks.reference import PlainReverser, PlainTraining
from seq2attn.build import build_model, build_training_data
from seq2attn.config import Config, check_config
from seq2attn.data.batches import Batch
from seq2attn.runs.create import keep_freed_memory
from seq2attn.training.step import TrainingStep

CPU = torch.device("cpu")
RATE = 3e-3


@dataclass(frozen=True)
class Unit:
    """One benchmark case. The defaults are the case at which other toolkits were measured."""

    score: str = "dot"
    decoder: str = "bahdanau"
    input_feeding: bool = False
    batch: int = 64
    hidden: int = 96
    shortest: int = 3
    longest: int = 8
    threads: int = 1
    source_eos: bool = False
    bidirectional: bool = False
    history: str = "none"
    score_width: int | None = None
    """of the hidden layer of `additive`; None: the hidden width"""
    decoder_reset: float = 0.0
    """of ours alone; the plain loop has none"""

    def config(self) -> Config:
        model: dict[str, Any] = {
            "hidden": self.hidden,
            "embedding": 32,
            "initial_state": "zeros",
            "source_eos": self.source_eos,
            "bidirectional": self.bidirectional,
            "decoder": {"name": "luong", "input_feeding": True}
            if self.input_feeding
            else self.decoder,
            "attention": {"score": self.score, "history": self.history},
        }
        if self.score_width is not None:
            model["attention"]["score"] = {"name": self.score, "width": self.score_width}
        return check_config(
            {
                "task": {"min_length": self.shortest, "max_length": self.longest},
                "model": model,
                "training": {
                    "batch_size": self.batch,
                    "weight_decay": 0.0,
                    "warmup": 0,
                    "steps": 2500,
                    "decoder_reset": self.decoder_reset,
                },
            }
        )

    def describe(self) -> str:
        feeding = " + input feeding" if self.input_feeding else ""
        lengths = (
            f"{self.shortest}-{self.longest}" if self.shortest < self.longest else str(self.longest)
        )
        further = (
            f" + {self.history}" * (self.history != "none")
            + ", both directions" * self.bidirectional
        )
        further += f", width {self.score_width}" * (self.score_width is not None)
        further += f", resets {self.decoder_reset}" * (self.decoder_reset > 0)
        return (
            f"{self.score}, {self.decoder}{feeding}{further}, batch {self.batch}, "
            f"hidden {self.hidden}, lengths {lengths}, "
            f"{self.threads} thread{'s' * (self.threads > 1)}"
        )


UNITS = (
    *(Unit(score) for score in ("dot", "scaled", "general", "scaled_general", "additive")),
    Unit(decoder="luong"),
    Unit(decoder="luong", input_feeding=True),
    Unit("additive", decoder="luong"),
    Unit("additive", decoder="luong", input_feeding=True),
    Unit("additive", history="location"),
    # the models of configs/records/reverse.yaml and reverse-location.yaml
    Unit("additive", history="shift", score_width=8, bidirectional=True, decoder_reset=0.5),
    Unit("additive", history="location", score_width=8, bidirectional=True, source_eos=True),
    Unit(threads=2),
    Unit("additive", threads=2),
    Unit(batch=512),
    Unit("additive", batch=512),
    Unit(decoder="luong", batch=512),
    Unit(batch=512, threads=2),
    Unit(hidden=256),
    Unit("additive", hidden=256),
    Unit(shortest=50, longest=50),
    Unit("additive", shortest=50, longest=50),
)
QUICK = (
    Unit(),
    Unit("additive"),
    Unit(decoder="luong"),
    Unit(decoder="luong", input_feeding=True),
    Unit(batch=512),
)


def our_step(
    unit: Unit, batches: Iterator[Batch], device: torch.device = CPU
) -> Callable[[], object]:
    """One step of `seq2attn train`, including its check for NaN and infinity."""
    config = unit.config()
    training = TrainingStep(build_model(config).to(device), config, device)

    def step() -> None:
        batch = next(batches)
        total = training.losses(training.forward(batch, 0), batch)["loss"]
        norm = training.gradients(total)
        if device.type == "cpu":
            total.item(), norm.item()
        training.update(RATE)

    return step


def plain_step(
    unit: Unit, batches: Iterator[Batch], device: torch.device = CPU
) -> Callable[[], object]:
    model = PlainReverser(
        29,
        32,
        unit.hidden,
        unit.score,
        unit.decoder,
        unit.input_feeding,
        bidirectional=unit.bidirectional,
        history=unit.history,
        score_width=unit.score_width,
    )
    training = PlainTraining(model.to(device))

    def step() -> None:
        batch = next(batches)
        training.step(
            batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_output, RATE
        )

    return step


def operations(unit: Unit) -> float:
    """Floating-point operations of the matrix products that a step needs at least.

    Counted over the real tokens of the mean batch, without padding. The products with input
    embeddings are not counted, because they can come from a table of V rows. The backward pass does
    each product twice, once per factor's gradient.
    """
    length, width = (unit.shortest + unit.longest) / 2, unit.hidden
    sources, targets = unit.batch * length, unit.batch * (length + 1)
    directions = 1 + unit.bidirectional
    values, keys = width * directions, unit.score_width or width
    products = [
        directions * sources * width * 3 * width,
        targets * width * 3 * width,
    ]  # W_h s of encoder and decoder
    products += [targets * length * (keys + values)]  # scores and contexts
    if unit.decoder == "bahdanau":
        products += [
            targets * values * 3 * width,
            targets * (width + values) * 29,
        ]  # W_i c, W_o [s; c]
    else:
        products += [targets * (values + width) * width, targets * width * 29]  # W_c [c; s], W_o a
    if unit.input_feeding:
        products.append(targets * width * 3 * width)  # W_i of the attentional vector
    if "general" in unit.score:
        products.append(sources * values * width)
    if unit.score == "additive":
        products += [sources * values * keys, targets * width * keys]
    return 3.0 * 2.0 * sum(products)


def bare_product(device: torch.device) -> tuple[Callable[[], object], float]:
    """One large matrix product, to measure peak speed, and its floating-point operations."""
    a, b = torch.randn(256, 1024, device=device), torch.randn(1024, 1024, device=device)
    return lambda: torch.mm(a, b), 2.0 * 256 * 1024 * 1024


def measure(
    units: tuple[Unit, ...], *, repeats: int, device: torch.device = CPU
) -> list[dict[str, Any]]:
    """One record per unit: milliseconds per step, tokens/s, speed-up over the plain loop and share
    of the floor.
    """
    keep_freed_memory()  # for all three measurements
    if device.type != "cpu":  # CPU threads do not matter there
        units = tuple(dict.fromkeys(replace(unit, threads=1) for unit in units))
    records = []
    for unit in units:
        torch.set_num_threads(unit.threads)
        data = build_training_data(unit.config(), device)
        product, product_operations = bare_product(device)
        found = interleaved(
            {
                "ours": our_step(unit, data.batches(), device),
                "plain": plain_step(unit, data.batches(), device),
                "product": product,
            },
            repeats=repeats,
            wait=torch.cuda.synchronize if device.type == "cuda" else lambda: None,
        )
        bare = [seconds * operations(unit) / product_operations for seconds in found["product"]]
        tokens = unit.batch * ((unit.shortest + unit.longest) / 2 + 1)
        records.append(
            {
                "unit": unit.describe(),
                "ms": 1e3 * median(found["ours"]),
                "plain_ms": 1e3 * median(found["plain"]),
                "floor_ms": 1e3 * median(bare),
                "tokens_per_second": tokens / median(found["ours"]),
                "times_plain": ratio(found["plain"], found["ours"]),
                "share_of_floor": ratio(bare, found["ours"]),
            }
        )
    torch.set_num_threads(1)
    return records
