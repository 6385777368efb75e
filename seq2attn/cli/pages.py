"""`seq2attn report`, `page`, `export` and `plot`: runs as HTML files, models for other programs,
and figures.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from seq2attn.cli.options import (
    CheckpointName,
    FigurePath,
    Force,
    Ideal,
    LoadedPlugins,
    Overrides,
    RunArgument,
    RunArguments,
    RunsDir,
    Texts,
    check_figure,
    check_output,
    find_runs,
    option,
    save_figure,
    write_output,
)
from seq2attn.errors import Seq2AttnError, first_of, quoted
from seq2attn.runs.run import DEFAULT_ROOT

SNAPSHOTS = 8  # shown by default
HtmlPath = Annotated[Path, option("FILE", "The page to write.")]


def report(
    names: RunArguments = None,
    to: HtmlPath = Path("report.html"),
    force: Force = False,
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Write runs or a comparison as one HTML page, and print its path.

    The page works offline. It shows a summary, curves, accuracy by length, attention through
    training, config and environment, what differs first. For a comparison, given by its name,
    it shows the groups over their seeds. An older report is replaced; any other file only with
    --force.

    Examples:

      seq2attn report scaled-001 dot-001 --to scores.html

      seq2attn report chapter --to chapter.html
    """
    check_output(to, "report", '<meta name="generator" content="seq2attn report">', force)
    from seq2attn.comparison.plan import find_comparison

    plan = find_comparison(names or [], runs_dir)  # None: the names are of runs
    runs = [] if plan else find_runs(runs_dir, names)
    from seq2attn.pages.report import render, report_of_comparison, report_of_runs

    if plan:
        title, sections = report_of_comparison(plan, runs_dir)
    else:
        title, sections = report_of_runs(runs)
    _write(to, render(title, sections))


def page(
    names: RunArguments = None,
    to: HtmlPath = Path("page.html"),
    force: Force = False,
    text: Annotated[Texts, option("STRING", "A string to begin with. May be repeated.")] = None,
    train: Annotated[
        list[Path] | None,
        option(
            "CONFIG",
            "Train this config in the page instead of showing a run. Given twice, two models race.",
        ),
    ] = None,
    overrides: Overrides = None,
    snapshots: Annotated[
        int, option("N", "Show up to N earlier steps of training, if kept.", min=0)
    ] = SNAPSHOTS,
    checkpoint: CheckpointName = "best",
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Write a trained model as one HTML page that runs it.

    The page works offline. Type a string and watch the answer and its attention; step through the
    decoding; set, ban or drag a weight; change what the model wrote. Two runs are shown side by
    side. A run trained with training.snapshot_weights=true can be watched through its training.
    With --train, the page begins with untrained weights and trains them itself. An older page is
    replaced; any other file only with --force.

    Examples:

      seq2attn page scaled-001 --to scaled.html --text hello

      seq2attn page --train configs/scaled.yaml --set task.max_length=6

      seq2attn page scaled-001 dot-001 --to scores.html
    """
    check_output(to, "page", '<meta name="generator" content="seq2attn page">', force)
    if len(names or ()) > 2:
        raise Seq2AttnError("a page shows one run, or two side by side")
    if overrides and not train:
        raise Seq2AttnError("--set changes the config of --train; a run keeps its own")
    if train and (checkpoint != "best" or snapshots != SNAPSHOTS):
        raise Seq2AttnError(
            "--train begins untrained; --checkpoint and --snapshots choose weights of a run"
        )
    from seq2attn.config import load_config

    # by the names that the page shows
    configs = {path.stem: load_config(path, overrides or []) for path in train or ()}
    if train and (names or len(train) > 2 or len(configs) < len(train)):
        raise Seq2AttnError("--train takes one config, or two of different names, and no runs")
    runs = [] if train else find_runs(runs_dir, names)
    from seq2attn.pages.page import render, run_models, untrained_models

    if train:
        models = untrained_models(configs, text or ())
    else:
        models = run_models(runs, checkpoint, text or (), snapshots)
    _write(to, render(models))


def export(
    name: RunArgument = None,
    to: Annotated[
        Path | None, option("FOLDER", "A new or empty folder. Default: RUN-export.")
    ] = None,
    checkpoint: CheckpointName = "best",
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Export a trained model for use without seq2attn.

    The folder holds the model's functions as ONNX graphs; a manifest with the config, the
    vocabularies and the loops around the graphs; and a text that explains how to run them. Needs
    two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn export scaled-001 --to scaled
    """
    (run,) = find_runs(runs_dir, name)
    folder = to or Path(f"{run.name}-export")
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise Seq2AttnError(
            f"{folder} is not an empty folder", hint="Name a new folder: --to FOLDER"
        )
    from seq2attn.export import write_folder
    from seq2attn.inference.trained_model import load_run

    write_folder(folder, load_run(run, checkpoint, "cpu"))
    print(folder)


def _write(path: Path, text: str) -> None:
    """Write a page and print its path."""
    write_output(path, text.encode(errors="backslashreplace"))
    print(path)


# ---- figures, from saved records: no model is loaded ----


def accuracy(
    file: FigurePath,
    *,
    force: Force = False,
    names: RunArguments = None,
    by_length: Annotated[
        bool,
        typer.Option(
            "--by-length",
            help="Draw what `eval` measured by string length, with intervals.",
        ),
    ] = False,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Draw exact match through training, or by string length.

    Through training, a line is the mean over the trained lengths; the shading below it reaches down
    to the worst length. By length, all calls of `eval` on the same weights count, and one run alone
    is drawn with all its accuracies.

    Examples:

      seq2attn plot accuracy scaled-001 dot-001 --plot accuracy.svg

      seq2attn plot accuracy scaled-001 none-001 --by-length --plot lengths.png
    """
    check_figure(file, force)
    from seq2attn.plotting.figures import accuracy_curves_figure, accuracy_figure
    from seq2attn.runs.run import latest_by_length, read_metrics

    runs = find_runs(runs_dir, names)
    # Scores choose the colours. They are read from records of the runs: a run's config names its
    # score, too, but reading it may need a plug-in.
    scores = [str(run.status().score) for run in runs]
    # by the run's name: (where its results by length are from, these results); or all evaluations
    # of its training, for a curve
    found: dict[str, Any] = {}
    for run in runs:
        metrics = (
            latest_by_length(run) if by_length else read_metrics(run, losses=False).evaluations
        )
        if not metrics:
            raise Seq2AttnError(f"run {run.name!r} has no evaluation yet")
        found[run.name] = metrics
    if not by_length:
        save_figure(accuracy_curves_figure(found, scores), file)
        return
    # where results are from, in words: an `eval`, or a step of training
    sources = dict.fromkeys(source for source, _ in found.values())
    results = {name: evaluation for name, (_, evaluation) in found.items()}
    title = f"{first_of(results)}: {', '.join(sources)}"
    save_figure(accuracy_figure(results, scores, title), file)


def attention(
    file: FigurePath,
    *,
    force: Force = False,
    name: RunArgument = None,
    strings: Annotated[
        Texts,
        option("TEXT", "Draw only this recorded string. May be repeated.", "--string"),
    ] = None,
    ideal: Ideal = False,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Draw attention through training on the run's sample strings.

    Examples:

      seq2attn plot attention scaled-001 --string hello --ideal --plot strip.svg
    """
    check_figure(file, force)
    from seq2attn.plotting.attention import evolution_figure
    from seq2attn.runs.run import read_attention

    (run,) = find_runs(runs_dir, name)
    snapshots = read_attention(run)
    if not snapshots:
        raise Seq2AttnError(
            f"run {run.name!r} (score {run.status().score}) has no recorded attention",
            hint="Only a score other than none has attention, recorded training.snapshots times.",
        )
    _, first_maps = snapshots[0]  # the later ones are of the same strings
    recorded = [attention_map.source for attention_map in first_maps]
    for text in strings or ():
        if text not in recorded:
            raise Seq2AttnError(
                f"run {run.name!r} has no recorded attention for {quoted(text)}; "
                f"recorded: {', '.join(recorded)}",
                hint="For any string: seq2attn predict STRING --plot FILE",
            )
    chosen = [recorded.index(text) for text in strings or recorded]  # which maps of each step
    drawn = [(step, [maps[index] for index in chosen]) for step, maps in snapshots]
    save_figure(evolution_figure(drawn, ideal=ideal), file)
