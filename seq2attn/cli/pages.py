"""`seq2attn report`, `page` and `export`: runs as HTML files, and models for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from seq2attn.cli import options
from seq2attn.cli.options import option
from seq2attn.display.console import write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import DEFAULT_ROOT

HtmlPath = Annotated[Path, option("FILE", "The page to write.")]


def report(
    names: options.RunArguments = None,
    to: HtmlPath = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write runs or a comparison as one HTML page, and print its path.

    The page works offline. It shows a summary, curves, accuracy by length, attention through
    training, the settings that differ, and the environment. For a comparison, given by its name or
    its experiment file, it shows the groups over their seeds. An older report is replaced; any
    other file is left alone.

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
    names: options.RunArguments = None,
    to: HtmlPath = Path("page.html"),
    text: Annotated[
        options.Texts, option("STRING", "A string to begin with. May be repeated.")
    ] = None,
    train: Annotated[
        list[Path] | None,
        option(
            "CONFIG",
            "Train this config in the page instead of showing a run. Given twice, two models race.",
        ),
    ] = None,
    overrides: options.Overrides = None,
    snapshots: Annotated[
        int, option("N", "Show up to N earlier steps of training, if kept.", min=0)
    ] = 8,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write a trained model as one HTML page that runs it.

    The page works offline. Type a string and watch the answer and its attention; step through the
    decoding; set, ban or drag a weight; change what the model wrote. Two runs are shown side by
    side. A run trained with training.snapshot_weights=true can be watched through its training.
    With --train, the page begins with untrained weights and trains them itself. An older page is
    replaced; any other file is left alone. Needs two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn page scaled-001 --to scaled.html --text hello

      seq2attn page --train configs/scaled.yaml --set model.hidden=48 --set task.max_length=6

      seq2attn page scaled-001 dot-001 --to scores.html
    """
    _check_page(to, "page")
    if len(names or ()) > 2:
        raise Seq2AttnError("a page shows one run, or two side by side")
    if overrides and not train:
        raise Seq2AttnError("--set changes the config of --train; a run keeps its own")
    from seq2attn.config import load_config
    from seq2attn.pages.models import run_models, untrained_models
    from seq2attn.pages.page import render

    if train:
        configs = {path.stem: load_config(path, overrides or []) for path in train}
        if names or len(train) > 2 or len(configs) < len(train):
            raise Seq2AttnError("--train takes one config, or two of different names, and no runs")
        models = untrained_models(configs, text or ())
    else:
        runs = options.find_runs(runs_dir, names)
        models = run_models(runs, checkpoint, text or (), snapshots)
    _write(to, render(models))


def export(
    name: options.RunArgument = None,
    to: Annotated[Path | None, option("FOLDER", "A new folder. Default: RUN-export.")] = None,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Export a trained model for use without seq2attn.

    The folder holds the model's functions as ONNX graphs; a manifest with the config, the
    vocabularies and the loops around the graphs; and a text that explains how to run them. Needs
    two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn export scaled-001 --to scaled
    """
    from seq2attn.inference.trained_model import load_run
    from seq2attn.pages.folder import write_folder

    (run,) = options.find_runs(runs_dir, name and [name])
    folder = to or Path(f"{run.name}-export")
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise Seq2AttnError(
            f"{folder} is not an empty folder", hint="Name a new folder: --to FOLDER"
        )
    write_folder(folder, load_run(run, checkpoint, "cpu"))
    write_line(str(folder))


def _check_page(path: Path, kind: str) -> None:
    """Check the path before any work. Only a page of the same kind is replaced."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise Seq2AttnError(f"{path}: a {kind}'s file name ends with .html")
    if not path.parent.is_dir():
        raise Seq2AttnError(f"{path}: there is no directory {path.parent}")
    generator = f'<meta name="generator" content="seq2attn {kind}">'
    if path.exists() and generator.encode() not in path.read_bytes():
        raise Seq2AttnError(
            f"{path} exists and is not a {kind}", hint="Name another file with --to FILE."
        )


def _write(path: Path, text: str) -> None:
    """Write a page and print its path."""
    write_atomically(path, text.encode(errors="backslashreplace"))
    write_line(str(path))
