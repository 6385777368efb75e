"""The trials of an experiment, all checked before any of them runs, and the record of them in the
runs directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seq2attn.comparison.experiment import (
    CONFIG,
    ERROR_RATES,
    MOST_TRIALS,
    SEED,
    Experiment,
    Published,
)
from seq2attn.comparison.trial import Trial, blocked_by
from seq2attn.config import Config, load_config
from seq2attn.config.load import flat_values, override_list, place_of
from seq2attn.errors import ConfigError, Problem, Seq2AttnError
from seq2attn.runs.create import run_word
from seq2attn.runs.files import write_atomically
from seq2attn.runs.records import read_record
from seq2attn.runs.run import Run, check_name, check_plain, runs_dir_option

UNLABELLED = (CONFIG, "model", "model.attention.score", "model.architecture", "task", "task.name")
"""keys of which labels show only the value"""
LONGEST_NAME = (
    80  # characters of a run's name; a longer one is cut and ends with the seed and a digest
)
RECORD = ".{}.comparison.json"  # the file of a plan in the runs directory, by the comparison's name


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, and what their tables and figures show: plain values."""

    name: str
    trials: tuple[Trial, ...]
    metric: str

    @property
    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in their seed alone, by label."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return groups


def make_plan(experiment: Experiment, root: Path) -> Plan:
    """Every trial of `experiment`, with its config loaded and checked; its runs are or will be in
    `root`.

    Raises `ConfigError` with every problem of the whole grid: too many trials, invalid keys, values
    and combinations, a trial that is there twice, and existing runs with another config.
    """
    hint = f"Nothing was run: {experiment}."
    trials, problems = _make_trials(experiment, root)
    problems = problems or _problems(experiment, trials)
    if not problems and (problems := _blocked(trials)):
        shown = f"seq2attn report {experiment.name}{runs_dir_option(root)}"
        hint += f"\nChoose another --name, or remove those runs; {shown} shows what was measured."
    if problems:
        raise ConfigError(experiment.source, problems, hint=hint)
    metric = experiment.settings.metric or (
        "wer" if all(trial.on_files for trial in trials) else "exact_match"
    )
    return Plan(experiment.name, tuple(trials), metric)


def _make_trials(experiment: Experiment, root: Path) -> tuple[list[Trial], list[Problem]]:
    """The trial of each combination of values, and each problem once, where a file has it."""
    if experiment.count > MOST_TRIALS:
        return [], [Problem("", f"at most {MOST_TRIALS:,} trials are allowed")]
    trials: list[Trial] = []
    problems: dict[Problem, None] = {}
    for values in itertools.product(*experiment.axes.values()):
        try:
            trials.append(
                _make_trial(experiment, dict(zip(experiment.axes, values, strict=True)), root)
            )
        except ConfigError as error:
            for problem in error.problems:
                written = problem.where and not problem.where.startswith(
                    "--set "
                )  # in the config's file
                where = (
                    problem.where
                    if written
                    else place_of(problem, experiment.places) or problem.where
                )
                problems[replace(problem, where=where)] = None
    baselines = _baselines(trials, experiment.settings.baseline)
    return [replace(trial, baseline=baselines.get(trial.group, "")) for trial in trials], list(
        problems
    )


def _make_trial(experiment: Experiment, values: Mapping[str, Any], root: Path) -> Trial:
    settings, base = experiment.settings, values.get(CONFIG, next(iter(experiment.bases)))
    varied = {key: value for key, value in values.items() if key != CONFIG}
    config = load_config(experiment.bases[base], [*experiment.overrides, *override_list(varied)])
    given = {key: value for key, value in values.items() if key != SEED}
    resolved = {key: _value(config, key, value) for key, value in given.items()}
    shown = {key: _value(config, key, value, experiment.axes[key]) for key, value in given.items()}
    lengths = settings.lengths or config.evaluation.lengths or ()
    if not lengths and not config.data_files:
        from seq2attn.build import build_task

        lengths = tuple(build_task(config).trained_lengths)
    return Trial(
        name=_run_name(experiment.name, resolved, config.seed),
        experiment=experiment.name,
        group=", ".join(name_values(shown).values()) or base,
        values=resolved,
        settings=config.model_dump(mode="json"),
        root=root,
        lengths=lengths,
        samples=settings.samples or config.evaluation.samples,
        families=settings.families or config.evaluation.families,
        checkpoint=settings.checkpoint,
        published=_published(settings.published, config, base),
    )


def _value(config: Config, key: str, given: Any, axis: Sequence[Any] = ()) -> Any:
    """The value at a dotted key, the given one if no chosen part has this key; a part or a section
    with its options, as `local_m(radius=3)` and `score=additive, history=shift`, without those that
    all values of the axis share.
    """
    if isinstance(given, dict):
        options = flat_values(given)
        name = options.pop("name", "")
        others = [
            flat_values(other) if isinstance(other, dict) else {}
            for other in axis
            if other != given
        ]
        own = {
            key: value
            for key, value in options.items()
            if any(other.get(key, ...) != value for other in others)
        }
        shown = own or (
            {} if name and others else options
        )  # of a named part, the name alone is a label
        words = ", ".join(
            f"{key.rpartition('.')[2]}={_text(value)}" for key, value in shown.items()
        )
        return f"{name}({words})" if name and words else name or words
    value = flat_values(config).get(key, given)
    return _text(value) if isinstance(value, list) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Labels by key, such as `dot` and `mask_padding=false`: the commonest keys are not shown."""
    words = {}
    lasts = Counter(key.rpartition(".")[2] for key in values)
    for key, value in values.items():
        last = key.rpartition(".")[2]
        words[key] = (
            _text(value)
            if key in UNLABELLED
            else f"{last if lasts[last] == 1 else key}={_text(value)}"
        )
    return words


def _run_name(experiment: str, values: Mapping[str, Any], seed: int) -> str:
    """`chapter-dot-mask_padding_false-seed_1`, a function of the values."""
    words = [word.replace("=", "_") for word in name_values(values).values()]
    name = "-".join([experiment, *map(run_word, words), f"seed_{seed}"])
    if len(name) <= LONGEST_NAME and words == list(map(run_word, words)):
        return name
    digest = hashlib.blake2b(
        json.dumps([values, seed], sort_keys=True).encode(), digest_size=4
    ).hexdigest()
    end = f"-seed_{seed}-{digest}"
    return name.removesuffix(f"-seed_{seed}")[: LONGEST_NAME - len(end)] + end


def _has(config: Config, base: Any, values: Mapping[str, Any]) -> bool:
    """Whether a config, made from `base`, has these values, however they are written."""
    own = {key: value for key, value in values.items() if key != CONFIG}
    with contextlib.suppress(ConfigError):
        return bool(
            values.get(CONFIG, base) == base and load_config(config, override_list(own)) == config
        )
    return False


def _published(figures: Sequence[Published], config: Config, base: str) -> Published:
    """The published figures of a config, the first ones of a length."""
    own = [item for item in figures if _has(config, base, item.where)]
    by_length = {length: value for item in reversed(own) for length, value in item.values.items()}
    return Published(
        values=by_length, loss=next((item.loss for item in own if item.loss is not None), None)
    )


# ---- problems of the whole grid ----


def _problems(experiment: Experiment, trials: Sequence[Trial]) -> list[Problem]:
    """Trials that are there twice or have no baseline, error rates of strings that a task draws,
    chosen lengths of a file of pairs, and published figures for keys that no config has.
    """
    settings, found = experiment.settings, list[Problem]()
    on_files = [trial.on_files for trial in trials]
    name, count = Counter(trial.name for trial in trials).most_common(1)[0]
    if count > 1:
        found.append(
            Problem("", f"{name} is there {count:,} times; list each value once, and no synonym")
        )
    if alone := [trial.group for trial in trials if not trial.baseline]:
        what = f"no group has {', '.join(override_list(settings.baseline))} and is otherwise {alone[0]}"
        groups = "; ".join(dict.fromkeys(trial.group for trial in trials))
        found.append(Problem("baseline", f"{what}; the groups are: {groups}"))
    if settings.metric in ERROR_RATES and not all(on_files):
        found.append(
            Problem("metric", f"{settings.metric} is measured on files of pairs (task: pairs)")
        )
    for option in ("lengths", "samples"):
        if getattr(settings, option) is not None and any(on_files):
            found.append(
                Problem(
                    option,
                    "runs on pairs are measured on all pairs of their dev file; leave this out",
                )
            )
    unknown = {key for item in settings.published for key in item.where} - {CONFIG}
    for key in sorted(unknown.difference(*(flat_values(trial.config) for trial in trials))):
        found.append(Problem("published", f"no config has the key {key}"))
    return found


def _blocked(trials: Sequence[Trial]) -> list[Problem]:
    """Each reason for which runs cannot be continued, with the first of them and their number."""
    blocked: dict[str, list[Trial]] = {}
    for trial in trials:
        if reason := blocked_by(trial):
            blocked.setdefault(reason, []).append(trial)
    return [
        Problem("", f"{first.run.path}{f' and {len(others):,} others' if others else ''}: {reason}")
        for reason, (first, *others) in blocked.items()
    ]


def _baselines(trials: Sequence[Trial], baseline: Mapping[str, Any]) -> dict[str, str]:
    """The group that each group is compared with: the first one, or the one that has `baseline`,
    and its other values.
    """
    first = {trial.group: trial for trial in reversed(trials)}
    if not baseline:
        return dict.fromkeys(first, trials[0].group if trials else "")
    others = {
        name: {key: trial.values[key] for key in trial.values.keys() - baseline}
        for name, trial in first.items()
    }
    varied = [trial for trial in first.values() if baseline.keys() <= trial.values.keys()]
    found = [
        trial.group for trial in varied if _has(trial.config, trial.values.get(CONFIG), baseline)
    ]
    return {
        name: next((other for other in found if others[other] == others[name]), "")
        for name in first
    }


# ---- the record in the runs directory ----


def save_plan(plan: Plan, root: Path) -> None:
    """Record the plan in the runs directory, for `load_plan`. One that cannot be written to stays
    as it is.

    The record keeps the trials that it had and that have runs, if they are measured alike: the jobs
    of an array may each start some of the seeds.
    """

    def measured_as(trial: Trial) -> tuple[object, ...]:
        return trial.lengths, trial.families, trial.samples, trial.checkpoint

    names, alike = {trial.name for trial in plan.trials}, set(map(measured_as, plan.trials))
    with contextlib.suppress(Seq2AttnError):
        before = [trial for trial in load_plan(plan.name, root).trials if trial.name not in names]
        others = [
            trial for trial in before if measured_as(trial) in alike and trial.run.path.exists()
        ]
        plan = replace(plan, trials=(*plan.trials, *others))
    with contextlib.suppress(Seq2AttnError):
        write_atomically(root / RECORD.format(plan.name), TypeAdapter(Plan).dump_json(plan))


def load_plan(name: str, root: Path) -> Plan:
    """The recorded plan of the comparison `name`: as last started, and what other calls of it
    trained.
    """
    plan = read_record(Plan, root / RECORD.format(name), strict=False)
    for trial in plan.trials:
        check_name(trial.name)  # before it becomes a path
        check_plain(Run(root / trial.name))
    return replace(plan, trials=tuple(replace(trial, root=root) for trial in plan.trials))
