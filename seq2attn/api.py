"""The Python interface: the functions that do what the commands do, with the same defaults."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from seq2attn.comparison import run as trials
from seq2attn.comparison.experiment import Base, compose_experiment
from seq2attn.comparison.loops import Train
from seq2attn.comparison.results import Comparison
from seq2attn.config import Config, Overrides
from seq2attn.display.console import make_display
from seq2attn.findings.report import Report
from seq2attn.inference.changes import ALLOWED
from seq2attn.inference.trained_model import TrainedModel, load_ensemble
from seq2attn.plugins import load_plugins
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.create import prepare_training
from seq2attn.runs.run import Run, find_run, runs_root, save_evaluation


def train(
    config: str | Path | Mapping[str, Any] | Config | Run | None = None,
    overrides: Overrides = (),
    *,
    runs_dir: str | Path | None = None,
    name: str | None = None,
    note: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    resume: str | Run | None = None,
    progress: bool | None = None,
) -> Run:
    """Train a model, as `seq2attn train` does, and return its run.

    config: a YAML file, its keys and values, or a `Config`; or a run, to continue it.
    overrides: `KEY=VALUE`, several of them, or a mapping.
    runs_dir: the directory of the runs; by default the environment variable SEQ2ATTN_RUNS, or
        `runs`.
    name: the name of the run; by default the config's file name, with the overrides and a number.
    note: a text about the run.
    device: `cpu`, `cuda` or `mps`; `auto` is cuda if there is one, otherwise cpu. With `auto`, a
        model that probably trains faster on the CPU is trained there, and a run that began on the
        CPU stays there.
    threads: how many threads an operation on the CPU uses; by default 1, or as many as a run to
        continue began with.
    plugins: files with your own parts.
    resume: the name of a run to continue, in place of a config.
    progress: True to show it; by default it is shown in a notebook and on a terminal.

    The first Ctrl-C saves and raises `KeyboardInterrupt`.
    """
    from seq2attn.training import session

    loaded = load_plugins(plugins)
    if isinstance(config, Run):
        config, resume = None, config
    # the config, and the run to continue or to make
    settings, where = prepare_training(
        config,
        overrides,
        root=runs_root(runs_dir),
        name=name,
        resume=resume,
        plugins=loaded,
        note=note,
    )
    with make_display(progress) as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    if ended.stopped_by is not None:  # the number of a signal
        raise KeyboardInterrupt(
            f"stopped after step {ended.step:,}; everything is saved in {ended.run.path}"
        )
    return ended.run


def load(
    run: str | Run | Sequence[str | Run] | None = None,
    *,
    runs_dir: str | Path | None = None,
    checkpoint: str = "best",
    device: str = "auto",
    plugins: Sequence[str | Path] = (),
) -> TrainedModel:
    """Return the trained model of a run, by default of the newest that has a checkpoint:
    `load().predict("hello")`. Raises `Seq2AttnError` if there is no such run or checkpoint.

    run: the run or its name; a list or tuple of them is loaded as one ensemble, which averages
        their probabilities.
    checkpoint: `best`, or `last` in its place if there is none; `last`; or `step-64`, one of those
        that `training.snapshot_weights` keeps.
    device: `cpu`, `cuda` or `mps`; `auto` is cuda if there is one, otherwise cpu.
    runs_dir: the directory of the runs; by default the environment variable SEQ2ATTN_RUNS, or
        `runs`.
    plugins: files with your own parts that the runs use.
    """
    load_plugins(plugins)
    root = runs_root(runs_dir)
    wanted: Sequence[Any] = run if isinstance(run, list | tuple) else [run]
    runs = [find_run(root, one) for one in wanted]
    return load_ensemble(runs, checkpoint, device)


def evaluate(
    run: str | Run | Sequence[str | Run] | None = None,
    lengths: Sequence[object] | None = None,
    *,
    runs_dir: str | Path | None = None,
    checkpoint: str = "best",
    device: str = "auto",
    plugins: Sequence[str | Path] = (),
    **options: Any,
) -> Evaluation:
    """Measure a run and save the results with it, as `seq2attn eval` does.

    run, checkpoint, runs_dir, device, plugins: as for `load`.
    lengths, options: those of `TrainedModel.evaluate`.

    Nothing is saved if `run` is an ensemble, which does not belong to one run, or if the options
    change the model, such as `temperature=0.5`: a run's results are those of its own model.
    """
    model = load(run, runs_dir=runs_dir, checkpoint=checkpoint, device=device, plugins=plugins)
    evaluation = model.evaluate(lengths, **options)
    if not model.ensemble and options.keys().isdisjoint(ALLOWED):
        save_evaluation(evaluation, model.run)
    return evaluation


def compare(
    experiment: str | Path | None = None,
    *,
    configs: Base | Sequence[Base] = (),
    vary: str | Sequence[str] = (),
    overrides: Overrides = (),
    train: Train | Mapping[str, Train] | None = None,
    runs_dir: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    executor: str | Callable[[], Executor] | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Train and measure every trial of a comparison, as `seq2attn compare` does.

    Trials run in their own processes: a script calls this below `if __name__ == "__main__":`.

    experiment: a file that describes the comparison; without one, give `configs` and `vary`.
    configs: files, or their keys and values, which are called config_1, config_2, ...
    vary: the values of keys to combine, such as `seed=1-5`.
    overrides: of every trial, as for `train`.
    train: a function that trains the `new_model(config)` it is given, in place of `seq2attn.train`;
        or several by name, which are then compared.
    workers: how many trials run at once; by default one for each core.
    executor: where trials run: by default in processes on this machine; `dask:ADDRESS`, or a
        function that makes any standard Executor whose workers are processes that see `runs_dir`.
    runs_dir, device, plugins: as for `train`.
    progress: True to show it, False not to; by default it is shown in a notebook and on a terminal.
    options: `name`, `baseline`, `metric`, `lengths`, `families`, `samples` and `checkpoint`, as on
        the command line.

    The result's `failed` has the reasons of failed trials, and `busy` the trials that another
    process trains. Raises `Seq2AttnError` if trials failed and none is done. The first Ctrl-C saves
    and raises `KeyboardInterrupt`.
    """
    loaded = load_plugins(plugins)
    bases: Sequence[Any] = configs if isinstance(configs, list | tuple) else [configs]
    composed = compose_experiment(experiment, bases, vary, overrides, train=train, **options)
    comparison = trials.compare(
        composed,
        runs_root(runs_dir),
        device=device,
        plugins=loaded,
        workers=workers,
        executor=executor,
        progress=progress,
    )
    if comparison.stopped_by is not None:  # the number of a signal
        raise KeyboardInterrupt("stopped; the same call continues")
    if comparison.failed and not comparison.groups:  # there are groups once a trial is done
        raise comparison.failure()
    return comparison


def check_attention(
    attention: Any,
    *,
    sizes: Sequence[Any] = (),
    widths: Sequence[int] = (),
    expect: str | None = None,
    require: Sequence[str] = (),
    allow: Sequence[str] = (),
    call: str = "",
) -> Report:
    """Examine any attention, a module, a class of modules or a function, as `seq2attn check
    --attention` does: what is wrong with it, and which score it has.

    sizes: what the constructor of a class is given, in the order of its arguments; by default some
        are tried.
    widths: of the query and of the keys; by default some are tried.
    expect: the score that it should have, a name or a formula such as `dot(s, h) / sqrt(D)`.
    require: `causal`; a window such as `window=3`; `stable`, that inputs times 30 do no harm; or
        what is returned, exactly and in this order: `returns=context,weights` or `returns=context`,
        (B, D) and (B, S) of one query, (B, L, D) and (B, L, S) or (B, H, L, S) of several.
    allow: codes of findings to leave out.
    call: how the attention is called, such as `attention(query[:, 0], keys, valid)`.

    A call has the names query (B, L, Dq), keys (B, S, Dk), values (B, S, Dk) and valid (B, S), True
    = real token. Without `call`, several usual ones are tried. Where none works, examine instead a
    function of your own that calls it, `attend(query, keys, valid)`; leave out `query` or `valid`
    if the attention takes none. Raises `Seq2AttnError` if it cannot be made or called.

    Shapes: B rows of a batch, L queries, S keys, H heads; D, Dq and Dk are widths.
    """
    from seq2attn.contract.parts import known_scores
    from seq2attn.doctor import examine

    return examine.check_attention(
        attention,
        sizes=sizes,
        widths=widths,
        expect=expect,
        require=require,
        allow=allow,
        call=call,
        scores=known_scores(),
    )
