"""An experiment, from a file (`configs/experiments/`), from options of the command line, or from both."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from seq2attn.comparison.grid import CONFIG, SEED, Axis, make_axis, parse_vary
from seq2attn.config import Config
from seq2attn.config.describe import describe_errors
from seq2attn.config.shipped import find_config
from seq2attn.config.words import parse_families, parse_lengths
from seq2attn.config.yaml_files import Document, read_file, read_text
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown
from seq2attn.runs.run import check_name

METRICS = {  # name -> how it is called in tables and figures
    "exact_match": "exact match",
    "character_accuracy": "characters (greedy)",
    "teacher_forced": "characters (teacher-forced)",
    "alignment": "alignment",
    "entropy": "attention entropy, nats",
    "wer": "word error rate",
    "ser": "symbol error rate",
}
ERROR_RATES = ("wer", "ser")  # of runs on pairs, on their whole dev file; lower is better
CHECKPOINTS = ("best", "last")
MEASUREMENT = (
    "baseline",
    "metric",
    "lengths",
    "families",
    "samples",
    "checkpoint",
    "published",
)  # fields of file and experiment
HINT = "An experiment names base configs and what to vary; docs/comparing.md explains its keys."


def check_metric(name: str) -> str:
    """Raise `Seq2AttnError` unless `name` is a metric."""
    if name not in METRICS:
        raise Seq2AttnError(f"unknown metric {shown(name)}; {did_you_mean(name, METRICS)}allowed: {', '.join(METRICS)}")
    return name


def check_checkpoint(name: str) -> str:
    """Raise `Seq2AttnError` unless `name` is a checkpoint."""
    if name not in CHECKPOINTS:
        raise Seq2AttnError(f"unknown checkpoint {shown(name)}; allowed: {', '.join(CHECKPOINTS)}")
    return name


def _validator(check: Any) -> BeforeValidator:
    """A function that raises `Seq2AttnError`, as a pydantic validator."""

    def validate(value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(value)
        except Seq2AttnError as error:
            raise PydanticCustomError("seq2attn", "{m}", {"m": str(error)}) from error

    return BeforeValidator(validate)


def _lengths(value: Any) -> tuple[int, ...]:
    return parse_lengths(value if isinstance(value, list | tuple) else [value])


def _families(value: Any) -> tuple[str, ...]:
    return parse_families(value if isinstance(value, list | tuple) else [value])


def _many(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _by_length(value: Any) -> Any:
    """Keys as numbers: YAML reads them as text."""
    if not isinstance(value, dict):
        return value
    return {parse_lengths([key])[0]: number for key, number in value.items()}


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Published(_Section):
    """Published figures, shown next to ours."""

    where: dict[str, Any]
    """config keys and values of the groups that they belong to; `config` is a base's name"""
    values: Annotated[dict[int, float], _validator(_by_length)]
    """the metric by length"""
    loss: float | None = None
    """the training loss at the end"""


class ExperimentFile(_Section):
    """The keys of an experiment file."""

    description: str = ""
    """what is compared and why"""
    configs: Annotated[tuple[str, ...], BeforeValidator(_many), Field(min_length=1)]
    """base configs, one or a list; paths from the experiment file's own folder"""
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")
    """config keys that are the same in every trial"""
    vary: dict[str, Any] = Field(default_factory=dict)
    """config keys and the values that each takes: a list, or a range such as 1-10"""
    baseline: dict[str, Any] = Field(default_factory=dict)
    """each group is compared with the one that differs from it in these values only"""
    metric: Annotated[str | None, _validator(check_metric)] = None
    """what the table shows: exact_match, character_accuracy, teacher_forced, alignment, entropy, or of runs on pairs of
    strings wer or ser; null: exact_match, of pairs wer"""
    lengths: Annotated[tuple[int, ...] | None, _validator(_lengths)] = None
    """string lengths, as [3, 5, 7] or "1-12"; null: the config's"""
    families: Annotated[tuple[str, ...] | None, _validator(_families)] = None
    """kinds of strings, as [random, unary], or all; null: the config's"""
    samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """strings per length; null: the config's"""
    checkpoint: Annotated[str, _validator(check_checkpoint)] = "best"
    """which weights are measured: best (by validation) or last"""
    published: Annotated[tuple[Published, ...], BeforeValidator(_many)] = ()
    """published figures to show next to ours"""


@dataclass(frozen=True)
class Experiment:
    """Base configs, what is the same in all trials, what varies, and what is measured."""

    name: str
    """its trials are the runs NAME-..."""
    source: str
    """the file or command line, for messages"""
    bases: Mapping[str, Path]
    """config files, by the name that tables use"""
    fixed: tuple[str, ...] = ()
    """overrides as `train --set` takes them"""
    axes: tuple[Axis, ...] = ()
    baseline: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    """None: that of `Plan.metric`"""
    lengths: tuple[int, ...] | None = None
    families: tuple[str, ...] | None = None
    samples: int | None = None
    checkpoint: str = "best"
    published: tuple[Published, ...] = ()
    description: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    """override -> where it was written"""

    def all_axes(self) -> tuple[Axis, ...]:
        """The axes in the order of tables: the base configs first, the seed last."""
        bases = (Axis(CONFIG, (tuple(self.bases),), self.source),) if len(self.bases) > 1 else ()
        return (*bases, *sorted(self.axes, key=lambda axis: axis.key == SEED))

    def varied(self, axes: Sequence[Axis]) -> Experiment:
        """With these axes, which replace those with the same key."""
        new = {axis.key: axis for axis in axes}
        kept = [new.pop(axis.key, axis) for axis in self.axes]
        return replace(self, axes=(*kept, *new.values()))


def read_experiment(path: Path) -> Experiment:
    """An experiment from its file, the user's or a shipped one. Raises `ConfigError` with every problem found."""
    file = find_config(path)
    document = read_file(file)
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{path}: expected keys and values (a mapping)", hint=HINT)
    if "configs" not in document.value and document.value.keys() & Config.model_fields.keys():
        hint = f"To train it with several seeds: seq2attn compare -c {shlex.quote(str(path))} --vary seed=1-5"
        raise Seq2AttnError(f"{path}: this is a model's config, not an experiment, which names configs", hint=hint)
    try:
        found = ExperimentFile.model_validate(document.value)
    except ValidationError as error:
        problems = describe_errors(error, ExperimentFile, document.value)
        placed = [replace(problem, where=_line(document, problem.path, path)) for problem in problems]
        raise ConfigError(str(path), placed, hint=HINT) from None
    axes: list[Axis] = []
    problems = []
    for key, values in found.vary.items():
        where = f"{path}:{document.lines['vary', key]}"
        try:
            axes.append(make_axis(key, values, where))
        except Seq2AttnError as error:
            problems.append(Problem(f"vary.{key}", error.message.removeprefix(f"{where}: "), where))
    if problems:
        raise ConfigError(str(path), problems, hint=HINT)
    fixed = {override(key, value): f"{path}:{document.lines['set', key]}" for key, value in found.fixed.items()}
    return Experiment(
        name=run_word(path.stem),
        source=str(path),
        bases=name_bases([file.parent / config for config in found.configs]),
        fixed=tuple(fixed),
        axes=tuple(axes),
        **{name: getattr(found, name) for name in MEASUREMENT},
        description=" ".join(found.description.split()),
        places=fixed,
    )


def compose_experiment(
    file: Path | None = None,
    configs: Sequence[Path] | None = None,
    vary: Sequence[str] = (),
    overrides: Sequence[str] = (),
    *,
    name: str | None = None,
    baseline: Sequence[str] = (),
    metric: str | None = None,
    lengths: Sequence[object] | None = None,
    families: Sequence[object] | None = None,
    samples: int | None = None,
    checkpoint: str | None = None,
) -> Experiment:
    """The experiment of `file`, or of base `configs` and what to `vary`; the other arguments replace the file's settings.

    `vary` has `KEY=A,B`, `baseline` `KEY=VALUE`, `overrides` as for `train --set`. Raises `Seq2AttnError`.
    """
    if (file is None) == (not configs):
        hint = "See: seq2attn compare --help"
        raise Seq2AttnError("expected an experiment file, or --config FILE and --vary KEY=A,B,...", hint=hint)
    axes = [parse_vary(text) for text in vary]
    experiment = read_experiment(file) if file is not None else _from_configs(configs or ())
    for path in experiment.bases.values():
        if not find_config(path).is_file():
            read_file(path)  # raises an error with the reason
    keys = [axis.key for axis in axes]
    repeated = {key for key in keys if keys.count(key) > 1}
    if repeated:
        raise Seq2AttnError(f"--vary names {', '.join(sorted(repeated))} twice; list all its values once")
    if name is not None:
        check_name(name)
        experiment = replace(experiment, name=name)
    experiment = replace(experiment.varied(axes), fixed=(*experiment.fixed, *overrides))
    if not experiment.all_axes():
        words = [str(file)] if file is not None else ["-c", str(next(iter(experiment.bases.values())))]
        hint = f"For example: {shlex.join(['seq2attn', 'compare', *words, '--vary', 'seed=1-5'])}"
        raise Seq2AttnError("nothing to compare: one config, and no --vary", hint=hint)
    if metric is not None:
        other = check_metric(metric) != (experiment.metric or "exact_match")
        experiment = replace(experiment, metric=metric, published=() if other else experiment.published)
    if checkpoint is not None:
        experiment = replace(experiment, checkpoint=check_checkpoint(checkpoint))
    option = "lengths"
    try:
        experiment = experiment if lengths is None else replace(experiment, lengths=parse_lengths(lengths))
        option = "families"
        experiment = experiment if families is None else replace(experiment, families=parse_families(families))
    except Seq2AttnError as error:
        raise Seq2AttnError(f"--{option}: {error.message}") from None
    if baseline:
        experiment = replace(experiment, baseline=dict(map(_baseline_value, baseline)))
    return replace(experiment, samples=samples or experiment.samples)


def _from_configs(configs: Sequence[Path]) -> Experiment:
    bases = name_bases(configs)
    name = run_word(f"compare-{next(iter(bases))}" if len(bases) == 1 else "compare")
    return Experiment(name=name, source="seq2attn compare", bases=bases)


def _baseline_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise Seq2AttnError(f"--baseline {text!r}: expected KEY=VALUE, such as model.attention.score=none")
    return key.strip(), read_text(value, "--baseline").value


def name_bases(paths: Sequence[Path]) -> dict[str, Path]:
    """Base configs by file name, with the folder's name if two are the same."""
    names = [path.stem for path in paths]
    named: dict[str, Path] = {}
    for path in paths:
        name = path.stem if names.count(path.stem) == 1 else f"{path.resolve().parent.name}-{path.stem}"
        if name in named:
            raise Seq2AttnError(f"{path} and {named[name]}: two base configs have the same name; list each once")
        named[name] = path
    return named


def override(key: str, value: Any) -> str:
    """`model.hidden=64`, as `train --set` takes it."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def run_word(text: str) -> str:
    """`text` in characters that a run's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"


def _line(document: Document, dotted: str, path: Path) -> str:
    """The line of a problem's key, or of the nearest key above it."""
    keys = {".".join(map(str, key)): line for key, line in document.lines.items()}
    while dotted:
        if dotted in keys:
            return f"{path}:{keys[dotted]}"
        dotted = dotted.rpartition(".")[0]
    return str(path)
