"""What `seq2attn eval` does for runs on pairs of strings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.cli.output import note, on_terminal, print_table, printable, stdout, write_json, write_rows
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.runs.evaluations import save_evaluation
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import Run

if TYPE_CHECKING:
    from seq2attn.inference.beam import BeamSearch
    from seq2attn.inference.intervals import Estimate
    from seq2attn.inference.paired import PairedDifference
    from seq2attn.inference.predictor import Predictor
    from seq2attn.inference.results import Evaluation, Row

MOST_CONFUSIONS = 12  # shown on a terminal
RATES = {
    "wer": "word error rate",
    "ser": "symbol error rate",
    "unseen": "source symbols unseen in training",
    "unreachable": "words with a symbol unseen in training targets",
}
_BOUNDS = ("", "_low", "_high")
SIDE_BY_SIDE = [
    *("run", "words", *(f"wer{end}" for end in _BOUNDS), *(f"ser{end}" for end in _BOUNDS)),
    *(f"{rate}_difference{end}" for rate in ("wer", "ser") for end in _BOUNDS),
    *("only_first_right", "only_this_right", "p"),
]
SPLITS = ("train", "dev", "test")


def file_to_measure(run: Run, *, data: Path | None, config: Path | None, split: str | None) -> Path | None:
    """The file of pairs that the user named; None for a run on another task, which needs none.

    A run's own config never opens a file: the run may be somebody else's. Raises `Seq2AttnError` if none was named.
    """
    own = run.config()
    if own.task.name != "pairs":
        for option, value in (("--data", data), ("--config", config), ("--split", split)):
            if value is not None:
                message = f"{option}: run {run.name!r} is on task {own.task.name!r}, which draws its own strings"
                raise Seq2AttnError(message, hint=f"Leave out {option}.")
        return None
    if split is not None and split not in SPLITS:
        raise Seq2AttnError(f"--split {shown(split)}: expected one of {', '.join(SPLITS)}")
    if data is not None:
        for option, value in (("--config", config), ("--split", split)):
            if value is not None:
                raise Seq2AttnError(f"--data names the file, and {option} does so too", hint="Leave out one of them.")
        return data
    if config is None:
        place = own.data_files.get(split or "dev", "FILE")
        raise Seq2AttnError(
            f"run {run.name!r} is measured on a file of pairs, which a run's own config never opens",
            hint=f"Name the file: seq2attn eval {run.name} --data {shlex.quote(place)}",
        )
    from seq2attn.config import load_config

    named = load_config(config, []).data_files
    if (split or "dev") not in named:
        raise Seq2AttnError(f"{config}: names no {split or 'dev'} file (task.{split or 'dev'})")
    return Path(named[split or "dev"])


def measure_each(
    runs: Sequence[Run], file: Path, checkpoint: str, device: str, search: BeamSearch | None, *, as_json: bool
) -> None:
    """Measure several runs on one file, and print how each differs from the first, word by word.

    Greedy results are kept with the runs.
    """
    from seq2attn.inference.paired import paired_difference
    from seq2attn.runs.loading import load_trained, measure_on_file

    rows = []
    first = None
    for run in runs:
        trained = load_trained(run, checkpoint, device)
        trained.predictor.search = search
        evaluation = measure_on_file(trained, file)
        note_training_file(trained.predictor, evaluation)
        if search is None:
            save_evaluation(evaluation, run)
        first = first or evaluation
        try:
            difference = None if evaluation is first else paired_difference([first], [evaluation])
        except ValueError:
            raise Seq2AttnError(
                f"{runs[0].name} and {run.name} read different sources from {file}",
                hint="Runs with the same columns, separators and normalisation can be compared word by word.",
            ) from None
        rows.append((run.name, evaluation, difference))
    if as_json:
        write_json([_side_by_side_json(*row) for row in rows])
    elif on_terminal():
        _show_side_by_side(rows)
    else:
        write_rows(SIDE_BY_SIDE, [_side_by_side_row(*row) for row in rows])


def _side_by_side_json(name: str, result: Evaluation, difference: PairedDifference | None) -> dict[str, object]:
    return {
        "run": name,
        "words": len(result.answers),
        "rows": [asdict(row) for row in result.rows if row.length is None],
        "difference": None if difference is None else difference.to_json(),
    }


def _side_by_side_row(name: str, result: Evaluation, difference: PairedDifference | None) -> list[str]:
    row = [name, str(len(result.answers)), *_numbers(_rate(result, "wer")), *_numbers(_rate(result, "ser"))]
    if difference is None:
        return [*row, *[""] * (len(SIDE_BY_SIDE) - len(row))]
    counts = [str(difference.only_one), str(difference.only_other), f"{difference.p_value:.6f}"]
    return [*row, *_numbers(difference.wer), *_numbers(difference.ser), *counts]


def _show_side_by_side(rows: Sequence[tuple[str, Evaluation, PairedDifference | None]]) -> None:
    found = [difference for _, _, difference in rows]
    print_table(
        {
            "run": [name for name, _, _ in rows],
            "WER %": [_percent(_rate(result, "wer")) for _, result, _ in rows],
            "SER %": [_percent(_rate(result, "ser")) for _, result, _ in rows],
            "WER - first": ["" if one is None else _percent(one.wer, "+") for one in found],
            "SER - first": ["" if one is None else _percent(one.ser, "+") for one in found],
            "only first": ["" if one is None else f"{one.only_one:,}" for one in found],
            "only this": ["" if one is None else f"{one.only_other:,}" for one in found],
            "p": ["" if one is None else f"{one.p_value:.3f}" for one in found],
        },
        right=("only first", "only this", "p"),
        optional=("SER - first", "SER %"),
        wrap=False,
    )
    note(
        "differences are paired word by word; only first, only this: words that only one of the two gets right; "
        "p: McNemar's exact test. They are of these models, not of other seeds"
    )


def note_training_file(predictor: Predictor, evaluation: Evaluation) -> None:
    """Note that the file is the one the model was trained on, if it is."""
    files = (predictor.task.learned() or {}).get("files", {})
    if evaluation.data is not None and files.get("train", {}).get("sha256") == evaluation.data["sha256"]:
        note("this is the file that the model was trained on: the rates show how well it remembers")


def write_errors(evaluation: Evaluation, path: Path | None) -> None:
    """Write the wrong answers to a file, if one is named, and note where."""
    if path is None:
        return
    from seq2attn.inference.results import errors_table

    wrong = evaluation.errors()
    write_atomically(path, errors_table(wrong).encode())
    note(f"{len(wrong):,} wrong answers: {path}")


def show(result: Evaluation, title: str) -> None:
    """Print the rates, and exact match by source length."""
    stdout().print(printable(f"{title}: {len(result.answers):,} words"), style="bold", markup=False)
    rates = [row for row in result.rows if row.metric in ("wer", "ser") or (row.metric in RATES and row.value)]
    print_table({"rate": [RATES[row.metric] for row in rates], "%": list(map(_percent, rates))}, wrap=False)
    lengths = result.by_length("exact_match")
    print_table(
        {
            "source length": [f"{row.length}{'' if row.trained else '*'}" for row in lengths],
            "words": [f"{row.samples:,}" for row in lengths],
            "exact match %": list(map(_percent, lengths)),
        },
        right=("source length", "words"),
        wrap=False,
    )
    confusions = result.confusions()[:MOST_CONFUSIONS]
    if confusions:
        text = ", ".join(f"{edit} {count:,}" for edit, count in confusions)
        note(f"most frequent edits (a>b: b written for a; a>: left out; >b: added): {text}")
    if not all(row.trained for row in lengths):
        note("* never seen in training")


def _rate(result: Evaluation, metric: str) -> Row:
    row = result.get(metric)
    assert row is not None, "a file has at least one pair"
    return row


def _percent(rate: Row | Estimate, sign: str = "") -> str:
    return f"{100 * rate.value:{sign}.1f} [{100 * (rate.low or 0):{sign}.1f}, {100 * (rate.high or 0):{sign}.1f}]"


def _numbers(rate: Row | Estimate) -> list[str]:
    return ["" if value is None else f"{value:.6f}" for value in (rate.value, rate.low, rate.high)]
