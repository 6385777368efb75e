"""`seq2attn train`"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.output import program
from seq2attn.display.console import note, write_line
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.machine import MOST_THREADS
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run, plugin_options, resume_options

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.training.session import NewRun


def train(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The YAML config to train."),
    ] = None,
    overrides: options.Overrides = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The run's name. Default: the config's, with what --set changes, numbered."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Continue a run from its last checkpoint.", autocompletion=completion.runs
        ),
    ] = None,
    device: options.Device = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_THREADS,
            help="CPU threads. Default: 1; more help only large models and batches.",
        ),
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
    if resume is not None:
        _check_resumed(resume, overrides, name, config, runs_dir)
        from seq2attn.runs.resuming import config_to_resume

        run = find_run(runs_dir, resume)
        named = None if config is None else _load(config, overrides or ())[0]
        _train(config_to_resume(run, named), run, device, threads)
    elif config is not None:
        settings, changes = _load(config, overrides or ())
        from seq2attn.runs.making import run_name
        from seq2attn.training.session import NewRun

        chosen = run_name(config, changes) if name is None else name
        new = NewRun(runs_dir, chosen, exact=name is not None, plugins=plugins, changes=changes)
        _train(settings, new, device, threads)
    else:
        raise Seq2AttnError("give either --config FILE or --resume RUN", hint="See: seq2attn train --help")


def _check_resumed(resume: str, overrides: list[str] | None, name: str | None, config: Path | None, root: Path) -> None:
    """Refuse options that are for new runs; with a config, which a run on files needs, --set may name the files."""
    if name or (overrides and config is None):
        raise Seq2AttnError(
            "--resume continues a run unchanged; --set and --name are for new runs",
            hint=f"For a new run: seq2attn train --config {root / resume}/config.yaml --set ...",
        )


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


def _train(config: Config, where: Run | NewRun, device: str, threads: int | None) -> None:
    from seq2attn.display.progress import make_display
    from seq2attn.training import session

    try:
        with make_display() as display:
            ended = session.train(config, where, device=device, threads=threads, display=display)
    except Seq2AttnError as error:
        raise _with_next_command(error) from error
    run = ended.run
    if ended.stopped_by is not None:
        names = {int(one): one.name for one in signal.Signals}
        name = names.get(ended.stopped_by, f"signal {ended.stopped_by}")
        note(f"stopped by {name} after step {ended.step:,}; everything is saved.")
        note(_resume_command(run))
        raise typer.Exit(128 + ended.stopped_by)
    if ended.reached_target:
        note(f"reached the target after step {ended.step:,}")
    elif ended.stalled:
        note(f"stopped after step {ended.step:,}: training.patience evaluations in a row brought no improvement")
    note(f"Next: {program()} eval {_run_arguments(run)}{_data_option(run)}")
    write_line(str(run.path))


def _resume_command(run: Run) -> str:
    runs_dir = options.runs_dir_option(run.path.parent)
    return f"Continue with: {program()} train --resume {run.name}{runs_dir}{resume_options(run)}"


def _data_option(run: Run) -> str:
    """The option of `eval` that names the dev file, of a run that has one."""
    dev = run.config().data_files.get("dev")
    return "" if dev is None else f" --data {shlex.quote(dev)}"


def _run_arguments(run: Run) -> str:
    """The arguments by which a command in this directory finds the run."""
    return f"{run.name}{options.runs_dir_option(run.path.parent)}{plugin_options(run.plugins())}"


def _with_next_command(error: Seq2AttnError) -> Seq2AttnError:
    """`error`, which ended a training, with the command that continues from the last checkpoint."""
    from seq2attn.training.loop import Diverged

    run = None if error.run is None else Run(error.run)
    if run is None or isinstance(error, Diverged) or error.exit_code != 1 or not run.checkpoint("last").is_file():
        return error
    return Seq2AttnError(error.message, hint=f"The last checkpoint is intact. {_resume_command(run)}", exit_code=1)
