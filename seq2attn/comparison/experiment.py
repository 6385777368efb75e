"""An experiment and its grid, from a file (`configs/experiments/`), from the command line or
Python, or from both.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from seq2attn.config import Config
from seq2attn.config.load import Overrides, override_list, place_of, surrogates
from seq2attn.config.messages import describe_errors
from seq2attn.config.schema import Count, Families, Lengths, all_keys
from seq2attn.config.yaml_files import find_config, read_file, read_text
from seq2attn.errors import ConfigError, Problem, Seq2AttnError
from seq2attn.inference.results import HEADINGS, RATES
from seq2attn.options import Section
from seq2attn.runs.create import run_name, run_word
from seq2attn.runs.run import check_name
from seq2attn.text import quoted

CONFIG = "config"  # the axis of several base configs
SEED = "seed"
MOST_TRIALS = 10_000
Metric = Literal[
    "exact_match",
    "character_accuracy",
    "correct_prefix",
    "teacher_forced",
    "alignment",
    "entropy",
    "wer",
    "ser",
]
ERROR_RATES = tuple(RATES)  # of runs on pairs, on their whole dev file; lower is better
METRICS = HEADINGS | {"correct_prefix": "before the first error"} | RATES
"""name -> how it is called in tables and figures"""
HINT = "An experiment names base configs and what to vary; docs/comparing.md explains its keys."


def _many(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


class Published(Section):
    """Published figures, shown next to ours."""

    where: dict[str, Any] = Field(default_factory=dict)
    """config keys and values of the groups that they belong to; `config` is a base's name"""
    values: dict[Annotated[int, Field(strict=False)], float]
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
    """config keys and the values that each takes: a list, a range such as 1-10, or log:1e-4..1e-2:8
    """
    baseline: dict[str, Any] = Field(default_factory=dict)
    """each group is compared with the one that differs from it in these values only"""
    metric: Metric | None = None
    """what the table shows, of runs on pairs of strings wer or ser; null: exact_match, of pairs wer
    """
    lengths: Lengths | None = None
    """string lengths, as [3, 5, 7] or "1-12"; null: the config's"""
    families: Families | None = None
    """kinds of strings, as [random, unary], or all; null: the config's"""
    samples: Count | None = None
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
    axes: Mapping[str, Sequence[Any]]
    """what varies, in the order of tables: the base configs first, the seed last; the last one
    changes fastest"""
    places: Mapping[str, str]  # dotted key -> where it was written

    @property
    def count(self) -> int:
        """How many trials the grid has."""
        return math.prod(map(len, self.axes.values()))

    def __str__(self) -> str:
        """`80 trials (4 config x 2 model.attention.mask_padding x 10 seed)`"""
        return f"{self.count:,} trials ({' x '.join(f'{len(values):,} {key}' for key, values in self.axes.items())})"


def compose_experiment(
    file: Path | None = None,
    configs: Sequence[Path] | None = None,
    vary: Sequence[str] = (),
    overrides: Overrides = (),
    *,
    name: str | None = None,
    baseline: Overrides = (),
    **options: Any,
) -> Experiment:
    """The experiment of `file`, or of base `configs` and what to `vary`; the other arguments
    replace the file's settings.

    `vary` has `KEY=A,B`, `baseline` `KEY=VALUE`, `overrides` as for `train --set`; options:
    `metric`, `lengths`, `families`, `samples` and `checkpoint`. Raises `Seq2AttnError`, a
    `ConfigError` with every problem found in the settings.
    """
    if (file is None) == (not configs):
        hint = "See: seq2attn compare --help"
        raise Seq2AttnError(
            "expected an experiment file, or --config FILE and --vary KEY=A,B,...", hint=hint
        )
    values, places = (
        ({"configs": list(map(str, configs or ()))}, {}) if file is None else _read(file)
    )
    source, folder = (
        ("seq2attn compare", Path()) if file is None else (str(file), find_config(file).parent)
    )
    _replace(values, places, vary, override_list(baseline), options)
    settings, axes = _checked(values, source, places)
    paths = [folder / config for config in settings.configs]
    stems = [path.stem for path in paths]
    bases = {path.stem if stems.count(path.stem) == 1 else run_name(path): path for path in paths}
    if len(bases) < len(paths):
        raise Seq2AttnError(
            f"two base configs have the same name: {', '.join(stems)}", hint="Rename or drop one."
        )
    if len(bases) > 1:
        axes = {CONFIG: tuple(bases), **axes}
    elif not axes:
        words = [str(file)] if file is not None else ["-c", str(paths[0])]
        hint = f"For example: {shlex.join(['seq2attn', 'compare', *words, '--vary', 'seed=1-5'])}"
        raise Seq2AttnError("nothing to compare: one config, and no --vary", hint=hint)
    if name is None:
        name = (
            run_word(file.stem if file else f"compare-{stems[0]}" if len(bases) == 1 else "")
            or "compare"
        )
    check_name(name)
    given = override_list(overrides)
    own = {
        key.partition(".")[2]: place
        for key, place in places.items()
        if key.startswith(("set.", "vary."))
    }
    for text in given:  # load_config names their place
        own.pop(text.partition("=")[0].strip(), None)
    axes = dict(sorted(axes.items(), key=lambda axis: axis[0] == SEED))
    return Experiment(
        name, source, bases, settings, (*override_list(settings.fixed), *given), axes, own
    )


def _read(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of an experiment file, and where each is written."""
    document = read_file(find_config(file))
    if not isinstance(document.value, dict):
        raise Seq2AttnError(f"{file}: expected keys and values (a mapping)", hint=HINT)
    if "configs" not in document.value and document.value.keys() & Config.model_fields.keys():
        hint = f"To train it with several seeds: seq2attn compare -c {shlex.quote(str(file))} --vary seed=1-5"
        raise Seq2AttnError(
            f"{file}: this is a model's config, not an experiment, which names configs", hint=hint
        )
    return dict(document.value), {
        ".".join(map(str, key)): f"{file}:{line}" for key, line in document.lines.items()
    }


def _replace(
    values: dict[str, Any],
    places: dict[str, str],
    vary: Sequence[str],
    baseline: Sequence[str],
    options: Mapping[str, Any],
) -> None:
    """Replace the settings of a file by those of the command line."""
    if options.get("metric") not in (None, values.get("metric", "exact_match")):
        values.pop("published", None)
    for option, value in options.items():
        if value is not None:
            values[option], places[option] = value, f"--{option}"
    for section, texts, form in (
        ("vary", vary, "KEY=VALUE,VALUE,..."),
        ("baseline", baseline, "KEY=VALUE"),
    ):
        given: dict[str, Any] = {}
        for text in texts:
            where = f"--{section} {quoted(text)}"
            key, equals, value = map(str.strip, text.partition("="))
            if not (equals and key and value):
                raise Seq2AttnError(
                    f"{where}: expected {form} with a dotted key, such as model.attention.score=dot"
                )
            if key in given:
                raise Seq2AttnError(f"--{section} names {key} twice; list all its values once")
            given[key] = read_text(f"[{value}]" if section == "vary" else value, where).value
            places[f"{section}.{key}"] = where
        if given:
            kept = values.get(section) if section == "vary" else None
            values[section] = {**(kept or {}), **given}


def _checked(
    values: Mapping[str, Any], source: str, places: Mapping[str, str]
) -> tuple[Settings, dict[str, Sequence[Any]]]:
    """The settings, and the values of each key that varies."""
    axes, problems = {}, list(surrogates(values))
    try:
        settings = Settings.model_validate(values)
        for key, some in settings.vary.items():
            try:
                axes[key] = _expanded(key, some)
            except Seq2AttnError as error:
                problems.append(Problem(f"vary.{key}", error.message))
    except ValidationError as error:
        problems += describe_errors(error)
    if problems:
        raise ConfigError(
            source, [replace(one, where=place_of(one, places)) for one in problems], hint=HINT
        )
    return settings, axes


def _expanded(key: str, values: Any) -> Sequence[Any]:
    """The values of a key: one value or a list. `1-10` is a range if the key is a whole number,
    `log:1e-4..1e-2:8` a grid if it is a number.
    """
    if isinstance(values, dict):
        raise Seq2AttnError(
            "expected a list of values, found keys; use dotted keys, as in model.hidden"
        )
    if key == CONFIG:
        raise Seq2AttnError(
            "not a config key; list base configs with --config FILE, or under `configs` in a file"
        )
    kind = getattr(dict(all_keys()).get(key), "annotation", None)
    kinds = [getattr(one, "__origin__", one) for one in (kind, *get_args(kind))]
    expanded: list[Any] = []
    for value in values if isinstance(values, list) else [values]:
        match = (
            re.fullmatch(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*", value)
            if isinstance(value, str)
            else None
        )
        if match and int in kinds:  # elsewhere `1-12` is one value, as in evaluation.lengths
            numbers = range(int(match[1]), int(match[2]) + 1)
            if not 0 < len(numbers) <= MOST_TRIALS:
                raise Seq2AttnError(
                    f"{quoted(value)}: expected FIRST-LAST, counting up, at most {MOST_TRIALS:,} numbers"
                )
            expanded += numbers
        elif str(value).startswith("log:") and {int, float} & set(kinds):
            expanded += _log_grid(str(value), whole=float not in kinds)
        else:
            expanded.append(value)
    if not expanded:
        raise Seq2AttnError("no values")
    return tuple(expanded)


def _log_grid(text: str, *, whole: bool) -> list[float]:
    """`log:FIRST..LAST:COUNT`: numbers in equal ratios, both ends as written; those between are
    rounded to three significant digits, or to whole numbers for a key that needs them.
    """
    number = r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"
    match = re.fullmatch(rf"log:{number}\.\.{number}:([0-9]{{1,5}})", text)
    first, last, count = (
        (read_text(word, text).value for word in match.groups()) if match else (0, 0, 0)
    )
    if not (0 < first < last and last / first < math.inf and 2 <= count <= MOST_TRIALS):
        expected = "log:FIRST..LAST:COUNT with 0 < FIRST < LAST, such as log:1e-4..1e-2:8"
        raise Seq2AttnError(f"{quoted(text)}: expected {expected}")
    between = [first * (last / first) ** (place / (count - 1)) for place in range(1, count - 1)]
    return [first, *(round(value) if whole else float(f"{value:.3g}") for value in between), last]
