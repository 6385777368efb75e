"""A run's trained model: loading it from a checkpoint, and measuring it by string length."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.build import build_model, build_task
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.evaluations import Evaluation
from seq2attn.runs.footprint import check_answer_memory, check_model_memory
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import Run, need_checkpoint


@dataclass(frozen=True)
class Trained:
    """A run's model with the weights of one of its checkpoints."""

    predictor: Predictor
    checkpoint: str
    """best or last: whichever was loaded"""
    step: int
    """after which it was written"""


def load_predictor(run: Run, which: str = "best", device_name: str = "auto") -> Predictor:
    """The `predictor` of `load_trained`."""
    return load_trained(run, which, device_name).predictor


def load_trained(run: Run, which: str = "best", device_name: str = "auto") -> Trained:
    """The model of `run` with the weights of its checkpoint `best` or `last` (`last` if there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit the config.
    """
    if which not in ("best", "last"):
        raise Seq2AttnError(f"unknown checkpoint {which!r}; allowed: best, last")
    config = need_checkpoint(run).config()
    device = choose_device(device_name)
    if which == "best" and not run.checkpoint("best").exists():
        which = "last"
    path = run.checkpoint(which)
    check_model_memory(config)
    task = build_task(config)
    model = build_model(config, task)
    checkpoint = load_checkpoint(path)
    load_weights(path, checkpoint, model)
    predictor = Predictor(model, task, source_eos=config.model.source_eos, device=device)
    return Trained(predictor, which, checkpoint.state["step"])


def measure(
    run: Run,
    trained: Trained,
    lengths: Sequence[int] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure the `trained` model of `run`; nothing is saved yet.

    By default at the config's lengths and on its number of samples. `progress` is called after each length.
    """
    config, predictor = run.config(), trained.predictor
    lengths = lengths or config.evaluation_lengths
    samples = samples or config.evaluation.samples
    longest = max(lengths)
    check_answer_memory((predictor.task.target_length(longest) + 1) * (longest + 1))
    results = evaluate(predictor, lengths, samples=samples, seed=seed, progress=progress)
    by_length = {result.length: result for result in results}
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    return Evaluation(trained.checkpoint, samples, seed, by_length, step=trained.step, created=created)
