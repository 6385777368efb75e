"""`seq2attn runs`"""

from typing import Annotated, Any

from seq2attn.cli.options import AsJson, RunsDir, option
from seq2attn.display.console import say
from seq2attn.display.table import Column, Table
from seq2attn.errors import unknown
from seq2attn.runs.records import Status
from seq2attn.runs.run import DEFAULT_ROOT, MAKE_ONE, Run, newest_first, state_of

COLUMNS = [
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
    Column("note", optional=True),
]


def runs(
    sort: Annotated[
        str | None, option("KEY", "Sort by a column or metric, lowest first; -KEY: highest first.")
    ] = None,
    limit: Annotated[int, option("N", "List at most N runs.", "--limit", "-n", min=1)] = 50,
    as_json: AsJson = False,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """List runs, the newest first.

    "exact match, worst" is the lowest exact match over the trained lengths in the run's last
    evaluation; for a run on pairs of strings, WER is the word error rate on the dev set. A run is
    "training" while a process trains it, and "stopped" if that process ended early.

    Examples:

      seq2attn runs --limit 5 --json

      seq2attn runs --sort -exact_match_worst
    """
    # a record also has what is in a run's status and in no column, such as other metrics
    records = [_record(run) for run in newest_first(runs_dir)]
    columns = list(COLUMNS)
    if not records:
        say(f"no trained model in {runs_dir.absolute()} yet. {MAKE_ONE}")
    if sort:
        key = sort.removeprefix("-")
        known = [column.name for column in columns]
        keys = dict.fromkeys([*known, *Status.model_fields])
        if key not in keys:
            raise unknown("--sort key", key, keys)
        if key not in known:  # show what is sorted by
            columns.append(Column(key, right=True))
        falling = sort.startswith("-")
        if not falling:
            records.reverse()  # of equal values, the oldest run comes first
        with_value = [record for record in records if record[key] is not None]
        without = [record for record in records if record[key] is None]
        with_value.sort(key=lambda record: record[key], reverse=falling)
        records = with_value + without
    Table.of_records(records[:limit], columns).show(as_json)
    if len(records) > limit and not as_json:
        say(f"{len(records) - limit:,} more; raise --limit to see them")


def _record(run: Run) -> dict[str, Any]:
    """Return what is known of a run, by the keys of `COLUMNS` and of its status; None where a value
    is not known.
    """
    status, environment = run.status(), run.environment
    made = environment.created and f"{environment.created:%Y-%m-%d %H:%M}"
    return status.model_dump() | {
        "run": run.name,
        "state": state_of(run, status),
        "made": made,
        "note": environment.note,
    }
