"""`seq2attn compare`"""

from __future__ import annotations

import csv
import json
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.cli.output import note, note_if_slow, program, stderr, write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, check_name, named_plugins

if TYPE_CHECKING:
    from seq2attn.comparison.experiment import Experiment
    from seq2attn.comparison.plan import Plan
    from seq2attn.comparison.results import Comparison


def compare(
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT", help="An experiment file; or give --config and --vary.")
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", metavar="FILE", help="A base config. Repeated: bases to compare."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B,...", help="A config key and its values, or seed=1-10. May be repeated."),
    ] = None,
    overrides: options.Overrides = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Compare each group with the one that differs in this. May be repeated."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="exact_match (default), character_accuracy, teacher_forced, alignment or entropy."),
    ] = None,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            "--lengths", metavar="N...", help="String lengths: 3 5 7 10, or 3,5,7, or 3-10. Default: the config's."
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Strings a length. Default: the config's.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Which weights to measure: best (default, by validation) or last.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The runs are NAME-... Default: the experiment's or config's.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Trials at a time. Default: one a processor core.")
    ] = None,
    max_trials: Annotated[int, typer.Option(min=1, help="Refuse a grid that is larger.")] = 1000,
    as_json: options.AsJson = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write every trial at every length, as CSV.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FOLDER", help="Also draw figures into it.")] = None,
    device: options.Device = "auto",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a grid of configs over several seeds, and compare what they learn.

    Every combination of the values of --vary is a trial, and each trial is an
    ordinary run that `eval`, `predict` and `runs` know. Ctrl-C saves; the same
    command goes on where it was and trains nothing twice, even after kill -9.
    More seeds later: the same command with seed=1-20.

    Trials with the same seed see the same batches, and all are asked the same
    strings, so differences are taken seed by seed ("paired"): chance that
    strikes both sides cancels.

    The table shows, for each group and length: mean and standard deviation over
    seeds, the worst and the best seed, the 95 % confidence interval of the mean
    (Student's), and the mean paired difference from the baseline with its
    interval. docs/comparing.md says in plain words what these mean.

    Examples:

      seq2attn compare configs/experiments/chapter.yaml

      seq2attn compare -c configs/scaled.yaml --vary model.attention.score=dot,scaled,none --vary seed=1-5

      seq2attn compare -c configs/scaled.yaml -c configs/dot.yaml --vary seed=1-5 --plot figures --csv trials.csv

      seq2attn compare configs/experiments/chapter.yaml --vary seed=1-2 --baseline model.attention.mask_padding=false
    """
    from seq2attn.comparison.plan import make_plan
    from seq2attn.comparison.results import gather

    _check_outputs(csv_file, plot)
    plugins = options.load_plugins(plugin)
    chosen = _experiment(experiment, config, vary or [], overrides or [], name)
    chosen = _measured(chosen, baseline or [], metric, lengths, samples, checkpoint)
    plan = make_plan(chosen, runs_dir, max_trials)
    failed = _run(plan, runs_dir, device, plugins, workers)
    comparison = gather(plan, runs_dir)
    if as_json:
        from seq2attn.comparison.results import to_json

        write_line(json.dumps({**to_json(comparison), "failed": failed}, indent=2, ensure_ascii=False))
    else:
        from seq2attn.cli.comparison_table import show

        show(comparison)
    _write_outputs(comparison, csv_file, plot)
    if comparison.groups:
        named = f"{comparison.name}{options.named_runs_dir(runs_dir)}{named_plugins(plugins)}"
        note(f"In one page: {program()} report {named}")
    if failed:
        count = f"{len(failed):,} of {len(plan.trials):,} trials failed"
        reasons = "\n".join(f"  {run}: {reason}" for run, reason in failed.items())
        raise Seq2AttnError(f"{count}\n{reasons}", hint="The same command tries them again.", exit_code=1)


# ---- what is asked for ----


def _experiment(
    file: Path | None, configs: list[Path] | None, vary: list[str], overrides: list[str], name: str | None
) -> Experiment:
    from seq2attn.comparison.experiment import Experiment, name_bases, read_experiment, run_word
    from seq2attn.comparison.grid import parse_vary

    if (file is None) == (configs is None):
        hint = "See: seq2attn compare --help"
        raise Seq2AttnError("give either an experiment file, or --config FILE and --vary KEY=A,B,...", hint=hint)
    axes = [parse_vary(text) for text in vary]
    if file is not None:
        chosen = read_experiment(file)
    else:
        assert configs is not None
        bases = name_bases(configs)
        own = run_word(f"compare-{next(iter(bases))}" if len(bases) == 1 else "compare")
        chosen = Experiment(name=own, source="seq2attn compare", bases=bases)
    for path in chosen.bases.values():
        if not path.is_file():
            from seq2attn.config.yaml_reader import read_file

            read_file(path)  # says what is wrong with it
    repeated = {axis.key for axis in axes if [other.key for other in axes].count(axis.key) > 1}
    if repeated:
        raise Seq2AttnError(f"--vary names {', '.join(sorted(repeated))} twice; give all its values at once")
    if name is not None:
        check_name(name)
        chosen = replace(chosen, name=name)
    chosen = replace(chosen.varied(axes), fixed=(*chosen.fixed, *overrides))
    if not chosen.all_axes():
        words = [str(file)] if file is not None else ["-c", str(next(iter(chosen.bases.values())))]
        hint = f"Such as: {shlex.join(['seq2attn', 'compare', *words, '--vary', 'seed=1-5'])}"
        raise Seq2AttnError("nothing to compare: one config, and no --vary", hint=hint)
    return chosen


def _measured(
    experiment: Experiment,
    baseline: list[str],
    metric: str | None,
    lengths: list[str] | None,
    samples: int | None,
    checkpoint: str | None,
) -> Experiment:
    """`experiment` with the options about measuring laid over it."""
    from seq2attn.comparison.experiment import check_checkpoint, check_metric
    from seq2attn.config.lengths import parse_lengths

    if metric is not None:
        other = check_metric(metric) != experiment.metric
        experiment = replace(experiment, metric=metric, published=() if other else experiment.published)
    if checkpoint is not None:
        experiment = replace(experiment, checkpoint=check_checkpoint(checkpoint))
    if lengths is not None:
        try:
            experiment = replace(experiment, lengths=parse_lengths(lengths))
        except Seq2AttnError as error:
            raise Seq2AttnError(f"--lengths: {error.message}") from None
    if baseline:
        experiment = replace(experiment, baseline=dict(map(_baseline_value, baseline)))
    return replace(experiment, samples=samples or experiment.samples)


def _baseline_value(text: str) -> tuple[str, Any]:
    from seq2attn.config.yaml_reader import read_text

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise Seq2AttnError(f"--baseline {text!r}: expected KEY=VALUE, such as model.attention.score=none")
    return key.strip(), read_text(value, "--baseline").value


def _check_outputs(csv_file: Path | None, plot: Path | None) -> None:
    """Refuse what could not be written after hours of training."""
    if csv_file is not None and (csv_file.is_dir() or not csv_file.parent.is_dir()):
        reason = "it is a directory" if csv_file.is_dir() else f"there is no directory {csv_file.parent}"
        raise Seq2AttnError(f"--csv {csv_file}: {reason}")
    if plot is not None:
        try:
            plot.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Seq2AttnError(f"--plot {plot}: no directory can be made there: {error.strerror or error}") from None


# ---- running ----


def _run(plan: Plan, root: Path, device: str, plugins: list[str], workers: int | None) -> dict[str, str]:
    """Run what is not done yet. Returns the reasons of those that failed, by run."""
    from seq2attn.cli.comparison_display import make_display
    from seq2attn.comparison.pool import TrialPool, available_cores
    from seq2attn.comparison.running import run_jobs
    from seq2attn.comparison.trial import STOP, Job, find_record
    from seq2attn.training.signals import stop_on_signals

    jobs = [Job(trial, root, device, tuple(plugins)) for trial in plan.trials if find_record(trial, root) is None]
    done = len(plan.trials) - len(jobs)
    if not jobs:
        note(f"{plan.experiment.name}: all {done:,} trials are done")
        return {}
    _check_device(device)
    at_once = min(workers or available_cores(), len(jobs))
    if plan.experiment.description:
        note(plan.experiment.description)
    note(
        f"{plan.experiment.name}: {len(plan.trials):,} trials, {done:,} done, {len(jobs):,} to run, "
        f"{at_once:,} at a time; runs in {root}"
    )
    STOP.signal = None
    with stop_on_signals(STOP), make_display(stderr(), jobs, done) as display:
        outcomes = run_jobs(jobs, lambda: TrialPool(at_once, plugins), at_once, display)
    ended = sum(outcome.state == "done" for outcome in outcomes.values())
    if STOP.signal is not None and done + ended < len(plan.trials):
        note(
            f"stopped by {signal.Signals(STOP.signal).name}: {done + ended:,} of {len(plan.trials):,} trials are done; "
            "what was running is saved."
        )
        note(f"Go on with the same command: {program()} {shlex.join(sys.argv[1:])}")
        raise typer.Exit(128 + STOP.signal)
    return {run: outcome.reason for run, outcome in outcomes.items() if outcome.state == "failed"}


def _check_device(device: str) -> None:
    from seq2attn.runs.environment import choose_device

    note_if_slow(choose_device(device))


# ---- results ----


def _write_outputs(comparison: Comparison, csv_file: Path | None, plot: Path | None) -> None:
    if csv_file is not None:
        from seq2attn.comparison.results import csv_rows

        try:
            with csv_file.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(csv_rows(comparison))
        except OSError as error:
            raise Seq2AttnError(f"{csv_file}: cannot be written: {error.strerror or error}", exit_code=1) from error
        note(f"table: {csv_file}")
    if plot is not None and comparison.groups:
        from seq2attn.plotting.comparison import save_figures

        for path in save_figures(comparison, plot):
            note(f"figure: {path}")
