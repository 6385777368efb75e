"""`seq2attn report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.html_file import HtmlFile
from seq2attn.cli.output import note
from seq2attn.runs.run import DEFAULT_ROOT

TITLE = "seq2attn: "  # how the title of every report begins


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...|EXPERIMENT",
            help="Names of runs, or a comparison's name or experiment file. Default: the newest run that is not a trial.",
            autocompletion=completion.runs,
        ),
    ] = None,
    same: options.SameRuns = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The page to write.")] = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write runs or a comparison as one HTML page; print its path.

    The page opens from disk and needs no network: summary, curves, accuracy by length, attention through
    training, configs with their differences highlighted, parameters and environment. An older report of the same file name
    is replaced; any other file is kept.

    For a comparison it shows the groups over their seeds: the numbers of `compare`, its figures, and the attention of each
    group's first trial. `compare` prints the comparison's name, with which every trial's name begins.

    Examples:

      seq2attn report

      seq2attn report scaled-001 dot-001 --to scores.html

      seq2attn report chapter --to chapter.html

      seq2attn report configs/experiments/chapter.yaml
    """
    file = HtmlFile(to, "report", f"<title>{TITLE}(.*?)</title>")
    names = [*(names or ()), *(same or ())]
    options.load_plugins(plugin)
    from seq2attn.comparison.plan import Plan
    from seq2attn.pages.report import find_subject, render, report_of_comparison, report_of_runs

    subject = find_subject(list(dict.fromkeys(names)), runs_dir)
    if isinstance(subject, Plan):
        title, sections, missing = report_of_comparison(subject, runs_dir)
        if missing:
            note(f"{missing:,} of {len(subject.trials):,} trials are not measured yet and are left out")
    else:
        if not names:
            options.note_newest(subject[0], "seq2attn report RUN")
        title, sections = report_of_runs(subject)
    file.write(render(f"{TITLE}{title}", sections))
