"""The trials of an experiment, all checked before any of them runs, and the record of them in the
runs directory.
"""

import contextlib
import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seq2attn.comparison.experiment import CONFIG, MAX_TRIALS, TRAIN, Experiment, Settings
from seq2attn.comparison.trial import Trial, blocked_by
from seq2attn.config import Values, flat_values, load_config, override_list, place_of
from seq2attn.config.schema import PARTS
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, first_of, short_path
from seq2attn.files import write_atomically
from seq2attn.results.metrics import METRICS
from seq2attn.runs.create import LONGEST_NAME, package_checksum, run_word
from seq2attn.runs.records import read_record
from seq2attn.runs.run import check_name, check_plain

UNLABELLED = (
    CONFIG,
    TRAIN,
    "model.attention.score",
    "model.architecture",
    "task",
)
"""keys whose value alone is shown in labels, since it says what it is"""
RECORD = ".{}.comparison.json"  # the file of a plan in the runs directory, by the comparison's name


@dataclass(frozen=True)
class Plan:
    """The trials of an experiment, and what their tables and figures show: plain values."""

    name: str
    trials: list[Trial]
    metric: str
    baselines: Mapping[str, str]
    """label of a group -> that of the group it is compared with; empty if there is none"""
    fixed: Values
    """what is the same in every trial: config key -> number or text"""


def make_plan(experiment: Experiment, root: Path) -> Plan:
    """Return the plan of `experiment`: all its trials, each with its config validated. root: the
    runs directory, where their runs are or will be. Without a metric in the experiment, it is the
    word error rate if all trials are on files of pairs, otherwise exact match.

    Raises `Seq2AttnError` for more than `MAX_TRIALS`, and `ConfigError` with every problem of the
    whole grid: invalid keys, values and combinations; without these, what no single config shows
    (`_problems`); and without that, existing runs that cannot be continued.
    """
    count = math.prod(map(len, experiment.axes.values()))
    if count > MAX_TRIALS:
        raise Seq2AttnError(f"{count:,} trials; at most {MAX_TRIALS:,} are allowed")
    hint = f"Nothing was run: {count:,} trials."
    made, problems = _make_trials(experiment, root.absolute())
    if problems:
        raise ConfigError(experiment.source, problems, hint=hint)
    settings = experiment.settings
    # if only the seed varies, the name of the only base config is the label of the only group
    trials, common = _labelled(made, next(iter(experiment.bases)))
    on_files = all(trial.config.data_files for trial in trials)
    plan = Plan(
        experiment.name,
        trials,
        metric=settings.metric or ("wer" if on_files else "exact_match"),
        # (what all trials have in common tells no group from another)
        baselines=_baselines(trials, dict(_plain(settings.baseline).items() - common.items())),
        fixed={**_plain(settings.fixed), **common},
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
        given = dict(zip(experiment.axes, values, strict=True))
        try:
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

    given: what varies, as the experiment's `axes` call it -> its value in this trial. root: the
        runs directory, an absolute path.
    """
    settings = experiment.settings
    varied = dict(given)
    # base configs and loops vary if there are several; otherwise the first is the only one
    base = varied.pop(CONFIG, next(iter(experiment.bases)))
    loop = varied.pop(TRAIN, next(iter(experiment.loops)))
    config = load_config(experiment.bases[base], {**settings.fixed, **varied})
    values = _plain(given)
    values.pop("seed", None)  # trials of one group differ in it alone
    lengths = settings.lengths or config.evaluation.lengths or ()
    # by default the lengths of training; of files, all pairs are measured, whatever their length
    if not lengths and not config.data_files:
        from seq2attn.build import build_task

        lengths = tuple(build_task(config).trained_lengths)
    return Trial(
        name=_run_name(experiment.name, values, config.seed),
        experiment=experiment.name,
        group="",  # `_labelled` fills it in, once all trials are known
        values=values,
        settings=config.model_dump(mode="json"),
        loop=experiment.loops[loop].key,
        root=root,
        lengths=lengths,
        samples=settings.samples or config.evaluation.samples,
        families=settings.families or config.evaluation.families,
        checkpoint=settings.checkpoint,
    )


# ---- groups ----


def _labelled(trials: Sequence[Trial], base: str) -> tuple[list[Trial], Values]:
    """Return the trials with the labels of their groups and only the values that vary, and the
    values that all trials have.

    base: the label where only the seed varies.
    """
    common = {}
    for key, value in trials[0].values.items():
        if all(trial.values.get(key, ...) == value for trial in trials):  # `...` equals no value
            common[key] = value
    labelled = []
    for trial in trials:
        values = {key: value for key, value in trial.values.items() if key not in common}
        group = ", ".join(name_values(values).values()) or base
        labelled.append(replace(trial, group=group, values=values))
    return labelled, common


def _baselines(trials: Sequence[Trial], baseline: Values) -> dict[str, str]:
    """Return the group that each group is compared with, by label: the one with the values of
    `baseline` that is otherwise the same; an empty string for none. If `baseline` is empty, all are
    compared with the first group.
    """
    # by their values: a frozenset, since no dict can be a key
    labels = {frozenset(trial.values.items()): trial.group for trial in trials}
    baselines = {}
    for trial in trials:
        wanted = {**trial.values, **baseline} if baseline else trials[0].values
        baselines[trial.group] = labels.get(frozenset(wanted.items()), "")
    return baselines


def _plain(values: Values) -> dict[str, Any]:
    """Return values by dotted key as numbers, truth values, None or text. Those that mean the same
    become the same: the options of a part are keys of their own, and a synonym becomes the part's
    name. A list is written as text.
    """
    plain = {}
    for key, value in flat_values(values).items():
        with contextlib.suppress(KeyError, Seq2AttnError):  # no part, or one that is unknown
            value = PARTS[key].get(str(value)).name
        plain[key] = _text(value) if isinstance(value, list) else value
    return plain


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_values(values: Values) -> dict[str, str]:
    """Return how a label shows each value, by key: the value alone, such as `dot`, for the keys in
    `UNLABELLED`; otherwise `mask_padding=false`, with the whole dotted key if two keys end alike.
    """
    ends = [key.rpartition(".")[2] for key in values]  # `score` of `model.attention.score`
    shown = {}
    for (key, value), end in zip(values.items(), ends, strict=True):
        text = _text(value)
        name = end if ends.count(end) == 1 else key
        shown[key] = text if key in UNLABELLED else f"{name}={text}"
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
    a baseline, a metric that no trial can have, and lengths or samples that do not fit the task.
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
            f"{'; '.join(plan.baselines)}",
        )
    on_files = [trial.config.data_files for trial in plan.trials]
    if METRICS[plan.metric].of_file and not all(on_files):
        yield Problem("metric", f"{plan.metric} is measured on files of pairs (task: pairs)")
    if plan.metric == "alignment" and not any(map(_is_aligned, plan.trials)):
        tasks = ", ".join(dict.fromkeys(trial.config.task.name for trial in plan.trials))
        yield Problem(
            "metric", f"alignment needs the source position of each output, which {tasks} lacks"
        )
    scores = {trial.config.score_name for trial in plan.trials}
    if plan.metric in ("alignment", "entropy") and scores == {"none"}:
        yield Problem(
            "metric", f"{plan.metric} is of attention, and all trials have the score none"
        )
    for option in ("lengths", "samples"):
        if getattr(settings, option) and any(on_files):
            yield Problem(
                option, "runs on pairs are measured on all pairs of their dev file; leave this out"
            )


def _is_aligned(trial: Trial) -> bool:
    """Return whether the task of a trial knows which source position each output copies."""
    from seq2attn.build import build_task

    config = trial.config
    return not config.data_files and build_task(config).is_aligned


def _blocked(trials: Sequence[Trial]) -> list[Problem]:
    """Return a problem for each reason why existing runs cannot be continued, with these runs."""
    blocked: dict[str, list[str]] = {}
    for trial in trials:
        if reason := blocked_by(trial):
            blocked.setdefault(reason, []).append(short_path(str(trial.run.path)))
    end = "choose another --name, or remove that"
    return [Problem("", f"{first_of(paths)}: {reason}; {end}") for reason, paths in blocked.items()]


# ---- before the trials run ----


def read_tasks(trials: Sequence[Trial]) -> list[str]:
    """Read the files of the trials' tasks, and check that the tasks have the lengths and families
    to be measured, before any trial runs: raise `Seq2AttnError` for one that has not. Return what
    users should know about the files.
    """
    from seq2attn.build import build_task

    # one trial for each task and evaluation: as text, since a dict cannot have these as keys
    different = {str((trial.config.task, trial.config.evaluation)): trial for trial in trials}
    notes: list[str] = []
    for trial in different.values():
        task = build_task(trial.config)
        task.check_evaluation(trial.families, trial.lengths)
        notes += task.notes
    return list(dict.fromkeys(notes))


def other_code(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a sentence if runs of these trials were made by other code of this package, whose
    numbers may differ; nothing otherwise. A run that does not know its code (None) is not counted.
    """
    # checksums of those that have a run already
    codes = [trial.run.environment.code for trial in trials if trial.run.config_file.is_file()]
    others = sum(code not in (None, package_checksum()) for code in codes)
    if others:
        yield f"{others:,} of the runs were made by other code of seq2attn than this"


# ---- the record in the runs directory ----


def save_plan(plan: Plan, root: Path) -> None:
    """Record the plan in the runs directory, for `load_plan`, if it can be written to."""
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
    return replace(plan, trials=trials)


def find_comparison(names: Sequence[str], root: Path) -> Plan | None:
    """Return the plan of the comparison that `names` name, one name, which is recorded in the runs
    directory, `root`. None for anything else, such as runs.
    """
    name = names[0] if len(names) == 1 else ""
    return load_plan(name, root) if (root / RECORD.format(name)).is_file() else None
