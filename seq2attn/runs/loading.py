"""A run's trained model: loading it from a checkpoint, and measuring it by string length."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seq2attn.build import build_model, build_task
from seq2attn.config import Config
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.ensemble import ensemble
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import Run, need_checkpoint


@dataclass(frozen=True)
class Trained:
    """A run's model with the weights of one of its checkpoints."""

    predictor: Predictor
    checkpoint: str
    """best, last or step-N: whichever was loaded"""
    step: int
    """after which it was written"""
    config: Config
    """of its run"""


def load_predictor(run: Run, which: str = "best", device_name: str = "auto") -> Predictor:
    """The `predictor` of `load_trained`."""
    return load_trained(run, which, device_name).predictor


def load_trained(run: Run, which: str = "best", device_name: str = "auto") -> Trained:
    """The model of `run` with the weights of its checkpoint `best`, `last` or `step-N` (`last` if there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit the config.
    """
    names = ["best", "last", *(f"step-{step}" for step in run.kept_steps())]
    if which not in names:
        kept = "To keep weights through training: --set training.snapshot_weights=true"
        hint = kept if which.startswith("step-") and len(names) == 2 else None
        raise Seq2AttnError(f"unknown checkpoint {shown(which)}; allowed: {', '.join(names)}", hint=hint)
    config = need_checkpoint(run).config()
    device = choose_device(device_name)
    if which == "best" and not run.checkpoint("best").exists():
        which = "last"
    path = run.checkpoint(which)
    task = load_task(run, config)
    model = build_model(config, task)
    checkpoint = load_checkpoint(path)
    load_weights(path, checkpoint, model)
    predictor = Predictor(model, task, source_eos=config.model.source_eos, device=device)
    return Trained(predictor, which, checkpoint.state["step"], config)


def load_ensemble(runs: Sequence[Run], which: str = "best", device_name: str = "auto") -> Trained:
    """The models of several runs as one, which averages their probabilities; of a single run, its own model.

    Its step is the first run's. Raises as `load_trained` does, and for runs whose models cannot decode together.
    """
    loaded = [load_trained(run, which, device_name) for run in runs]
    if len(loaded) == 1:
        return loaded[0]
    predictor = ensemble([one.predictor for one in loaded], [run.name for run in runs])
    return replace(loaded[0], predictor=predictor)


def load_task(run: Run, config: Config) -> Task:
    """The task of `run`, whose config this is, from what the run itself keeps: no data file is opened."""
    return build_task(config, run.learned_task(config))


def measure(
    trained: Trained,
    lengths: Sequence[int] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    families: Sequence[str] | None = None,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure a trained model; nothing is saved yet.

    By default at its config's lengths, on its families of strings and its number of samples. `progress` is called after
    each length of a family.
    """
    config, predictor = trained.config, trained.predictor
    task = predictor.task
    lengths = lengths or config.evaluation_lengths or range(task.min_length, task.max_length + 1)
    samples = samples or config.evaluation.samples
    families = families or config.evaluation.families
    results = evaluate(predictor, lengths, samples=samples, seed=seed, families=families, progress=progress)
    return replace(results, checkpoint=trained.checkpoint, seed=seed, step=trained.step, created=_now())


def measure_on_file(trained: Trained, path: Path) -> Evaluation:
    """Measure a model whose task is `pairs` on the pairs of a file; nothing is saved yet.

    Raises `Seq2AttnError` for a file that cannot be read.
    """
    task = trained.predictor.task
    assert isinstance(task, Pairs)
    file = task.read(path)
    result = evaluate_pairs(trained.predictor, file.pairs)
    return replace(result, checkpoint=trained.checkpoint, step=trained.step, created=_now(), data=file.record)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
