"""`seq2attn predict`"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, on_terminal, print_error, printable, stdout, write_json, write_line
from seq2attn.errors import Seq2AttnError, first_of, shown
from seq2attn.runs.run import DEFAULT_ROOT, all_runs, find_run

if TYPE_CHECKING:
    from seq2attn.data.tasks import Task
    from seq2attn.inference.predictor import Prediction, Predictor


PROMPT = "> "


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

      seq2attn predict -

      seq2attn predict hello world --run scaled-001 --plot attention.svg --ideal

      seq2attn predict hello --n-best 3 --length-penalty 0.6

      cat words.txt | seq2attn predict - > answers.txt
    """
    if ideal and plot is None:
        raise Seq2AttnError("--ideal outlines cells of a figure", hint="Add --plot FILE.")
    search = options.beam_search(beam, length_penalty, n_best)
    options.load_plugins(plugin)
    chosen = [find_run(runs_dir, name) for name in run] if run else [find_run(runs_dir, None)]
    for each in chosen if plot is not None else ():
        if each.config().score_name == "none":
            raise Seq2AttnError(f"there is no attention to draw: run {each.name!r} was trained with score 'none'")
    from seq2attn.data.tasks.pairs import Pairs
    from seq2attn.runs.loading import load_ensemble

    trained = load_ensemble(chosen, checkpoint, device)
    predictor = trained.predictor
    predictor.search = search
    if not run:
        options.note_newest(chosen[0], "--run RUN")
        names = {one.name for one in all_runs(runs_dir)}
        for text in filter(names.__contains__, texts):
            note(f"{text!r} is read as a string; for the run of this name: --run {text}")
    options.note_checkpoint(chosen[0], checkpoint, trained)
    task = predictor.task
    tsv = tsv or (isinstance(task, Pairs) and not on_terminal())
    if texts == ["-"]:
        if plot is not None:
            raise Seq2AttnError("--plot draws the strings of the command line, not those of standard input")
        if sys.stdin is not None and sys.stdin.isatty():
            _answer_typed(predictor, n_best, as_json=as_json, tsv=tsv)
            return
        check = task.source_vocabulary.check
        shown_texts = map(task.source_of, _standard_input(lambda line: check(task.source_of(line))))
        lengths = _show_predictions(predictor, shown_texts, n_best, as_json=as_json, tsv=tsv)
        if not lengths:
            note("standard input is empty: there is nothing to predict")
    else:
        for text in texts:
            _check(text, task)
        lengths = _show_predictions(predictor, texts, n_best, as_json=as_json, tsv=tsv)
    _note_lengths(lengths, task)
    if plot is not None:
        _draw(predictor, texts, plot, ideal=ideal)


def _check(text: str, task: Task) -> None:
    """Raise `Seq2AttnError` if the model cannot read `text`."""
    from seq2attn.parts import LONGEST

    if len(text) > LONGEST:
        raise Seq2AttnError(f"a string of {len(text):,} characters is too long; at most {LONGEST:,} are allowed")
    task.source_vocabulary.check(text)


def _answer_typed(predictor: Predictor, n_best: int | None, *, as_json: bool, tsv: bool) -> None:
    """Ask for strings on the terminal and answer each. A mistake is reported, and the next string is asked for."""
    note("Type a string and press Enter. Ctrl-D ends.")
    while True:
        try:
            text = _ask()
            if text is None:
                return
            if text:
                text = predictor.task.source_of(text)
                _check(text, predictor.task)
                lengths = _show_predictions(predictor, [text], n_best, as_json=as_json, tsv=tsv)
                _note_lengths(lengths, predictor.task)
        except Seq2AttnError as error:
            print_error(error)


def _ask() -> str | None:
    """A line typed at a prompt; None at its end (Ctrl-D), or when interrupted (Ctrl-C)."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (input() then has the arrow keys and a history)
    try:
        if sys.stdout.isatty():
            return input(PROMPT)
        with contextlib.redirect_stdout(sys.stderr):  # results go elsewhere, and the prompt must not
            return input(PROMPT)
    except (EOFError, KeyboardInterrupt):
        sys.stderr.write("\n")
        return None
    except UnicodeDecodeError as error:
        raise Seq2AttnError(f"standard input is not {error.encoding} text (byte {error.start})") from None


def _show_predictions(
    predictor: Predictor, texts: Iterable[str], n_best: int | None, *, as_json: bool, tsv: bool
) -> Counter[int]:
    """Print the prediction for each text, and return how many texts of each length, in symbols, there were."""
    lengths: Counter[int] = Counter()
    unseen: Counter[str] = Counter()
    empty = 0
    vocabulary = predictor.task.source_vocabulary
    with_maps = on_terminal() and not as_json and not tsv
    for block in predictor.predict_blocks(texts, keep_weights=with_maps or as_json):
        for prediction in block:
            lengths[len(vocabulary.symbols_of(prediction.source))] += 1
            unseen.update(vocabulary.unseen(prediction.source))
            empty += not prediction.output
            if with_maps:
                _show_with_map(predictor.task, prediction)
                for best in prediction.hypotheses[:n_best] if n_best else ():
                    write_line(printable(f"  {best.log_probability:8.3f}  {best.output}"))
            elif as_json:
                shown_best = prediction.hypotheses[: n_best or len(prediction.hypotheses)]
                write_json(replace(prediction, hypotheses=shown_best).to_json(), indent=None)
            elif n_best:
                for best in prediction.hypotheses[:n_best]:
                    write_line(f"{prediction.source}\t{best.output}\t{best.log_probability:.6f}")
            else:
                write_line(f"{prediction.source}\t{prediction.output}" if tsv else prediction.output)
            if not prediction.finished and not as_json:
                note(f"{shown(prediction.source)}: no <eos> within the longest output allowed; the output was cut off")
        sys.stdout.flush()
    if empty:
        which = "the output is" if lengths.total() == 1 else f"{empty:,} of {lengths.total():,} outputs are"
        note(f"{which} empty: the model ended at once, as one trained on few examples or for few steps often does")
    if unseen:
        names = first_of([repr(symbol) for symbol, _ in unseen.most_common()])
        note(f"symbols that the training file lacks, read as <unk>: {names}")
    return lengths


def _note_lengths(lengths: Counter[int], task: Task) -> None:
    untrained = sum(count for length, count in lengths.items() if not task.is_trained(length))
    if untrained:
        what = "symbols" if task.learned() is not None else "characters"
        count = "the string has" if lengths.total() == 1 else f"{untrained:,} of {lengths.total():,} strings have"
        note(f"{count} a length never seen in training (trained: {task.min_length} to {task.max_length} {what})")


def _draw(predictor: Predictor, texts: Sequence[str], plot: Path, *, ideal: bool) -> None:
    from seq2attn.inference.maps import LARGEST_SIDE
    from seq2attn.plotting.attention import attention_figure

    vocabulary = predictor.task.source_vocabulary
    if max(len(vocabulary.symbols_of(text)) for text in texts) > LARGEST_SIDE:
        raise Seq2AttnError(f"a heat map shows at most {LARGEST_SIDE} characters per side; draw a shorter string")
    options.save_figure(attention_figure(predictor.attention_maps(texts), ideal=ideal), plot)


def _show_with_map(task: Task, prediction: Prediction) -> None:
    from rich.text import Text

    from seq2attn.plotting.terminal import heat_map, legend

    console = stdout()
    source = prediction.source.replace("\t", " ")  # before its features
    line = Text(printable(f"{source} -> {prediction.output}"), style="bold")
    answer = task.answer(prediction.source)
    if answer is not None and prediction.output != answer.text:
        line.append(printable(f"   (expected: {answer.text})"), style="red")
    console.print(line)
    attention = prediction.attention_map()
    if attention is None:
        return
    drawn = heat_map(attention, console)
    if drawn is None:
        note("the map is too wide for this terminal; --plot FILE draws it")
    else:
        console.print(drawn)
        console.print(f"    {legend(attention, console)}", style="dim")


def _standard_input(check: Callable[[str], str]) -> Iterator[str]:
    """The lines of standard input; `check` refuses those that the model cannot read."""
    from seq2attn.parts import LONGEST

    if sys.stdin is None:
        raise Seq2AttnError("standard input is closed", hint="Give the strings as arguments, or one per line.")
    try:
        for number, text in enumerate(iter(lambda: sys.stdin.readline(LONGEST + 2), ""), start=1):
            line = text.removesuffix("\n").removesuffix("\r")
            if len(line) > LONGEST:
                raise Seq2AttnError(f"line {number} of standard input is longer than {LONGEST:,} characters")
            if not line:
                raise Seq2AttnError(f"line {number} of standard input is empty", hint="Give one string per line.")
            try:
                check(line)
            except Seq2AttnError as error:
                raise Seq2AttnError(f"line {number} of standard input: {error.message}", hint=error.hint) from None
            yield line
    except UnicodeDecodeError as error:
        raise Seq2AttnError(f"standard input is not {error.encoding} text (byte {error.start})") from None
    except OSError as error:
        raise Seq2AttnError(f"standard input cannot be read: {error.strerror or error}") from None
