"""`seq2attn train`"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import completion, options
from seq2attn.display.console import note, write_line
from seq2attn.display.progress import make_display
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.machine import MOST_THREADS
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run, plugin_options, resume_options

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.training.session import NewRun


def train(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The YAML config to train.")
    ] = None,
    overrides: options.Overrides = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The run's name. Default: the config's, with changes, numbered.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Continue a run from its last checkpoint.", autocompletion=completion.runs),
    ] = None,
    device: options.Device = "auto",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_THREADS, help="CPU threads. Default: 1.")
    ] = None,
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a model from a config.

    Makes a run directory with checkpoints, metrics and TensorBoard events, and prints its path. Ctrl-C saves and
    prints how to continue; weights are bit-identical whether training was interrupted or not.

    Examples:

      seq2attn train --config configs/scaled.yaml

      seq2attn train --config configs/scaled.yaml --set model.attention.score=additive --set seed=2

      seq2attn train --resume scaled-001

      seq2attn train --config configs/pairs/small.yaml --set task.train=train.tsv --set task.dev=dev.tsv
    """
    plugins = options.load_plugins(plugin)
    where: Run | NewRun
    if resume is not None:
        if name or (
            overrides and config is None
        ):  # with a config, which a run on files needs, --set may name the files
            hint = f"For a new run: seq2attn train --config {runs_dir / resume}/config.yaml --set ..."
            raise Seq2AttnError("--resume continues a run unchanged; --set and --name are for new runs", hint=hint)
        from seq2attn.runs.create import config_to_resume

        where = find_run(runs_dir, resume)
        settings = config_to_resume(where, None if config is None else _load(config, overrides or ())[0])
    elif config is not None:
        settings, changes = _load(config, overrides or ())
        from seq2attn.runs.create import run_name
        from seq2attn.training.session import NewRun

        chosen = run_name(config, changes) if name is None else name
        where = NewRun(runs_dir, chosen, exact=name is not None, plugins=plugins, changes=changes)
    else:
        raise Seq2AttnError("give either --config FILE or --resume RUN", hint="See: seq2attn train --help")
    from seq2attn.training import session

    try:
        with make_display() as display:
            ended = session.train(settings, where, device=device, threads=threads, display=display)
    except Seq2AttnError as error:
        if error.run is not None:
            error.hint = f"The last checkpoint is intact. {_continue(Run(error.run))}"
        raise
    run = ended.run
    if ended.stopped_by is not None:
        name = signal.Signals(ended.stopped_by).name
        note(f"stopped by {name} after step {ended.step:,}; everything is saved.\n{_continue(run)}")
        raise typer.Exit(128 + ended.stopped_by)
    if ended.reached_target:
        note(f"reached the target after step {ended.step:,}")
    elif ended.stalled:
        note(f"stopped after step {ended.step:,}: training.patience evaluations in a row brought no improvement")
    dev = settings.data_files.get("dev")
    data = "" if dev is None else f" --data {shlex.quote(dev)}"
    note(f"Next: seq2attn eval {options.named(run)}{plugin_options(run.plugins())}{data}")
    write_line(str(run.path))


def _load(file: Path, overrides: Sequence[str]) -> tuple[Config, list[str]]:
    """The config, and what the overrides changed in it."""
    from seq2attn.config import load_changed

    try:
        return load_changed(file, overrides)
    except ConfigError as error:
        if not any(problem.path == "configs" for problem in error.problems):
            raise
        hint = f"Run it with: seq2attn compare {shlex.quote(str(file))}"
        raise Seq2AttnError(f"{file}: this is an experiment, not the config of a model", hint=hint) from None


def _continue(run: Run) -> str:
    return f"Continue with: seq2attn train --resume {options.named(run)}{resume_options(run)}"
