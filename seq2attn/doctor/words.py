"""What words in names mean, as `words.toml` says: a table of it gives the words that tell a role,
such as "keys" or "mask", and other tables give those that tell other things.
"""

import inspect
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
ROLES, GUESSES, POSITIONS = (
    {name: set(words.split()) for name, words in WORDS[table].items()}
    for table in ("roles", "guesses", "positions")
)
(
    SOURCES,
    STATES,
    NOT_OF_KEYS,
    CONFIGS,
    OF_PADDING,
    OF_TOKENS,
    NEGATIONS,
    BATCH,
    CACHES,
    OF_SIDES,
    OF_TRUTH,
    OF_NUMBERS,
    PADDED,
) = (set(words.split()) for words in WORDS["words"].values())
OF_LENGTHS = {*WORDS["of_lengths"]}


def required(function: Any) -> dict[str, bool]:
    """Return the names of a function's arguments that have no default, each with True as it must be
    given, and of those whose default is None, with False. Others are left out: those with another
    default, or None for a text; `*args` and `**kwargs`.
    """
    names = {}
    for name, one in inspect.signature(function).parameters.items():
        is_single = one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        is_needed = one.default is one.empty
        is_text = "str" in str(one.annotation)
        if is_single and (is_needed or (one.default is None and not is_text)):
            names[name] = is_needed
    return names


@cache
def words(*names: str) -> frozenset[str]:
    """Return the words of names in lower case, with pairs of neighbours joined by "_", and the
    names: `encoderOut1` gives encoder, out, encoder_out and encoder_out1.
    """
    found: set[str] = set()
    for name in names:
        apart = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
        parts = re.split(r"[_\d]+", apart)
        found |= {*parts, *map("_".join, pairwise(parts)), apart}
    return frozenset(found)


def role_of(name: str) -> str:
    """Return the role that the words of a name tell, such as "keys" for `encoder_outputs`, "weak"
    for one that may be the query or the keys, such as `x`; the empty string if they tell none.
    """
    told = words(name)
    if told & PADDED:  # `xs_pad` are inputs, and no mask
        return "weak"
    role = next((role for role, of_role in ROLES.items() if told & of_role), "")
    # a previous state may be the query, and previous alignments may not
    return "weak" if role == "history" and told & STATES else role


def is_in(name: str, others: Sequence[str]) -> bool:
    """Return whether one of the other names contains this name, or its singular: `caption_lengths`
    contains the singular of `captions`.
    """
    return bool({name, name.removesuffix("s")} & words(*others))
