"""From an experiment to its trials, every one of them checked before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import Experiment, override, run_word
from seq2attn.comparison.grid import CONFIG, SEED, Axis, combinations, count_trials, describe_count
from seq2attn.comparison.trial import Trial, blocked_by
from seq2attn.config import Config, load_config, value_at
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown

MOST_TRIALS = 1000
MOST_REASONS = 3  # of runs that are in the way
NAMED = (
    CONFIG,
    "model.attention.score",
    "model.architecture",
    "task",
    "task.name",
)  # keys whose values speak for themselves
LONGEST_NAME = 80  # characters of a run's name; one that would be longer ends with a digest


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, group by group."""

    experiment: Experiment
    trials: tuple[Trial, ...]

    @property
    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in their seed alone, by label."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return groups

    def baseline_of(self, group: str) -> str:
        """The group that `group` is compared with: the one that differs from it in the baseline's values only.

        Where no baseline is named, the first group.
        """
        groups = self.groups
        if not self.experiment.baseline:
            return next(iter(groups))
        wanted = {**groups[group][0].values, **self.experiment.baseline}
        return next(label for label, trials in groups.items() if trials[0].values == wanted)


def make_plan(experiment: Experiment, root: Path, most: int = MOST_TRIALS) -> Plan:
    """Every trial of `experiment`, with its config loaded and checked; its runs are or will be in `root`.

    Raises `ConfigError` with every problem of the whole grid: too many trials, keys and values that no config takes,
    combinations that cannot work, trials that would be the same, and runs that are in the way.
    """
    axes = experiment.all_axes()
    problems = _axis_problems(axes)
    if count_trials(axes) > most:
        problems.append(Problem("", f"{describe_count(axes)}, and at most {most:,} are allowed"))
        raise ConfigError(experiment.source, problems, hint="Nothing was run. --max-trials N allows more.")
    trials: list[Trial] = []
    found: Counter[Problem] = Counter()
    for values in combinations(axes) if not problems else ():
        try:
            trials.append(_make_trial(experiment, values))
        except ConfigError as error:
            found.update(_relocated(problem, experiment, values) for problem in error.problems)
    problems += [_counted(problem, count, count_trials(axes)) for problem, count in found.items()]
    if not problems:
        experiment, problems = _with_known_baseline(experiment, trials)
        problems += _published_problems(experiment, trials) + _same_config_problems(trials)
    nothing_run = f"Nothing was run: {describe_count(axes)}."
    if problems:
        raise ConfigError(experiment.source, problems, hint=nothing_run)
    blocked = [Problem("", reason) for trial in trials if (reason := blocked_by(trial, root))]
    if blocked:
        raise ConfigError(experiment.source, blocked, hint=nothing_run, most=MOST_REASONS)
    return Plan(experiment, tuple(trials))


def _axis_problems(axes: Sequence[Axis]) -> list[Problem]:
    keys = Counter(axis.key for axis in axes)
    return [Problem(key, "varied twice; give all its values at once") for key, count in keys.items() if count > 1]


def _make_trial(experiment: Experiment, values: Mapping[str, Any]) -> Trial:
    base = values.get(CONFIG, next(iter(experiment.bases)))
    overrides = [override(key, value) for key, value in values.items() if key != CONFIG]
    config = load_config(experiment.bases[base], [*experiment.fixed, *overrides])
    resolved = {key: base if key == CONFIG else _resolved(config, key, value) for key, value in values.items()}
    seed = resolved.pop(SEED, config.seed)
    label = ", ".join(name_values(resolved).values()) or base
    return Trial(
        name=_run_name(experiment.name, resolved, seed),
        experiment=experiment.name,
        group=label,
        values=resolved,
        seed=seed,
        base=base,
        config=config,
        lengths=experiment.lengths or config.evaluation_lengths,
        samples=experiment.samples or config.evaluation.samples,
        checkpoint=experiment.checkpoint,
    )


def _resolved(config: Config, key: str, value: Any) -> Any:
    """The value as the config has it; as it was given where it was a default that no chosen part owns."""
    try:
        return value_at(config, key)
    except KeyError:
        return value


def name_values(values: Mapping[str, Any]) -> dict[str, str]:
    """`dot` and `mask_padding=false`: what is usually compared goes by its name alone, anything else needs its key."""
    words = {}
    lasts = Counter(key.rpartition(".")[2] for key in values)
    for key, value in values.items():
        last = key.rpartition(".")[2]
        text = _shown_value(value)
        words[key] = text if key in NAMED else f"{last if lasts[last] == 1 else key}={text}"
    return words


def _shown_value(value: Any) -> str:
    """`dot`, `8`, `false`; of a part with options of its own `local_m(radius=3)`."""
    if isinstance(value, dict) and "name" in value:
        options = ", ".join(f"{name}={_shown_value(option)}" for name, option in value.items() if name != "name")
        return f"{value['name']}({options})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _run_name(experiment: str, values: Mapping[str, Any], seed: int) -> str:
    """`chapter-dot-mask_padding_false-seed_1`: the same whenever the same values are asked for."""
    words = [word.replace("=", "_") for word in name_values(values).values()]
    name = "-".join([experiment, *map(run_word, words), f"seed_{seed}"])
    if len(name) <= LONGEST_NAME and words == list(map(run_word, words)):
        return name
    digest = hashlib.blake2b(json.dumps([values, seed], sort_keys=True).encode(), digest_size=4).hexdigest()
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


def _relocated(problem: Problem, experiment: Experiment, values: Mapping[str, Any]) -> Problem:
    """`problem` with the place where the user wrote the value, not the override that we made of it."""
    places = {f"--set {shown(text)}": where for text, where in experiment.places.items()}
    for axis in experiment.axes:
        places[f"--set {shown(override(axis.key, values[axis.key]))}"] = axis.where
    above = [axis.where for axis in experiment.axes if f"{axis.key}.".startswith(f"{problem.path}.")]
    return replace(problem, where=places.get(problem.where or "", problem.where) or next(iter(above), None))


def _counted(problem: Problem, count: int, trials: int) -> Problem:
    return (
        problem if count == trials else replace(problem, message=f"{problem.message} ({count:,} of {trials:,} trials)")
    )


def _same_config_problems(trials: Sequence[Trial]) -> list[Problem]:
    first: dict[str, Trial] = {}
    doubles = []
    for trial in trials:
        kept = first.setdefault(trial.config.model_dump_json(), trial)
        if kept is not trial:
            doubles.append((kept, trial))
    if not doubles:
        return []
    kept, trial = doubles[0]
    names = f"{kept.group!r} and {trial.group!r}" if kept.group != trial.group else f"{trial.group!r} and itself"
    message = f"{len(doubles):,} of {len(trials):,} trials repeat another's config ({names}, seed {trial.seed})"
    return [Problem("", f"{message}; name each value once, and no synonym")]


def _with_known_baseline(experiment: Experiment, trials: Sequence[Trial]) -> tuple[Experiment, list[Problem]]:
    """The experiment with its baseline's values as configs spell them, and what is wrong with them."""
    varied = list(trials[0].values)
    problems = []
    resolved = {}
    for key, value in experiment.baseline.items():
        path = f"baseline.{key}"
        if key == SEED:
            problems.append(Problem(path, "the seed cannot be a baseline: groups are told apart by everything but it"))
            continue
        if key not in varied:
            allowed = f"allowed: {', '.join(varied)}" if varied else "nothing but the seed is"
            same_end = [f"did you mean '{other}'? " for other in varied if other.rpartition(".")[2] == key]
            guess = did_you_mean(key, varied) or "".join(same_end[:1])
            problems.append(Problem(path, f"is not varied; {guess}{allowed}"))
            continue
        values = [trial.values[key] for trial in trials]
        if value not in values:
            value = _spelt(experiment, key, value)
        if value not in values:
            there = list(dict.fromkeys(map(_shown_value, values)))
            guess = did_you_mean(str(value), there)
            problems.append(Problem(path, f"no trial has {shown(value)}; {guess}there are: {', '.join(there)}"))
        resolved[key] = value
    return replace(experiment, baseline=resolved), problems


def _spelt(experiment: Experiment, key: str, value: Any) -> Any:
    """A synonym as its name, where a config takes the value at all."""
    try:
        config = load_config(next(iter(experiment.bases.values())), [*experiment.fixed, override(key, value)])
        return _resolved(config, key, value)
    except Seq2AttnError:
        return value


def _published_problems(experiment: Experiment, trials: Sequence[Trial]) -> list[Problem]:
    """Keys that no trial has; figures for groups that are not compared this time are no mistake."""
    problems = []
    for number, published in enumerate(experiment.published):
        for key in published.where:
            if not any(trial.has(key) for trial in trials):
                problems.append(Problem(f"published.{number}.where.{key}", "no config has this key"))
    return problems
