"""Batched greedy decoding: evaluation and prediction."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.measure import interleaved, median
from benchmarks.training import CPU, Unit
from seq2attn.data.batches import generator, random_strings
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.build import build_model, build_task, build_vocabulary


def measure(*, repeats: int) -> list[dict[str, Any]]:
    """Strings a second of an untrained model, which decodes to its bound: nothing ends early."""
    torch.set_num_threads(1)
    unit = Unit("scaled", shortest=1, longest=12)
    config = unit.config()
    vocabulary = build_vocabulary(config)
    predictor = Predictor(build_model(config).eval(), build_task(config), vocabulary, source_eos=False, device=CPU)
    ids, lengths = random_strings(generator(CPU, "benchmark"), 1000, 1, 12, len(config.task.options["alphabet"]))
    texts = [vocabulary.decode(row[:length]) for row, length in zip(ids.tolist(), lengths.tolist(), strict=True)]
    found = interleaved(
        {
            "predict, 1,000 strings of 1-12": lambda: predictor.predict(texts),
            "evaluate, 1,000 strings of 10": lambda: evaluate(
                predictor, [10], samples=1000, seed=1, is_trained=config.is_trained
            ),
        },
        repeats=repeats,
        seconds=0.5,
    )
    return [{"what": name, "strings_per_second": 1000 / median(figures)} for name, figures in found.items()]
