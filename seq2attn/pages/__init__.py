"""Runs and comparisons as pages, models as graphs. Here: the files that they are made of."""

import re
from collections.abc import Mapping
from importlib.resources import files


def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("seq2attn.pages") / name).read_text(encoding="utf-8")


def filled(name: str, parts: Mapping[str, str]) -> str:
    """A file with each {{NAME}} replaced, all at once, because a part may contain {{ itself."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], asset(name))
