"""`seq2attn report`"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.output import note, write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import DEFAULT_ROOT

TITLE = "seq2attn: "  # how the title of every report begins


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...|EXPERIMENT",
            help="Names of runs, or a comparison's name or experiment file. Default: the newest run that is not a trial.",
            autocompletion=completion.configs_and_runs,
        ),
    ] = None,
    same: options.SameRuns = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The page to write.")] = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Write one or more runs, or a comparison, as a single HTML page, and print its path.

    The page opens from disk and needs no network: summary, interactive curves, accuracy by length, attention through
    training, configs with their differences highlighted, parameters and environment. An older report of the same file name
    is replaced; any other file is kept.

    For a comparison it shows the groups over their seeds: the table of `compare`, curves with bands, accuracy by length,
    and the attention of each trial. `compare` prints the comparison's name, with which every trial's name begins.

    Examples:

      seq2attn report

      seq2attn report scaled-001 dot-001 --to scores.html

      seq2attn report chapter --to chapter.html

      seq2attn report configs/experiments/chapter.yaml
    """
    if to.suffix.lower() not in (".html", ".htm"):
        raise Seq2AttnError(f"{to}: a report's file name ends with .html")
    if not to.parent.is_dir():
        raise Seq2AttnError(f"{to}: there is no directory {to.parent}")
    names = [*(names or ()), *(same or ())]
    replaced = _title_of(to)
    options.load_plugins(plugin)
    from seq2attn.comparison.plan import Plan
    from seq2attn.reporting.page import render
    from seq2attn.reporting.subject import find_subject, report_of_comparison, report_of_runs

    subject = find_subject(list(dict.fromkeys(names)), runs_dir)
    if isinstance(subject, Plan):
        title, data = report_of_comparison(subject, runs_dir)
        missing = data["experiment"]["missing"]
        if missing:
            note(f"{len(missing):,} of {len(subject.trials):,} trials are not measured yet and are left out")
    else:
        if not names:
            options.note_newest(subject[0], "seq2attn report RUN")
        title, data = report_of_runs(subject)
    write_atomically(to, render(data, f"{TITLE}{title}").encode(errors="backslashreplace"))
    if replaced is not None:
        note(f"replaced {to}, a report of {replaced}")
    write_line(str(to))


def _title_of(page: Path) -> str | None:
    """What the report that is about to be replaced is of; None if there is no such file. Refuses any other file."""
    try:
        with page.open(encoding="utf-8", errors="replace") as file:
            found = re.search(f"<title>{TITLE}(.*)</title>", file.read(4096))
    except FileNotFoundError:
        return None
    if found is None:
        raise Seq2AttnError(f"{page} exists and is not a report", hint="Name another file with --to FILE.")
    return html.unescape(found[1])
