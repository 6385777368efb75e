"""A run's trained model: loading it from a checkpoint, and measuring it by string length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from seq2attn.config import Config
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.ensemble import ensemble
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.pair_evaluation import measure_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.model.build import build_model, build_task
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.evaluations import Evaluation
from seq2attn.runs.footprint import check_answer_memory, check_model_memory
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import Run, need_checkpoint


def load_predictor(run: Run, which: str = "best", device_name: str = "auto") -> Predictor:
    """The model of `run` with the weights of its checkpoint `best` or `last` (`last` if there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit the config.
    """
    if which not in ("best", "last"):
        raise Seq2AttnError(f"unknown checkpoint {which!r}; allowed: best, last")
    config = need_checkpoint(run).config()
    device = choose_device(device_name)
    path = run.checkpoint(which)
    if which == "best" and not path.exists():
        path = run.checkpoint("last")
    task = load_task(run, config)
    check_model_memory(config, task)
    model = build_model(config, task)
    load_weights(path, load_checkpoint(path), model)
    return Predictor(model, task, source_eos=config.model.source_eos, device=device)


def load_ensemble(runs: Sequence[Run], which: str = "best", device_name: str = "auto") -> Predictor:
    """The models of several runs as one, which averages their probabilities; of a single run, its own model.

    Raises as `load_predictor` does, and for runs whose models cannot decode together.
    """
    predictors = [load_predictor(run, which, device_name) for run in runs]
    return predictors[0] if len(predictors) == 1 else ensemble(predictors, [run.name for run in runs])


def load_task(run: Run, config: Config) -> Task:
    """The task of `run`, whose config this is, from what the run itself keeps: no data file is opened."""
    return build_task(config, run.learned_task(config))


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
    task = predictor.task
    lengths = lengths or config.evaluation_lengths or range(task.min_length, task.max_length + 1)
    samples = samples or config.evaluation.samples
    longest = max(lengths)
    check_answer_memory((task.target_length(longest) + 1) * (longest + 1))
    results = evaluate(predictor, lengths, samples=samples, seed=seed, progress=progress)
    return Evaluation(checkpoint, samples, seed, {result.length: result for result in results})


def measure_on_file(predictor: Predictor, path: Path, checkpoint: str) -> Evaluation:
    """Measure `predictor`, whose task is `pairs`, on the pairs of a file; nothing is saved yet.

    Raises `Seq2AttnError` for a file that cannot be read.
    """
    assert isinstance(predictor.task, Pairs)
    file = predictor.task.read(path)
    result = measure_pairs(predictor, file.pairs)
    by_length = {one.length: one for one in result.lengths}
    return Evaluation(checkpoint, len(result.answers), 0, by_length, pairs=result, data=file.record.to_json())
