"""`seq2attn check --attention`: attentions of other people's files, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from glob import glob
from pathlib import Path
from typing import Any

from seq2attn.display.console import say, stdout, write_json
from seq2attn.display.table import Table
from seq2attn.doctor.processes import Row, examine_places
from seq2attn.errors import Seq2AttnError


def examine(
    attention: str,
    options: Mapping[str, Any],
    timeout: float,
    jobs: int,
    as_json: bool,
    verbose: bool,
) -> None:
    """Examine FILE:NAME, or that of each file of a pattern, and show what was found.

    The exit code is 0 if all were examined and have no fault, 1 if one has, 2 if none has and one
    could not be examined.
    """
    path, _, name = attention.rpartition(":")
    is_one = Path(path).is_file() or not glob(path)
    places = [attention] if is_one else [f"{file}:{name}" for file in sorted(glob(path))]
    rows = {}
    for row in examine_places(places, options, timeout=timeout, jobs=jobs):
        rows[row.place] = row
        if not is_one:
            say(f"{row.place}: {_result(row)[0].partition(': ')[0]} ({row.seconds:.1f} s)")
        if not verbose:
            rows[row.place] = replace(row, printed="")
        elif row.printed and not as_json:
            say(f"{row.place} printed:\n{row.printed}")
    ordered = [rows[place] for place in places]
    if as_json:
        write_json([asdict(row) for row in ordered])
    elif not is_one:
        records = []
        for row in ordered:
            result, look_at = _result(row)
            records.append({"attention": row.place, "result": result, "look at": look_at})
        Table.of_records(records).show()
    elif ordered[0].report:
        say(str(ordered[0].report), style="", console=stdout())
    _conclude(ordered)


def _result(row: Row) -> tuple[str, str]:
    """Return `passed`, the first fault, or why it was not examined; and where to look."""
    if row.report is None:
        return f"{row.status}: {row.text}".partition("\n")[0], ""
    for fault in row.report.faults:
        return f"{fault.code}: {fault.text}", fault.look_at
    return "passed", ""


def _conclude(rows: Sequence[Row]) -> None:
    """Raise `Seq2AttnError` unless all were examined and none has a fault."""
    codes = [row.exit_code for row in rows]
    if not any(codes):
        return
    code = 1 if 1 in codes else 2
    (first, *others) = rows
    if others:
        failed = len(codes) - codes.count(0)
        raise Seq2AttnError(f"{failed} of {len(rows)} did not pass", exit_code=code)
    if first.report:
        faults = ", ".join(fault.code for fault in first.report.faults)
        raise Seq2AttnError(f"{first.place}: faults: {faults}", exit_code=code)
    text, _, hint = first.text.partition("\n")
    raise Seq2AttnError(f"{first.place}: {first.status}: {text}", hint=hint or None, exit_code=code)
