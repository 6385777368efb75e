"""A run's trained model, from a checkpoint, and what it measures."""

from __future__ import annotations

import datetime
import shlex
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
    """A run's config and task, and its model with the weights of one of its checkpoints."""

    run: Run
    config: Config
    predictor: Predictor
    """has the model and the task"""
    checkpoint: str
    """best, last or step-N: whichever was loaded"""
    step: int
    """after which it was written"""


def load_run(run: Run, checkpoint: str = "best", device: str = "auto") -> Trained:
    """The model of `run` with the weights of its checkpoint `best`, `last` or `step-N` (`last` if there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit the config.
    """
    names = ["best", "last", *(f"step-{step}" for step in run.kept_steps())]
    if checkpoint not in names:
        kept = "To keep weights through training: --set training.snapshot_weights=true"
        hint = kept if checkpoint.startswith("step-") and len(names) == 2 else None
        raise Seq2AttnError(f"unknown checkpoint {shown(checkpoint)}; allowed: {', '.join(names)}", hint=hint)
    config = need_checkpoint(run).config()
    if checkpoint == "best" and not run.checkpoint("best").exists():
        checkpoint = "last"
    path = run.checkpoint(checkpoint)
    task = load_task(run, config)
    model = build_model(config, task)
    saved = load_checkpoint(path)
    load_weights(path, saved, model)
    predictor = Predictor(model, task, source_eos=config.model.source_eos, device=choose_device(device))
    return Trained(run, config, predictor, checkpoint, saved.state["step"])


def load_ensemble(runs: Sequence[Run], checkpoint: str = "best", device: str = "auto") -> Trained:
    """The models of several runs as one, which averages their probabilities; of a single run, its own model.

    The rest is the first run's. Raises as `load_run` does, and for runs whose models cannot decode together.
    """
    loaded = [load_run(run, checkpoint, device) for run in runs]
    if len(loaded) == 1:
        return loaded[0]
    predictor = ensemble([trained.predictor for trained in loaded], [run.name for run in runs])
    return replace(loaded[0], predictor=predictor)


def load_task(run: Run, config: Config) -> Task:
    """The task of `run`, whose config this is, from what the run itself keeps: no data file is opened."""
    return build_task(config, run.learned_task(config))


# ---- measuring; nothing is saved yet ----


def measure(
    trained: Trained,
    lengths: Sequence[int] | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
    families: Sequence[str] | None = None,
    data: Path | None = None,
    progress: Callable[[], None] | None = None,
) -> Evaluation:
    """Measure a model by length: by default at the config's lengths, on its families and its number of samples.

    data: of a model whose task is `pairs`, the file of pairs to measure it on; nothing else is then chosen.
    `progress` is called after each length of a family. Raises `Seq2AttnError` for arguments that do not suit the task, and
    for a file that cannot be read.
    """
    config, task, run = trained.config, trained.predictor.task, trained.run
    if isinstance(task, Pairs):
        for name, value in {"lengths": lengths, "samples": samples, "families": families, "seed": seed or None}.items():
            if value is not None:
                raise Seq2AttnError(f"{name}: run {run.name!r} is measured on all pairs of a file")
        if data is None:
            dev = shlex.quote(config.data_files.get("dev", "FILE"))
            raise Seq2AttnError(
                f"run {run.name!r} is measured on a file of pairs, which a run's own config never opens",
                hint=f'Name the file: seq2attn eval {run.name} --data {dev}; in Python, data="{dev}"',
            )
        file = task.read(data)
        results = replace(evaluate_pairs(trained.predictor, file.pairs), data=file.record)
    elif data is not None:
        raise Seq2AttnError(f"data: run {run.name!r} is on task {config.task.name!r}, which draws its own strings")
    else:
        results = evaluate(
            trained.predictor,
            lengths or config.evaluation_lengths or range(task.min_length, task.max_length + 1),
            samples=samples or config.evaluation.samples,
            seed=seed,
            families=families or config.evaluation.families,
            progress=progress,
        )
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    return replace(results, checkpoint=trained.checkpoint, seed=seed, step=trained.step, created=now)
