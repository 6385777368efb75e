"""`seq2attn eval` and `compare`: what measures runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2attn.cli.options import (
    AsJson,
    Data,
    Device,
    Families,
    Force,
    Latex,
    Lengths,
    LoadedPlugins,
    Models,
    Overrides,
    RunArguments,
    RunsDir,
    Samples,
    Texts,
    argument,
    check_figure,
    check_latex,
    check_output,
    find_runs,
    option,
    save_figure,
    save_latex,
    stop,
    write_output,
)
from seq2attn.display.console import on_terminal, say, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.results.answers import ERRORS_HEADER, errors_table
from seq2attn.results.evaluation import Evaluation, paper_table, rates_table, side_by_side
from seq2attn.runs.run import DEFAULT_ROOT, plugin_options, runs_dir_option, save_evaluation

if TYPE_CHECKING:
    from seq2attn.inference.trained_model import TrainedModel


# ---- eval ----


@dataclass(frozen=True)
class Strings:
    """The options of what is measured: arguments of `TrainedModel.evaluate`."""

    lengths: Lengths = None
    samples: Samples = None
    families: Families = None
    seed: Annotated[int, option("N", "Seed of the test strings.")] = 0
    data: Data = None
    per: Annotated[str, option("type|token", "Of pairs, count each source once, or each line.")] = (
        "type"
    )


def evaluate(
    names: RunArguments = None,
    *,
    strings: Strings,
    paired: Annotated[bool, option("", "Of pairs, test if the runs differ.", "--paired")] = False,
    errors: Annotated[
        Path | None, option("FILE", "Write the wrong answers to this tab-separated file.")
    ] = None,
    latex: Latex = None,
    force: Force = False,
    as_json: AsJson = False,
    device: Device = "auto",
    models: Models,
) -> None:
    """Measure a run's accuracy at each string length.

    \b
    exact match             the whole string is right when the model reads its
                            own output
    teacher-forced          share of the characters that are right when the
                            model is given the right previous ones, as papers
                            usually report
    alignment               share of the characters whose largest weight lies
                            on the ideal source position
    entropy                 of the attention weights, in nats, mean over the
                            characters
    characters              share of the target's characters that are right at
                            their position
    before the first error  share of the target's characters that precede the
                            first wrong one

    Brackets hold 95 % confidence intervals over the strings drawn; an asterisk marks lengths never
    seen in training.

    Several runs are measured side by side. With --ensemble they are one model, which averages their
    probabilities. The results of an ensemble, or with --beam, are printed but not saved with the
    run. With a beam, all columns but the teacher-forced ones describe the beam's output.

    A run on pairs of strings is measured on a file: word error rate (WER, the share of answers that
    are not exactly right), symbol error rate (SER, edits per symbol of the right answers), the
    share of answers cut off at the longest output allowed, and exact match by source length.
    If a source has several right answers, any of them counts. A source on several lines is one
    word, as in published word error rates, or with --per token as many as it has lines.

    --paired counts the words that only one of two runs has right, each run and the first, and tests
    whether that may be chance: by McNemar's exact test, or where lines are counted by a permutation
    test over sources, since the lines of a source share an answer.

    --families measures other kinds of strings than random ones, such as one letter repeated, and
    prints a row for each family and length. --errors writes each wrong answer next to the right
    one, with its edits: a>b means that b was written for a, a> that a was left out, and >b that b
    was added.

    --latex writes a table for a paper: error rates with intervals and the differences of the runs
    from the first, or exact match by length.

    Examples:

      seq2attn eval scaled-001 --lengths 3 5 7 10

      seq2attn eval gru lstm --data test.tsv --beam 5 --ensemble

      seq2attn eval gru lstm --data test.tsv --paired
    """
    check_latex(latex, force)
    if errors:
        check_output(errors, "table of wrong answers", ERRORS_HEADER, force)
    runs = find_runs(models.runs_dir, names)
    several = len(runs) > 1 and not models.as_ensemble
    if paired and not (several and strings.data):
        raise Seq2AttnError(
            "--paired compares two runs or more on a file of pairs",
            hint="Such as: seq2attn eval gru lstm --data test.tsv --paired",
        )
    if errors and several:
        raise Seq2AttnError("--errors writes the wrong answers of one run, or with --ensemble")
    loaded = models.load(runs, device)  # a model for each run, or one of all with --ensemble
    measured = {}
    for trained in loaded:
        evaluation = trained.evaluate(**vars(strings), errors=errors is not None)
        measured[trained.name] = evaluation
        _note_training(trained, evaluation)
    # an ensemble has no seed: each of its runs has one
    seeds = {} if models.as_ensemble else {run.name: run.config.seed for run in loaded}
    if paired:
        rates_table(measured, seeds, paired=True).show(as_json)
    else:
        _print(measured, as_json)
    # An ensemble has no run to save its results with. Those of a beam search would be mistaken for
    # greedy decoding's by figures and reports: an evaluation does not say how it decoded.
    if not (models.search() or models.as_ensemble):
        for trained in loaded:
            save_evaluation(measured[trained.name], trained.run)
    if latex:
        save_latex(paper_table(measured, seeds), latex)
    if errors:
        (evaluation,) = measured.values()  # --errors was refused for several
        table = errors_table(evaluation.errors())
        write_output(errors, "".join(f"{line}\n" for line in table.tsv()).encode())
        say(f"{len(table.rows):,} wrong answers: {errors}")


def _note_training(trained: TrainedModel, evaluation: Evaluation) -> None:
    """Say what share of the possible strings of each length training saw, if it is 1 % or more, and
    say so if it was trained on the file that it is measured on: such results say little of new
    strings.
    """
    examples = trained.step * trained.config.training.batch_size
    shares = []
    for length in evaluation.lengths:
        share = trained.task.share_drawn(length, examples)  # None: the task cannot say
        if share and share >= 0.01:
            shares.append(f"{100 * share:.0f} % of those of length {length}")
    if shares:
        saw = f"training saw about {', '.join(shares)}"
        say(f"{trained.name}: of the possible strings, {saw}")
    files = (trained.task.learned() or {}).get("files", {})  # None: the task reads no files
    if evaluation.data and evaluation.data["sha256"] == files.get("train", {}).get("sha256"):
        say(f"{trained.name} was trained on this file: the rates show how well it remembers")


def _print(measured: Mapping[str, Evaluation], as_json: bool) -> None:
    """Print evaluations as JSON, or on a terminal as tables, several side by side, or in a pipe as
    a line for each number.

    measured: by the name of the run.
    """
    if as_json:
        records = [evaluation.to_json(name) for name, evaluation in measured.items()]
        write_json(records if len(records) > 1 else records[0])
    elif not on_terminal():
        rows = []
        for name, evaluation in measured.items():
            rows += [{"run": name, **row} for row in evaluation.records()]
        Table.of_records(rows).show()
    else:
        for table in side_by_side(measured):
            table.show()
        if len(measured) > 1:
            say("--json has every measure")


# ---- compare ----


@dataclass(frozen=True)
class Grid:
    """The options that say what is compared: arguments of `compose_experiment`."""

    configs: Annotated[
        list[Path] | None, option("FILE", "A base config. May be repeated.", "--config", "-c")
    ] = None
    vary: Annotated[
        Texts,
        option(
            "KEY=A,B,...",
            "A key and its values, or seed=1-10, or KEY=log:1e-4..1e-2:8. May be repeated.",
        ),
    ] = None
    overrides: Overrides = None
    baseline: Annotated[
        Texts,
        option("KEY=VALUE", "Compare with the group that has this value. May be repeated."),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "NAME",
            "What is compared, such as entropy. Default: exact_match, or wer for runs on pairs.",
        ),
    ] = None
    lengths: Lengths = None
    families: Families = None
    samples: Samples = None
    checkpoint: Annotated[
        str | None,
        option("best|last", "Which weights to measure. Default: best, by validation."),
    ] = None
    name: Annotated[
        str | None,
        option(
            "NAME",
            "The comparison's name; its runs are called NAME-VALUES-seed_N. Default: the name of "
            "the experiment file, or compare-CONFIG.",
        ),
    ] = None


def compare(
    experiment: Annotated[
        Path | None, argument("EXPERIMENT", "An experiment file; or give --config and --vary.")
    ] = None,
    *,
    grid: Grid,
    workers: Annotated[
        int | None,
        option("N", "Number of parallel trials. Default: one per core.", "--workers", "-w", min=1),
    ] = None,
    executor: Annotated[
        str | None,
        option(
            "WHERE",
            "A Dask cluster, such as dask:tcp://HOST:8786. Default: processes on this machine.",
        ),
    ] = None,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None,
        option(
            "FOLDER|FILE",
            "Also save figures in this folder, or beginning with this file's name: x.svg for "
            "x-loss.svg and so on, or .pdf.",
        ),
    ] = None,
    force: Force = False,
    latex: Latex = None,
    device: Device = "auto",
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a grid of configs with several seeds, and compare them.

    Every combination of the values of --vary is a trial, and each trial is an ordinary run, so that
    `eval`, `predict` and `runs` work on it. Ctrl-C saves what is running. The same command
    continues and trains nothing twice, even after kill -9. To add seeds later, give it more of
    them, such as seed=1-20.

    For each group and length, the table shows mean and standard deviation over seeds, the worst and
    the best seed, the 95 % confidence interval of the mean (Student's t), and the mean difference
    from the baseline, seed by seed, with its interval. Runs on pairs of strings are compared by
    word and symbol error rates on their dev file. docs/comparing.md explains these.

    Examples:

      seq2attn compare configs/experiments/chapter.yaml

      seq2attn compare -c configs/scaled.yaml --vary seed=1-5

      seq2attn compare -c scaled --vary model.cell=gru,lstm --vary seed=1-5
    """
    from seq2attn.comparison import run
    from seq2attn.comparison.experiment import compose_experiment
    from seq2attn.comparison.figures import figure_files, figures_of

    plugins = plugin or []
    composed = compose_experiment(experiment, **vars(grid))
    # files that may not be written are refused before any training
    check_latex(latex, force)
    files = figure_files(composed.name, plot) if plot else {}
    for path in files.values():
        check_figure(path, force)
    comparison = run.compare(
        composed, runs_dir, device=device, plugins=plugins, workers=workers, executor=executor
    )
    done = sum(len(group.trials) for group in comparison.groups)
    # the number of a signal; one that came when all were done has stopped nothing
    if comparison.stopped_by is not None and done < comparison.planned:
        progress = f"{done:,} of {comparison.planned:,} trials; running ones are saved."
        stop(comparison.stopped_by, progress, f"seq2attn {shlex.join(sys.argv[1:])}")  # exits
    if as_json:
        write_json(comparison.to_json())
    else:
        # on a terminal a table for each group and one of all groups; in a pipe one of flat rows
        for table in comparison.tables() if on_terminal() else [comparison.table()]:
            table.show()
    if latex and comparison.groups:  # there are none if no trial is done
        save_latex(comparison.paper_table(), latex)
    if plot:
        for name, figure in figures_of(comparison).items():
            save_figure(figure, files[name])
    if comparison.groups:
        suffix = f"{runs_dir_option(runs_dir)}{plugin_options(plugins)}"
        say(f"As one page: seq2attn report {comparison.name}{suffix}")
    if comparison.failed:  # after the results of the trials that are done
        raise comparison.failure()
