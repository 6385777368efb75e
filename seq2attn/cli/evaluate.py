"""`seq2attn eval`"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from seq2attn.cli.options import (
    AsJson,
    Data,
    Device,
    Families,
    Lengths,
    Models,
    RunArguments,
    Samples,
    find_runs,
    option,
)
from seq2attn.cli.outputs import (
    Force,
    Latex,
    check_latex,
    check_output,
    save_latex,
    show,
    write_output,
)
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.results.evaluation import Evaluation, side_by_side
from seq2attn.results.metrics import METRICS
from seq2attn.results.tables import (
    ERRORS_HEADER,
    errors_table,
    paired_table,
    paper_table,
)
from seq2attn.runs.run import save_evaluation

if TYPE_CHECKING:
    from seq2attn.inference.trained_model import TrainedModel


@dataclass(frozen=True)
class Strings:
    """The options of what is measured: arguments of `TrainedModel.evaluate`."""

    lengths: Lengths = None
    samples: Samples = None
    families: Families = None
    seed: Annotated[int, option("N", "Seed of the test strings.")] = 0
    data: Data = None
    per: Annotated[str, option("type|token", "Of pairs, count each source once, or each line.")] = (
        "type"
    )


def _columns() -> str:
    """Return what the columns by length mean, as a paragraph of the help: a column's heading, and
    its meaning from the 25th character on. `HELP` itself explains the error rates of files.
    """
    lines = ["\b"]  # tells Typer to leave the ends of these lines where they are
    for metric in METRICS.values():
        if metric.heading and not metric.of_file:
            text = f"{metric.heading:<24}{metric.meaning}"
            lines += textwrap.wrap(text, 74, subsequent_indent=" " * 24)
    return "\n".join(lines)


HELP = f"""Measure a run's accuracy at each string length.

{_columns()}

Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never
seen in training.

Several runs are measured side by side. With --ensemble they are one model, which averages their
probabilities. The results of an ensemble, or with --beam, are printed but not saved with the
run. With a beam, all columns but the teacher-forced ones describe the beam's output.

A run on pairs of strings is measured on a file: word error rate (WER, the share of answers that
are not exactly right), symbol error rate (SER, edits per symbol of the right answers), the
share of answers cut off at the longest output allowed, and exact match by source length.
If a source has several right answers, any of them counts. A source on several lines is one
word, as in published word error rates, or with --per token as many as it has lines.

--paired counts the words that only one of two runs has right, each run and the first, and tests
whether that may be chance: by McNemar's exact test, or where lines are counted by a permutation
test over sources, since the lines of a source share an answer.

--families measures other kinds of strings than random ones, such as one letter repeated, and
prints a row for each family and length. --errors writes each wrong answer next to the right
one, with its edits: a>b means that b was written for a, a> that a was left out, and >b that b
was added.

--latex writes a table for a paper: error rates with intervals and the differences of the runs
from the first, or exact match by length.

Examples:

  seq2attn eval --lengths 3 5 7 10

  seq2attn eval gru lstm --data test.tsv --beam 5 --ensemble

  seq2attn eval gru lstm --data test.tsv --paired
"""


def evaluate(
    names: RunArguments = None,
    *,
    strings: Strings,
    paired: Annotated[bool, option("", "Of pairs, test if the runs differ.", "--paired")] = False,
    errors: Annotated[
        Path | None, option("FILE", "Write the wrong answers to this tab-separated file.")
    ] = None,
    latex: Latex = None,
    force: Force = False,
    as_json: AsJson = False,
    device: Device = "auto",
    models: Models,
) -> None:
    """Measure runs as the options say, and print the results. Those of a run that decoded greedily
    are also saved with it.

    Checks all options before any work. `HELP` is the text of `seq2attn eval --help`.
    """
    check_latex(latex, force)
    if errors:
        check_output(errors, "table of wrong answers", ERRORS_HEADER, force)
    runs = find_runs(models.runs_dir, names)
    several = len(runs) > 1 and not models.as_ensemble
    if paired and not (several and strings.data):
        raise Seq2AttnError(
            "--paired compares two runs or more on a file of pairs",
            hint="Such as: seq2attn eval gru lstm --data test.tsv --paired",
        )
    if errors and several:
        raise Seq2AttnError("--errors writes the wrong answers of one run, or with --ensemble")
    loaded = models.load(runs, device)
    measured = {}
    for trained in loaded:
        evaluation = trained.evaluate(**vars(strings), errors=errors is not None)
        measured[trained.name] = evaluation
        _note_training(trained, evaluation, f"{trained.name}: " if several else "")
    # an ensemble has no seed: each of its runs has one
    seeds = {} if models.as_ensemble else {run.name: run.config.seed for run in loaded}
    try:
        # An ensemble is not one run. A beam's results would be mistaken: an evaluation does not say
        # how it decoded, and figures and reports that read it later take it for greedy decoding's.
        if not (models.beam or models.as_ensemble):
            for trained in loaded:
                save_evaluation(measured[trained.name], trained.run)
    finally:  # print the results even if they cannot be saved
        if paired:
            show(paired_table(measured, seeds), as_json)
        else:
            _print(measured, as_json, as_ensemble=models.as_ensemble)
    if latex:
        save_latex(paper_table(measured, seeds), latex)
    if errors:
        (evaluation,) = measured.values()  # --errors was refused for several
        table = errors_table(evaluation)
        write_output(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        say(f"{len(table.rows):,} wrong answers: {errors}")


evaluate.__doc__ = HELP


def _note_training(trained: "TrainedModel", evaluation: Evaluation, who: str) -> None:
    """Say what share of the possible strings of each length training saw, if it is 1 % or more, and
    say so if it was trained on the file that it is measured on: such results say little of new
    strings.

    who: the start of a sentence, `RUN: `; empty if only one model is measured.
    """
    examples = trained.step * trained.config.training.batch_size
    shares = []
    for length in evaluation.lengths:
        share = trained.task.share_drawn(length, examples)  # None: the task cannot say
        if share and share >= 0.01:
            shares.append(f"{100 * share:.0f} % of those of length {length}")
    if shares:
        say(f"{who}of the possible strings, training saw about {', '.join(shares)}")
    files = (trained.task.learned() or {}).get("files", {})  # None: the task reads no files
    if evaluation.data and evaluation.data["sha256"] == files.get("train", {}).get("sha256"):
        say(f"{trained.name} was trained on this file: the rates show how well it remembers")


def _print(measured: Mapping[str, Evaluation], as_json: bool, *, as_ensemble: bool) -> None:
    """Print evaluations as JSON, or on a terminal as tables, several side by side, or in a pipe as
    a line for each number.

    measured: by the name of the run. as_ensemble: True if the runs are one model, with one
        evaluation.
    """
    if as_json:
        records = [evaluation.to_json(name) for name, evaluation in measured.items()]
        if as_ensemble:  # there is one record
            records[0]["ensemble"] = True
        write_json(records if len(records) > 1 else records[0])
    elif not on_terminal():
        Table.of_records(_records(measured)).show()
    else:
        if as_ensemble:
            ((name, evaluation),) = measured.items()
            measured = {f"ensemble of {name} (probabilities averaged)": evaluation}
        for table in side_by_side(measured):
            table.show()


def _records(measured: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Return every row of the evaluations; of several, with the name of the run. Numbers have five
    decimals, and words come last, so that people can read the columns of a pipe, too.
    """
    records = []
    for name, evaluation in measured.items():
        run = {"run": name} if len(measured) > 1 else {}
        for row in evaluation.records():
            family, metric = row.pop("family"), row.pop("metric")
            for number in ("value", "low", "high"):
                if row[number] is not None:
                    row[number] = round(row[number], 5)
            records.append({**run, **row, "metric": metric, "family": family})
    return records
