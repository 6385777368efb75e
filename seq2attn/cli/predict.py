"""`seq2attn predict`"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from seq2attn.cli import options
from seq2attn.display.console import note, on_terminal, print_error, printable, stdout, write_json, write_line
from seq2attn.errors import Seq2AttnError, first_of, shown
from seq2attn.parts import LONGEST
from seq2attn.runs.run import DEFAULT_ROOT

if TYPE_CHECKING:
    from seq2attn.data.tasks import Task
    from seq2attn.inference.predictor import Prediction, Predictor, Source


class Form(NamedTuple):
    """How predictions are printed; by default the outputs alone."""

    maps: bool
    as_json: bool
    tsv: bool
    n_best: int | None


def predict(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Input strings; - reads them from standard input, or asks for them."),
    ],
    run: options.RunOptions = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, max=1000, help="Print the K best outputs with their log-probabilities."),
    ] = None,
    tsv: Annotated[
        bool,
        typer.Option("--tsv", help="Print source and output with a tab between; in a pipe, runs on pairs always do."),
    ] = False,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    ideal: Annotated[bool, typer.Option("--ideal", help="In the figure, outline the ideal alignment.")] = False,
    checkpoint: options.CheckpointName = "best",
    device: options.Device = "cpu",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Print a model's output for each string, with its attention.

    On a terminal each output comes with its attention map. In a pipe there are only the outputs, one per line. With
    --n-best, each line of a pipe is a source, one of its outputs, and the output's log-probability, separated by tabs. For
    a run on pairs of strings, - also reads the lines of a file of pairs, and prints source and output.
    With - on a terminal, you type one string after another; Ctrl-D or Ctrl-C ends.

    Examples:

      seq2attn predict hello

      seq2attn predict hello world --run scaled-001 --plot attention.svg --ideal
    """
    if ideal and plot is None:
        raise Seq2AttnError("--ideal outlines cells of a figure", hint="Add --plot FILE.")
    search = options.beam_search(beam, length_penalty, n_best)
    options.load_plugins(plugin)
    chosen = options.find_runs(runs_dir, run, "--run RUN")
    from seq2attn.data.tasks.pairs import Pairs
    from seq2attn.runs.load import load_ensemble

    trained = load_ensemble(chosen, checkpoint, device)
    predictor = trained.predictor
    predictor.search = search
    if plot is not None and trained.config.score_name == "none":
        raise Seq2AttnError(f"there is no attention to draw: run {chosen[0].name!r} was trained with score 'none'")
    if plot is not None and texts == ["-"]:
        raise Seq2AttnError("--plot draws the strings of the command line, not those of standard input")
    options.note_checkpoint(chosen[0], checkpoint, trained)
    tsv = tsv or (isinstance(predictor.task, Pairs) and not on_terminal())
    form = Form(on_terminal() and not as_json and not tsv, as_json, tsv, n_best)
    if texts != ["-"]:
        sources = list(map(predictor.read, texts))
        _show(predictor, sources, form)
        if plot is not None:
            from seq2attn.plotting.attention import attention_figure

            options.save_figure(attention_figure(predictor.attention_maps(sources), ideal=ideal), plot)
    elif sys.stdin is not None and sys.stdin.isatty():
        _answer_typed(predictor, form)
    elif not _show(predictor, _standard_input(predictor), form):
        note("standard input is empty: there is nothing to predict")


def _standard_input(predictor: Predictor) -> Iterator[Source]:
    """The lines of standard input."""
    if sys.stdin is None:
        raise Seq2AttnError("standard input is closed", hint="Give the strings as arguments, or one per line.")
    for number, line in enumerate(iter(lambda: sys.stdin.readline(LONGEST + 2), ""), start=1):
        try:
            yield predictor.read(predictor.task.source_of(line.removesuffix("\n").removesuffix("\r")))
        except Seq2AttnError as error:
            raise Seq2AttnError(f"line {number} of standard input: {error.message}", hint=error.hint) from None


def _answer_typed(predictor: Predictor, form: Form) -> None:
    """Ask for strings on the terminal and answer each. A mistake is reported, and the next string is asked for."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (input() then has the arrow keys and a history)
    note("Type a string and press Enter. Ctrl-D ends.")
    while True:
        try:
            with contextlib.nullcontext() if sys.stdout.isatty() else contextlib.redirect_stdout(sys.stderr):
                text = input("> ")  # results may go elsewhere, and the prompt must not
            if text:
                _show(predictor, [predictor.read(predictor.task.source_of(text))], form)
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")
            return
        except Seq2AttnError as error:
            print_error(error)


def _show(predictor: Predictor, sources: Iterable[Source], form: Form) -> int:
    """Print the prediction for each source, then what is remarkable about them. Returns how many there were."""
    task, vocabulary = predictor.task, predictor.task.source_vocabulary
    count = empty = untrained = 0
    unseen: Counter[str] = Counter()
    for block in predictor.predict_blocks(sources, keep_weights=form.maps or form.as_json):
        for prediction in block:
            count += 1
            empty += not prediction.output
            untrained += not task.is_trained(len(prediction.source_symbols) - predictor.source_eos)
            unseen.update(vocabulary.unseen(prediction.source) if "<unk>" in prediction.source_symbols else ())
            _print(task, prediction, form)
            if not prediction.finished and not form.as_json:
                note(f"{shown(prediction.source)}: no <eos> within the longest output allowed; the output was cut off")
        sys.stdout.flush()
    if empty:
        which = "the output is" if count == 1 else f"{empty:,} of {count:,} outputs are"
        note(f"{which} empty: the model ended at once, as one trained on few examples or for few steps often does")
    if unseen:
        names = first_of([repr(symbol) for symbol, _ in unseen.most_common()])
        note(f"symbols that the training file lacks, read as <unk>: {names}")
    if untrained:
        what = "symbols" if task.learned() is not None else "characters"
        strings = "the string has" if count == 1 else f"{untrained:,} of {count:,} strings have"
        note(f"{strings} a length never seen in training (trained: {task.min_length} to {task.max_length} {what})")
    return count


def _print(task: Task, prediction: Prediction, form: Form) -> None:
    best = prediction.hypotheses[: form.n_best or len(prediction.hypotheses)]
    if form.as_json:
        write_json(replace(prediction, hypotheses=best).to_json(), indent=None)
    elif form.maps:
        _print_map(task, prediction)
        for one in best if form.n_best else ():
            write_line(printable(f"  {one.log_probability:8.3f}  {one.output}"))
    elif form.n_best:
        for one in best:
            write_line(f"{prediction.source}\t{one.output}\t{one.log_probability:.6f}")
    else:
        write_line(f"{prediction.source}\t{prediction.output}" if form.tsv else prediction.output)


def _print_map(task: Task, prediction: Prediction) -> None:
    from rich.text import Text

    from seq2attn.plotting.terminal import heat_map, legend

    console, answer = stdout(), task.answer(prediction.source)
    source = prediction.source.replace("\t", " ")  # before its features
    line = Text(printable(f"{source} -> {prediction.output}"), style="bold")
    if answer is not None and prediction.output != answer.text:
        line.append(printable(f"   (expected: {answer.text})"), style="red")
    console.print(line)
    attention = prediction.attention_map()
    drawn = attention and heat_map(attention, console)
    if attention and drawn is None:
        note("the map is too wide for this terminal; --plot FILE draws it")
    elif attention and drawn is not None:
        console.print(drawn)
        console.print(f"    {legend(attention, console)}", style="dim")
