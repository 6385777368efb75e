"""`seq2attn eval`"""

from __future__ import annotations

from collections.abc import Sequence
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
from seq2attn.runs.run import DEFAULT_ROOT

if TYPE_CHECKING:
    from seq2attn.runs.load import Trained

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
    names: options.RunArguments = None,
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

      seq2attn eval gru lstm --data test.tsv --beam 5
    """
    from seq2attn.config.schema import parse_families, parse_lengths

    wanted = options.parsed("--lengths", parse_lengths, lengths)
    kinds = options.parsed("--families", parse_families, families)
    search = options.beam_search(beam, length_penalty)
    options.load_plugins(plugin)
    file = data if config is None and split is None else _file_of_split(data, config, split)
    if together and len(names or ()) < 2:
        raise Seq2AttnError("--ensemble needs at least two runs", hint="seq2attn eval RUN RUN --ensemble")
    members = options.find_runs(runs_dir, names)
    from seq2attn.runs.load import load_ensemble, measure

    groups = [members] if together else [[member] for member in members]
    titles = [" + ".join(member.name for member in group) for group in groups]
    loaded = [load_ensemble(group, checkpoint, device) for group in groups]
    for trained in loaded:
        if trained.config.task.name != "pairs" and (errors is not None or len(loaded) > 1):
            what = "--errors is" if errors is not None else "several runs without --ensemble are"
            raise Seq2AttnError(f"{what} for runs on pairs of strings; run {trained.run.name!r} is not such a run")
    if len(loaded) > 1 and (plot or errors):
        raise Seq2AttnError("--plot and --errors are for one run")
    evaluations = []
    for trained in loaded:
        options.note_checkpoint(trained.run, checkpoint, trained)
        trained.predictor.search = search
        evaluation = measure(trained, wanted, samples=samples, seed=seed, families=kinds, data=file)
        if file is not None:
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


def _file_of_split(data: Path | None, config: Path | None, split: str | None) -> Path:
    """The file that a config names. It is never the run's own config: the run may be somebody else's."""
    from seq2attn.config import load_config

    if config is None or data is not None:
        raise Seq2AttnError("give either --data FILE, or --config FILE and --split NAME")
    files, split = load_config(config, []).data_files, split or "dev"
    if split not in files:
        raise Seq2AttnError(f"--split {shown(split)}: {config} names no such file; it names: {', '.join(files)}")
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
