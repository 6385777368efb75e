"""`seq2attn predict`"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2attn.cli.options import (
    Device,
    Ideal,
    Models,
    RunOptions,
    Shown,
    argument,
    find_runs,
    option,
    save_figure,
)
from seq2attn.display.console import on_terminal, print_error, printable, say, stdout, write_json
from seq2attn.errors import MAX_NAMES, Seq2AttnError, first_of, quoted

if TYPE_CHECKING:
    from seq2attn.inference.answer import Answer
    from seq2attn.inference.predictor import Predictor


MOST_TOGETHER = 1_000  # lines of standard input that are read before they are answered


def predict(
    texts: Annotated[
        list[str],
        argument("TEXT", "Input strings; - reads them from standard input, one per line."),
    ],
    names: RunOptions = None,
    *,
    n_best: Annotated[
        int | None,
        option("K", "Print the K best outputs with their log-probabilities.", min=1, max=1000),
    ] = None,
    shown: Shown,
    ideal: Ideal = False,
    heat: Annotated[
        Literal["colour", "digits", "none"] | None,
        typer.Option(
            "--map",
            help="How to print the attention. Default: colour on a terminal, none in a pipe.",
        ),
    ] = None,
    device: Device = "cpu",
    models: Models,
) -> None:
    """Print a model's output for each string, with its attention.

    On a terminal, each output comes with a map of its attention. --map digits writes the weights
    into the cells, in tenths; a terminal without colours always gets these. In a pipe, and with
    --map none, only the outputs are printed, one per line. With --n-best, each of these lines holds
    a source, one of its outputs and the output's log-probability, separated by tabs.

    Several runs answer one after the other; with --ensemble they are one model, which averages
    their probabilities. In a pipe, the lines of several runs begin with the name of the run.

    A run on pairs of strings prints source and output, separated by a tab, and standard input (-)
    may also be a file of pairs. A line of it that the model cannot read gets an empty line as its
    answer. --json prints an object per line.

    Examples:

      seq2attn predict hello

      seq2attn predict hello world --run scaled-001 --plot attention.svg --ideal

      seq2attn predict hello --run scaled-001 --run none-001
    """
    runs = find_runs(models.runs_dir, names)
    several = len(runs) > 1 and not models.as_ensemble
    if texts == ["-"] and several:
        raise Seq2AttnError(
            "standard input is answered by one run, or with --ensemble by several as one model",
            hint="Call predict once for each run.",
        )
    if ideal and not shown.plot:
        raise Seq2AttnError("--ideal outlines cells of a figure", hint="Add --plot FILE.")
    if shown.plot and texts == ["-"]:
        raise Seq2AttnError("--plot draws strings of the command line, not of standard input")
    heat = heat or ("colour" if on_terminal() else "none")
    loaded = models.load(runs, device, n_best or 0)  # the beam has to hold that many
    keep_weights = shown.as_json or shown.plot is not None or heat != "none"
    maps = []
    for trained in loaded:  # one, if standard input is read
        answers = _answers(trained.predictor, texts, keep_weights)
        for answer in _noted(answers, trained.predictor):
            if answer is None:  # to a line that the model cannot read
                if not shown.as_json:
                    print()
                continue
            answer = replace(answer, hypotheses=answer.hypotheses[:n_best])  # None: all
            if shown.as_json:
                of_run = {"run": trained.name} if len(runs) > 1 else {}
                write_json({**of_run, **answer.to_json()}, indent=None)
            else:
                _print(answer, trained.name if several else "", heat, ranked=n_best is not None)
            if shown.plot and answer.map is not None:
                maps.append(answer.map)
    if shown.plot:
        from seq2attn.plotting.attention import attention_figure

        save_figure(attention_figure(maps, ideal=ideal), shown.plot)


def _noted(answers: Iterator[Answer | None], predictor: Predictor) -> Iterator[Answer | None]:
    """Yield the answers, and count on the way: after the last one, say how many of their strings
    have symbols or lengths that training lacked, and exit with code 2 if an answer is None, for a
    line that the model could not read.
    """
    task = predictor.task
    unseen = Counter[str]()
    answered = untrained = refused = 0
    for answer in answers:
        yield answer
        if answer is None:
            refused += 1
            continue
        answered += 1
        unseen.update(task.source_vocabulary.unseen(answer.source))
        length = len(answer.source_symbols) - predictor.source_eos  # <eos> does not count
        untrained += not task.is_trained(length)
    if unseen:
        symbols = [repr(symbol) for symbol, _ in unseen.most_common()]
        say(f"symbols that the training file lacks, read as <unk>: {first_of(symbols)}")
    if untrained:
        trained = f"(trained: {task.min_length} to {task.max_length} symbols)"
        say(f"of a length never seen in training {trained}: {untrained:,} of {answered:,} strings")
    if refused:
        say(f"no answer to {refused:,} of {answered + refused:,} lines of standard input")
        raise typer.Exit(2)


def _answers(predictor: Predictor, texts: list[str], keep_weights: bool) -> Iterator[Answer | None]:
    """Yield the answer to each text, or if the only one is `-`, to each line of standard input;
    None for a line that the model cannot read.
    """
    if texts != ["-"]:
        yield from predictor.predict(texts, keep_weights=keep_weights)
        return
    if sys.stdin is None:
        raise Seq2AttnError("standard input is closed", hint="Give the strings as arguments.")
    typed = sys.stdin.isatty()
    if typed:
        say("Type one string per line. Ctrl-D ends.")
    together = 1 if typed else MOST_TOGETHER  # each is answered before the next is typed
    sources = _standard_input(predictor)
    while block := list(itertools.islice(sources, together)):
        readable = [source for source in block if source is not None]
        answers = predictor.predict(readable, keep_weights=keep_weights)
        for source in block:
            if source is not None:
                yield next(answers)
            elif not typed:  # a mistake can be typed again
                yield None


def _standard_input(predictor: Predictor) -> Iterator[str | None]:
    """Yield the source in each line of standard input that has one; None, after a message, for a
    line that the model cannot read. If standard input is not a terminal, only the first `MAX_NAMES`
    of these messages are shown.
    """
    refused = 0
    lines = (line.strip("\ufeff\r\n") for line in sys.stdin)
    for number, source in predictor.task.sources(lines):
        try:
            predictor.read(source)  # raises if the model cannot read it
            yield source
        except Seq2AttnError as error:
            refused += 1
            if refused <= MAX_NAMES or sys.stdin.isatty():
                error.message = f"line {number} of standard input: {error.message}"
                print_error(error)
            yield None


def _print(answer: Answer, name: str, heat: str, *, ranked: bool) -> None:
    """Print an answer: with a map, with --n-best as its best outputs and their log-probabilities,
    without either as its output alone.

    name: of the run; empty if there is only one. heat: `colour`, `digits` or `none`.
    ranked: True to print the best outputs.
    """
    from seq2attn.data.tasks.pairs import Pairs

    start = f"{name}\t" if name else ""  # what a printed line begins with
    # several runs or outputs give several lines for one source; lines of pairs have it always
    if name or ranked or isinstance(answer.task, Pairs):
        start += f"{answer.source}\t"
    if heat != "none":
        _print_map(answer, name, digits=heat == "digits")
    if ranked:
        for best in answer.hypotheses:
            print(f"{start}{best.output}\t{best.log_probability:.6f}")
    elif heat == "none":
        print(f"{start}{answer.output}")
    if not answer.finished:
        say(f"{quoted(answer.source)}: cut off at the longest output allowed, without <eos>")


def _print_map(answer: Answer, name: str, *, digits: bool) -> None:
    """Print source and output, what was expected if that is something else, and the map of the
    attention, or why there is none.

    name: of the run; empty if there is only one. digits: True to write weights into the cells.
    """
    from rich.text import Text

    from seq2attn.plotting.cells import heat_map, legend

    console = stdout()
    source = answer.source.replace("\t", " ")  # the tab before its features
    start = f"{name}: " if name else ""
    line = Text(printable(f"{start}{source} -> {answer.output}"), style="bold")
    if answer.expected not in (None, answer.output):
        line.append(printable(f"   (expected: {answer.expected})"), style="red")
    console.print(line)
    if answer.map is None:
        say("no map: the model has no attention, or the string is too long")
        return
    drawn = heat_map(answer.map, console, digits=digits)
    if drawn is None:
        say("the map is too wide for this terminal; --plot FILE draws it")
    else:
        console.print(drawn)
        # on standard output, too, as a part of the map
        say(f"    {legend(answer.map, console, digits=digits)}", console=console)
