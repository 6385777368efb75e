"""The grid of an experiment, whose axes are such as `model.attention.score=dot,scaled` and `seed=1-10`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from seq2attn.config.schema import all_keys
from seq2attn.config.yaml_files import read_text
from seq2attn.errors import Seq2AttnError, shown

CONFIG = "config"  # the axis of several base configs
SEED = "seed"
_RANGE = re.compile(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*")


@dataclass(frozen=True)
class Axis:
    """A config key and its values; ranges are not expanded, so that 1-1000000000 needs no memory."""

    key: str
    pieces: tuple[Sequence[Any], ...]
    where: str
    """how it was written: `--vary seed=1-10`, or a file's line"""

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.pieces)


def parse_vary(text: str) -> Axis:
    """`seed=1-10`, `model.attention.score=dot,scaled`: a config key and its values, each read as YAML."""
    where = f"--vary {shown(text)}"
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not key or not values.strip():
        raise Seq2AttnError(
            f"{where}: expected KEY=VALUE,VALUE,... with a dotted key, such as model.attention.score=dot,scaled"
        )
    return make_axis(key, read_text(f"[{values}]", where).value, where)


def make_axis(key: str, values: Any, where: str) -> Axis:
    """The axis of a key and its values: one value or a list. `1-10` is a range if the key is a whole number."""
    if isinstance(values, dict):
        raise Seq2AttnError(f"{where}: expected a list of values, found keys; use dotted keys, as in model.hidden")
    if key == CONFIG:
        raise Seq2AttnError(
            f"{where}: not a config key; list base configs with --config FILE, or under `configs` in a file"
        )
    values = values if isinstance(values, list) else [values]
    kind = getattr(dict(all_keys()).get(key), "annotation", None)
    kinds = [getattr(one, "__origin__", one) for one in (kind, *get_args(kind))]
    whole_number = int in kinds  # elsewhere `1-12` is one value, as in evaluation.lengths
    pieces = tuple(_range(value, where) or (value,) for value in values) if whole_number else (tuple(values),)
    if not any(map(len, pieces)):
        raise Seq2AttnError(f"{where}: no values")
    return Axis(key, pieces, where)


def _range(value: Any, where: str) -> range | None:
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise Seq2AttnError(f"{where}: {shown(value)} counts down; write {last}-{first}")
    return range(first, last + 1)


def count_trials(axes: Sequence[Axis]) -> int:
    """How many trials the grid has."""
    return math.prod(map(len, axes))


def describe_count(axes: Sequence[Axis]) -> str:
    """`80 trials (4 config x 2 model.attention.mask_padding x 10 seed)`"""
    count = count_trials(axes)
    factors = " x ".join(f"{len(axis):,} {axis.key}" for axis in axes)
    return f"{count:,} trial{'' if count == 1 else 's'}{f' ({factors})' if factors else ''}"


def combinations(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """The value of each axis, for every trial; the last axis changes fastest."""
    for values in itertools.product(*axes):
        yield dict(zip((axis.key for axis in axes), values, strict=True))
