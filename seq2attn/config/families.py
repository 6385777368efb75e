"""Parsing names of families of strings, such as `unary periodic` and `all`."""

from __future__ import annotations

from collections.abc import Iterable

from seq2attn.errors import Seq2AttnError, shown
from seq2attn.parts import FAMILIES

ALL = "all"


def parse_families(parts: Iterable[object]) -> tuple[str, ...]:
    """`["unary,runs", "random"]` -> `("random", "unary", "runs")`: in the order of `seq2attn list`, without duplicates.

    `all` is every family. Raises `Seq2AttnError` for anything else, and if there is none.
    """
    found: set[str] = set()
    for part in parts:
        if not isinstance(part, str):
            raise Seq2AttnError(f"{shown(part)} is not the name of a family of strings")
        for name in part.removesuffix(",").split(","):
            found |= set(FAMILIES.names()) if name.strip() == ALL else {FAMILIES.get(name.strip()).name}
    if not found:
        raise Seq2AttnError(f"no family given; allowed: {ALL}, {', '.join(FAMILIES.names())}")
    return tuple(name for name in FAMILIES.names() if name in found)
