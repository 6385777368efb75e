"""The trials of an experiment, all checked before any of them runs, and the record of them in the
runs directory.
"""

import contextlib
import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seq2attn.comparison.experiment import (
    CONFIG,
    MAX_TRIALS,
    TRAIN,
    Experiment,
    Settings,
    compose_experiment,
)
from seq2attn.comparison.trial import Trial, blocked_by
from seq2attn.config import Config, Values, flat_values, load_config, override_list, place_of
from seq2attn.config.schema import PARTS
from seq2attn.errors import ConfigError, Problem, Seq2AttnError
from seq2attn.files import write_atomically
from seq2attn.results.metrics import METRICS
from seq2attn.runs.create import LONGEST_NAME, run_word
from seq2attn.runs.records import read_record
from seq2attn.runs.run import check_name, check_plain
from seq2attn.text import first_of, short_path

UNLABELLED = (
    CONFIG,
    TRAIN,
    "model",
    "model.attention.score",
    "model.architecture",
    "task",
    "task.name",
)
"""keys whose value alone is shown in labels, since it says what it is"""
RECORD = ".{}.comparison.json"  # the file of a plan in the runs directory, by the comparison's name


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, and what their tables and figures show: plain values."""

    name: str
    trials: tuple[Trial, ...]
    metric: str
    baseline: Values
    """each group is compared with the one that differs from it in these values only"""
    fixed: Values = field(default_factory=dict)
    """what the experiment sets in every trial: config key -> number or text"""

    @property
    def groups(self) -> dict[str, list[Trial]]:
        """Trials that differ in their seed alone, by label."""
        groups: dict[str, list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault(trial.group, []).append(trial)
        return groups

    @property
    def baselines(self) -> dict[str, str]:
        """The group that each group is compared with, by label: the one with the values of
        `baseline` that is otherwise the same; an empty string for none.
        """
        labels = {}  # by the trial's values: a frozenset of their items, since no dict can be a key
        for trial in self.trials:
            labels[frozenset(trial.values.items())] = trial.group
        baselines = {}
        for trial in self.trials:
            values = {**trial.values, **self.baseline}
            baselines[trial.group] = labels.get(frozenset(values.items()), "")
        return baselines


def make_plan(experiment: Experiment, root: Path) -> Plan:
    """Return the plan of `experiment`: all its trials, each with its config validated. root: the
    runs directory, where their runs are or will be.

    Raises `Seq2AttnError` for more than `MAX_TRIALS`, and `ConfigError` with every problem of the
    whole grid: invalid keys, values and combinations; without these, what no single config shows
    (`_problems`); and without that, existing runs that cannot be continued.
    """
    count = math.prod(map(len, experiment.axes.values()))
    if count > MAX_TRIALS:
        raise Seq2AttnError(f"{count:,} trials; at most {MAX_TRIALS:,} are allowed")
    hint = f"Nothing was run: {count:,} trials."
    trials, problems = _make_trials(experiment, root.absolute())
    if problems:
        raise ConfigError(experiment.source, problems, hint=hint)
    settings = experiment.settings
    on_files = all(trial.on_files for trial in trials)
    plan = Plan(
        experiment.name,
        tuple(trials),
        metric=settings.metric or ("wer" if on_files else "exact_match"),
        baseline=_resolved(settings.baseline) or trials[0].values,  # by default the first group
        fixed=_resolved(settings.fixed),
    )
    # (`_blocked` reads every run, so it is only asked if nothing else is wrong)
    problems = list(_problems(settings, plan)) or _blocked(trials)
    if problems:
        raise ConfigError(experiment.source, problems, hint=hint)
    return plan


def _make_trials(experiment: Experiment, root: Path) -> tuple[list[Trial], list[Problem]]:
    """Return a trial for each combination of values that is a valid config, and the problems of
    the others, each problem once and with the place where its key is written.
    """
    trials = []
    invalid: dict[Problem, None] = {}  # only keys, each once and in order
    for values in itertools.product(*experiment.axes.values()):
        try:
            given = dict(zip(experiment.axes, values, strict=True))
            trials.append(_make_trial(experiment, given, root))
        except ConfigError as error:
            for problem in error.problems:
                where = problem.where
                # `load_config` knows no place of the experiment's values, or takes them for options
                # `--set`: say where the experiment has them
                if where is None or where.startswith("--set "):
                    where = place_of(problem, experiment.places) or where
                invalid[replace(problem, where=where)] = None
    return trials, list(invalid)


def _make_trial(experiment: Experiment, given: Values, root: Path) -> Trial:
    """Return the trial with these values of what varies. Raises `ConfigError` if its config is not
    valid.

    given: what varies, as the experiment's `axes` call it -> its value in this trial.
    """
    settings = experiment.settings
    varied = dict(given)
    # base configs and loops are among these if there are several: else the first is the only one
    base = varied.pop(CONFIG, next(iter(experiment.bases)))
    loop_name = varied.pop(TRAIN, next(iter(experiment.loops), ""))
    loop = experiment.loops.get(loop_name)
    config = load_config(experiment.bases[base], {**settings.fixed, **varied})
    values, labels = _values_and_labels(experiment, given, config)
    lengths = settings.lengths or config.evaluation.lengths or ()
    if not lengths and not config.data_files:  # measured on the lengths of training
        from seq2attn.build import build_task

        lengths = tuple(build_task(config).trained_lengths)
    return Trial(
        name=_run_name(experiment.name, values, config.seed),
        experiment=experiment.name,
        # (if only the seed varies, the label is the name of the base config)
        group=", ".join(name_values(labels).values()) or base,
        values=values,
        settings=config.model_dump(mode="json"),
        loop=loop.key if loop else "",
        root=root,
        lengths=lengths,
        samples=settings.samples or config.evaluation.samples,
        families=settings.families or config.evaluation.families,
        checkpoint=settings.checkpoint,
    )


# ---- how values are called ----


def _values_and_labels(
    experiment: Experiment, given: Values, config: Config
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what varies except the seed, twice, as key -> number or text: the values, which
    identify a group, and what its label shows of them. given: as for `_make_trial`.

    They differ in parts with options: a label leaves out the options that all values of the axis
    share. Of `local_m(radius=2, centre=reversed)` and the same with radius 3, labels show
    `local_m(radius=2)` and `local_m(radius=3)`.
    """
    checked = flat_values(config)
    values = {}
    labels = {}
    for key, value in given.items():
        if _has_options(key, value):
            values[key] = _in_short(value)
            labels[key] = _in_short(value, experiment.axes[key])
        elif key != "seed":
            # as the checked config has it, which lacks the keys of base configs and loops
            values[key] = labels[key] = _plain(key, checked.get(key, value))
    return values, labels


def _resolved(values: Values) -> dict[str, Any]:
    """Return values by key as `Trial.values` has them."""
    return {key: _plain(key, value) for key, value in values.items()}


def _plain(key: str, value: Any) -> Any:
    """Return a value of a config key as a number, truth value, None or text. Values that mean the
    same give the same: a synonym of a part's name becomes the name, and a list is written as text.
    """
    if _has_options(key, value):
        return _in_short(value)
    with contextlib.suppress(KeyError, Seq2AttnError):  # no part, or one that is unknown
        return PARTS[key].get(str(value)).name
    return _text(value) if isinstance(value, list) else value


def _has_options(key: str, value: Any) -> bool:
    """Return True for a part or a section with its options, and for a list of parts."""
    return isinstance(value, dict) or (key in PARTS and isinstance(value, list))


def _in_short(given: Any, axis: Sequence[Any] = ()) -> str:
    """Return a part with its options as `local_m(radius=3)`, a section as `score=additive,
    history=shift`, and a list of parts as `cross_entropy + coverage(weight=0.1)`. A part that is
    given as its name alone stays that.

    axis: the values that the key takes in the grid; options that all of them share are left out.
    Empty, or a single value: no option is left out.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        return " + ".join(map(_in_short, given))
    options = flat_values(given)
    name = options.pop("name", "")
    if len(axis) > 1:
        differing = _differing(options, axis)
        if differing or name:  # otherwise nothing would be left to show
            options = differing
    text = ", ".join(f"{_last(key)}={_text(value)}" for key, value in options.items())
    if name and text:
        return f"{name}({text})"
    return name or text


def _differing(options: Values, axis: Sequence[Any]) -> dict[str, Any]:
    """Return the options that not all values of an axis have, or not with the same value."""
    others = [flat_values(other) if isinstance(other, dict) else {} for other in axis]
    differing = {}
    for key, value in options.items():
        if any(other.get(key, ...) != value for other in others):  # `...` equals no value
            differing[key] = value
    return differing


def _last(key: str) -> str:
    """Return `score` for `model.attention.score`."""
    return key.rpartition(".")[2]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_values(values: Values) -> dict[str, str]:
    """Return how a label shows each value, by key: the value alone, such as `dot`, for the keys in
    `UNLABELLED`; otherwise `mask_padding=false`, with the whole dotted key if two keys end alike.
    """
    counts = Counter(map(_last, values))
    shown = {}
    for key, value in values.items():
        name = _last(key) if counts[_last(key)] == 1 else key
        shown[key] = _text(value) if key in UNLABELLED else f"{name}={_text(value)}"
    return shown


def _run_name(experiment: str, values: Values, seed: int) -> str:
    """Return the name of a trial's run, `chapter-dot-mask_padding_false-seed_1`.

    The same values always give the same name, by which a repeated comparison finds its runs. A name
    that is too long, or that lost characters which no file name should have, ends with a checksum
    of the values.
    """
    words = [word.replace("=", "_") for word in name_values(values).values()]
    allowed = list(map(run_word, words))
    name = "-".join([experiment, *allowed])
    end = f"-seed_{seed}"
    if len(name + end) > LONGEST_NAME or allowed != words:
        text = json.dumps([values, seed], sort_keys=True)
        end += f"-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
    return name[: LONGEST_NAME - len(end)] + end


# ---- problems of the whole grid ----


def _problems(settings: Settings, plan: Plan) -> Iterator[Problem]:
    """Yield the problems that no single config shows: a trial that occurs twice, a group without
    a baseline, and a metric, lengths or samples that do not fit the task.
    """
    # trials with the same values have the same name: the commonest one may be there several times
    ((name, count),) = Counter([trial.name for trial in plan.trials]).most_common(1)
    if count > 1:
        yield Problem("", f"{name} is there {count:,} times; list each value once, and no synonym")
    lacking = [label for label, baseline in plan.baselines.items() if not baseline]
    if lacking:
        wanted = ", ".join(override_list(settings.baseline))
        yield Problem(
            "baseline",
            f"no group has {wanted} and is otherwise {lacking[0]}; the groups are: "
            f"{'; '.join(plan.groups)}",
        )
    on_files = [trial.on_files for trial in plan.trials]
    if METRICS[plan.metric].of_file and not all(on_files):
        yield Problem("metric", f"{plan.metric} is measured on files of pairs (task: pairs)")
    for option in ("lengths", "samples"):
        if getattr(settings, option) and any(on_files):
            yield Problem(
                option, "runs on pairs are measured on all pairs of their dev file; leave this out"
            )


def _blocked(trials: Sequence[Trial]) -> list[Problem]:
    """Return a problem for each reason why existing runs cannot be continued, with these runs."""
    blocked: dict[str, list[str]] = {}
    for trial in trials:
        if reason := blocked_by(trial):
            blocked.setdefault(reason, []).append(short_path(str(trial.run.path)))
    end = "choose another --name, or remove that"
    return [Problem("", f"{first_of(paths)}: {reason}; {end}") for reason, paths in blocked.items()]


# ---- the record in the runs directory ----


def save_plan(plan: Plan, root: Path) -> None:
    """Record the plan in the runs directory, for `load_plan`, if it can be written to.

    Several calls may each train some of the seeds, as the jobs of a cluster's array do. So the
    record keeps the trials that it had, if they have runs and are measured like those of `plan`.
    """
    with contextlib.suppress(Seq2AttnError):  # there is no record yet
        trials = {trial.name: trial for trial in plan.trials}
        measured = {trial.measured for trial in plan.trials}
        for trial in load_plan(plan.name, root).trials:
            if trial.measured in measured and trial.run.path.exists():
                trials.setdefault(trial.name, trial)
        plan = replace(plan, trials=tuple(trials.values()))
    with contextlib.suppress(Seq2AttnError):  # it cannot be written to
        write_atomically(root / RECORD.format(plan.name), TypeAdapter(Plan).dump_json(plan))


def load_plan(name: str, root: Path) -> Plan:
    """Return the plan of the comparison `name` that `save_plan` recorded in the runs directory,
    `root`. Raises `Seq2AttnError` if there is none, or if it is damaged.
    """
    plan = read_record(Plan, root / RECORD.format(name))
    trials = []
    for trial in plan.trials:
        check_name(trial.name)  # before it becomes a path
        trials.append(replace(trial, root=root.absolute()))  # the directory may have been moved
        check_plain(trials[-1].run)  # refuses links, which may lead anywhere
    return replace(plan, trials=tuple(trials))


def find_comparison(names: Sequence[str], root: Path) -> Plan | None:
    """Return the plan of the comparison that `names` name: one name, of an experiment file or of a
    comparison recorded in `root`, the runs directory. None for anything else, such as runs.
    """
    if len(names) != 1 or (root / names[0]).is_dir():  # several runs, or a run's directory
        return None
    (name,) = names
    if name.lower().endswith((".yaml", ".yml")):
        return make_plan(compose_experiment(Path(name)), root)
    return load_plan(name, root) if (root / RECORD.format(name)).is_file() else None
