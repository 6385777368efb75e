"""Words for lengths and families of strings, such as `3 5 7`, `3-10` and `unary periodic`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from seq2attn.errors import Seq2AttnError, shown
from seq2attn.parts import FAMILIES, LONGEST

_ALLOWED = f"allowed: whole numbers from 1 to {LONGEST:,} and ranges of them such as 3-10"


def parse_lengths(parts: Iterable[object] | int | str) -> tuple[int, ...]:
    """`[3, "5-7", "10,12"]` -> `(3, 5, 6, 7, 10, 12)`: sorted, without duplicates. A single one needs no list.

    Raises `Seq2AttnError` for anything except whole numbers from 1 and ranges of them, and if there is none.
    """
    lengths: set[int] = set()
    for part in parts if isinstance(parts, Iterable) and not isinstance(parts, str | dict) else [parts]:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise Seq2AttnError(f"{shown(part)} is not a length; {_ALLOWED}")
        for piece in str(part).removesuffix(",").split(","):
            match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", piece)
            if not match:
                raise Seq2AttnError(f"{shown(piece)} is not a length; {_ALLOWED}")
            first, last = int(match[1]), int(match[2] or match[1])
            if first > last:
                raise Seq2AttnError(f"{shown(piece)} counts down; write {last}-{first}")
            if not 1 <= first <= last <= LONGEST:
                raise Seq2AttnError(f"{shown(piece)} is out of range; {_ALLOWED}")
            lengths.update(range(first, last + 1))
    if not lengths:
        raise Seq2AttnError(f"no length given; {_ALLOWED}")
    return tuple(sorted(lengths))


def parse_families(parts: Iterable[object] | str) -> tuple[str, ...]:
    """`["unary,runs", "random"]` -> `("random", "unary", "runs")`: in the order of `seq2attn list`, without duplicates.

    `all` is every family. Raises `Seq2AttnError` for anything else, and if there is none.
    """
    chosen: set[str] = set()
    for part in parts if isinstance(parts, Iterable) and not isinstance(parts, str | dict) else [parts]:
        if not isinstance(part, str):
            raise Seq2AttnError(f"{shown(part)} is not the name of a family of strings")
        for name in part.removesuffix(",").split(","):
            chosen |= set(FAMILIES.names()) if name.strip() == "all" else {FAMILIES.get(name.strip()).name}
    if not chosen:
        raise Seq2AttnError(f"no family given; allowed: all, {', '.join(FAMILIES.names())}")
    return tuple(name for name in FAMILIES.names() if name in chosen)
