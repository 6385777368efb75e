"""Batched greedy decoding: evaluation and prediction."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.measure import interleaved, median
from benchmarks.training import CPU, Unit
from seq2attn.build import build_model, build_task
from seq2attn.data.batches import generator
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor


def measure(*, repeats: int) -> list[dict[str, Any]]:
    """Strings per second of an untrained model, which never writes `<eos>` and so always decodes to
    the limit.
    """
    torch.set_num_threads(1)
    unit = Unit("scaled", shortest=1, longest=12)
    config = unit.config()
    task = build_task(config)
    predictor = Predictor(build_model(config).eval(), task, source_eos=False, device=CPU)
    drawn = task.examples(generator(CPU, "benchmark"), 1000)
    rows = zip(drawn.source.tolist(), drawn.source_lengths.tolist(), strict=True)
    texts = [task.source_vocabulary.decode(row[:length]) for row, length in rows]
    found = interleaved(
        {
            "predict, 1,000 strings of 1-12": lambda: list(predictor.predict(texts)),
            "evaluate, 1,000 strings of 10": lambda: evaluate(
                predictor, [10], samples=1000, seed=1
            ),
        },
        repeats=repeats,
        seconds=0.5,
    )
    return [
        {"what": name, "strings_per_second": 1000 / median(figures)}
        for name, figures in found.items()
    ]
