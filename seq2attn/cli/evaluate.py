"""`seq2attn eval`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import evaluate_pairs, options
from seq2attn.cli.family_table import show_families
from seq2attn.cli.output import note, on_terminal, print_table, stdout, width, write_json, write_rows
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import Evaluation
from seq2attn.parts import RANDOM
from seq2attn.runs.evaluations import save_evaluation
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

HEADINGS = {
    "exact_match": "exact match",
    "character_accuracy": "characters",
    "teacher_forced": "teacher-forced",
    "alignment": "alignment",
    "entropy": "entropy",
}
OPTIONAL = ("characters", "entropy", "alignment", "teacher-forced")  # dropped on a narrow terminal, in this order


def evaluate(
    run: options.RunArguments = None,
    same: options.SameRuns = None,
    lengths: options.Lengths = None,
    samples: options.Samples = None,
    families: options.Families = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the test strings.")] = 0,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a run on pairs of strings: the file to measure on.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Or a config that names the files, for --split."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="dev|test|train", help="Which of the config's files. Default: dev.")
    ] = None,
    errors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the wrong answers to a tab-separated file.")
    ] = None,
    together: Annotated[
        bool, typer.Option("--ensemble", help="Measure several runs as one model that averages their probabilities.")
    ] = False,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    checkpoint: options.CheckpointName = "best",
    device: options.Device = "auto",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Measure a run's accuracy at each string length.

    exact match: the model continues its own output until its <eos>, and the whole string is right.
    characters: the same, counted per character.
    teacher-forced: characters, given the right previous one; the accuracy usually published.
    alignment: how often the largest attention weight lies on the ideal source position.
    entropy: of the attention weights, in nats.

    With --beam or --ensemble, all but the teacher-forced columns are of that decoding, and the results are printed but not
    kept with the run.

    A run on pairs of strings is measured on a file: word error rate (WER: the share of answers that are not exactly
    right), symbol error rate (SER: edits per symbol of the right answers), and exact match by source length. Of several
    right answers to one source, any counts. Several such runs are compared with the first, word by word.

    --families measures other kinds of strings than random ones, such as one letter repeated, and prints exact match by
    family and length.

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never seen in training.

    Examples:

      seq2attn eval --lengths 3 5 7 10

      seq2attn eval scaled-001 --lengths 1-16 --samples 5000 --plot accuracy.png

      seq2attn eval --lengths 3 5 --json

      seq2attn eval --families all --lengths 8 20 80

      seq2attn eval icelandic --data test.tsv --beam 5 --errors errors.tsv

      seq2attn eval gru lstm --data test.tsv

      seq2attn eval seed-1 seed-2 seed-3 --ensemble --beam 5
    """
    from seq2attn.config.words import parse_families, parse_lengths

    wanted = options.parsed("--lengths", parse_lengths, lengths)
    kinds = options.parsed("--families", parse_families, families)
    search = options.beam_search(beam, length_penalty)
    run = [*(run or ()), *(same or ())]
    names = _check_runs(run, together=together)
    options.load_plugins(plugin)
    members = [find_run(runs_dir, name) for name in names]
    file = evaluate_pairs.file_to_measure(members[0], data=data, config=config, split=split)
    if len(members) > 1 and not together:
        unused = {
            "--lengths": lengths,
            "--samples": samples,
            "--families": families,
            "--plot": plot,
            "--errors": errors,
        }
        _check_side_by_side(members, unused)
        assert file is not None
        evaluate_pairs.measure_each(members, file, checkpoint, device, search, as_json=as_json)
        return
    from seq2attn.runs.loading import load_ensemble, measure, measure_on_file

    trained = load_ensemble(members, checkpoint, device)
    trained.predictor.search = search
    chosen, title = members[0], " + ".join(member.name for member in members)
    if not run:
        options.note_newest(chosen, "seq2attn eval RUN")
    options.note_checkpoint(chosen, checkpoint, trained)
    if file is None:
        _refuse("--errors", errors, f"run {chosen.name!r} is not on pairs of strings")
        evaluation = measure(chosen, trained, wanted, samples=samples, seed=seed, families=kinds)
    else:
        for option, value in {
            "--lengths": lengths,
            "--samples": samples,
            "--families": families,
            "--seed": seed or None,
        }.items():
            _refuse(option, value, f"run {chosen.name!r} is measured on all pairs of a file")
        evaluation = measure_on_file(trained, file)
        evaluate_pairs.note_training_file(trained.predictor, evaluation)
        evaluate_pairs.write_errors(evaluation, errors)
    try:
        if len(members) == 1 and search is None:
            save_evaluation(evaluation, chosen)
    finally:  # print the results even if they cannot be saved
        if as_json:
            write_json(evaluation.to_json(title))
        elif not on_terminal():
            write_rows(*_tsv(evaluation))
        elif evaluation.answers:
            evaluate_pairs.show(evaluation, f"{title} on {file}")
        else:
            _show(evaluation)
    if plot is not None:
        from seq2attn.plotting.curves import accuracy_figure

        options.save_figure(accuracy_figure(evaluation, f"{title}: accuracy by length"), plot)


def _refuse(option: str, value: object, why: str) -> None:
    if value is not None:
        raise Seq2AttnError(f"{option}: {why}", hint=f"Leave out {option}.")


def _check_runs(names: list[str], *, together: bool) -> list[str | None]:
    """The runs to measure; None stands for the newest."""
    if together and len(names) < 2:
        raise Seq2AttnError("--ensemble needs at least two runs", hint="seq2attn eval RUN RUN --ensemble")
    return [*names] if names else [None]


def _check_side_by_side(runs: Sequence[Run], unused: Mapping[str, object]) -> None:
    if any(run.config().task.name != "pairs" for run in runs):
        raise Seq2AttnError(
            "several runs are measured together with --ensemble; only runs on pairs of strings are measured side by side",
            hint="Measure one after another, or each beside the others: seq2attn compare --help",
        )
    for option, value in unused.items():
        _refuse(option, value, "several runs are measured on a file of pairs")


def _tsv(results: Evaluation) -> tuple[list[str], list[list[str]]]:
    heading = list(asdict(results.rows[0]))
    return heading, [[_field(value) for value in asdict(row).values()] for row in results.rows]


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _show(results: Evaluation) -> None:
    if results.families != [RANDOM]:
        show_families(results)
        return
    columns, left_out = _columns(results, intervals=True), []
    if width({name: cells for name, cells in columns.items() if name not in OPTIONAL}) > stdout().width:
        columns, left_out = _columns(results, intervals=False), ["intervals"]
    print_table(columns, right=("length", "entropy"), optional=OPTIONAL, left_out=left_out, wrap=False)
    if not all(row.trained for row in results.rows):
        note("* never seen in training")


def _columns(results: Evaluation, *, intervals: bool) -> dict[str, list[str]]:
    """Heading -> cells. Columns without any value, such as alignment without attention, are omitted."""
    rows = {metric: results.by_length(metric) for metric in HEADINGS}
    columns = {"length": [f"{row.length}{'' if row.trained else '*'}" for row in rows["exact_match"]]}
    for metric, heading in HEADINGS.items():
        if rows[metric]:
            found = [results.get(metric, length, family) for family, length in results.places]
            columns[heading] = ["-" if row is None else str(row) if intervals else f"{row.value:.3f}" for row in found]
    return columns
