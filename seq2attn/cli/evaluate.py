"""`seq2attn eval`"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2attn.cli.options import (
    AsJson,
    Beam,
    CheckpointName,
    Data,
    Device,
    Families,
    LengthPenalty,
    Lengths,
    Plugins,
    RunArguments,
    RunsDir,
    Samples,
    beam_search,
    find_runs,
    note_checkpoint,
    option,
)
from seq2attn.cli.outputs import Force, Latex, check_output, save_latex, write_output
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.display.progress import decoding_steps
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.results.evaluation import Evaluation
from seq2attn.results.tables import ERRORS_HEADER, errors_table, paired_table, paper_table
from seq2attn.runs.run import DEFAULT_ROOT, Run

if TYPE_CHECKING:
    from seq2attn.inference.trained_model import TrainedModel


def evaluate(
    names: RunArguments = None,
    lengths: Lengths = None,
    samples: Samples = None,
    families: Families = None,
    seed: Annotated[int, option("N", "Seed of the test strings.")] = 0,
    data: Data = None,
    per: Annotated[
        str, option("type|token", "Of pairs, count each source once, or each line.")
    ] = "type",
    paired: Annotated[
        bool, option("", "Of pairs, test if the runs differ, instead of an ensemble.", "--paired")
    ] = False,
    errors: Annotated[
        Path | None, option("FILE", "Write the wrong answers to this tab-separated file.")
    ] = None,
    latex: Latex = None,
    force: Force = False,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    as_json: AsJson = False,
    checkpoint: CheckpointName = "best",
    device: Device = "auto",
    plugin: Plugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Measure a run's accuracy at each string length.

    \b
    exact match             The whole string is right when the model reads its
                            own output.
    teacher-forced          The share of characters that are right when the model
                            is given the correct previous ones; papers usually
                            report this accuracy.
    alignment               The share of characters whose largest attention weight
                            lies on the ideal source position.
    entropy                 Of the attention weights, in nats.
    characters              The share of right characters in the model's output.
    before the first error  The share of characters before the first wrong one.

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never
    seen in training.

    Several runs form an ensemble, which averages their probabilities. The results of an ensemble,
    or with --beam, are printed but not saved with the run. With a beam, all columns but the
    teacher-forced ones describe the beam's output.

    A run on pairs of strings is measured on a file: word error rate (WER, the share of answers that
    are not exactly right), symbol error rate (SER, edits per symbol of the right answers), the
    share of answers cut off at the longest output allowed, and exact match by source length.
    If a source has several right answers, any of them counts. A source on several lines is one
    word, as in published word error rates, or with --per token as many as it has lines.

    --paired does not form an ensemble: it measures each run, counts the words that only one of two
    runs has right, and tests whether that may be chance (McNemar's exact test).

    --families measures other kinds of strings than random ones, such as one letter repeated, and
    prints exact match by family and length. --errors writes each wrong answer next to the right
    one, with its edits: a>b means that b was written for a, a> that a was left out, and >b that b
    was added.

    --latex writes a table for a paper: error rates with intervals and the differences of the runs
    from the first, or exact match by length.

    Examples:

      seq2attn eval --lengths 3 5 7 10

      seq2attn eval gru lstm --data test.tsv --beam 5

      seq2attn eval gru lstm --data test.tsv --paired
    """
    if errors:
        check_output(errors, "table of wrong answers", ERRORS_HEADER, force)
    search = beam_search(beam, length_penalty)
    runs = find_runs(runs_dir, names)
    if paired and (len(runs) < 2 or data is None or errors):
        raise Seq2AttnError(
            "--paired compares two runs or more on a file of pairs, without --errors",
            hint="Such as: seq2attn eval gru lstm --data test.tsv --paired",
        )
    from seq2attn.inference.trained_model import load_ensemble
    from seq2attn.runs.logs import save_evaluation

    measured = []
    groups = [[run] for run in runs] if paired or latex else [runs]
    for group in groups:
        trained = load_ensemble(group, checkpoint, device)
        trained.predictor.search = search
        trained.predictor.steps = decoding_steps
        note_checkpoint(trained, checkpoint)
        evaluation = trained.evaluate(
            lengths,
            samples=samples,
            seed=seed,
            families=families,
            data=data,
            per=per,
            errors=errors is not None,
        )
        measured.append((trained.run, evaluation))
        _note_drawn(trained, evaluation.lengths)
        files = (trained.task.learned() or {}).get("files", {})
        if evaluation.data and evaluation.data["sha256"] == files.get("train", {}).get("sha256"):
            say(
                f"{trained.run.name} was trained on this file: the rates show how well it remembers"
            )
    try:
        if search is None and len(groups) == len(runs):
            for run, evaluation in measured:
                save_evaluation(evaluation, run)
    finally:  # print the results even if they cannot be saved
        if paired:
            _print_paired(measured, as_json)
        else:
            for group, (_, evaluation) in zip(groups, measured, strict=True):
                _print(evaluation, " + ".join(run.name for run in group), as_json)
    if latex:
        evaluations = {run.name: evaluation for run, evaluation in measured}
        save_latex(paper_table(evaluations, {run.name: run.config.seed for run in runs}), latex)
    if errors:
        table = errors_table(evaluation)
        write_output(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        say(f"{len(table.rows):,} wrong answers: {errors}")


def _note_drawn(trained: "TrainedModel", lengths: Sequence[int]) -> None:
    """Say how many of the strings of these lengths were trained on, if it is 1 % or more."""
    examples = trained.step * trained.config.training.batch_size
    shares = []
    for length in lengths:
        share = trained.task.share_drawn(length, examples)
        if share and share >= 0.01:
            shares.append(f"{100 * share:.0f} % of length {length}")
    if shares:
        say(f"of all strings, training has drawn about {', '.join(shares)}")


def _print_paired(measured: Sequence[tuple[Run, Evaluation]], as_json: bool) -> None:
    table = paired_table({run.name: evaluation for run, evaluation in measured})
    if as_json:
        write_json(table.records())
    else:
        table.show()


def _print(evaluation: Evaluation, title: str, as_json: bool) -> None:
    if as_json:
        write_json(evaluation.to_json(title))
        return
    everything = Table.of_records(evaluation.records())
    for table in evaluation.tables(title) if on_terminal() else [everything]:
        table.show()
