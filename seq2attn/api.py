"""The Python interface: what `import seq2attn` offers beside the base classes of parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.config import Config
from seq2attn.config.load import Overrides, override_list
from seq2attn.display.progress import make_display
from seq2attn.inference.changes import AttentionChanges
from seq2attn.inference.results import Evaluation
from seq2attn.inference.trained_model import TrainedModel, load_run
from seq2attn.plugins import load_plugins
from seq2attn.runs.create import prepare_training
from seq2attn.runs.logs import save_evaluation
from seq2attn.runs.run import Run, find_run

if TYPE_CHECKING:
    from seq2attn.comparison.results import Comparison


def train(
    config: str | Path | Mapping[str, Any] | Config | Run,
    overrides: Overrides = (),
    *,
    runs_dir: str | Path = "runs",
    name: str | None = None,
    note: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    resume: str | Run | None = None,
    progress: bool | None = None,
) -> Run:
    """Train a model, as `seq2attn train` does, and return its run.

    config: a YAML file, its keys and values, or a `Config`; or a run, to continue it. overrides:
    `KEY=VALUE`, several of them, or a mapping. resume: a run on files to continue, or its name,
    with its config; a run alone never opens a file. name: of the run; by default derived from the
    config's file name. note: what to remember of it. plugins: files with parts of your own.
    progress: whether to show it; by default in a notebook and on a terminal. The first Ctrl-C saves
    and raises `KeyboardInterrupt`.
    """
    from seq2attn.training import session

    loaded = load_plugins(plugins)
    given, resume = (None, config) if isinstance(config, Run) else (config, resume)
    settings, where = prepare_training(
        given, overrides, root=Path(runs_dir), name=name, resume=resume, plugins=loaded, note=note
    )
    with make_display(progress) as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    if ended.stopped_by is not None:
        raise KeyboardInterrupt(
            f"stopped after step {ended.step:,}; everything is saved in {ended.run.path}"
        )
    return ended.run


def load(
    run: str | Run | None = None,
    *,
    runs_dir: str | Path = "runs",
    checkpoint: str = "best",
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
) -> TrainedModel:
    """The trained model of a run, given by its name, by default the newest:
    `load().predict("hello")`.

    checkpoint: best, last, or `step-64`, one of those that `training.snapshot_weights` keeps.
    plugins: as for `train`.
    """
    load_plugins(plugins)
    return load_run(
        run if isinstance(run, Run) else find_run(Path(runs_dir), run), checkpoint, device
    )


def evaluate(
    run: str | Run | None = None,
    lengths: Sequence[object] | None = None,
    *,
    runs_dir: str | Path = "runs",
    checkpoint: str = "best",
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
    **options: Any,
) -> Evaluation:
    """Measure a run and save the results with it, as `seq2attn eval` does. options: those of
    `TrainedModel.evaluate`; with one of its interventions, nothing is saved.
    """
    model = load(run, runs_dir=runs_dir, checkpoint=checkpoint, device=device, plugins=plugins)
    evaluation = model.evaluate(lengths, **options)
    if not options.keys() & AttentionChanges.__annotations__:
        save_evaluation(evaluation, model.run)
    return evaluation


def compare(
    experiment: str | Path | None = None,
    *,
    configs: str | Path | Sequence[str | Path] = (),
    vary: str | Sequence[str] = (),
    overrides: Overrides = (),
    runs_dir: str | Path = "runs",
    device: str = "auto",
    workers: int | None = None,
    executor: str | Callable[[], Executor] | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Train and measure every trial of an experiment file, or of base `configs` and what to `vary`,
    as `seq2attn compare`.

    executor: where trials run: by default processes of this machine; `dask:ADDRESS`, or a function
    that makes any standard Executor whose workers are processes that see `runs_dir`. options:
    `name`, `baseline`, `metric`, `lengths`, `families`, `samples` and `checkpoint`, as on the
    command line. Trials run in their own processes, so a script must call this below `if __name__
    == "__main__":`. The result's `failed` has the reasons of failed trials, `busy` the trials that
    another process trains. The first Ctrl-C saves and raises `KeyboardInterrupt`.
    """
    from seq2attn.comparison import run
    from seq2attn.comparison.experiment import compose_experiment

    loaded = load_plugins(plugins)
    file = None if experiment is None else Path(experiment)
    bases = [Path(one) for one in ([configs] if isinstance(configs, str | Path) else configs)]
    chosen = compose_experiment(file, bases, override_list(vary), overrides, **options)
    root = Path(runs_dir)
    found = run.compare(
        chosen,
        root,
        device=device,
        plugins=loaded,
        workers=workers,
        executor=executor,
        progress=progress,
    )
    if found.stopped_by is not None:
        raise KeyboardInterrupt("stopped; the same call continues")
    return found
