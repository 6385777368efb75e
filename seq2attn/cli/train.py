"""`seq2attn train`"""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.options import option
from seq2attn.display.console import say, write_line
from seq2attn.display.progress import make_display
from seq2attn.runs.machine import MOST_THREADS
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options, resume_command, runs_dir_option


def train(
    config: Annotated[
        Path | None, option("FILE", "The YAML config to train.", "--config", "-c")
    ] = None,
    overrides: options.Overrides = None,
    name: Annotated[
        str | None, option("NAME", "The run's name. Default: the config's, with changes, numbered.")
    ] = None,
    about: Annotated[
        str | None,
        option("TEXT", "What to remember of the run; `runs` and `report` show it.", "--note"),
    ] = None,
    resume: Annotated[
        str | None,
        option("RUN", "Continue a run from its last checkpoint.", autocompletion=options.runs),
    ] = None,
    device: options.Device = "auto",
    threads: Annotated[
        int | None, option("N", "CPU threads. Default: 1.", min=1, max=MOST_THREADS)
    ] = None,
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a model from a config.

    Makes a run directory with checkpoints, metrics and TensorBoard events, and prints its path.
    Ctrl-C saves and prints how to continue; weights are bit-identical whether training was
    interrupted or not.

    Examples:

      seq2attn train --config configs/scaled.yaml

      seq2attn train --config configs/scaled.yaml --set model.attention.score=additive --set seed=2
    """
    from seq2attn.runs.create import prepare_training

    settings, where = prepare_training(
        config,
        overrides or (),
        root=runs_dir,
        name=name,
        resume=resume,
        plugins=plugin or [],
        note=about,
    )
    from seq2attn.training import session

    with make_display() as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    run = ended.run
    if ended.stopped_by is not None:
        name = signal.Signals(ended.stopped_by).name
        say(
            f"stopped by {name} after step {ended.step:,}; everything is saved.\nContinue with: {resume_command(run)}"
        )
        raise typer.Exit(128 + ended.stopped_by)
    dev = settings.data_files.get("dev")
    data = "" if dev is None else f" --data {shlex.quote(dev)}"
    plugins_again = plugin_options(run.environment().plugins)
    say(f"Next: seq2attn eval {run.name}{runs_dir_option(run.path.parent)}{plugins_again}{data}")
    write_line(str(run.path))
