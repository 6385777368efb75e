"""`seq2attn page`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.html_file import HtmlFile
from seq2attn.cli.output import note
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, find_run

MOST = 2  # models side by side
MOST_STEPS = 8  # of training, before the last, unless the user wants more


def page(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN [RUN]",
            help="One run, or two side by side. Default: the newest.",
            autocompletion=completion.runs,
        ),
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The page to write.")] = Path("page.html"),
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="STRING", help="A string to begin with. May be repeated.")
    ] = None,
    snapshots: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=100,
            help=f"Show the weights of N earlier steps of training, too, where the run kept them. Default: {MOST_STEPS}.",
        ),
    ] = None,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write a trained model as one HTML page that runs it.

    The page opens from disk and needs no network. Type a string and watch the answer and its attention; step through the
    decoding; set, ban or drag a weight, change what the model wrote, scale the scores, and see at once what becomes of the
    answer. Two runs are shown side by side. A run trained with training.snapshot_weights=true is shown through its training.
    An older page of the same file name is replaced; any other file is kept.

    The page runs the model's own functions, exported by PyTorch. That needs two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn page

      seq2attn page scaled-001 --to scaled.html --text hello

      seq2attn page scaled-001 dot-001 --to scores.html
    """
    file = HtmlFile(to, "page", '<meta name="generator" content="seq2attn page">.*?<title>(.*?)</title>')
    if len(names or ()) > MOST:
        raise Seq2AttnError(f"{len(names or ())} runs are too many for one page; at most {MOST} are allowed")
    options.load_plugins(plugin)
    from seq2attn.pages.graphs import need_exporter
    from seq2attn.pages.page import render, shown_runs

    need_exporter()
    runs = [find_run(runs_dir, name) for name in names or []] or [find_run(runs_dir, None)]
    if not names:
        options.note_newest(runs[0], "seq2attn page RUN")
    if snapshots and not any(run.kept_steps() for run in runs):
        note(
            f"{' and '.join(run.name for run in runs)}: no weights of earlier steps were kept; train with "
            "--set training.snapshot_weights=true to see a model through its training"
        )
    file.write(render(shown_runs(runs, checkpoint, text or (), MOST_STEPS if snapshots is None else snapshots)))
