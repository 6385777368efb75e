"""`seq2attn eval`"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, on_terminal, write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.results import Evaluation, Row
from seq2attn.runs.files import write_atomically
from seq2attn.runs.logs import save_evaluation
from seq2attn.runs.run import DEFAULT_ROOT, Run

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.runs.load import Trained

SPLITS = ("train", "dev", "test")
SIDE_BY_SIDE = (
    Column("run"),
    Column("", key="words"),
    Column("WER %", key="wer", form=".1%"),
    Column("SER %", optional=True, key="ser", form=".1%"),
    Column("WER - first", key="wer_difference", form="+.1%"),
    Column("SER - first", optional=True, key="ser_difference", form="+.1%"),
    Column("only first", right=True, key="only_first_right"),
    Column("only this", right=True, key="only_this_right"),
    Column("p", right=True),
)


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
    from seq2attn.config.schema import parse_families, parse_lengths

    wanted = options.parsed("--lengths", parse_lengths, lengths)
    kinds = options.parsed("--families", parse_families, families)
    search = options.beam_search(beam, length_penalty)
    options.load_plugins(plugin)
    names = [*(run or ()), *(same or ())]
    if together and len(names) < 2:
        raise Seq2AttnError("--ensemble needs at least two runs", hint="seq2attn eval RUN RUN --ensemble")
    members = options.find_runs(runs_dir, names)
    from seq2attn.runs.load import load_ensemble, measure, measure_on_file

    groups = [members] if together else [[member] for member in members]
    titles = [" + ".join(member.name for member in group) for group in groups]
    loaded = [load_ensemble(group, checkpoint, device) for group in groups]
    file = _file(members[0], loaded[0].config, data, config, split)
    on_pairs = file is not None and all(trained.config.task.name == "pairs" for trained in loaded)
    if len(groups) > 1 and not on_pairs:
        raise Seq2AttnError(
            "several runs are measured together with --ensemble; only runs on pairs of strings are measured side by side",
            hint="Measure one after another, or each beside the others: seq2attn compare --help",
        )
    if file is None:
        _refuse({"--errors": errors}, f"run {members[0].name!r} is not on pairs of strings")
    else:
        unused = {"--lengths": lengths, "--samples": samples, "--families": families, "--seed": seed or None}
        _refuse(unused, f"run {members[0].name!r} is measured on all pairs of a file")
    _refuse({"--plot": plot, "--errors": errors} if len(groups) > 1 else {}, "is for one run")
    evaluations = []
    for group, trained in zip(groups, loaded, strict=True):
        options.note_checkpoint(group[0], checkpoint, trained)
        trained.predictor.search = search
        if file is None:
            evaluation = measure(trained, wanted, samples=samples, seed=seed, families=kinds)
        else:
            evaluation = measure_on_file(trained, file)
            _note(trained, evaluation, errors)
        evaluations.append(evaluation)
    try:
        for group, evaluation in zip(groups, evaluations, strict=True):
            if len(group) == 1 and search is None:
                save_evaluation(evaluation, group[0])
    finally:  # print the results even if they cannot be saved
        _show(evaluations, titles, as_json=as_json)
    if plot is not None:
        from seq2attn.plotting.curves import accuracy_figure

        options.save_figure(accuracy_figure(evaluations[0], f"{titles[0]}: accuracy by length"), plot)


def _refuse(unused: Mapping[str, object], why: str) -> None:
    """Raise `Seq2AttnError` for an option that has a value."""
    for option, value in unused.items():
        if value is not None:
            raise Seq2AttnError(f"{option}: {why}", hint=f"Leave out {option}.")


def _file(run: Run, own: Config, data: Path | None, config: Path | None, split: str | None) -> Path | None:
    """The file of pairs that the user named; None for a run on another task, which needs none.

    A run's own config never opens a file: the run may be somebody else's. Raises `Seq2AttnError` if none was named.
    """
    named = {"--config": config, "--split": split}
    if own.task.name != "pairs":
        why = f"run {run.name!r} is on task {own.task.name!r}, which draws its own strings"
        _refuse({"--data": data, **named}, why)
        return None
    if split is not None and split not in SPLITS:
        raise Seq2AttnError(f"--split {shown(split)}: expected one of {', '.join(SPLITS)}")
    if data is not None:
        _refuse(named, "--data names the file")
        return data
    split = split or "dev"
    if config is None:
        raise Seq2AttnError(
            f"run {run.name!r} is measured on a file of pairs, which a run's own config never opens",
            hint=f"Name the file: seq2attn eval {run.name} --data {shlex.quote(own.data_files.get(split, 'FILE'))}",
        )
    from seq2attn.config import load_config

    files = load_config(config, []).data_files
    if split not in files:
        raise Seq2AttnError(f"{config}: names no {split} file (task.{split})")
    return Path(files[split])


def _note(trained: Trained, evaluation: Evaluation, errors: Path | None) -> None:
    """Note that the file is the one the model was trained on; write the wrong answers to another, if one is named."""
    files = (trained.predictor.task.learned() or {}).get("files", {})
    if files.get("train", {}).get("sha256") == (evaluation.data or {})["sha256"]:
        note("this is the file that the model was trained on: the rates show how well it remembers")
    if errors is not None:
        table = evaluation.errors_table()
        write_atomically(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        note(f"{len(table.rows):,} wrong answers: {errors}")


def _show(evaluations: Sequence[Evaluation], titles: Sequence[str], *, as_json: bool) -> None:
    first, *others = evaluations
    if others:
        table = _side_by_side(evaluations, titles)
        write_json(table.records()) if as_json else table.show()
    elif as_json:
        write_json(first.to_json(titles[0]))
    elif on_terminal():
        for table in first.tables(titles[0]):
            table.print()
    else:
        Table([Column(field.name) for field in fields(Row)], list(map(astuple, first.rows))).show()


def _side_by_side(evaluations: Sequence[Evaluation], titles: Sequence[str]) -> Table:
    """How each run differs from the first on the same file, word by word."""
    from seq2attn.inference.paired import paired_difference

    rows: list[list[Any]] = []
    for evaluation, title in zip(evaluations, titles, strict=True):
        try:
            difference = paired_difference([evaluations[0]], [evaluation]) if rows else None
        except ValueError:
            raise Seq2AttnError(
                f"{titles[0]} and {title} read different sources from the file",
                hint="Runs with the same columns, separators and normalisation can be compared word by word.",
            ) from None
        names = ("wer", "ser", "only_one", "only_other", "p_value")
        differences = [getattr(difference, name, None) for name in names]
        rows.append([title, len(evaluation.answers), evaluation.get("wer"), evaluation.get("ser"), *differences])
    notes = (
        "differences are paired word by word; only first, only this: words that only one of the two gets right; "
        "p: McNemar's exact test. They are of these models, not of other seeds",
    )
    return Table(SIDE_BY_SIDE, rows, notes=notes)
