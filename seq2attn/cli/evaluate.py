"""`seq2attn eval`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, on_terminal, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.logs import save_evaluation
from seq2attn.runs.run import DEFAULT_ROOT

if TYPE_CHECKING:
    from seq2attn.inference.results import Evaluation


def evaluate(
    names: options.RunArguments = None,
    lengths: options.Lengths = None,
    samples: options.Samples = None,
    families: options.Families = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the test strings.")] = 0,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a run on pairs of strings: the file to measure on.")
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
    if together and len(names or ()) < 2:
        raise Seq2AttnError("--ensemble needs at least two runs", hint="seq2attn eval RUN RUN --ensemble")
    members = options.find_runs(runs_dir, names)
    from seq2attn.trained import load_ensemble

    groups = [members] if together else [[member] for member in members]
    loaded = {" + ".join(run.name for run in group): load_ensemble(group, checkpoint, device) for group in groups}
    for trained in loaded.values():
        if trained.config.task.name != "pairs" and (errors is not None or len(loaded) > 1):
            what = "--errors is" if errors is not None else "several runs without --ensemble are"
            raise Seq2AttnError(f"{what} for runs on pairs of strings; run {trained.run.name!r} is not such a run")
    if len(loaded) > 1 and (plot or errors):
        raise Seq2AttnError("--plot and --errors are for one run")
    evaluations: dict[str, Evaluation] = {}
    for title, trained in loaded.items():
        options.note_checkpoint(trained.run, checkpoint, trained)
        trained.predictor.search = search
        found = trained.evaluate(wanted, samples=samples, seed=seed, families=kinds, data=data)
        learned = (trained.task.learned() or {}).get("files", {})
        if found.data and learned["train"]["sha256"] == found.data["sha256"]:
            note("this is the file that the model was trained on: the rates show how well it remembers")
        evaluations[title] = found
    if errors is not None:
        table = found.errors_table()
        write_atomically(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        note(f"{len(table.rows):,} wrong answers: {errors}")
    try:
        if not together and search is None:
            for title, trained in loaded.items():
                save_evaluation(evaluations[title], trained.run)
    finally:  # print the results even if they cannot be saved
        _show(evaluations, as_json=as_json)
    if plot is not None:
        from seq2attn.plotting.curves import accuracy_figure

        options.save_figure(accuracy_figure(found, f"{title}: accuracy by length"), plot)


def _show(evaluations: dict[str, Evaluation], *, as_json: bool) -> None:
    title, evaluation = next(iter(evaluations.items()))
    if len(evaluations) > 1:
        from seq2attn.inference.paired import side_by_side

        table = side_by_side(evaluations)
        write_json(table.records()) if as_json else table.show()
    elif as_json:
        write_json(evaluation.to_json(title))
    elif on_terminal():
        for table in evaluation.tables(title):
            table.print()
    else:
        Table.of_records(evaluation.records()).show()
