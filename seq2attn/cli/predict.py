"""`seq2attn predict`"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, on_terminal, printable, stdout, write_line
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.runs.run import DEFAULT_ROOT, find_run

if TYPE_CHECKING:
    from seq2attn.config import Config
    from seq2attn.inference.predictor import Prediction, Predictor

BLOCK = 2**16  # characters answered together
WITH_WEIGHTS = 1000  # longest text whose attention is shown: it grows with the square
CELLS = 2**21  # attention weights held together


def predict(
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Strings to answer, or - for lines of standard input.")
    ],
    run: options.RunOption = None,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    ideal: Annotated[bool, typer.Option("--ideal", help="In the figure, outline the ideal alignment.")] = False,
    checkpoint: options.CheckpointName = "best",
    device: options.Device = "cpu",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Let a trained model answer strings, and show what it looked at.

    On a terminal each answer comes with its attention map. In a pipe the answers come alone, one a line.

    Examples:

      seq2attn predict hello

      seq2attn predict hello world --run scaled-001 --plot attention.svg --ideal

      cat words.txt | seq2attn predict - > answers.txt
    """
    if plot is not None:
        from seq2attn.plotting.style import check_format

        check_format(plot)
    elif ideal:
        raise Seq2AttnError("--ideal outlines cells of a figure", hint="Name one: --plot FILE")
    options.load_plugins(plugin)
    chosen = find_run(runs_dir, run)
    if plot is not None and chosen.config().model.attention.score == "none":
        raise Seq2AttnError(f"there is no attention to draw: run {chosen.name!r} was trained with score 'none'")
    predictor = options.load_predictor(chosen, checkpoint, device)
    if run is None:
        options.note_newest(chosen, "--run RUN")
    if texts == ["-"]:
        if plot is not None:
            raise Seq2AttnError("--plot draws the strings of the command line, not those of standard input")
        given = _Told(_standard_input(predictor.vocabulary.check))
        for block in _blocks(given, weights=as_json or on_terminal()):
            _show(predictor, block, as_json=as_json)
        if not given.lengths:
            note("standard input was empty: there is nothing to answer")
        _note_lengths(given.lengths, chosen.config())
        return
    from seq2attn.config.lengths import LONGEST

    for text in texts:
        if len(text) > LONGEST:
            raise Seq2AttnError(f"a text of {len(text):,} characters; at most {LONGEST:,} are answered")
        predictor.vocabulary.check(text)
    for block in _blocks(texts, weights=as_json or on_terminal()):
        _show(predictor, block, as_json=as_json)
    _note_lengths(Counter(map(len, texts)), chosen.config())
    if plot is not None:
        _draw(predictor, texts, plot, ideal=ideal)


class _Told:
    """Texts on their way through, and how many of each length there were."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.lengths: Counter[int] = Counter()

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.lengths[len(text)] += 1
            yield text


def _note_lengths(lengths: Counter[int], config: Config) -> None:
    """Say of what lengths training showed the model no string."""
    strange = sum(count for length, count in lengths.items() if not config.is_trained(length))
    if strange:
        count = "the string is" if lengths.total() == 1 else f"{strange:,} of {lengths.total():,} strings are"
        trained = f"{config.task.min_length} to {config.task.max_length}"
        note(f"{count} of a length never seen in training, which had {trained} characters")


def _draw(predictor: Predictor, texts: Sequence[str], plot: Path, *, ideal: bool) -> None:
    from seq2attn.data.batches import ideal_alignment
    from seq2attn.inference.maps import AttentionMap
    from seq2attn.plotting.attention import LARGEST_SIDE, attention_figure
    from seq2attn.plotting.style import save_figure

    if max(map(len, texts)) > LARGEST_SIDE:
        raise Seq2AttnError(f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string")
    maps = []
    for prediction in predictor.predict(texts, keep_weights=True):
        right = ideal_alignment(predictor.task, predictor.vocabulary, prediction.source)
        one = AttentionMap.of(prediction, right)
        assert one is not None, "asked for with keep_weights, and the score is not none"
        maps.append(one)
    save_figure(attention_figure(maps, ideal=ideal), plot)
    note(f"figure: {plot}")


def _show(predictor: Predictor, texts: Sequence[str], *, as_json: bool) -> None:
    people = on_terminal() and not as_json
    keep = (people or as_json) and len(texts[0]) <= WITH_WEIGHTS
    for prediction in predictor.predict(texts, keep_weights=keep):
        if as_json:
            write_line(json.dumps(prediction.to_json(), ensure_ascii=False))
        elif people:
            _show_to_people(predictor, prediction)
        else:
            write_line(prediction.output)
        if not prediction.finished and not as_json:
            note(f"{shown(prediction.source)}: no <eos> within the bound on the output; the answer is cut there")
    sys.stdout.flush()


def _show_to_people(predictor: Predictor, prediction: Prediction) -> None:
    from rich.text import Text

    from seq2attn.plotting.heatmap import heat_map, legend

    console = stdout()
    expected = predictor.solve(prediction.source)
    line = Text(printable(f"{prediction.source} -> {prediction.output}"), style="bold")
    if prediction.output != expected:
        line.append(printable(f"   (right: {expected})"), style="red")
    console.print(line)
    drawn = heat_map(prediction, console)
    if drawn is not None:
        console.print(drawn)
        console.print(f"    {legend(prediction)}", style="dim")
    elif prediction.weights:
        note("the map is too wide for this terminal; --plot FILE draws it")


def _blocks(texts: Iterable[str], *, weights: bool) -> Iterator[list[str]]:
    """`texts`, some at a time, fewer with their `weights`; one at a time where a person types them.

    All of a block are short enough for their weights to be shown, or none is.
    """
    together = 1 if sys.stdin is not None and sys.stdin.isatty() else BLOCK
    block: list[str] = []
    held = 0
    for text in texts:
        long = len(text) > WITH_WEIGHTS
        if block and long != (len(block[0]) > WITH_WEIGHTS):
            yield block
            block, held = [], 0
        block.append(text)
        held += len(text) if long or not weights else max(len(text), len(text) ** 2 * BLOCK // CELLS)
        if held >= together:
            yield block
            block, held = [], 0
    if block:
        yield block


def _standard_input(check: Callable[[str], None]) -> Iterator[str]:
    """Its lines, none of which may be endless; `check` refuses those that the model cannot read."""
    from seq2attn.config.lengths import LONGEST

    if sys.stdin is None:
        raise Seq2AttnError("standard input is closed", hint="Give the strings as arguments, or one a line.")
    for number, line in enumerate(_lines(), start=1):
        if len(line) > LONGEST:
            raise Seq2AttnError(f"line {number} of standard input is longer than {LONGEST:,} characters")
        if not line:
            raise Seq2AttnError(f"line {number} of standard input is empty", hint="Give one string a line.")
        try:
            check(line)
        except Seq2AttnError as error:
            raise Seq2AttnError(f"line {number} of standard input: {error.message}", hint=error.hint) from None
        yield line


def _lines() -> Iterator[str]:
    from seq2attn.config.lengths import LONGEST

    try:
        while line := sys.stdin.readline(LONGEST + 2):
            yield line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise Seq2AttnError(f"standard input is not {error.encoding} text (byte {error.start})") from None
    except OSError as error:
        raise Seq2AttnError(f"standard input cannot be read: {error.strerror or error}") from None
