"""`seq2attn runs`"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, on_terminal, print_table, write_json, write_rows
from seq2attn.runs.lock import state_of
from seq2attn.runs.run import DEFAULT_ROOT, MAKE_ONE, Run, newest_first

HEADER = ("run", "state", "step", "task", "score", "seed", "exact match, worst", "WER", "made")
OPTIONAL = ("made (UTC)", "task", "seed", "score", "step")  # columns that a narrow terminal drops, in this order


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
    elif not on_terminal():
        write_rows(HEADER, map(_row, records))
    elif found:
        _show(list(map(_row, records)))
        if len(found) > limit:
            note(f"{len(found) - limit:,} older runs; --limit shows more")


def _show(rows: list[list[str]]) -> None:
    shown = dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True))
    shown["exact\nmatch,\nworst"] = shown.pop("exact match, worst")
    if set(wers := shown.pop("WER")) != {"-"}:
        shown["WER"] = wers
    shown["made (UTC)"] = [made.replace("T", " ")[:16] for made in shown.pop("made")]
    print_table(shown, right=("step", "seed", "exact\nmatch,\nworst", "WER"), optional=OPTIONAL, wrap=False)


def _record(run: Run) -> dict[str, Any]:
    status, environment = run.status(), run.environment()
    record: dict[str, Any] = {"run": run.name, "state": state_of(run, status)}
    record |= {
        key: getattr(status, key) for key in ("step", "steps", "task", "score", "seed", "exact_match_worst", "wer")
    }
    problems = [problem for problem in (status.problem, environment.problem) if problem is not None]
    return record | {"made": environment.created, "problems": problems}


def _row(record: dict[str, Any]) -> list[str]:
    def text(value: Any) -> str:
        return "-" if value is None else str(value)

    progress = "-" if record["step"] is None else f"{record['step']}/{text(record['steps'])}"
    names = [text(record[key]) for key in ("task", "score", "seed")]
    rates = ["-" if rate is None else f"{rate:.3f}" for rate in (record["exact_match_worst"], record["wer"])]
    return [record["run"], text(record["state"]), progress, *names, *rates, text(record["made"])]
