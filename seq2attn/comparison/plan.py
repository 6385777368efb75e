"""The trials of an experiment, all checked before any of them runs, and the record of them in the runs directory."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seq2attn.comparison.experiment import CONFIG, ERROR_RATES, SEED, Experiment, Published, override, run_word
from seq2attn.comparison.trial import Trial, blocked_by
from seq2attn.config import Config, load_config, value_at
from seq2attn.config.load import override_list, place_of
from seq2attn.errors import LARGEST_FILE, ConfigError, Problem, Seq2AttnError, did_you_mean
from seq2attn.runs.files import read_plain, write_atomically
from seq2attn.runs.run import check_name, check_plain

MOST_TRIALS = 1000
MOST_BLOCKED = 3  # existing runs that a message lists
UNLABELLED = (CONFIG, "model.attention.score", "model.architecture", "task", "task.name")  # labels show only the value
_MISSING = object()
LONGEST_NAME = 80  # characters of a run's name; a longer one is cut and ends with a digest
RECORD = ".{}.comparison.json"  # the file of a plan in the runs directory, by the comparison's name


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, group by group, and what they are compared by: plain values."""

    name: str
    trials: tuple[Trial, ...]
    metric: str  # what tables and figures show
    baselines: Mapping[str, str] = field(default_factory=dict)
    """group -> the group that it is compared with; empty: all are compared with the first"""
    published: Mapping[str, Published] = field(default_factory=dict)  # the published figures of a group
    description: str = ""

    @property
    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in their seed alone, by label."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return groups

    def baseline_of(self, group: str) -> str:
        """The group that `group` is compared with."""
        return self.baselines.get(group, self.trials[0].group)


def make_plan(experiment: Experiment, root: Path, most: int = MOST_TRIALS) -> Plan:
    """Every trial of `experiment`, with its config loaded and checked; its runs are or will be in `root`.

    Raises `ConfigError` with every problem of the whole grid: too many trials, invalid keys, values and combinations, trials
    with the same config, and existing runs with another config.
    """
    if experiment.count > most:
        problem = Problem("", f"{experiment}; at most {most:,} are allowed")
        raise ConfigError(experiment.source, [problem], hint="Nothing was run. --max-trials N allows more.")
    settings, grid = experiment.settings, list(experiment.combinations())
    trials, problems = _make_trials(experiment, grid, root)
    baselines: dict[str, str] = {}
    published: dict[str, Published] = {}
    if not problems:
        problems = [*_repeated(trials), *_not_measurable(experiment, trials), *_not_varied(experiment)]
    if not problems and settings.baseline:
        others, problems = _make_trials(experiment, [{**values, **settings.baseline} for values in grid], root)
        baselines = {trial.group: other.group for trial, other in zip(trials, others, strict=False)}
        if not problems and not set(baselines.values()) <= baselines.keys():
            problems = [Problem("baseline", f"no trial has all of {', '.join(override_list(settings.baseline))}")]
    if not problems:
        published, problems = _published(experiment, grid, trials)
    blocked = [] if problems else [Problem("", reason) for trial in trials if (reason := blocked_by(trial))]
    if problems or blocked:
        hint = f"Nothing was run: {experiment}."
        most_listed = {"most": MOST_BLOCKED} if blocked else {}
        raise ConfigError(experiment.source, problems or blocked, hint=hint, **most_listed)
    metric = settings.metric or ("wer" if all(trial.on_files for trial in trials) else "exact_match")
    return Plan(experiment.name, tuple(trials), metric, baselines, published, " ".join(settings.description.split()))


def _make_trials(
    experiment: Experiment, grid: Sequence[Mapping[str, Any]], root: Path
) -> tuple[list[Trial], list[Problem]]:
    """The trial of each combination of values, and each problem once, where the user wrote it, with its count."""
    trials: list[Trial] = []
    counts: Counter[Problem] = Counter()
    for values in grid:
        try:
            trials.append(_make_trial(experiment, values, root))
        except ConfigError as error:
            for problem in error.problems:
                ours = problem.where is None or problem.where.startswith("--set ")
                written = (place_of(problem, experiment.places) if ours else None) or problem.where
                counts[replace(problem, where=written)] += 1
    some = {count: f" ({count:,} of {len(grid):,} trials)" for count in counts.values() if count < len(grid)}
    return trials, [replace(problem, message=problem.message + some.get(n, "")) for problem, n in counts.items()]


def _make_trial(experiment: Experiment, values: Mapping[str, Any], root: Path) -> Trial:
    settings, base = experiment.settings, values.get(CONFIG, next(iter(experiment.bases)))
    overrides = [override(key, value) for key, value in values.items() if key != CONFIG]
    config = load_config(experiment.bases[base], [*experiment.overrides, *overrides])
    resolved = {
        key: base if key == CONFIG else _value(config, key, value) for key, value in values.items() if key != SEED
    }
    return Trial(
        name=_run_name(experiment.name, resolved, config.seed),
        experiment=experiment.name,
        group=", ".join(name_values(resolved).values()) or base,
        values=resolved,
        settings=config.model_dump(mode="json"),
        root=root,
        lengths=settings.lengths or config.evaluation_lengths,
        samples=settings.samples or config.evaluation.samples,
        families=settings.families or config.evaluation.families,
        checkpoint=settings.checkpoint,
    )


def _value(config: Config, key: str, default: Any) -> Any:
    """The value at a dotted key; the default if no chosen part has this key."""
    try:
        return value_at(config, key)
    except KeyError:
        return default


def name_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Labels by key, such as `dot` and `mask_padding=false`: the commonest keys are not shown."""
    words = {}
    lasts = Counter(key.rpartition(".")[2] for key in values)
    for key, value in values.items():
        last = key.rpartition(".")[2]
        text = _shown_value(value)
        words[key] = text if key in UNLABELLED else f"{last if lasts[last] == 1 else key}={text}"
    return words


def _shown_value(value: Any) -> str:
    """`dot`, `8`, `false`; a part with its own options as `local_m(radius=3)`."""
    if isinstance(value, dict) and "name" in value:
        options = ", ".join(f"{name}={_shown_value(option)}" for name, option in value.items() if name != "name")
        return f"{value['name']}({options})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _run_name(experiment: str, values: Mapping[str, Any], seed: int) -> str:
    """`chapter-dot-mask_padding_false-seed_1`, a function of the values."""
    words = [word.replace("=", "_") for word in name_values(values).values()]
    name = "-".join([experiment, *map(run_word, words), f"seed_{seed}"])
    if len(name) <= LONGEST_NAME and words == list(map(run_word, words)):
        return name
    digest = hashlib.blake2b(json.dumps([values, seed], sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


# ---- problems of the whole grid ----


def _repeated(trials: Sequence[Trial]) -> Iterator[Problem]:
    first: dict[str, Trial] = {}
    for trial in trials:
        other = first.setdefault(json.dumps(trial.settings), trial)
        if other is not trial:
            same = f"{other.group!r} and {trial.group!r}, seed {trial.seed}"
            yield Problem("", f"trials have the same config as another ({same}); list each value once, and no synonym")
            return


def _not_measurable(experiment: Experiment, trials: Sequence[Trial]) -> Iterator[Problem]:
    """Error rates of strings that a task draws, and chosen lengths of a file of pairs."""
    on_files, settings = [trial.on_files for trial in trials], experiment.settings
    if settings.metric in ERROR_RATES and not all(on_files):
        yield Problem("metric", f"{settings.metric} is measured on files of pairs (task: pairs)")
    for name in ("lengths", "samples"):
        if getattr(settings, name) is not None and any(on_files):
            yield Problem(name, "runs on pairs are measured on all pairs of their dev file; leave this out")


def _not_varied(experiment: Experiment) -> Iterator[Problem]:
    """Keys and base configs of the baseline that the grid does not have."""
    varied = [key for key in experiment.axes if key != SEED]
    for key, value in experiment.settings.baseline.items():
        allowed = varied if key not in varied else list(experiment.bases) if key == CONFIG else [value]
        word = key if key not in varied else value
        if word not in allowed:
            known = f"{did_you_mean(str(word), allowed)}allowed: {', '.join(allowed) or 'nothing'}"
            yield Problem("baseline", f"a baseline has what varies except the seed, found {word}; {known}")


def _published(
    experiment: Experiment, grid: Sequence[Mapping[str, Any]], trials: Sequence[Trial]
) -> tuple[dict[str, Published], list[Problem]]:
    """The published figures of each group, the first ones of a length; keys that no config has are problems."""
    figures: dict[str, Published] = {}
    unknown = {key for item in experiment.settings.published for key in item.where}
    for values, trial in zip(grid, trials, strict=True):
        for item in experiment.settings.published:
            own = {key: _value(trial.config, key, _MISSING) for key in item.where}
            own |= {CONFIG: values.get(CONFIG, next(iter(experiment.bases)))}
            unknown -= {key for key, value in own.items() if value is not _MISSING}
            names = {key: value.get("name") if isinstance(value, dict) else value for key, value in own.items()}
            if all(wanted in (own[key], names[key]) for key, wanted in item.where.items()):
                known = figures.get(trial.group, item)
                loss = item.loss if known.loss is None else known.loss
                figures[trial.group] = Published(where={}, values={**item.values, **known.values}, loss=loss)
    return figures, [Problem("published", f"no config has the key {key}") for key in sorted(unknown)]


# ---- the record in the runs directory ----


def save_plan(plan: Plan, root: Path) -> None:
    """Record the plan in the runs directory, for `load_plan`. One that cannot be written to stays as it is.

    The record keeps the trials that it had and that have runs, if they are measured alike: the jobs of an array may each
    start some of the seeds.
    """
    with contextlib.suppress(Seq2AttnError):
        before = load_plan(plan.name, root).trials
        names, alike = {trial.name for trial in plan.trials}, {trial.measured_as for trial in plan.trials}
        others = (
            trial
            for trial in before
            if trial.name not in names and trial.measured_as in alike and trial.run.path.exists()
        )
        plan = replace(plan, trials=(*plan.trials, *others))
    with contextlib.suppress(Seq2AttnError):
        write_atomically(root / RECORD.format(plan.name), TypeAdapter(Plan).dump_json(plan))


def comparisons(root: Path) -> list[str]:
    """The names of the comparisons that the runs directory has records of."""
    before, after = RECORD.split("{}")
    return sorted(path.name[len(before) : -len(after)] for path in root.glob(RECORD.format("*")))


def load_plan(name: str, root: Path) -> Plan:
    """The recorded plan of the comparison `name`: as last started, and what other calls of it trained."""
    file = root / RECORD.format(name)
    try:
        plan = TypeAdapter(Plan).validate_json(read_plain(file, LARGEST_FILE["record"]))
    except (OSError, ValueError) as error:
        raise Seq2AttnError(f"{file}: not a record of a comparison: {error}", exit_code=1) from None
    for trial in plan.trials:
        check_name(trial.name)  # before it becomes a path
    plan = replace(plan, trials=tuple(replace(trial, root=root) for trial in plan.trials))
    for trial in plan.trials:
        if trial.run.path.exists():
            check_plain(trial.run)
    return plan
