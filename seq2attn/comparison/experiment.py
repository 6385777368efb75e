"""An experiment and its grid, from a file (`configs/experiments/`), from the command line or
Python, or from both.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, ValidationError

from seq2attn.comparison.loops import Loop, Train, read_loops
from seq2attn.config import Config, Overrides, Values, override_list, place_of, problems_of
from seq2attn.config.schema import Count, Families, Lengths, all_keys
from seq2attn.config.yaml_files import find_config, read_file, read_text
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, quoted
from seq2attn.registry import Section
from seq2attn.results.metrics import METRICS
from seq2attn.runs.create import run_word
from seq2attn.runs.run import check_name

CONFIG = "config"  # the axis of several base configs
TRAIN = "train"  # the axis of several training loops of the user's own
MAX_TRIALS = 10_000
COMPARED = tuple(metric.name for metric in METRICS.values() if metric.heading)
HINT = (
    "An experiment names base configs and what to vary; docs/comparing.md explains its keys.\n"
    "To compare the seeds of a model's config: seq2attn compare -c CONFIG --vary seed=1-5"
)
USAGE = (
    "For example: seq2attn compare -c configs/scaled.yaml --vary seed=1-5\n"
    "See: seq2attn compare --help"
)
RANGE = re.compile(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*")
NUMBER = r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"
LOG_GRID = re.compile(rf"log:{NUMBER}\.\.{NUMBER}:([0-9]{{1,5}})")


Base = str | Path | Values | Config
"""a config's file, or its keys and values"""


def _tuple(value: Any) -> tuple[Any, ...]:
    """Return the members of a list; any other value alone."""
    return tuple(value) if isinstance(value, list) else (value,)


class Settings(Section):
    """The keys of an experiment file."""

    description: str = ""
    """what is compared and why"""
    configs: Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=1)]
    """base configs, one or a list; paths from the experiment file's own folder"""
    fixed: dict[str, Any] = Field(default_factory=dict, alias="set")
    """config keys that are the same in every trial"""
    vary: dict[str, Any] = Field(default_factory=dict)
    """config keys and the values of each: a list, a range as 1-10, or a grid as log:1e-4..1e-2:8"""
    baseline: dict[str, Any] = Field(default_factory=dict)
    """each group is compared with the one that differs from it in these values only"""
    metric: Literal[COMPARED] | None = None  # type: ignore[valid-type]
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


class Experiment(NamedTuple):
    """Base configs, what is the same in all trials, what varies, and what is measured."""

    name: str  # its trials are the runs NAME-...
    source: str  # the file or command line, for messages
    bases: Mapping[str, Base]  # by the name that tables use
    settings: Settings
    axes: Mapping[str, Sequence[Any]]
    """what varies, the base configs first; the last one changes fastest"""
    places: Mapping[str, str]  # key, of the config or of the settings -> where it is written
    loops: Mapping[str, Loop]
    """training loops by name: the user's own, or the one that stands for `seq2attn.train`"""


def compose_experiment(
    file: str | Path | None = None,
    configs: Sequence[Base] | None = None,
    vary: Overrides | None = None,
    overrides: Overrides | None = None,
    *,
    name: str | None = None,
    baseline: Overrides | None = None,
    train: Train | Mapping[str, Train] | None = None,
    **options: Any,
) -> Experiment:
    """Return the experiment of an experiment `file`, or of base `configs`: exactly one of the two.

    configs: files, or keys and values. train: a training loop of the user's own, or several by
        name; None: `seq2attn.train`.
    vary: texts `KEY=A,B`, and overrides, texts `KEY=VALUE`: each replaces what the file has for its
        key; the file's other keys stay. baseline: in place of all that the file has under that key.
    name: of the experiment, with which the names of its runs begin; by default the file's own name,
        `compare-CONFIG`, or `compare` for several configs.
    options: `metric`, `lengths`, `families`, `samples` and `checkpoint`; None: as the file says.

    Raises `ConfigError` with every problem found in the settings, and `Seq2AttnError` for all else,
    such as nothing that varies, or two base configs of one name.
    """
    if (file is None) == (not configs):  # neither, or both
        raise Seq2AttnError(
            "expected an experiment file, or --config FILE and --vary KEY=A,B,...", hint=USAGE
        )
    # what the file says, then what the arguments add; and where each key is written, for messages
    # (of configs, `Settings` only checks that there are some: they become `bases` below)
    values: dict[str, Any] = {"configs": list(map(str, configs or ()))}
    places: dict[str, str] = {}
    if file:
        values, places = _read(file)
    for option, value in options.items():
        if value is not None:
            values[option] = value
            places[option] = f"--{option}"
    for section, given in (("set", overrides), ("vary", vary), ("baseline", baseline)):
        _add_options(section, override_list(given or ()), values, places)
    source = str(file or "seq2attn compare")  # for messages
    settings, axes = _validated(values, source, places)

    if file:
        # their paths count from the folder of the experiment file
        configs = [find_config(file).parent / config for config in settings.configs]
    bases = _by_name(configs or ())
    loops = read_loops(train)
    if len(loops) > 1:  # they vary, too, as base configs do
        axes = {TRAIN: tuple(loops), **axes}
    if len(bases) > 1:
        axes = {CONFIG: tuple(bases), **axes}
    if not axes:
        raise Seq2AttnError(
            "nothing to compare: one config, and no --vary", hint="For example: --vary seed=1-5"
        )

    if name is None:
        default = "compare" if len(bases) > 1 else f"compare-{next(iter(bases))}"
        # `run_word` leaves out what no run's name may have: perhaps all
        name = run_word(Path(file).stem if file else default) or "compare"
    check_name(name)
    return Experiment(name, source, bases, settings, axes, places, loops)


def _by_name(configs: Sequence[Base]) -> dict[str, Base]:
    """Return base configs by their names: a file's name without its ending, or `config_1` and so
    on for configs that are in no file. Raises `Seq2AttnError` if two have one name.
    """
    bases: dict[str, Base] = {}
    for number, config in enumerate(configs, start=1):
        name = Path(config).stem if isinstance(config, str | Path) else f"config_{number}"
        if name in bases:
            raise Seq2AttnError(f"two base configs are called {name!r}", hint="Rename one.")
        bases[name] = config
    return bases


def _read(file: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of an experiment file, and where each is written: key -> `FILE:LINE`.
    Raises `Seq2AttnError` for a file that is not keys and values.
    """
    document = read_file(find_config(file))
    values = document.value
    if not isinstance(values, dict):
        raise Seq2AttnError(f"{file}: expected keys and values (a mapping)", hint=HINT)
    places = {}
    for key, line in document.lines.items():
        # a file has keys of the config under `set` and `vary`; problems name the key alone
        places[key.removeprefix("set.").removeprefix("vary.")] = f"{file}:{line}"
    return values, places


def _add_options(
    section: str, texts: Sequence[str], values: dict[str, Any], places: dict[str, str]
) -> None:
    """Put the keys of options such as `--vary KEY=A,B` into a section of `values`, here `vary`,
    where they replace the file's; and into `places`, for messages: key -> `--vary 'KEY=A,B'`.

    section: `set`, `vary` or `baseline`, the option without its dashes. A baseline replaces the
        file's as a whole.
    texts: what follows the option, each time it is given.

    Raises `Seq2AttnError` for a text that is not `KEY=VALUE`, for a value that is not YAML, and for
    a key that two of the texts name.
    """
    pairs: dict[str, Any] = {}
    for text in texts:
        where = f"--{section} {quoted(text)}"
        key, _, value = map(str.strip, text.partition("="))
        if not (key and value):
            form = "KEY=VALUE,VALUE,..." if section == "vary" else "KEY=VALUE"
            raise Seq2AttnError(
                f"{where}: expected {form} with a dotted key, such as model.attention.score=dot"
            )
        if key in pairs:
            raise Seq2AttnError(f"--{section} names {key} twice; give it once, with all its values")
        # in brackets, `A,B` is a list in YAML
        pairs[key] = read_text(f"[{value}]" if section == "vary" else value, where).value
        # the keys of a baseline vary, too: messages name the place in `vary`
        if section != "baseline":
            places[key] = where
    before = {} if section == "baseline" else values.get(section) or {}
    if pairs and isinstance(before, dict):  # `_validated` refuses a section that is not a mapping
        values[section] = {**before, **pairs}


def _validated(
    values: Mapping[str, Any], source: str, places: Mapping[str, str]
) -> tuple[Settings, dict[str, Sequence[Any]]]:
    """Return the settings, and the values of each key that varies. Raises `ConfigError` with all
    problems, each with the place where its key is written.

    values: as an experiment file has them. source: the file or command line, for the message.
    places: key -> where it is written.
    """
    axes = {}
    problems = []
    try:
        settings = Settings.model_validate(values)
        for key, given in settings.vary.items():
            try:
                axes[key] = _expanded(key, given)
            except Seq2AttnError as error:
                problems.append(Problem(key, error.message))
    except ValidationError as error:
        problems += problems_of(error)
    if problems:
        placed = [replace(problem, where=place_of(problem, places)) for problem in problems]
        raise ConfigError(source, placed, hint=HINT)
    return settings, axes


def _expanded(key: str, values: Any) -> Sequence[Any]:
    """Return all values of a key that varies, at least one.

    values: one value, or a list. Among them, `1-10` stands for the numbers of this range if the key
        takes whole numbers, and `log:1e-4..1e-2:8` for those of this grid if it takes numbers.

    Raises `Seq2AttnError` for an empty list, for a range or grid that cannot be read or has more
    than `MAX_TRIALS` numbers, and for the names of the axes of base configs and training loops,
    which are not varied as keys are.
    """
    if key in (CONFIG, TRAIN):
        raise Seq2AttnError(
            "not a config key; list base configs with --config FILE, or under `configs` in a file, "
            "and training loops as `train` of seq2attn.compare"
        )
    kinds = _types_of(key)
    expanded: list[Any] = []
    for value in _tuple(values):
        text = str(value)
        if int in kinds and (match := RANGE.fullmatch(text)):
            numbers = range(int(match[1]), int(match[2]) + 1)
            if not 0 < len(numbers) <= MAX_TRIALS:
                raise Seq2AttnError(
                    f"{quoted(value)}: expected FIRST-LAST, counting up, at most "
                    f"{MAX_TRIALS:,} numbers"
                )
            expanded += numbers
        elif text.startswith("log:") and (int in kinds or float in kinds):
            expanded += _log_grid(text, whole=float not in kinds)
        else:  # unchanged, as is `1-12` for evaluation.lengths, a key that is not a whole number
            expanded.append(value)
    if not expanded:
        raise Seq2AttnError("no values")
    return expanded


def _types_of(key: str) -> list[Any]:
    """Return the types that a config key allows, such as int and None for `Annotated[int, ...] |
    None`; an empty list for an unknown key, which the config of each trial refuses.
    """
    field = dict(all_keys()).get(key)
    if field is None:
        return []
    kinds = [field.annotation, *get_args(field.annotation)]  # a union, and its members
    return [getattr(kind, "__origin__", kind) for kind in kinds]  # Annotated[int, ...] -> int


def _log_grid(text: str, *, whole: bool) -> list[float]:
    """Return the numbers of `log:FIRST..LAST:COUNT`, rounded to four significant digits: each is
    the same multiple of the one before. Raises `Seq2AttnError` for any other text, for ends that do
    not rise from above 0, and for a count below 2 or above `MAX_TRIALS`.

    whole: True to round to whole numbers, and to list equal ones once.
    """
    match = LOG_GRID.fullmatch(text)
    first, last, count = map(float, match.groups()) if match else (0, 0, 0)
    # this also refuses the zeros of a text without match, and an end that is too large for a number
    if not (0 < first < last < math.inf and 2 <= count <= MAX_TRIALS):
        raise Seq2AttnError(
            f"{quoted(text)}: expected log:FIRST..LAST:COUNT with 0 < FIRST < LAST, such as "
            "log:1e-4..1e-2:8"
        )
    import numpy  # not at the top: `--help` does not wait for it

    numbers = numpy.geomspace(first, last, int(count)).tolist()
    if whole:
        return list(dict.fromkeys(map(round, numbers)))
    return [float(f"{number:.4g}") for number in numbers]
