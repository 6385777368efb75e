"""The trials of an experiment, all checked before any of them runs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import (
    CONFIG,
    ERROR_RATES,
    SEED,
    Experiment,
    Published,
    Settings,
    override,
    run_word,
)
from seq2attn.comparison.trial import Trial, blocked_by, resolved_value
from seq2attn.config import load_config
from seq2attn.config.load import place_of
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown
from seq2attn.runs.logs import evaluations
from seq2attn.runs.run import Run, check_plain, newest_first

MOST_TRIALS = 1000
MOST_BLOCKED = 3  # existing runs that a message lists
UNLABELLED = (CONFIG, "model.attention.score", "model.architecture", "task", "task.name")  # labels show only the value
LONGEST_NAME = 80  # characters of a run's name; a longer one is cut and ends with a digest


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, group by group, and what they are compared by."""

    name: str
    trials: tuple[Trial, ...]
    wanted: str | None = None  # the metric; None: the one that suits the trials
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """each group is compared with the one that differs from it in these values only; empty: with the first"""
    published: tuple[Published, ...] = ()
    description: str = ""

    @property
    def metric(self) -> str:
        """What tables and figures show."""
        return self.wanted or ("wer" if all(trial.on_files for trial in self.trials) else "exact_match")

    @property
    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in their seed alone, by label."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return groups

    def baseline_of(self, group: str) -> str:
        """The group that `group` is compared with."""
        groups = self.groups
        if not self.baseline:
            return next(iter(groups))
        wanted = {**groups[group][0].values, **self.baseline}
        return next(label for label, trials in groups.items() if trials[0].values == wanted)


def make_plan(experiment: Experiment, root: Path, most: int = MOST_TRIALS) -> Plan:
    """Every trial of `experiment`, with its config loaded and checked; its runs are or will be in `root`.

    Raises `ConfigError` with every problem of the whole grid: too many trials, invalid keys, values and combinations, trials
    with the same config, and existing runs with another config.
    """
    if experiment.count > most:
        problem = Problem("", f"{experiment}; at most {most:,} are allowed")
        raise ConfigError(experiment.source, [problem], hint="Nothing was run. --max-trials N allows more.")
    trials: list[Trial] = []
    counts: Counter[Problem] = Counter()
    for values in experiment.combinations():
        try:
            trials.append(_make_trial(experiment, values, root))
        except ConfigError as error:
            counts.update(_relocated(problem, experiment) for problem in error.problems)
    problems = [_counted(problem, count, experiment.count) for problem, count in counts.items()]
    baseline: dict[str, Any] = {}
    if not problems:
        baseline, problems = _known_baseline(experiment, trials)
        problems += _published_problems(experiment, trials) + _same_config_problems(trials)
        problems += _measurement_problems(experiment.settings, trials)
    nothing_run = f"Nothing was run: {experiment}."
    if problems:
        raise ConfigError(experiment.source, problems, hint=nothing_run)
    blocked = [Problem("", reason) for trial in trials if (reason := blocked_by(trial))]
    if blocked:
        raise ConfigError(experiment.source, blocked, hint=nothing_run, most=MOST_BLOCKED)
    settings = experiment.settings
    description = " ".join(settings.description.split())
    return Plan(experiment.name, tuple(trials), settings.metric, baseline, settings.published, description)


def _make_trial(experiment: Experiment, values: Mapping[str, Any], root: Path) -> Trial:
    settings, base = experiment.settings, values.get(CONFIG, next(iter(experiment.bases)))
    overrides = [override(key, value) for key, value in values.items() if key != CONFIG]
    config = load_config(experiment.bases[base], [*experiment.overrides, *overrides])
    resolved = {key: base if key == CONFIG else resolved_value(config, key, value) for key, value in values.items()}
    seed = resolved.pop(SEED, config.seed)
    label = ", ".join(name_values(resolved).values()) or base
    return Trial(
        name=_run_name(experiment.name, resolved, seed),
        experiment=experiment.name,
        group=label,
        values=resolved,
        seed=seed,
        base=base,
        settings=config.model_dump(mode="json"),
        root=root,
        lengths=settings.lengths or config.evaluation_lengths,
        samples=settings.samples or config.evaluation.samples,
        families=settings.families or config.evaluation.families,
        checkpoint=settings.checkpoint,
    )


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


def _relocated(problem: Problem, experiment: Experiment) -> Problem:
    """`problem` with the place where the user wrote the value, instead of our override."""
    if problem.where is not None and not problem.where.startswith("--set "):
        return problem
    return replace(problem, where=place_of(problem, experiment.places) or problem.where)


def _counted(problem: Problem, count: int, trials: int) -> Problem:
    some = "" if count == trials else f" ({count:,} of {trials:,} trials)"
    return replace(problem, message=problem.message + some)


def _same_config_problems(trials: Sequence[Trial]) -> list[Problem]:
    first: dict[str, Trial] = {}
    pairs = [(first.setdefault(json.dumps(trial.settings), trial), trial) for trial in trials]
    repeated = [
        f"({kept.group!r} and {trial.group!r}, seed {trial.seed})" for kept, trial in pairs if kept is not trial
    ]
    count = f"{len(repeated):,} of {len(trials):,} trials have the same config as another"
    return [Problem("", f"{count} {repeated[0]}; list each value once, and no synonym of it")] if repeated else []


def _known_baseline(experiment: Experiment, trials: Sequence[Trial]) -> tuple[dict[str, Any], list[Problem]]:
    """The baseline's values as they are in resolved configs, and the problems of these values."""
    varied, problems, resolved = list(trials[0].values), [], {}
    for key, value in experiment.settings.baseline.items():
        values = [trial.values.get(key) for trial in trials]
        if value not in values:
            value = _resolved_alone(experiment, key, value)
        resolved[key] = value
        if key == SEED:
            message = "the seed cannot be a baseline: the trials of a group differ only in their seed"
        elif key not in varied:
            allowed = f"allowed: {', '.join(varied)}" if varied else "only the seed is varied"
            same_end = next((f"did you mean '{other}'? " for other in varied if other.endswith(f".{key}")), "")
            message = f"is not varied; {did_you_mean(key, varied) or same_end}{allowed}"
        elif value not in values:
            names = list(dict.fromkeys(map(_shown_value, values)))
            message = f"no trial has {shown(value)}; {did_you_mean(str(value), names)}allowed: {', '.join(names)}"
        else:
            continue
        problems.append(Problem(f"baseline.{key}", message))
    return resolved, problems


def _resolved_alone(experiment: Experiment, key: str, value: Any) -> Any:
    """The value in the resolved config of the first base, such as the name for a synonym; itself if it is invalid."""
    try:
        config = load_config(next(iter(experiment.bases.values())), [*experiment.overrides, override(key, value)])
        return resolved_value(config, key, value)
    except Seq2AttnError:
        return value


def _measurement_problems(settings: Settings, trials: Sequence[Trial]) -> Iterator[Problem]:
    """What cannot be measured: error rates of strings that a task draws, and chosen lengths of a file of pairs."""
    on_files = [trial.on_files for trial in trials]
    if settings.metric in ERROR_RATES and not all(on_files):
        yield Problem("metric", f"{settings.metric} is measured on files of pairs (task: pairs)")
    for name in ("lengths", "samples"):
        if getattr(settings, name) is not None and any(on_files):
            yield Problem(name, "runs on pairs are measured on all pairs of their dev file; leave this out")


def _published_problems(experiment: Experiment, trials: Sequence[Trial]) -> list[Problem]:
    """Keys that no trial has. Published figures for groups that are not compared are allowed."""
    return [
        Problem(f"published.{number}.where.{key}", "no config has this key")
        for number, published in enumerate(experiment.settings.published)
        for key in published.where
        if all(trial.value(key, trials) is trials for trial in trials)
    ]


# ---- comparisons found in the runs directory: each trial's environment.json names the one that it belongs to ----


def experiments(root: Path) -> dict[str, list[Run]]:
    """The comparisons that have trials in `root`: name -> runs, oldest first."""
    by_name: dict[str, list[Run]] = {}
    for run in reversed(newest_first(root)):
        experiment = run.experiment()
        if experiment is not None:
            by_name.setdefault(experiment.name, []).append(run)
    return by_name


def saved_plan(name: str, runs: Sequence[Run]) -> Plan:
    """The plan of the comparison `name` as its `runs` record it, with the settings that most of them were measured with.

    The oldest group is the baseline. Raises `Seq2AttnError` if a run's config cannot be read.
    """
    checkpoint, samples, lengths, families = _measured(runs)
    trials = []
    for run in map(check_plain, runs):
        experiment, config = run.experiment(), run.config()
        assert experiment is not None, "these are trials"
        trials.append(
            Trial(
                name=run.name,
                experiment=name,
                group=experiment.group,
                values=experiment.values,
                seed=config.seed,
                base=str(experiment.values.get(CONFIG, "")),
                settings=config.model_dump(mode="json"),
                root=run.path.parent,
                lengths=lengths or config.evaluation_lengths,
                samples=samples or config.evaluation.samples,
                checkpoint=checkpoint,
                families=families or config.evaluation.families,
            )
        )
    return Plan(name, tuple(trials))


def _measured(runs: Sequence[Run]) -> tuple[str, int, tuple[int, ...], tuple[str, ...]]:
    """Checkpoint, samples, lengths and families with which `compare` measured most runs; on a tie the newest."""
    counts = Counter(
        (saved.checkpoint, saved.samples, tuple(saved.lengths), tuple(saved.families))
        for run in reversed(runs)
        for _, saved in reversed(evaluations(run, skip_damaged=True))
        if saved.parameters is not None
    )
    return max(counts, key=lambda settings: counts[settings], default=("best", 0, (), ()))
