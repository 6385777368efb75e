"""Runs, or a comparison, as one HTML file without scripts: figures as inline SVG, and tables."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from seq2attn.build import build_model
from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.figures import figures_of
from seq2attn.comparison.plan import Plan, comparisons, load_plan, make_plan
from seq2attn.comparison.results import gather
from seq2attn.config import flat_values
from seq2attn.display.table import Column, Table, WithInterval
from seq2attn.errors import Seq2AttnError, did_you_mean, first_of, shown
from seq2attn.inference.edits import Edit
from seq2attn.model.interface import parameter_ledger
from seq2attn.pages import filled, read
from seq2attn.parts import RANDOM
from seq2attn.plotting.attention import Snapshot, cropped, spread
from seq2attn.plotting.curves import accuracy_curves_figure, accuracy_figure, curves_figure, runs_figure
from seq2attn.plotting.html import html_map
from seq2attn.plotting.style import svg
from seq2attn.runs.load import load_task
from seq2attn.runs.lock import state_of
from seq2attn.runs.logs import evaluations, latest_by_length, read_attention, read_metrics
from seq2attn.runs.records import Metrics
from seq2attn.runs.run import Run, find_run, newest_first

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STEPS = 5  # of attention through training
MOST_EDITS, MOST_WORDS = 40, 3  # of a run; examples of an edit
LOGGED = {"loss": "training loss, nats per token", "gradient_norm": "gradient norm before clipping",
          "learning_rate": "learning rate", "tokens_per_second": "target tokens per second"}  # fmt: skip
LOGARITHMIC = ("loss", "gradient_norm")
MEASURED = {
    "wer": "word error rate on the dev set",
    "ser": "symbol error rate on the dev set",
    "teacher_forced": "teacher-forced accuracy",
    "alignment": "alignment accuracy",
    "entropy": "attention entropy, nats",
}
Sections = dict[str, str]  # heading -> HTML


def find_subject(names: Sequence[str], root: Path) -> list[Run] | Plan:
    """The named runs (by default the newest), or the comparison with this name or experiment file."""
    others = [name for name in names if not (root / Path(name).name).is_dir()]
    if not others:
        return [find_run(root, name) for name in names] or [find_run(root, None)]
    name, known = others[0], comparisons(root)
    is_file = name.lower().endswith((".yaml", ".yml"))
    if name not in known and not is_file:
        runs = [run.name for run in newest_first(root)]
        guess = did_you_mean(name, [*known, *runs])
        present = [
            f"{kind}: {first_of(some)}" for kind, some in {"comparisons": [*known], "runs": runs}.items() if some
        ]
        raise Seq2AttnError(
            f"{shown(name)} is neither a run nor a comparison in {root}; {guess}{'; '.join(present) or 'there is none yet'}",
            hint="`seq2attn runs` lists the runs. A comparison may also be named by its YAML file.",
        )
    if len(names) > 1:
        raise Seq2AttnError(f"{shown(name)} is a comparison, which needs its own page", hint="Name nothing else.")
    return make_plan(compose_experiment(Path(name)), root) if is_file else load_plan(name, root)


def report_of_runs(runs: Sequence[Run]) -> tuple[str, Sections]:
    """Title and sections of a report of runs."""
    names = [run.name for run in runs]
    configs = {run.name: run.config() for run in runs}
    scores = [config.score_name for config in configs.values()]
    metrics = {run.name: read_metrics(run) for run in runs}
    ledgers = {
        run.name: parameter_ledger(build_model(configs[run.name], load_task(run, configs[run.name]))) for run in runs
    }
    parts = dict.fromkeys(part for ledger in ledgers.values() for part in ledger if part != "total")
    rows = [[part, *(ledger.get(part, 0) for ledger in ledgers.values())] for part in (*parts, "total")]
    title = ", ".join(names[:4]) + (f" and {len(runs) - 4} more" if len(runs) > 4 else "")
    return title, {
        "Summary": _summary(runs, metrics, ledgers),
        "Training": _figures(_training(metrics, scores)),
        "Accuracy by string length": _lengths(runs, scores),
        "Errors on pairs": "".join(map(_errors, runs)),
        "Attention": _attention({run.name: read_attention(run) for run in runs}),
        "Config": _settings({name: flat_values(config) for name, config in configs.items()}),
        "Parameters": _table(["part", *names], rows),
        "Environment": _settings({run.name: run.environment().shown() for run in runs}),
    }


def report_of_comparison(plan: Plan, root: Path) -> tuple[str, Sections, int]:
    """Title and sections of a report of a comparison, and the number of trials that are not measured yet."""
    comparison = gather(plan)
    if not comparison.groups:
        hint = "Run its `seq2attn compare` command; it continues where it stopped."
        raise Seq2AttnError(f"no trial of {comparison.name!r} in {root} is trained and measured", hint=hint)
    runs = {
        group.label: [Run(root / trial.run) for trial in sorted(group.trials, key=lambda trial: trial.seed)]
        for group in comparison.groups
    }
    missing = [
        trial.name for trial in plan.trials if trial.name not in {run.name for own in runs.values() for run in own}
    ]
    note = f"<p>Not measured yet and left out: {html.escape(', '.join(missing))}.</p>" if missing else ""
    sections = {
        "Summary": "".join(f'<div class="scroll">{table.html()}</div>' for table in comparison.tables()) + note,
        "Figures": _figures(figures_of(comparison).values(), 1.0),
        "Attention": _attention({f"{label}: {own[0].name}": read_attention(own[0]) for label, own in runs.items()}),
        "Config": _settings({label: _merged(flat_values(run.config()) for run in own) for label, own in runs.items()}),
        "Environment": _settings(
            {label: _merged(run.environment().shown() for run in own) for label, own in runs.items()}
        ),
    }
    return comparison.name, sections, len(missing)


def render(title: str, sections: Sections) -> str:
    """The page. Sections without content are left out."""
    texts = [f"<section><h2>{name}</h2>\n{text}</section>" for name, text in sections.items() if text]
    parts = {"title": html.escape(title), "style": read("report.css"), "sections": "\n".join(texts)}
    return filled("report.html", parts)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> str:
    """A table that scrolls where it is wider than the window; columns with a number are aligned to the right."""
    numeric = [any(isinstance(row[place], int | float | WithInterval) for row in rows) for place in range(len(header))]
    columns = [Column(name, right=right) for name, right in zip(header, numeric, strict=True)]
    return f'<div class="scroll">{Table(columns, rows, title).html()}</div>' if rows else ""


def _figures(figures: Iterable[Figure], scale: float = 0.75) -> str:
    """Side by side; smaller than on paper, so that their text can be read on a telephone."""
    return '<div class="figures">' + "".join(f"<figure>{svg(one, scale)}</figure>" for one in figures) + "</div>"


def _summary(runs: Sequence[Run], metrics: Mapping[str, Metrics], ledgers: Mapping[str, dict[str, int]]) -> str:
    rows = []
    for run in runs:
        config, status = run.config(), run.status()
        speeds = [speed for _, speed in metrics[run.name].curve("tokens_per_second")]
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
            "parameters": ledgers[run.name]["total"],
            "tokens/s": round(median(speeds)) if speeds else None,
            "made": str(run.environment().created or "")[:16] or None,
        })  # fmt: skip
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return _table(names, [[row[name] for name in names] for row in rows])


def _training(metrics: Mapping[str, Metrics], scores: Sequence[str]) -> Iterable[Figure]:
    evaluations = {name: [(step, one) for step, one in run.evaluations if one.lengths] for name, run in metrics.items()}
    if any(evaluations.values()):
        yield accuracy_curves_figure(evaluations, scores)
    for name, label in (LOGGED | MEASURED).items():
        curves = {run: one.curve(name) if name in LOGGED else _measured(one, name) for run, one in metrics.items()}
        if any(curves.values()):
            yield curves_figure(curves, scores, label, log=name in LOGARITHMIC)


def _measured(metrics: Metrics, name: str) -> list[tuple[int, float]]:
    """A rate, or the mean of a metric over the trained lengths, by step."""
    found = ((step, results.get(name), results.mean(name)) for step, results in metrics.evaluations)
    points = [(step, row.value if row else mean) for step, row, mean in found]
    return [(step, value) for step, value in points if value is not None]


def _lengths(runs: Sequence[Run], scores: Sequence[str]) -> str:
    """Of the last `eval` of each run, or else of the last evaluation of training."""
    latest = {run.name: one for run in runs if (one := latest_by_length(run)) is not None and one[1].lengths}
    if not latest:
        return ""
    results = {name: evaluation for name, (_, evaluation) in latest.items()}
    sources = "; ".join(f"{name}: {source}" for name, (source, _) in latest.items())
    if len(runs) == 1:
        (evaluation,) = results.values()
        figure = accuracy_figure(evaluation, sources)
        columns = [(name, evaluation, name) for name in dict.fromkeys(row.metric for row in evaluation.rows)]
    else:
        figure = runs_figure(results, [score for run, score in zip(runs, scores, strict=True) if run.name in results])
        columns = [(name, evaluation, "exact_match") for name, evaluation in results.items()]
    places = sorted({place for evaluation in results.values() for place in evaluation.places})
    rows = [[*place, *(one.get(name, place[1], place[0]) for _, one, name in columns)] for place in places]
    header = ["family", "length", *(heading.replace("_", " ") for heading, _, _ in columns)]
    if {family for family, _ in places} == {RANDOM}:
        header, rows = header[1:], [row[1:] for row in rows]
    return _figures([figure]) + _table(header, rows, "" if len(runs) == 1 else f"exact match; {sources}")


def _errors(run: Run) -> str:
    """Of a run on pairs: the most frequent edits, ∅ for nothing, beside how often the right symbol occurs."""
    config = run.config()
    evaluation = (
        next((one for _, one in reversed(evaluations(run)) if one.answers), None) if config.data_files else None
    )
    if evaluation is None:
        return ""
    vocabulary = load_task(run, config).target_vocabulary
    occurs = Counter(
        symbol for one in evaluation.answers for symbol in vocabulary.joined(vocabulary.symbols_of(one.right))
    )
    words: dict[Edit, list[str]] = {}
    for answer in evaluation.errors():
        for edit in dict.fromkeys(answer.edits):
            words.setdefault(edit, []).append(answer.source.replace("\t", " "))
    edits = [[edit.reference or "∅", edit.hypothesis or "∅", count, occurs[edit.reference] or None, words[edit][:MOST_WORDS]]
             for edit, count in evaluation.confusions()[:MOST_EDITS]]  # fmt: skip
    title = f"{run.name} on {(evaluation.data or {}).get('name', '')}, {len(evaluation.answers):,} words"
    return _table(["right", "written", "count", "of", "words"], edits, title)


def _attention(recorded: Mapping[str, Sequence[Snapshot]]) -> str:
    """For each string its maps: of one run through training, of several the last of each."""
    maps: dict[str, list[str]] = {}  # by source
    alone = len(recorded) == 1
    for name, snapshots in recorded.items():
        for step, drawn in (snapshots[place] for place in spread(snapshots, MOST_STEPS if alone else 1)):
            heading = f"<h3>{html.escape(f'step {step:,}' if alone else name)}</h3>"
            for shown_map in drawn:
                figure = f"<figure>{heading}{html_map(cropped(shown_map, pad=False))}</figure>"
                maps.setdefault(shown_map.source, []).append(figure)
    note = "<p>Rows: steps of decoding; columns: source. Bright: attended to. ⏎ is the end of a string.</p>"
    return "".join(f'<div class="maps">{"".join(drawn)}</div>' for drawn in maps.values()) + note * bool(maps)


def _settings(records: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of the values that differ between runs or groups, and those that are the same."""
    keys = dict.fromkeys(key for record in records.values() for key in record)
    values = {key: [_text(record.get(key)) for record in records.values()] for key in keys}
    differ = [[key, *some] for key, some in values.items() if len(set(some)) > 1]
    same = [[key, some[0]] for key, some in values.items() if len(set(some)) == 1]
    if len(records) == 1:
        return _table(["key", *records], same)
    rest = f"<details><summary>the same in all: {len(same)}</summary>{_table(['key', 'value'], same)}</details>"
    return _table(["key", *records], differ) + rest


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else "-" if value in (None, "") else str(value)


def _merged(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """One record for the trials of a group: equal values are kept, different ones are joined with commas."""
    all_of_them = list(records)
    keys = dict.fromkeys(key for record in all_of_them for key in record)
    return {key: ", ".join(dict.fromkeys(_text(record.get(key)) for record in all_of_them)) for key in keys}
