"""Parsing string lengths such as `3 5 7`, `3-10` and `3,5`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from seq2attn.errors import Seq2AttnError, shown

LONGEST = 100_000
_ALLOWED = f"allowed: whole numbers from 1 to {LONGEST:,} and ranges of them such as 3-10"


def parse_lengths(parts: Iterable[object] | int | str) -> tuple[int, ...]:
    """`[3, "5-7", "10,12"]` -> `(3, 5, 6, 7, 10, 12)`: sorted, without duplicates. A single one needs no list.

    Raises `Seq2AttnError` for anything except whole numbers from 1 and ranges of them, and if there is none.
    """
    lengths: set[int] = set()
    for part in parts if isinstance(parts, Iterable) and not isinstance(parts, str) else [parts]:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise Seq2AttnError(f"{shown(part)} is not a length; {_ALLOWED}")
        for piece in str(part).removesuffix(",").split(","):
            match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", piece)
            if not match:
                raise Seq2AttnError(f"{shown(piece)} is not a length; {_ALLOWED}")
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            if first > last:
                raise Seq2AttnError(f"{shown(piece)} counts down; write {last}-{first}")
            if not 1 <= first <= last <= LONGEST:
                raise Seq2AttnError(f"{shown(piece)} is out of range; {_ALLOWED}")
            lengths.update(range(first, last + 1))
    if not lengths:
        raise Seq2AttnError(f"no length given; {_ALLOWED}")
    return tuple(sorted(lengths))
