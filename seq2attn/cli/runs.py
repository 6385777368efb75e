"""`seq2attn runs`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, write_json
from seq2attn.display.table import Cell, Column, Table
from seq2attn.runs.lock import state_of
from seq2attn.runs.run import DEFAULT_ROOT, MAKE_ONE, Run, newest_first


def runs(
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many at most.")] = 50,
    as_json: options.AsJson = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """List runs, the newest first.

    "exact match, worst" is the lowest exact match over the trained lengths in the run's last evaluation; of a run on pairs
    of strings, WER is the word error rate on the dev set.
    A run is "training" while a process trains it, and "stopped" if that process has ended early.

    Examples:

      seq2attn runs

      seq2attn runs --limit 5 --json
    """
    found = newest_first(runs_dir)
    if not found:
        note(f"no run in {runs_dir} yet. {MAKE_ONE}")
    table = Table(COLUMNS, [_row(run) for run in found[:limit]])
    if as_json:
        write_json(table.records())
    else:
        table.show()
        if len(found) > limit:
            note(f"{len(found) - limit:,} older runs; --limit shows more")


COLUMNS = (
    Column("run"),
    Column("state"),
    Column("step", right=True, optional=True),
    Column("of", right=True, optional=True, key="steps"),
    Column("score", optional=True),
    Column("seed", right=True, optional=True, form="d"),
    Column("task", optional=True),
    Column("exact match, worst", right=True, key="exact_match_worst"),
    Column("WER", right=True),
    Column("made (UTC)", optional=True, key="made"),
)


def _row(run: Run) -> list[Cell]:
    status, made = run.status(), run.environment().created
    own = {"run": run.name, "state": state_of(run, status), "made": made and f"{made:%Y-%m-%d %H:%M}"}
    record = status.model_dump() | own
    return [record[column.name] for column in COLUMNS]
