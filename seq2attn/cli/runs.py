"""`seq2attn runs`"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Annotated, Any

from seq2attn.cli import options
from seq2attn.cli.options import option
from seq2attn.display.console import say, write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, MAKE_ONE, Run, check_plain, newest_first, state_of
from seq2attn.text import did_you_mean, first_of, quoted


def runs(
    where: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE", "Only runs with this value of a config key or column. May be repeated."
        ),
    ] = None,
    sort: Annotated[
        str | None,
        option("KEY", "Sort by a column, metric or config key: best accuracy, or least, first."),
    ] = None,
    limit: Annotated[int, option("N", "How many at most.", "--limit", "-n", min=1)] = 50,
    as_json: options.AsJson = False,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """List runs, the newest first.

    "exact match, worst" is the lowest exact match over the trained lengths in the run's last
    evaluation; of a run on pairs of strings, WER is the word error rate on the dev set. A run is
    "training" while a process trains it, and "stopped" if that process has ended early. --sort -KEY
    turns the order round. A column's name may be cut, as in --sort exact.

    Examples:

      seq2attn runs --limit 5 --json

      seq2attn runs --where model.attention.score=dot --sort exact
    """
    found, columns = newest_first(runs_dir), {column.name: column for column in COLUMNS}
    if not found:
        say(f"no run in {runs_dir} yet. {MAKE_ONE}")
    records = [_record(run, with_config=bool(where or sort)) for run in found]
    chosen = options.parsed("--where", _matching, records, where or [])
    if sort:
        key = options.parsed("--sort", _key, sort.removeprefix("-"), records)
        columns.setdefault(key, Column(key, key=key))
        backwards = key.startswith("exact_match") != sort.startswith("-")
        if key == "made" and not backwards:
            chosen.reverse()  # of one minute the first comes first, too
        chosen.sort(key=lambda record: _order(record.get(key)), reverse=backwards)
        chosen.sort(key=lambda record: record.get(key) is None)
    rows = [[record.get(name) for name in columns] for record in chosen[:limit]]
    table = Table([*columns.values()], rows)
    if as_json:
        write_json(table.records())
    else:
        table.show()
        if len(chosen) > limit:
            say(f"{len(chosen) - limit:,} more runs; --limit shows them")


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
    Column("note", optional=True),
)


def _record(run: Run, *, with_config: bool) -> dict[str, Any]:
    """What is known of a run, and its config by dotted key, which may be that of another version,
    or unreadable.
    """
    from seq2attn.config.load import flat_values
    from seq2attn.config.yaml_files import read_file

    values: dict[str, Any] = {}
    with contextlib.suppress(
        Seq2AttnError, AttributeError
    ):  # the latter: it does not hold keys and values
        values = flat_values(read_file(check_plain(run).config_file).value) if with_config else {}
    status, environment = run.status(), run.environment()
    made = environment.created and f"{environment.created:%Y-%m-%d %H:%M}"
    own = {"run": run.name, "state": state_of(run, status), "made": made, "note": environment.note}
    return values | status.model_dump(exclude_none=True) | own


def _matching(records: list[dict[str, Any]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """The runs that have every value, `KEY=VALUE` as for `train --set`."""
    from seq2attn.config.load import flat_values, parse_override
    from seq2attn.config.schema import PARTS

    chosen = list(records)
    for word, wanted in (
        pair for text in texts for pair in flat_values(dict([parse_override(text)])).items()
    ):
        key = _key(word, records)
        there = [record.get(key) for record in chosen]
        if key in PARTS and wanted not in there:  # a synonym
            wanted = PARTS[key].get(str(wanted)).name
        if chosen and wanted not in there:
            say(
                f"no run has {key}={wanted}; there are: {first_of(list(dict.fromkeys(map(quoted, there))))}"
            )
        chosen = [record for record in chosen if record.get(key) == wanted]
    return chosen


def _key(word: str, records: list[dict[str, Any]]) -> str:
    """The column, metric or config key that a word means: itself, or the only column that begins
    with it.
    """
    from seq2attn.config.schema import all_keys
    from seq2attn.runs.records import Status

    columns = [column.name for column in COLUMNS]
    own = dict.fromkeys([*columns, *Status.model_fields])
    keys = {*own, *dict(all_keys()), *itertools.chain(*records)}
    meant = [word] if word in keys else [name for name in columns if name.startswith(word)]
    if len(meant) != 1:
        allowed = f"{', '.join(own)}, and the keys that `seq2attn inspect CONFIG` shows"
        raise Seq2AttnError(
            f"unknown key {quoted(word)}; {did_you_mean(word, keys)}allowed: {allowed}"
        )
    return meant[0]


def _order(value: Any) -> tuple[bool, Any]:
    """Numbers before texts."""
    return (False, value) if isinstance(value, int | float) else (True, str(value))
