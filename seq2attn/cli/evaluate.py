"""`seq2attn eval`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import interval, note, on_terminal, print_table, stdout, width, write_json, write_rows
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import SHARES, LengthResult
from seq2attn.runs.run import DEFAULT_ROOT, find_run

HEADINGS = dict(zip(SHARES, ("exact match", "characters", "teacher-forced", "alignment"), strict=True))
OPTIONAL = ("characters", "entropy", "alignment", "teacher-forced")  # dropped on a narrow terminal, in this order


def evaluate(
    run: options.RunArgument = None,
    lengths: options.Lengths = None,
    samples: options.Samples = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the test strings.")] = 0,
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

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never seen in training.

    Examples:

      seq2attn eval --lengths 3 5 7 10

      seq2attn eval scaled-001 --lengths 1-16 --samples 5000 --plot accuracy.png

      seq2attn eval --lengths 3 5 --json
    """
    wanted = _parse(lengths) if lengths is not None else None
    options.load_plugins(plugin)
    chosen = find_run(runs_dir, run)
    from seq2attn.runs.loading import load_trained, measure

    trained = load_trained(chosen, checkpoint, device)
    if run is None:
        options.note_newest(chosen, "seq2attn eval RUN")
    options.note_checkpoint(chosen, checkpoint, trained)
    evaluation = measure(chosen, trained, wanted, samples=samples, seed=seed)
    results = list(evaluation.lengths.values())
    try:
        evaluation.save(chosen)
    finally:  # print the results even if they cannot be saved
        if as_json:
            write_json(evaluation.to_json(chosen.name))
        else:
            _show(results)
    if plot is not None:
        from seq2attn.plotting.curves import accuracy_figure

        options.save_figure(accuracy_figure(results, f"{chosen.name}: accuracy by length"), plot)


def _parse(lengths: list[str]) -> tuple[int, ...]:
    from seq2attn.config.lengths import parse_lengths

    try:
        return parse_lengths(lengths)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"--lengths: {error.message}") from None


def _show(results: Sequence[LengthResult]) -> None:
    if not on_terminal():
        shares = [f"{field}{end}" for field in SHARES for end in ("", "_low", "_high")]
        write_rows(["length", "trained", "samples", *shares, "entropy"], map(_tsv_row, results))
        return
    columns, left_out = _columns(results, intervals=True), []
    if width({name: cells for name, cells in columns.items() if name not in OPTIONAL}) > stdout().width:
        columns, left_out = _columns(results, intervals=False), ["intervals"]
    print_table(columns, right=("length", "entropy"), optional=OPTIONAL, left_out=left_out, wrap=False)
    if not all(result.trained for result in results):
        note("* never seen in training")


def _columns(results: Sequence[LengthResult], *, intervals: bool) -> dict[str, list[str]]:
    """Heading -> cells. Columns without any value, such as alignment without attention, are omitted."""
    columns = {"length": [f"{result.length}{'' if result.trained else '*'}" for result in results]}
    for field, heading in HEADINGS.items():
        found = [getattr(result, field) for result in results]
        if found.count(None) < len(found):
            columns[heading] = [interval(one) if intervals or one is None else f"{one.value:.3f}" for one in found]
    if any(result.entropy is not None for result in results):
        columns["entropy"] = ["-" if result.entropy is None else f"{result.entropy:.3f}" for result in results]
    return columns


def _tsv_row(result: LengthResult) -> list[str]:
    values: list[float | None] = []
    for field in SHARES:
        share = getattr(result, field)
        values += [None] * 3 if share is None else [share.value, share.low, share.high]
    numbers = ["" if value is None else f"{value:.6f}" for value in (*values, result.entropy)]
    return [str(result.length), "yes" if result.trained else "no", str(result.samples), *numbers]
