"""`seq2attn train`"""

import shlex
from pathlib import Path
from typing import Annotated

from seq2attn.cli.options import Device, LoadedPlugins, Overrides, RunsDir, option, run_names, stop
from seq2attn.display.console import say
from seq2attn.display.progress import make_display
from seq2attn.runs.records import MAX_THREADS
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options, resume_command, runs_dir_option

Threads = Annotated[
    int | None, option("N", "Number of CPU threads. Default: 1.", min=1, max=MAX_THREADS)
]


def train(
    config: Annotated[
        Path | None, option("FILE", "The YAML config to train.", "--config", "-c")
    ] = None,
    overrides: Overrides = None,
    name: Annotated[
        str | None,
        option("NAME", "The run's name. Default: the config's name, its changes and a number."),
    ] = None,
    note: Annotated[
        str | None, option("TEXT", "A note about the run, which `runs` and `report` show.")
    ] = None,
    resume: Annotated[
        str | None,
        option("RUN", "Continue this run from its last checkpoint.", autocompletion=run_names),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a model from a config.

    Makes a run directory with checkpoints, metrics and TensorBoard events, and prints its path.
    Ctrl-C saves the run and prints how to continue it; the weights are bit-identical whether or not
    training was interrupted.

    Examples:

      seq2attn train --config configs/scaled.yaml

      seq2attn train -c configs/scaled.yaml -s model.attention.score=additive

      seq2attn train --resume scaled-001
    """
    from seq2attn.runs.create import prepare_training

    # the config, and the run to continue or to make
    settings, where = prepare_training(
        config,
        overrides or (),
        root=runs_dir,
        name=name,
        resume=resume,
        plugins=plugin or [],
        note=note,
    )
    # imports torch, which takes seconds: a mistake in the config has been reported by now
    from seq2attn.training import session

    with make_display() as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    run = ended.run
    if ended.stopped_by is not None:  # the number of a signal, such as Ctrl-C's
        progress = f"step {ended.step:,}; everything is saved."
        stop(ended.stopped_by, progress, resume_command(run))
    data = settings.data_files.get("dev")  # a file that `eval` can measure a run on pairs on
    file = f" --data {shlex.quote(data)}" if data else ""
    options = f"{runs_dir_option(run.path.parent)}{plugin_options(run.environment.plugins)}"
    say(f"Next: seq2attn eval {run.name}{options}{file}")
    print(run.path)
