"""`seq2attn report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.files import write_atomically
from seq2attn.runs import DEFAULT_ROOT, find_run

MOST_RUNS = 40


def report(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="Runs' names; the newest where none is given.")
    ] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The page to write.")] = Path("report.html"),
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Put one or several runs into a single HTML page, and print its path.

    The page opens from disk, without a network: summary, curves to be read off with the pointer, accuracy by length,
    attention through training, configs with their differences marked, parameters and environment.

    Examples:

      seq2attn report

      seq2attn report scaled-001 dot-001 --to scores.html
    """
    if to.suffix.lower() not in (".html", ".htm"):
        raise Seq2AttnError(f"{to}: a report's file name ends with .html")
    if not to.parent.is_dir():
        raise Seq2AttnError(f"{to}: there is no directory {to.parent}")
    options.load_plugins(plugin)
    names = list(dict.fromkeys(runs or ()))
    if len(names) > MOST_RUNS:
        raise Seq2AttnError(f"{len(names)} runs are more than a page can show; at most {MOST_RUNS}")
    found = [find_run(runs_dir, name) for name in names] or [find_run(runs_dir, None)]
    if not names:
        options.note_newest(found[0], "seq2attn report RUN")
    from seq2attn.reporting.collect import collect
    from seq2attn.reporting.page import render

    title = "seq2attn: " + ", ".join(run.name for run in found[:4])
    if len(found) > 4:
        title += f" and {len(found) - 4} more"
    write_atomically(to, render(collect(found), title).encode())
    write_line(str(to))
