"""`seq2attn eval`"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

from seq2attn.cli import options
from seq2attn.cli.options import option
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.display.progress import make_display
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.run import DEFAULT_ROOT


def evaluate(
    names: options.RunArguments = None,
    lengths: options.Lengths = None,
    samples: options.Samples = None,
    families: options.Families = None,
    seed: Annotated[int, option("N", "Seed of the test strings.", min=0)] = 0,
    data: Annotated[
        Path | None, option("FILE", "Of a run on pairs of strings: the file to measure on.")
    ] = None,
    errors: Annotated[
        Path | None, option("FILE", "Write the wrong answers to a tab-separated file.")
    ] = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    as_json: options.AsJson = False,
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

    Several runs are one model, an ensemble that averages their probabilities. With it, or with
    --beam, the results are printed but not kept with the run; with a beam, all but the
    teacher-forced columns are of that decoding.

    A run on pairs of strings is measured on a file: word error rate (WER: the share of answers that
    are not exactly right), symbol error rate (SER: edits per symbol of the right answers), and
    exact match by source length. Of several right answers to one source, any counts.

    --families measures other kinds of strings than random ones, such as one letter repeated, and
    prints exact match by family and length. --errors writes each wrong answer beside the right one,
    with its edits: a>b is b written for a, a> left out, >b added.

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never
    seen in training.

    Examples:

      seq2attn eval --lengths 3 5 7 10

      seq2attn eval gru lstm --data test.tsv --beam 5
    """
    from seq2attn.config.schema import parse_families, parse_lengths
    from seq2attn.runs.logs import save_evaluation

    wanted = None if lengths is None else options.parsed("--lengths", parse_lengths, lengths)
    kinds = None if families is None else options.parsed("--families", parse_families, families)
    if errors and data and errors.resolve() == data.resolve():
        raise Seq2AttnError(
            f"--errors: {errors} is the file of --data",
            hint="Name another file, which is replaced.",
        )
    search = options.beam_search(beam, length_penalty)
    members = options.find_runs(runs_dir, names)
    from seq2attn.inference.trained_model import load_ensemble

    trained = load_ensemble(members, checkpoint, device)
    options.note_checkpoint(trained.run, checkpoint, trained)
    trained.predictor.search = search
    done = itertools.count(1)
    with make_display() as display:
        display.begin("", None)

        def watch() -> None:
            display.step("", number := next(done), f"{number} sets of strings measured")

        evaluation = trained.evaluate(
            wanted,
            samples=samples,
            seed=seed,
            families=kinds,
            data=data,
            errors=errors is not None,
            watch=watch,
        )
    learned = (trained.task.learned() or {}).get("files", {})
    if evaluation.data and learned.get("train", {}).get("sha256") == evaluation.data["sha256"]:
        say("this is the file that the model was trained on: the rates show how well it remembers")
    title = " + ".join(run.name for run in members)
    try:
        if len(members) == 1 and search is None:
            save_evaluation(evaluation, trained.run)
    finally:  # print the results even if they cannot be saved
        if as_json:
            write_json(evaluation.to_json(title))
        elif on_terminal():
            for table in evaluation.tables(title):
                table.print()
        else:
            Table.of_records(evaluation.records()).show()
    if errors is not None:
        table = evaluation.errors_table()
        write_atomically(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        say(f"{len(table.rows):,} wrong answers: {errors}")
