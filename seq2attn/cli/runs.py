"""`seq2attn runs`"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, write_json
from seq2attn.display.table import Column, Table
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
    records = [_record(run) for run in found[:limit]]
    for problem in [problem for record in records for problem in record["problems"]]:
        note(problem)
    if as_json:
        write_json(records)
    else:
        _table(records).show()
        if len(found) > limit:
            note(f"{len(found) - limit:,} older runs; --limit shows more")


def _table(records: list[dict[str, Any]]) -> Table:
    columns = [
        Column("run"),
        Column("state"),
        Column("step", right=True, optional=True),
        Column("score", optional=True),
        Column("seed", right=True, optional=True, form="d"),
        Column("task", optional=True),
        Column("exact match, worst", right=True, key="exact_match_worst"),
        Column("WER", right=True),
        Column("made (UTC)", optional=True, key="made"),
    ]
    rows = []
    for record in records:
        step = None if record["step"] is None else f"{record['step']}/{record['steps'] or '-'}"
        made = (record["made"] or "").replace("T", " ")[:16]  # 2030-01-01 12:34
        rows.append([(record | {"step": step, "made": made})[column.name] for column in columns])
    return Table(columns, rows)


def _record(run: Run) -> dict[str, Any]:
    status, environment = run.status(), run.environment()
    keys = ("step", "steps", "task", "score", "seed", "exact_match_worst", "wer")
    record = {"run": run.name, "state": state_of(run, status), **{key: getattr(status, key) for key in keys}}
    made = environment.created and environment.created.isoformat()
    return record | {"made": made, "problems": [*filter(None, (status.problem, environment.problem))]}
