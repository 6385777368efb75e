"""Measuring a run's model by string length: what `seq2attn eval`, a comparison and `seq2attn.evaluate` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.runs.evaluations import Evaluation
from seq2attn.runs.footprint import check_answer_memory
from seq2attn.runs.run import Run


def measure(
    run: Run,
    predictor: Predictor,
    checkpoint: str,
    lengths: Sequence[int] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure `predictor`, the model of `run` with the weights of `checkpoint`; nothing is saved yet.

    By default at the config's lengths and on its number of samples. `progress` is called after each length.
    """
    config = run.config()
    lengths = lengths or config.evaluation_lengths
    samples = samples or config.evaluation.samples
    longest = max(lengths)
    check_answer_memory((predictor.task.target_length(longest) + 1) * (longest + 1))
    results = evaluate(predictor, lengths, samples=samples, seed=seed, progress=progress)
    return Evaluation(checkpoint, samples, seed, {result.length: result for result in results})
