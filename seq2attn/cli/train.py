"""`seq2attn train`"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, stderr, write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs import DEFAULT_ROOT, Run, create_run, find_run

if TYPE_CHECKING:
    from seq2attn.config import Config


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
        int | None, typer.Option(min=1, help="CPU threads. Default: 1, the fastest at this size.")
    ] = None,
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
    if (config is None) == (resume is None):
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
        from seq2attn.config import load_config

        settings = load_config(config, overrides or ())
    import torch

    from seq2attn.build import build_model
    from seq2attn.environment import choose_device, describe_environment
    from seq2attn.training.allocator import keep_freed_memory

    keep_freed_memory()

    chosen_device = choose_device(device)
    if resume is not None:
        threads = threads or run.environment().get("threads")
    threads = threads or 1
    torch.set_num_threads(threads)
    if resume is None:
        assert config is not None
        environment = describe_environment(seed=settings.seed, device=chosen_device, threads=threads, plugins=plugins)
        build_model(settings)  # a score that cannot be built must not leave a run behind
        if name is None:
            run = create_run(runs_dir, _run_name(config), settings, environment)
        else:
            run = create_run(runs_dir, name, settings, environment, exact=True)
    _train(run, settings, chosen_device)


def _run_name(config: Path) -> str:
    """`configs/chapter/dot.yaml` -> `chapter-dot`; elsewhere the file's own name, in characters a run name may have."""
    parts = config.with_suffix("").parts
    below = parts[parts.index("configs") + 1 :] if "configs" in parts else parts[-1:]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(below)).strip("-._")[:80] or "run"


def _train(run: Run, config: Config, device: object) -> None:
    from seq2attn.cli.progress import make_display
    from seq2attn.training.trainer import Trainer

    display = make_display(stderr())
    with display:
        trainer = Trainer(run, config, device, display)  # type: ignore[arg-type]
        start = trainer.progress.step
        if trainer.finished:
            note(f"{run.path} is finished: {start:,} of {config.training.steps:,} steps")
            write_line(str(run.path))
            return
        note(f"{'resuming' if start else 'training'} {run.path} on {device} from step {start:,}")
        stopped_by = trainer.train()
    if stopped_by is not None:
        note(f"stopped by {signal.Signals(stopped_by).name} after step {trainer.progress.step:,}; all is saved.")
        note(f"Go on with: seq2attn train --resume {run.name}{_runs_dir(run)}")
        raise typer.Exit(128 + stopped_by)
    if trainer.progress.reached_target:
        note(f"reached the target after step {trainer.progress.step:,}")
    note(f"Next: seq2attn eval {run.name}{_runs_dir(run)}")
    write_line(str(run.path))


def _runs_dir(run: Run) -> str:
    root = run.path.parent
    return "" if root == DEFAULT_ROOT or os.environ.get("SEQ2ATTN_RUNS") else f" --runs-dir {root}"
