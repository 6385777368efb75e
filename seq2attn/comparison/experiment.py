"""An experiment and its grid, from a file (`configs/experiments/`), from the command line or Python, or from both."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from seq2attn.config import Config
from seq2attn.config.load import Overrides, describe_errors, override_list, place_of
from seq2attn.config.schema import all_keys, checked, parse_families, parse_lengths
from seq2attn.config.shipped import find_config
from seq2attn.config.yaml_files import read_file, read_text
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown
from seq2attn.inference.results import HEADINGS, RATES
from seq2attn.registry import Section
from seq2attn.runs.run import check_name

CONFIG = "config"  # the axis of several base configs
SEED = "seed"
MOST_VALUES = 100_000  # of a range
ERROR_RATES = ("wer", "ser")  # of runs on pairs, on their whole dev file; lower is better
METRICS = HEADINGS | {rate: RATES[rate] for rate in ERROR_RATES}  # name -> how it is called in tables and figures
HINT = "An experiment names base configs and what to vary; docs/comparing.md explains its keys."
_RANGE = re.compile(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*")


def _metric(name: Any) -> Any:
    if name not in METRICS:
        guess = did_you_mean(str(name), METRICS)
        raise Seq2AttnError(f"unknown metric {shown(name)}; {guess}allowed: {', '.join(METRICS)}")
    return name


def _many(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _by_length(value: Any) -> Any:
    """Keys as numbers: YAML reads them as text."""
    return {parse_lengths(key)[0]: number for key, number in value.items()} if isinstance(value, dict) else value


class Published(Section):
    """Published figures, shown next to ours."""

    where: dict[str, Any]
    """config keys and values of the groups that they belong to; `config` is a base's name"""
    values: Annotated[dict[int, float], checked(_by_length)]
    """the metric by length"""
    loss: float | None = None
    """the training loss at the end"""


class Settings(Section):
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
    metric: Annotated[str | None, checked(_metric)] = None
    """what the table shows: exact_match, character_accuracy, teacher_forced, alignment, entropy, or of runs on pairs of
    strings wer or ser; null: exact_match, of pairs wer"""
    lengths: Annotated[tuple[int, ...] | None, checked(parse_lengths)] = None
    """string lengths, as [3, 5, 7] or "1-12"; null: the config's"""
    families: Annotated[tuple[str, ...] | None, checked(parse_families)] = None
    """kinds of strings, as [random, unary], or all; null: the config's"""
    samples: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """strings per length; null: the config's"""
    checkpoint: Literal["best", "last"] = "best"
    """which weights are measured: best (by validation) or last"""
    published: Annotated[tuple[Published, ...], BeforeValidator(_many)] = ()
    """published figures to show next to ours"""


@dataclass(frozen=True)
class Experiment:
    """Base configs, what is the same in all trials, what varies, and what is measured."""

    name: str  # its trials are the runs NAME-...
    source: str  # the file or command line, for messages
    bases: Mapping[str, Path]  # config files, by the name that tables use
    settings: Settings
    overrides: tuple[str, ...]  # `KEY=VALUE`, the same in all trials
    axes: Mapping[str, tuple[Any, ...]]
    """what varies, in the order of tables: the base configs first, the seed last; the last one changes fastest"""
    places: Mapping[str, str]  # dotted key -> where it was written

    @property
    def count(self) -> int:
        """How many trials the grid has."""
        return math.prod(map(len, self.axes.values()))

    def __str__(self) -> str:
        """`80 trials (4 config x 2 model.attention.mask_padding x 10 seed)`"""
        factors = " x ".join(f"{len(values):,} {key}" for key, values in self.axes.items())
        return f"{self.count:,} trial{'' if self.count == 1 else 's'}{f' ({factors})' if factors else ''}"

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The value of each key that varies, for every trial."""
        for values in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))


def compose_experiment(
    file: Path | None = None,
    configs: Sequence[Path] | None = None,
    vary: Sequence[str] = (),
    overrides: Overrides = (),
    *,
    name: str | None = None,
    baseline: Sequence[str] = (),
    **options: Any,
) -> Experiment:
    """The experiment of `file`, or of base `configs` and what to `vary`; the other arguments replace the file's settings.

    `vary` has `KEY=A,B`, `baseline` `KEY=VALUE`, `overrides` as for `train --set`; options: `metric`, `lengths`, `families`,
    `samples` and `checkpoint`. Raises `Seq2AttnError`, a `ConfigError` with every problem found in the settings.
    """
    if (file is None) == (not configs):
        hint = "See: seq2attn compare --help"
        raise Seq2AttnError("expected an experiment file, or --config FILE and --vary KEY=A,B,...", hint=hint)
    values, places = ({}, {}) if file is None else _read(file)
    source, folder = ("seq2attn compare", Path()) if file is None else (str(file), find_config(file).parent)
    _replace(values, places, configs, vary, baseline, options)
    settings, axes = _checked(values, source, places)
    bases = name_bases([folder / config for config in settings.configs])
    for path in bases.values():
        if not find_config(path).is_file():
            read_file(path)  # raises an error with the reason
    if len(bases) > 1:
        axes = {CONFIG: tuple(bases), **axes}
    elif not axes:
        words = [str(file)] if file is not None else ["-c", str(next(iter(bases.values())))]
        hint = f"For example: {shlex.join(['seq2attn', 'compare', *words, '--vary', 'seed=1-5'])}"
        raise Seq2AttnError("nothing to compare: one config, and no --vary", hint=hint)
    if name is None:
        name = run_word(file.stem if file else f"compare-{next(iter(bases))}" if len(bases) == 1 else "compare")
    check_name(name)
    given = override_list(overrides)
    replaced = {text.partition("=")[0].strip() for text in given}  # load_config names their place
    own = {key.partition(".")[2]: place for key, place in places.items() if key.startswith(("set.", "vary."))}
    own = {key: place for key, place in own.items() if key not in replaced}
    axes = dict(sorted(axes.items(), key=lambda axis: axis[0] == SEED))
    return Experiment(name, source, bases, settings, (*override_list(settings.fixed), *given), axes, own)


def _read(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of an experiment file, and where each is written."""
    document = read_file(find_config(file))
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{file}: expected keys and values (a mapping)", hint=HINT)
    if "configs" not in document.value and document.value.keys() & Config.model_fields.keys():
        hint = f"To train it with several seeds: seq2attn compare -c {shlex.quote(str(file))} --vary seed=1-5"
        raise Seq2AttnError(f"{file}: this is a model's config, not an experiment, which names configs", hint=hint)
    return dict(document.value), {".".join(map(str, key)): f"{file}:{line}" for key, line in document.lines.items()}


def _replace(
    values: dict[str, Any],
    places: dict[str, str],
    configs: Sequence[Path] | None,
    vary: Sequence[str],
    baseline: Sequence[str],
    options: Mapping[str, Any],
) -> None:
    """Replace the settings of a file by those of the command line."""
    if configs:
        values["configs"] = list(map(str, configs))
    if options.get("metric") not in (None, values.get("metric", "exact_match")):
        values.pop("published", None)
    for option, value in options.items():
        if value is not None:
            values[option], places[option] = list(value) if isinstance(value, tuple) else value, f"--{option}"
    if baseline:
        values["baseline"] = {}
    for section, texts, form in (("vary", vary, "KEY=VALUE,VALUE,..."), ("baseline", baseline, "KEY=VALUE")):
        for key, (value, where) in _split(f"--{section}", texts, form).items():
            written = values.get(section)
            values[section] = {**(written if isinstance(written, dict) else {}), key: value}
            places[f"{section}.{key}"] = where


def _split(option: str, texts: Sequence[str], form: str) -> dict[str, tuple[Any, str]]:
    """Key -> value, read as YAML, a list where the form has several, and where it was written."""
    found: dict[str, tuple[Any, str]] = {}
    for text in texts:
        where = f"{option} {shown(text)}"
        key, equals, value = map(str.strip, text.partition("="))
        if not (equals and key and value):
            raise Seq2AttnError(f"{where}: expected {form} with a dotted key, such as model.attention.score=dot")
        if key in found:
            raise Seq2AttnError(f"{option} names {key} twice; list all its values once")
        found[key] = read_text(f"[{value}]" if "," in form else value, where).value, where
    return found


def _checked(
    values: Mapping[str, Any], source: str, places: Mapping[str, str]
) -> tuple[Settings, dict[str, tuple[Any, ...]]]:
    """The settings, and the values of each key that varies."""
    axes, problems = {}, []
    try:
        settings = Settings.model_validate(values)
        for key, some in settings.vary.items():
            try:
                axes[key] = expand_values(key, some)
            except Seq2AttnError as error:
                problems.append(Problem(f"vary.{key}", error.message))
    except ValidationError as error:
        problems = describe_errors(error, Settings, values)
    if problems:
        problems = [replace(problem, where=place_of(problem, places)) for problem in problems]
        raise ConfigError(source, problems, hint=HINT)
    return settings, axes


def expand_values(key: str, values: Any) -> tuple[Any, ...]:
    """The values of a key: one value or a list. `1-10` is a range if the key is a whole number."""
    if isinstance(values, dict):
        raise Seq2AttnError("expected a list of values, found keys; use dotted keys, as in model.hidden")
    if key == CONFIG:
        raise Seq2AttnError("not a config key; list base configs with --config FILE, or under `configs` in a file")
    values = values if isinstance(values, list) else [values]
    kind = getattr(dict(all_keys()).get(key), "annotation", None)
    kinds = [getattr(one, "__origin__", one) for one in (kind, *get_args(kind))]
    if int in kinds:  # elsewhere `1-12` is one value, as in evaluation.lengths
        values = [number for value in values for number in _range(value)]
    if not values:
        raise Seq2AttnError("no values")
    return tuple(values)


def _range(value: Any) -> Sequence[Any]:
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return [value]
    numbers = range(int(match[1]), int(match[2]) + 1)
    if not 0 < len(numbers) <= MOST_VALUES:
        raise Seq2AttnError(f"{shown(value)}: expected FIRST-LAST, counting up, of at most {MOST_VALUES:,} numbers")
    return numbers


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
    return override_list({key: value})[0]


def run_word(text: str) -> str:
    """`text` in characters that a run's name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "x"
