"""`seq2attn train`"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, note_if_slow, program, stderr, write_line
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, Run, create_run, find_run, named_plugins

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.training.loop import Trainer

MOST_THREADS = 256


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
    says how to go on; a resumed run ends with the same bytes of weights as one that was never stopped.

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
        settings = run.config()
    else:
        assert config is not None
        from seq2attn.config import check_overrides

        check_overrides(overrides or ())
        settings = _load(config, overrides or ())
    import torch

    from seq2attn.model.build import build_model
    from seq2attn.runs.environment import choose_device, describe_environment
    from seq2attn.runs.footprint import check_training_memory
    from seq2attn.training.allocator import keep_freed_memory

    keep_freed_memory()

    chosen_device = choose_device(device)
    if resume is not None:
        threads = threads or _recorded_threads(run)
    threads = threads or 1
    torch.set_num_threads(threads)
    check_training_memory(settings, chosen_device)
    if resume is None:
        assert config is not None
        environment = describe_environment(seed=settings.seed, device=chosen_device, threads=threads, plugins=plugins)
        build_model(settings)  # a score that cannot be built must not leave a run behind
        if name is None:
            run = create_run(runs_dir, _run_name(config), settings, environment)
        else:
            run = create_run(runs_dir, name, settings, environment, exact=True)
    _train(run, settings, chosen_device, profile)


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


def _run_name(config: Path) -> str:
    """`configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name, in characters a run name may have."""
    parts = config.with_suffix("").parts
    below = parts[parts.index("configs") + 1 :] if "configs" in parts else parts[-1:]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(below)).strip("-._")[:80] or "run"


def _recorded_threads(run: Run) -> int | None:
    """The threads that `run` was begun with, if its environment.json says so sensibly."""
    threads = run.environment().get("threads")
    return threads if isinstance(threads, int) and 1 <= threads <= MOST_THREADS else None


def _train(run: Run, config: Config, device: object, profile: bool) -> None:
    from seq2attn.cli.progress import make_display
    from seq2attn.runs.lock import training_lock
    from seq2attn.training.loop import Trainer

    display = make_display(stderr())
    with training_lock(run) as locked:
        if not locked:
            note(
                f"{run.path} lies on a file system without locks: nothing but you keeps it from being trained twice at once"
            )
        steps_before = run.status().get("step")
        trainer = Trainer(run, config, device, display)  # type: ignore[arg-type]
        start = trainer.progress.step
        if trainer.finished:
            trainer.mend_status()
            note(f"{run.path} is finished: {start:,} of {config.training.steps:,} steps")
            write_line(str(run.path))
            return
        if steps_before and not start:
            note(f"{run.checkpoint('last')} is gone: training begins again, from step 0")
        if config.model.architecture == "gru":
            note_if_slow(device)
            if start:
                _say_if_rounded_otherwise(run, device)
        note(f"{'resuming' if start else 'training'} {run.path} on {device} from step {start:,}")
        try:
            with display:
                stopped_by = trainer.train(profile=profile)
        except Seq2AttnError as error:
            raise _with_way_on(error, run) from error
    if profile:
        _say_profiled(run)
    if stopped_by is not None:
        note(f"stopped by {_signal_name(stopped_by)} after step {trainer.progress.step:,}; all is saved.")
        note(_way_on(run))
        raise typer.Exit(128 + stopped_by)
    _say_finished(run, trainer)


def _say_finished(run: Run, trainer: Trainer) -> None:
    if trainer.progress.reached_target:
        note(f"reached the target after step {trainer.progress.step:,}")
    note(f"Next: {program()} eval {_named(run)}")
    write_line(str(run.path))


def _say_if_rounded_otherwise(run: Run, device: object) -> None:
    """That a run goes on with other recurrences than it began with, whose sums differ in their last digits."""
    from seq2attn.kernels import describe_kernels

    before, now = run.environment().get("kernels", "not compiled"), describe_kernels(device)  # type: ignore[arg-type]
    if before != now:
        note(f"{run.path} was begun with other recurrences ({before}) than there are now ({now})")
        note("its weights will not be those of a run that was never stopped")


def _say_profiled(run: Run) -> None:
    if run.profile_file.is_file():
        note(f"a trace of 20 steps: {run.profile_file}; https://ui.perfetto.dev or chrome://tracing shows it")
    else:
        note("no trace: --profile is of steps 11 to 30, and training ended before")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _way_on(run: Run) -> str:
    return f"Go on with: {program()} train --resume {_named(run)}"


def _named(run: Run) -> str:
    """The run as another command finds it, in this directory."""
    return f"{run.name}{options.named_runs_dir(run.path.parent)}{named_plugins(run.plugins())}"


def _with_way_on(error: Seq2AttnError, run: Run) -> Seq2AttnError:
    """`error`, which ended a training, with the sentence on how to go on from the last checkpoint."""
    from seq2attn.training.loop import Diverged

    if isinstance(error, Diverged) or error.exit_code != 1 or not run.checkpoint("last").is_file():
        return error
    return Seq2AttnError(error.message, hint=f"The last checkpoint is whole. {_way_on(run)}", exit_code=1)
