"""`seq2attn report`, `page` and `export`: runs as HTML files, and models for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from seq2attn.cli import options
from seq2attn.cli.options import argument, option
from seq2attn.display.console import write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import DEFAULT_ROOT

MOST = 2  # models side by side
HtmlPath = Annotated[Path, option("FILE", "The page to write.")]


def report(
    names: Annotated[
        list[str] | None,
        argument(
            "RUN...|EXPERIMENT",
            "Names of runs, or a comparison's name or experiment file. Default: the newest run that is not a trial.",
            autocompletion=options.runs,
        ),
    ] = None,
    to: HtmlPath = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write runs or a comparison as one HTML page; print its path.

    The page needs no network: summary, curves, accuracy by length, attention through training, the
    settings that differ, and environment. Of a comparison it shows the groups over their seeds. An
    older report is replaced; any other file is kept.

    Examples:

      seq2attn report scaled-001 dot-001 --to scores.html

      seq2attn report chapter --to chapter.html
    """
    _check_page(to, "report")
    from seq2attn.pages.report import find_comparison, render, report_of_comparison, report_of_runs

    plan = find_comparison(names or [], runs_dir)
    if plan is not None:
        title, sections = report_of_comparison(plan, runs_dir)
    else:
        title, sections = report_of_runs(options.find_runs(runs_dir, names))
    _write(to, render(title, sections))


def page(
    names: Annotated[
        list[str] | None,
        argument(
            "RUN [RUN]",
            "One run, or two side by side. Default: the newest.",
            autocompletion=options.runs,
        ),
    ] = None,
    to: HtmlPath = Path("page.html"),
    text: Annotated[
        list[str] | None, option("STRING", "A string to begin with. May be repeated.")
    ] = None,
    train: Annotated[
        list[Path] | None,
        option("CONFIG", "Train this config in the page, instead of showing a run. Twice: a race."),
    ] = None,
    overrides: options.Overrides = None,
    snapshots: Annotated[int, option("N", "Earlier steps of training, if kept.", min=0)] = 8,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write a trained model as one HTML page that runs it.

    The page needs no network. Type a string and watch the answer and its attention; step through
    the decoding; set, ban or drag a weight, change what the model wrote. Two runs are shown side by
    side; a run trained with training.snapshot_weights=true through its training. An older page is
    replaced; any other file is kept. With --train the page begins with untrained weights, and
    trains them itself. Needs two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn page scaled-001 --to scaled.html --text hello

      seq2attn page --train configs/scaled.yaml --set model.hidden=48 --set task.max_length=6

      seq2attn page scaled-001 dot-001 --to scores.html
    """
    _check_page(to, "page")
    if len(names or ()) > MOST:
        raise Seq2AttnError(
            f"{len(names or ())} runs are too many for one page; at most {MOST} are allowed"
        )
    if train and (names or len(train) > MOST or len({path.stem for path in train}) < len(train)):
        raise Seq2AttnError("--train takes one config, or two of different names, and no runs")
    if overrides and not train:
        raise Seq2AttnError("--set changes a config that --train names; a run keeps its own")
    from seq2attn.config import load_config

    configs = {path.stem: load_config(path, overrides or []) for path in train or ()}
    runs = [] if train else options.find_runs(runs_dir, names)
    from seq2attn.pages.page import render, shown_runs, untrained

    shown = (
        untrained(configs, text or ())
        if train
        else shown_runs(runs, checkpoint, text or (), snapshots)
    )
    _write(to, render(shown))


def export(
    run: options.RunArgument = None,
    to: Annotated[Path | None, option("FOLDER", "A new folder. Default: RUN-export.")] = None,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Export a trained model for use without seq2attn.

    The folder holds the model's own functions as ONNX graphs, a manifest with the config, the
    vocabularies and the loops around the graphs, and a text that explains how to run them. Needs
    two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn export scaled-001 --to scaled
    """
    from seq2attn.inference.trained_model import load_run
    from seq2attn.pages.folder import write_folder

    (chosen,) = options.find_runs(runs_dir, run and [run])
    folder = to or Path(f"{chosen.name}-export")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        state = "is not empty" if folder.is_dir() else "is a file, not a folder"
        raise Seq2AttnError(f"{folder} {state}", hint="Name a new folder: --to FOLDER")
    write_folder(folder, load_run(chosen, checkpoint, "cpu"))
    write_line(str(folder))


def _check_page(path: Path, kind: str) -> None:
    """Check the path before the work. A file that exists is replaced only if it says that it is a
    page of this kind.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise Seq2AttnError(f"{path}: a {kind}'s file name ends with .html")
    if not path.parent.is_dir():
        raise Seq2AttnError(f"{path}: there is no directory {path.parent}")
    sign = f'<meta name="generator" content="seq2attn {kind}">'
    if path.exists() and sign.encode() not in path.read_bytes():
        raise Seq2AttnError(
            f"{path} exists and is not a {kind}", hint="Name another file with --to FILE."
        )


def _write(path: Path, text: str) -> None:
    """Write a page and print its name."""
    write_atomically(path, text.encode(errors="backslashreplace"))
    write_line(str(path))
