"""`seq2attn train`"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, program, stderr, write_line
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.machine import MOST_THREADS
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run, plugin_options

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.training.session import NewRun


def train(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The YAML config to train.")
    ] = None,
    overrides: options.Overrides = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name. Default: the config's, numbered.")] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Continue a run where its last checkpoint is.")
    ] = None,
    device: options.Device = "auto",
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_THREADS, help="CPU threads. Default: 1; more pay for large models and batches."),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Leave a trace of steps 11 to 30 in the run, to see where time goes.")
    ] = False,
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
    """
    if config is not None and resume is not None:
        raise Seq2AttnError(
            "both --config and --resume are given: one begins a run, the other continues one",
            hint="Leave one of them out. See: seq2attn train --help",
        )
    if config is None and resume is None:
        raise Seq2AttnError("give either --config FILE or --resume RUN", hint="See: seq2attn train --help")
    plugins = options.load_plugins(plugin)
    if resume is not None:
        if overrides or name:
            raise Seq2AttnError(
                "--resume continues a run as it is; --set and --name are for new ones",
                hint=f"For a new run: seq2attn train --config {runs_dir / resume}/config.yaml --set ...",
            )
        run = find_run(runs_dir, resume)
        _train(run.config(), run, device, threads, profile)
        return
    assert config is not None
    from seq2attn.config import check_overrides

    check_overrides(overrides or ())
    settings = _load(config, overrides or ())
    from seq2attn.runs.making import run_name
    from seq2attn.training.session import NewRun

    new = NewRun(runs_dir, run_name(config) if name is None else name, exact=name is not None, plugins=plugins)
    _train(settings, new, device, threads, profile)


def _load(file: Path, overrides: Sequence[str]) -> Config:
    from seq2attn.config import load_config

    try:
        return load_config(file, overrides)
    except ConfigError as error:
        if not any(problem.path == "configs" for problem in error.problems):
            raise
        hint = f"It is trained by: seq2attn compare {shlex.quote(str(file))}"
        raise Seq2AttnError(
            f"{file}: this is an experiment, which names configs, not a model's config", hint=hint
        ) from None


def _train(config: Config, where: Run | NewRun, device: str, threads: int | None, profile: bool) -> None:
    from seq2attn.cli.progress import make_display
    from seq2attn.training import session

    display = make_display(stderr())
    try:
        with display:
            ended = session.train(config, where, device=device, threads=threads, display=display, profile=profile)
    except Seq2AttnError as error:
        if display.run is None or not display.run.checkpoint("last").is_file():
            raise
        raise _with_next_command(error, display.run) from error
    run = ended.run
    if display.was_finished:
        write_line(str(run.path))
        return
    if profile:
        _note_profile(run)
    if ended.stopped_by is not None:
        note(f"stopped by {_signal_name(ended.stopped_by)} after step {ended.step:,}; all is saved.")
        note(_resume_command(run))
        raise typer.Exit(128 + ended.stopped_by)
    if ended.reached_target:
        note(f"reached the target after step {ended.step:,}")
    note(f"Next: {program()} eval {_run_words(run)}")
    write_line(str(run.path))


def _note_profile(run: Run) -> None:
    if run.profile_file.is_file():
        note(f"a trace of 20 steps: {run.profile_file}; https://ui.perfetto.dev or chrome://tracing shows it")
    else:
        note("no trace: --profile is of steps 11 to 30, and training ended before")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _resume_command(run: Run) -> str:
    return f"Go on with: {program()} train --resume {_run_words(run)}"


def _run_words(run: Run) -> str:
    """The run as another command finds it, in this directory."""
    return f"{run.name}{options.runs_dir_option(run.path.parent)}{plugin_options(run.plugins())}"


def _with_next_command(error: Seq2AttnError, run: Run) -> Seq2AttnError:
    """`error`, which ended a training, with the command that continues from the last checkpoint."""
    from seq2attn.training.loop import Diverged

    if isinstance(error, Diverged) or error.exit_code != 1:
        return error
    return Seq2AttnError(error.message, hint=f"The last checkpoint is whole. {_resume_command(run)}", exit_code=1)
