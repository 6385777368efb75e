"""`seq2attn eval`"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import interval, note, on_terminal, print_lines, stdout, width, write_line, write_rows
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.results import SHARES, LengthResult
from seq2attn.runs.run import DEFAULT_ROOT, find_run

COLUMNS = ("length", "exact match", "characters", "teacher-forced", "alignment", "entropy")
RIGHT = ("length", "entropy")
GIVE_WAY = ("entropy", "alignment", "characters", "teacher-forced")  # the first to go stands first


def evaluate(
    run: options.RunArgument = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--lengths", metavar="N...", help="String lengths: 3 5 7 10, or 3,5,7, or 3-10. Default: the config's."
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Strings a length. Default: the config's.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides which strings are drawn.")] = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    checkpoint: options.CheckpointName = "best",
    device: options.Device = "auto",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Measure a run's accuracy at each string length.

    exact match: the model runs on its own output and its own <eos>, and the whole string is right.
    characters: the same, character by character.
    teacher-forced: characters, the right previous one given; the accuracy usually published.
    alignment: how often the largest attention weight lies on the ideal source position.
    entropy: of the attention weights, in nats.

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never seen in training.

    Examples:

      seq2attn eval --lengths 3 5 7 10

      seq2attn eval scaled-001 --lengths 1-16 --samples 5000 --plot accuracy.png

      seq2attn eval --lengths 3 5 --json
    """
    if plot is not None:
        from seq2attn.plotting.style import check_format

        check_format(plot)
    wanted = _parse(lengths) if lengths is not None else None
    options.load_plugins(plugin)
    chosen = find_run(runs_dir, run)
    predictor = options.load_predictor(chosen, checkpoint, device)
    from seq2attn.runs.loading import measure

    if run is None:
        options.note_newest(chosen, "seq2attn eval RUN")
    evaluation = measure(chosen, predictor, checkpoint, wanted, samples=samples, seed=seed)
    results = list(evaluation.lengths.values())
    try:
        evaluation.save(chosen)
    finally:  # what was measured is shown even if it cannot be kept
        if as_json:
            write_line(json.dumps(evaluation.to_json(chosen.name), indent=2))
        else:
            _show(results)
    if plot is not None:
        from seq2attn.plotting.accuracy import accuracy_figure
        from seq2attn.plotting.style import save_figure

        save_figure(accuracy_figure(results, f"{chosen.name}: accuracy by length"), plot)
        note(f"figure: {plot}")


def _parse(lengths: list[str]) -> tuple[int, ...]:
    from seq2attn.config.lengths import parse_lengths

    try:
        return parse_lengths(lengths)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"--lengths: {error.message}") from None


def _show(results: Sequence[LengthResult]) -> None:
    if on_terminal():
        _show_to_people(results)
        if not all(result.trained for result in results):
            note("* never seen in training")
        return
    header = ["length", "trained", "samples"]
    for field in SHARES:
        header += [field, f"{field}_low", f"{field}_high"]
    write_rows([*header, "entropy"], [_tsv_row(result) for result in results])


def _show_to_people(results: Sequence[LengthResult]) -> None:
    """A line for each length: where they are too long for the console, intervals give way, then columns from the right."""
    shown, console = _columns(results, intervals=True), stdout()
    if width(shown) <= console.width:
        print_lines(shown, console, right=RIGHT)
    else:
        shown = _columns(results, intervals=False)
        print_lines(shown, console, right=RIGHT, give_way=GIVE_WAY, left_out=["intervals"])


def _columns(results: Sequence[LengthResult], *, intervals: bool) -> dict[str, list[str]]:
    """Heading -> cells, without the columns of what no length has, such as an alignment."""
    columns = {"length": [f"{result.length}{'' if result.trained else '*'}" for result in results]}
    for heading, field in zip(COLUMNS[1:-1], SHARES, strict=True):
        found = [getattr(result, field) for result in results]
        if found.count(None) < len(found):
            columns[heading] = [interval(one) if intervals or one is None else f"{one.value:.3f}" for one in found]
    if any(result.entropy is not None for result in results):
        columns["entropy"] = ["-" if result.entropy is None else f"{result.entropy:.3f}" for result in results]
    return columns


def _tsv_row(result: LengthResult) -> list[str]:
    row = [str(result.length), "yes" if result.trained else "no", str(result.samples)]
    for field in SHARES:
        estimate = getattr(result, field)
        if estimate is None:
            row += ["", "", ""]
        else:
            row += [f"{value:.6f}" for value in (estimate.value, estimate.low, estimate.high)]
    return [*row, "" if result.entropy is None else f"{result.entropy:.6f}"]
