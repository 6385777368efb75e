"""Runs, or a comparison, as one HTML file without scripts: figures as inline SVG, and tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.analysis.ledger import parameter_ledger
from seq2attn.build import build_model, build_task
from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.figures import figures_of
from seq2attn.comparison.plan import RECORD, Plan, load_plan, make_plan
from seq2attn.comparison.results import gather
from seq2attn.config import flat_values
from seq2attn.display.table import Column, Table, WithInterval
from seq2attn.errors import Seq2AttnError
from seq2attn.pages import asset, filled
from seq2attn.plotting.attention import MOST_STEPS, choose_evenly, cropped
from seq2attn.plotting.cells import html_map
from seq2attn.plotting.curves import (
    accuracy_curves_figure,
    accuracy_figure,
    curves_figure,
    runs_figure,
)
from seq2attn.plotting.style import svg
from seq2attn.runs.logs import latest_by_length, read_attention, read_metrics
from seq2attn.runs.run import Run, state_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURED = {
    "wer": "word error rate on the dev set",
    "ser": "symbol error rate on the dev set",
    "teacher_forced": "teacher-forced accuracy",
    "alignment": "alignment accuracy",
    "entropy": "attention entropy, nats",
}
Sections = dict[str, str]  # heading -> HTML
Groups = Mapping[str, Sequence[Run]]  # label -> runs that differ in their seeds


def find_comparison(names: Sequence[str], root: Path) -> Plan | None:
    """The comparison with this name or experiment file; None for the names of runs."""
    if len(names) != 1 or (root / names[0]).is_dir():
        return None
    if names[0].lower().endswith((".yaml", ".yml")):
        return make_plan(compose_experiment(Path(names[0])), root)
    return load_plan(names[0], root) if (root / RECORD.format(names[0])).is_file() else None


def report_of_runs(runs: Sequence[Run]) -> tuple[str, Sections]:
    """Title and sections of a report of runs."""
    names = [run.name for run in runs]
    scores = [run.config().score_name for run in runs]
    title = ", ".join(names[:4]) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    return title, {
        "Summary": _summary(runs),
        "Training": _figures(_training(runs, scores)),
        "Accuracy by string length": _lengths(runs, scores),
        **_attention_and_settings({run.name: [run] for run in runs}),
    }


def report_of_comparison(plan: Plan, root: Path) -> tuple[str, Sections]:
    """Title and sections of a report of a comparison."""
    comparison = gather(plan)
    if not comparison.groups:
        hint = "Run its `seq2attn compare` command; it continues where it stopped."
        raise Seq2AttnError(
            f"no trial of {comparison.name!r} in {root} is trained and measured", hint=hint
        )
    groups = {
        group.label: [
            Run(root / trial.run) for trial in sorted(group.trials, key=lambda trial: trial.seed)
        ]
        for group in comparison.groups
    }
    measured = {run.name for runs in groups.values() for run in runs}
    missing = [trial.name for trial in plan.trials if trial.name not in measured]
    note = (
        f"<p>Not measured yet and left out: {html.escape(', '.join(missing))}.</p>"
        if missing
        else ""
    )
    return comparison.name, {
        "Summary": "".join(
            f'<div class="scroll">{table.html()}</div>' for table in comparison.tables()
        )
        + note,
        "Figures": _figures(figures_of(comparison).values(), 1.0),
        **_attention_and_settings(groups),
    }


def render(title: str, sections: Sections) -> str:
    """The page. Sections without content are left out."""
    texts = [
        f"<section><h2>{name}</h2>\n{text}</section>" for name, text in sections.items() if text
    ]
    parts = {
        "title": html.escape(title),
        "style": asset("report.css"),
        "sections": "\n".join(texts),
    }
    return filled("report.html", parts)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> str:
    """A table that scrolls where it is wider than the window; columns with a number are aligned to
    the right.
    """
    numeric = [
        any(isinstance(row[place], int | float | WithInterval) for row in rows)
        for place in range(len(header))
    ]
    columns = [Column(name, right=right) for name, right in zip(header, numeric, strict=True)]
    return f'<div class="scroll">{Table(columns, rows, title).html()}</div>' if rows else ""


def _figures(figures: Iterable[Figure], scale: float = 0.75) -> str:
    """Side by side; smaller than on paper, so that their text can be read on a telephone."""
    drawn = "".join(f"<figure>{svg(one, scale)}</figure>" for one in figures)
    return f'<div class="figures">{drawn}</div>' if drawn else ""


def _summary(runs: Sequence[Run]) -> str:
    rows = []
    for run in runs:
        config, status = run.config(), run.status()
        rows.append({
            "run": run.name,
            "score": config.score_name,
            "task": config.task.name,
            "seed": config.seed,
            "state": state_of(run, status),
            "steps": f"{status.step or 0:,} of {config.training.steps or status.steps or 0:,}",
            "WER": status.wer,
            "SER": status.ser,
            "exact match, worst": status.exact_match_worst,
            "mean": status.exact_match_mean,
            "entropy": status.attention_entropy,
            "parameters": parameter_ledger(build_model(config, build_task(config, run.learned_task(config))))["total"],
            "made": str(run.environment().created or "")[:16],
            "note": run.environment().note,
        })  # fmt: skip
    return _table(list(rows[0]), [list(row.values()) for row in rows])


def _training(runs: Sequence[Run], scores: Sequence[str]) -> Iterable[Figure]:
    metrics = {run.name: read_metrics(run) for run in runs}
    by_length = {
        name: [
            (step, one) for step, one in run.evaluations if one.lengths and one.get("wer") is None
        ]
        for name, run in metrics.items()
    }
    if any(by_length.values()):  # on pairs, the word error rate says it
        yield accuracy_curves_figure(by_length, scores)
    losses = {name: run.curve("loss") for name, run in metrics.items()}
    if any(losses.values()):
        yield curves_figure(losses, scores, "training loss, nats per token", log=True)
    for metric, label in MEASURED.items():
        curves = {name: run.curve(metric) for name, run in metrics.items()}
        if any(curves.values()):
            yield curves_figure(curves, scores, label)


def _lengths(runs: Sequence[Run], scores: Sequence[str]) -> str:
    """Of the last `eval` of each run, or else of the last evaluation of training."""
    latest = {
        run.name: one
        for run in runs
        if (one := latest_by_length(run)) is not None and one[1].lengths
    }
    if not latest:
        return ""
    results = {name: evaluation for name, (_, evaluation) in latest.items()}
    sources = "; ".join(f"{name}: {source}" for name, (source, _) in latest.items())
    if len(runs) == 1:
        figure = accuracy_figure(results[runs[0].name], sources)
    else:
        figure = runs_figure(
            results, [score for run, score in zip(runs, scores, strict=True) if run.name in results]
        )
    places = sorted({place for evaluation in results.values() for place in evaluation.places})
    rows = [
        [*place, *(one.get("exact_match", place[1], place[0]) for one in results.values())]
        for place in places
    ]
    return _figures([figure]) + _table(
        ["family", "length", *results], rows, f"exact match; {sources}"
    )


def _attention_and_settings(groups: Groups) -> Sections:
    """What a report of runs and one of a comparison have in common."""
    return {
        "Attention": _attention({label: runs[0] for label, runs in groups.items()}),
        "Config": _settings(
            {label: [flat_values(run.config()) for run in runs] for label, runs in groups.items()}
        ),
        "Environment": _settings(
            {label: [run.environment().shown() for run in runs] for label, runs in groups.items()}
        ),
    }


def _attention(runs: Mapping[str, Run]) -> str:
    """For each string its maps: of one run through training, of several the last of each."""
    maps: dict[str, list[str]] = {}  # by source
    for label, run in runs.items():
        recorded = read_attention(run)
        for step, drawn in (
            recorded[place]
            for place in choose_evenly(recorded, MOST_STEPS if len(runs) == 1 else 1)
        ):
            name = label if label == run.name else f"{label}: {run.name}"
            heading = f"<h3>{html.escape(f'step {step:,}' if len(runs) == 1 else name)}</h3>"
            for one in drawn:
                figure = f"<figure>{heading}{html_map(cropped(one, pad=False))}</figure>"
                maps.setdefault(one.source, []).append(figure)
    note = "<p>Rows: steps of decoding; columns: source. Bright: attended to. ⏎ is the end of a string.</p>"
    return "".join(
        f'<div class="maps">{"".join(drawn)}</div>' for drawn in maps.values()
    ) + note * bool(maps)


def _settings(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A table of the values that differ between groups, and those that are the same; of a group,
    its distinct values.
    """
    keys = dict.fromkeys(key for records in groups.values() for record in records for key in record)
    values = {
        key: [
            ", ".join(dict.fromkeys(_text(one.get(key)) for one in records))
            for records in groups.values()
        ]
        for key in keys
    }
    differ = [[key, *texts] for key, texts in values.items() if len(set(texts)) > 1]
    same = [[key, texts[0]] for key, texts in values.items() if len(set(texts)) == 1]
    if len(groups) == 1:
        return _table(["key", *groups], same)
    rest = f"<details><summary>the same in all: {len(same)}</summary>{_table(['key', 'value'], same)}</details>"
    return _table(["key", *groups], differ) + rest


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return (
        " ".join(map(str, value))
        if isinstance(value, list | tuple)
        else "-"
        if value in (None, "")
        else str(value)
    )
