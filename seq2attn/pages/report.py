"""Runs, or a comparison, as one HTML file without scripts: figures as inline SVG, and tables."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.build import build_task
from seq2attn.comparison.figures import figures_of
from seq2attn.comparison.plan import Plan
from seq2attn.comparison.results import gather
from seq2attn.config import flat_values
from seq2attn.display.signs import sign
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, first_of
from seq2attn.pages import asset, filled
from seq2attn.plotting.attention import MOST_STEPS, choose_evenly, cropped
from seq2attn.plotting.cells import html_map
from seq2attn.plotting.figures import accuracy_curves_figure, accuracy_figure, curves_figure, svg
from seq2attn.results.evaluation import side_by_side
from seq2attn.runs.run import Run, latest_by_length, read_attention, read_metrics, state_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {
    "loss": "training loss, nats per token",
    "wer": "word error rate on the dev set",
    "ser": "symbol error rate on the dev set",
    "teacher_forced": "teacher-forced accuracy",
    "alignment": "alignment accuracy",
    "entropy": "attention entropy, nats",
}
Sections = dict[str, str]
"""heading -> HTML"""
Groups = Mapping[str, Sequence[Run]]
"""label -> runs that differ in their seeds"""


def report_of_runs(runs: Sequence[Run]) -> tuple[str, Sections]:
    """Return the title and the sections of a report of runs, for `render`."""
    return f"Report: {first_of(run.name for run in runs)}", {
        "Summary": _summary(runs),
        "Accuracy by string length": _lengths(runs),
        "Through training": _figures(_training(runs)),
        **_common({run.name: [run] for run in runs}),
    }


def report_of_comparison(plan: Plan, root: Path) -> tuple[str, Sections]:
    """Return the title and the sections of a report of a comparison, for `render`.

    root: the runs directory. Raises `Seq2AttnError` if no trial is measured yet. Trials that are
    not are left out, and named.
    """
    comparison = gather(plan)
    if not comparison.groups:
        raise Seq2AttnError(
            f"no trial of {comparison.name!r} in {root} is trained and measured",
            hint="Run its `seq2attn compare` command; it continues where it stopped.",
        )
    groups = {}
    for group in comparison.groups:
        groups[group.label] = [Run(root / trial.run) for trial in group.trials]
    measured = {run.name for run in chain(*groups.values())}
    missing = [trial.name for trial in plan.trials if trial.name not in measured]

    *of_groups, ranking = comparison.tables()
    figures = figures_of(comparison)  # curves by metric, and `results`
    verdict, *notes = ranking.notes  # the first note says which group is the best
    result = f"<p><strong>{html.escape(verdict)}</strong></p>\n"
    result += _figures([figures.pop("results")], 1.0) + _scrolling(replace(ranking, notes=notes))
    if missing:
        result += f"<p>Not measured yet and left out: {html.escape(', '.join(missing))}.</p>"
    return f"Comparison: {comparison.name}", {
        "Result": result,
        "Each group": "".join(map(_folded, of_groups)),
        "Through training": _figures(figures.values(), 1.0),
        **_common(groups),
    }


def _folded(table: Table) -> str:
    """Return a table that a click unfolds."""
    summary = f"<summary>{html.escape(table.title)}</summary>"
    return f"<details>{summary}{_scrolling(replace(table, title=''))}</details>\n"


def render(title: str, sections: Sections) -> str:
    """Return the page, as HTML, without the sections that are empty. title: plain text; headings
    and sections are HTML already.
    """
    texts = ""
    for heading, text in sections.items():
        if text:
            texts += f"<section><h2>{heading}</h2>\n{text}</section>\n"
    return filled(
        "report.html",
        {
            "title": html.escape(title),
            "style": asset("report.css"),
            "sections": texts,
        },
    )


def _scrolling(table: Table) -> str:
    """Return a table that scrolls where it is wider than the window; empty without rows."""
    return f'<div class="scroll">{table.html()}</div>' if table.rows else ""


def _figures(figures: Iterable[Figure], scale: float = 0.75) -> str:
    """Return figures side by side; empty without any.

    scale: their size, of that on paper; text keeps its size, so that it can be read on a telephone.
    """
    drawn = "".join(f"<figure>{svg(figure, scale)}</figure>" for figure in figures)
    return f'<div class="figures">{drawn}</div>' if drawn else ""


def _summary(runs: Sequence[Run]) -> str:
    """Return a table, as HTML, with a row for each run: what it trains, how far it is, and what its
    last evaluation measured.
    """
    records = []
    for run in runs:
        config = run.config
        status = run.status()
        # from what the run keeps of its files, which need not be there
        task = build_task(config, run.learned_task(config))
        # a config that counts epochs has no steps: then its status has, once it trains
        steps = config.training.steps or status.steps or 0
        records.append({
            "run": run.name,
            "score": config.score_name,
            "task": config.task.name,
            "seed": config.seed,
            "state": state_of(run, status),
            "steps": f"{status.step or 0:,} of {steps:,}",
            "WER": status.wer,
            "SER": status.ser,
            "exact match, worst": status.exact_match_worst,
            "mean": status.exact_match_mean,
            "entropy": status.attention_entropy,
            "lines left out": sum(task.left_out.values()) or None,  # of its files
            "made": str(run.environment.created or "")[:16],  # up to the minute
        })  # fmt: skip
    return _scrolling(Table.of_records(records))


def _training(runs: Sequence[Run]) -> Iterable[Figure]:
    """Yield a figure for each kind of curve that at least one run has, exact match first."""
    scores = [run.config.score_name for run in runs]
    metrics = {run.name: read_metrics(run) for run in runs}
    evaluations = {}
    for name, recorded in metrics.items():
        # a run on a file of pairs has a curve of its word error rate instead of exact match
        evaluations[name] = () if recorded.curve("wer") else recorded.evaluations
    if any(evaluations.values()):
        yield accuracy_curves_figure(evaluations, scores)
    for metric, label in CURVES.items():
        curves = {name: recorded.curve(metric) for name, recorded in metrics.items()}
        if any(curves.values()):
            yield curves_figure(curves, scores, label, log=metric == "loss")


def _lengths(runs: Sequence[Run]) -> str:
    """Return a figure and tables of accuracy by length: what `eval` measured of each run, or else
    the last evaluation of its training; a line says which. Runs without either are left out; empty
    if all are.
    """
    results = {}
    scores = []
    sources = []
    for run in runs:
        latest = latest_by_length(run)
        if latest is not None:
            source, results[run.name] = latest
            sources.append(f"{run.name}: {source}")
            scores.append(run.config.score_name)
    if not results:
        return ""
    tables = "".join(map(_scrolling, side_by_side(results)))
    figure = _figures([accuracy_figure(results, scores)])
    return f"{figure}<p>{html.escape('; '.join(sources))}</p>{tables}"


def _common(groups: Groups) -> Sections:
    """Return the sections that a report of runs and one of a comparison have in common; attention
    is that of the first run of each group.
    """
    return {
        "Attention": _attention({label: runs[0] for label, runs in groups.items()}),
        "Config": _settings(groups, lambda run: flat_values(run.config)),
        "Environment": _settings(groups, lambda run: flat_values(run.environment.known())),
    }


def _attention(runs: Mapping[str, Run]) -> str:
    """Return maps of attention, a row of them for each string: of one run through training, at most
    `MOST_STEPS`, of several the last of each. Empty if no run recorded any.

    runs: by a label, which is written above a map if there are several.
    """
    maps: dict[str, str] = {}  # source -> its row, as HTML
    is_one = len(runs) == 1
    for label, run in runs.items():
        recorded = read_attention(run)
        for step, drawn in choose_evenly(recorded, MOST_STEPS if is_one else 1):
            # a group is labelled by its values, a run by its name
            name = label if label == run.name else f"{label}: {run.name}"
            heading = html.escape(f"step {step:,}" if is_one else name)
            for attention in drawn:
                figure = f"<figure><h3>{heading}</h3>{html_map(cropped(attention))}</figure>"
                maps[attention.source] = maps.get(attention.source, "") + figure
    if not maps:
        return ""
    text = "".join(f'<div class="maps">{figures}</div>' for figures in maps.values())
    axes = "Rows: steps of decoding; columns: source. Bright: attended to."
    return f"{text}<p>{axes} {sign('<eos>')} is the end of a string.</p>"


def _settings(groups: Groups, values_of: Callable[[Run], dict[str, Any]]) -> str:
    """Return a table of values by key, as HTML, a column for each group; first the keys whose
    values differ between groups. A cell has several values where the runs of a group differ, and
    `-` for none.

    values_of: returns key -> value of a run.
    """
    values = {label: [values_of(run) for run in runs] for label, runs in groups.items()}
    keys: dict[str, Any] = {}  # of all runs, each once, in order
    for of_run in chain(*values.values()):
        keys |= of_run
    rows = []
    for key in keys:
        row = [key]
        for of_runs in values.values():
            row.append(", ".join(dict.fromkeys(_text(one.get(key)) for one in of_runs)))
        rows.append(row)
    # those with one text behind the key, the same for all groups, come last, in their order
    rows.sort(key=lambda row: len(set(row[1:])) == 1)
    return _scrolling(Table(list(map(Column, ["key", *groups])), rows))


def _text(value: Any) -> str:
    """Return a value of a config as a text, a list without its brackets."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "-" if value in (None, "") else str(value)
