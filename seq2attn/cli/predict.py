"""`seq2attn predict`"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2attn.cli import options
from seq2attn.cli.options import argument, option
from seq2attn.display.console import (
    on_terminal,
    print_error,
    printable,
    say,
    stdout,
    write_json,
    write_line,
)
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import LONGEST
from seq2attn.runs.run import DEFAULT_ROOT
from seq2attn.text import MOST_NAMES, first_of, quoted

if TYPE_CHECKING:
    from seq2attn.data.tasks import Task
    from seq2attn.inference.answer import Answer
    from seq2attn.inference.predictor import Predictor


def predict(
    texts: Annotated[
        list[str],
        argument("TEXT...", "Input strings; - reads them from standard input, one a line."),
    ],
    run: options.RunOptions = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    n_best: Annotated[
        int | None,
        option("K", "Print the K best outputs with their log-probabilities.", min=1, max=1000),
    ] = None,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    ideal: Annotated[
        bool, typer.Option("--ideal", help="In the figure, outline the ideal alignment.")
    ] = False,
    heat: Annotated[
        Literal["colour", "digits", "none"] | None,
        typer.Option(
            "--map", help="The map that is printed. Default: on a terminal colour, in a pipe none."
        ),
    ] = None,
    checkpoint: options.CheckpointName = "best",
    device: options.Device = "cpu",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Print a model's output for each string, with its attention.

    On a terminal each output comes with its attention map; --map digits prints the weights in its
    cells, in tenths, as it is where there are no colours. In a pipe, and with --map none, there are
    only the outputs, one per line. With --n-best, each of these lines is a source, one of its
    outputs, and the output's log-probability, separated by tabs. For a run on pairs of strings, -
    also reads the lines of a file of pairs, and the lines are source and output, with a tab
    between. A line of standard input that the model cannot read has an empty line for its answer.
    --json prints an object for one string, a list for several, and for standard input an object a
    line.

    Examples:

      seq2attn predict hello

      seq2attn predict hello world --run scaled-001 --plot attention.svg --ideal
    """
    if ideal and plot is None:
        raise Seq2AttnError("--ideal outlines cells of a figure", hint="Add --plot FILE.")
    if heat and as_json:
        raise Seq2AttnError(
            "--map draws the weights that --json prints", hint="Leave one of the two out."
        )
    search = options.beam_search(beam, length_penalty, n_best)
    chosen = options.find_runs(runs_dir, run, "--run RUN")
    from seq2attn.data.tasks.pairs import Pairs
    from seq2attn.inference.trained_model import load_ensemble

    trained = load_ensemble(chosen, checkpoint, device)
    predictor, task = trained.predictor, trained.task
    predictor.search = search
    if plot is not None and texts == ["-"]:
        raise Seq2AttnError(
            "--plot draws the strings of the command line, not those of standard input"
        )
    options.note_checkpoint(chosen[0], checkpoint, trained)
    maps, records, unseen, count, refused, untrained = [], [], Counter[str](), 0, 0, 0
    heat = heat or ("colour" if on_terminal() else "none")
    keep_weights = as_json or plot is not None or heat != "none"
    for answer in _answers(predictor, texts, keep_weights):
        if answer is None:
            refused += 1
            if not as_json:
                write_line("")
            continue
        count += 1
        answer = replace(answer, hypotheses=answer.hypotheses[:n_best])
        if not as_json:
            _print(answer, heat, with_source=isinstance(task, Pairs), with_rates=n_best is not None)
        elif len(texts) == 1:
            write_json(answer.to_json(), indent=None)
        else:
            records.append(answer.to_json())
        if plot is not None and answer.map is not None:
            maps.append(answer.map)
        unseen.update(task.source_vocabulary.unseen(answer.source))
        untrained += not task.is_trained(len(answer.source_symbols) - predictor.source_eos)
    if records:
        write_json(records, indent=None)
    _note_rest(task, unseen, untrained, count, refused)
    if plot is not None:
        from seq2attn.plotting.attention import attention_figure

        options.save_figure(attention_figure(maps, ideal=ideal), plot)


def _note_rest(task: Task, unseen: Counter[str], untrained: int, count: int, refused: int) -> None:
    """Note which symbols, and how many of `count` strings, are unlike those of training, and end if
    lines were refused.
    """
    if unseen:
        names = first_of([repr(symbol) for symbol, _ in unseen.most_common()])
        say(f"symbols that the training file lacks, read as <unk>: {names}")
    if untrained:
        strings = "the string has" if count == 1 else f"{untrained:,} of {count:,} strings have"
        say(
            f"{strings} a length never seen in training (trained: {task.min_length} to {task.max_length} symbols)"
        )
    if refused:
        say(f"no answer to {refused:,} of {refused + count:,} lines of standard input")
        raise typer.Exit(2)


def _answers(predictor: Predictor, texts: list[str], keep_weights: bool) -> Iterator[Answer | None]:
    """The answers for `texts`, or for the lines of standard input; None for a line that was
    refused.
    """
    if texts == ["-"] and sys.stdin is None:
        raise Seq2AttnError("standard input is closed", hint="Give the strings as arguments.")
    predict = functools.partial(predictor.predict, keep_weights=keep_weights)
    if texts == ["-"] and sys.stdin.isatty():
        say("Type one string a line. Ctrl-D ends.")
        for line in filter(
            None, _standard_input(predictor)
        ):  # each is answered before the next is typed
            yield from predict([line])
        return
    sources, ahead = itertools.tee(_standard_input(predictor) if texts == ["-"] else texts)
    answers = predict(
        source for source in ahead if source is not None
    )  # in blocks, which are read ahead
    for source in sources:
        yield None if source is None else next(answers)


def _standard_input(predictor: Predictor) -> Iterator[str | None]:
    """The sources in the lines of standard input; None for a line that the model cannot read, after
    a message.
    """
    refused = 0
    for number, line in enumerate(iter(lambda: sys.stdin.readline(LONGEST + 2), ""), start=1):
        source = predictor.task.source_of(
            line.removeprefix("\ufeff").removesuffix("\n").removesuffix("\r")
        )
        try:
            predictor.read(source)
        except Seq2AttnError as error:
            refused += 1
            where = "" if sys.stdin.isatty() else f"line {number} of standard input: "
            if not where or refused <= MOST_NAMES:
                print_error(Seq2AttnError(f"{where}{error.message}", hint=error.hint))
            yield None
            if len(line) > LONGEST and not line.endswith("\n"):
                return  # it may have no end
        else:
            yield source


def _print(answer: Answer, heat: str, *, with_source: bool, with_rates: bool) -> None:
    if heat != "none":
        _print_map(answer, digits=heat == "digits")
        for one in answer.hypotheses if with_rates else ():
            write_line(f"  {one.log_probability:8.3f}  {one.output}")
    elif with_rates:
        for one in answer.hypotheses:
            write_line(f"{answer.source}\t{one.output}\t{one.log_probability:.6f}")
    else:
        write_line(f"{answer.source}\t{answer.output}" if with_source else answer.output)
    if not answer.finished:
        say(
            f"{quoted(answer.source)}: no <eos> within the longest output allowed; the output was cut off"
        )


def _print_map(answer: Answer, *, digits: bool) -> None:
    from rich.text import Text

    from seq2attn.plotting.cells import heat_map, legend

    console, attention = stdout(), answer.map
    source = answer.source.replace("\t", " ")  # before its features
    line = Text(printable(f"{source} -> {answer.output}"), style="bold")
    if answer.expected not in (None, answer.output):
        line.append(printable(f"   (expected: {answer.expected})"), style="red")
    console.print(line)
    drawn = attention and heat_map(attention, console, digits=digits)
    if attention and drawn is not None:
        console.print(drawn)
        say(f"    {legend(attention, console, digits=digits)}", console=console)
    elif attention:
        say("the map is too wide for this terminal; --plot FILE draws it")
