"""seq2attn: a laboratory bench for attention in recurrent sequence-to-sequence models.

In Python:

    import seq2attn

    run = seq2attn.train("configs/scaled.yaml", ["training.steps=500"])
    model = seq2attn.load(run)
    answer = model.predict("hello")
    print(answer.output, answer.weights.shape)
    seq2attn.evaluate(run, lengths=[5, 10])

Importing this module does not import torch. A user's mistake raises `seq2attn.Seq2AttnError`. See docs/python.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from seq2attn.api.model import TrainedModel
    from seq2attn.comparison.results import Comparison
    from seq2attn.config import Config
    from seq2attn.data.tasks import Answer, StringTask, Task
    from seq2attn.data.vocabulary import Vocabulary
    from seq2attn.errors import Seq2AttnError
    from seq2attn.inference.results import Evaluation
    from seq2attn.model.cells import Cell
    from seq2attn.model.decoder import Decoder
    from seq2attn.model.histories import History
    from seq2attn.model.initial_state import InitialState
    from seq2attn.model.scores import Score
    from seq2attn.model.windows import View, Window
    from seq2attn.registry import register
    from seq2attn.runs.run import Run

__version__ = "0.1.0"
_MODULES = {
    "Answer": "data.tasks",
    "Cell": "model.cells",
    "Decoder": "model.decoder",
    "History": "model.histories",
    "InitialState": "model.initial_state",
    "Score": "model.scores",
    "Seq2AttnError": "errors",
    "StringTask": "data.tasks",
    "Task": "data.tasks",
    "View": "model.windows",
    "Vocabulary": "data.vocabulary",
    "Window": "model.windows",
    "register": "registry",
}
__all__ = [
    "Answer", "Cell", "Decoder", "History", "InitialState", "Score", "Seq2AttnError", "StringTask", "Task", "View",
    "Vocabulary", "Window", "compare", "evaluate", "load", "register", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def train(
    config: str | Path | Mapping[str, Any] | Config | Run,
    overrides: Sequence[str] = (),
    *,
    runs_dir: str | Path = "runs",
    name: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    plugins: Sequence[str | Path] = (),
    resume: str | Run | None = None,
    progress: bool | None = None,
) -> Run:
    """Train a model, as `seq2attn train` does, and return its run.

    config: a YAML file, its keys and values, or a `Config`, with `overrides` (`KEY=VALUE`); or a run, to continue it.
    resume: a run on files to continue, or its name, with its config; a run alone never opens a file.
    name: of the run; by default derived from the config's file name. plugins: files with parts of your own.
    progress: whether to show it; by default in a notebook and on a terminal.
    The first Ctrl-C saves and raises `KeyboardInterrupt`.
    """
    from seq2attn.config import Config, check_config, load_changed
    from seq2attn.config.plugins import load_plugins
    from seq2attn.display.progress import make_display
    from seq2attn.errors import Seq2AttnError
    from seq2attn.runs.making import run_name
    from seq2attn.runs.resuming import config_to_resume
    from seq2attn.runs.run import Run
    from seq2attn.training import session

    loaded = load_plugins(plugins)
    where: Run | session.NewRun
    if isinstance(config, Run):
        if overrides or name or resume:
            raise Seq2AttnError("a run is continued unchanged; overrides and name are for new runs")
        settings, where = config_to_resume(config, None), config
    else:
        if isinstance(config, str | Path):
            settings, changed = load_changed(config, overrides)
        else:
            values = dict(config.model_dump(mode="json") if isinstance(config, Config) else config)
            settings, changed = check_config(values, overrides), list(overrides)
        if resume is None:
            default = run_name(Path(config) if isinstance(config, str | Path) else Path("run"), changed)
            where = session.NewRun(
                Path(runs_dir),
                default if name is None else name,
                exact=name is not None,
                plugins=loaded,
                changes=changed,
            )
        else:
            where = _find(resume, runs_dir)
            settings = config_to_resume(where, settings)
    with make_display(progress) as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    if ended.stopped_by is not None:
        raise KeyboardInterrupt(f"stopped after step {ended.step:,}; everything is saved in {ended.run.path}")
    return ended.run


def load(
    run: str | Run | None = None, *, runs_dir: str | Path = "runs", checkpoint: str = "best", device: str = "cpu"
) -> TrainedModel:
    """The trained model of a run, given by its name, by default the newest: `load().predict("hello")`.

    checkpoint: best, last, or `step-64`, one of those that `training.snapshot_weights` keeps.
    """
    from seq2attn.api.model import TrainedModel
    from seq2attn.runs.loading import load_trained

    found = _find(run, runs_dir)
    return TrainedModel(found, load_trained(found, checkpoint, device))


def evaluate(
    run: str | Run | None = None,
    lengths: Sequence[object] | None = None,
    *,
    samples: int | None = None,
    families: Sequence[object] | None = None,
    seed: int = 0,
    data: str | Path | None = None,
    runs_dir: str | Path = "runs",
    checkpoint: str = "best",
    device: str = "cpu",
    progress: bool | None = None,
) -> Evaluation:
    """Measure a run by family of strings and by length, and save the results, as `seq2attn eval` does; the config has the
    defaults.

    data: of a run on pairs of strings, the file of pairs to measure it on; the result then has error rates instead.
    """
    model = load(run, runs_dir=runs_dir, checkpoint=checkpoint, device=device)
    return model.evaluate(
        lengths, samples=samples, families=families, seed=seed, data=data, save=True, progress=progress
    )


def compare(
    experiment: str | Path | None = None,
    *,
    configs: Sequence[str | Path] = (),
    vary: Sequence[str] = (),
    overrides: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    device: str = "auto",
    workers: int | None = None,
    executor: str | Callable[[], Executor] | None = None,
    plugins: Sequence[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Train and measure every trial of an experiment file, or of base `configs` and what to `vary`, as `seq2attn compare`.

    executor: where trials run: `processes` of this machine (the default), `dask:ADDRESS`, or a function that makes any
    standard Executor whose workers are processes that see `runs_dir`.
    options: `name`, `baseline`, `metric`, `lengths`, `families`, `samples` and `checkpoint`, as on the command line.
    Trials run in their own processes, so a script must call this below `if __name__ == "__main__":`. The result's
    `failed` has the reasons of failed trials, `busy` the trials that another process trains. The first Ctrl-C saves and
    raises `KeyboardInterrupt`.
    """
    from seq2attn.comparison.experiment import compose_experiment
    from seq2attn.comparison.plan import make_plan
    from seq2attn.comparison.run import run_comparison
    from seq2attn.config.plugins import load_plugins
    from seq2attn.display.progress import make_display

    loaded = load_plugins(plugins)
    file = None if experiment is None else Path(experiment)
    plan = make_plan(compose_experiment(file, list(map(Path, configs)), vary, overrides, **options), Path(runs_dir))
    with make_display(progress) as display:
        found = run_comparison(plan, device=device, plugins=loaded, workers=workers, executor=executor, display=display)
    if found.stopped_by is not None:
        raise KeyboardInterrupt("stopped; the same call continues")
    return found


def _find(run: str | Run | None, runs_dir: str | Path) -> Run:
    from seq2attn.runs.run import Run, find_run

    return run if isinstance(run, Run) else find_run(Path(runs_dir), run)
