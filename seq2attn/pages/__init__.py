"""Pages of runs and comparisons, and graphs of models. Here: the files that pages are made of."""

from collections.abc import Mapping
from importlib.resources import files
from string import Template


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("seq2attn.pages") / name).read_text(encoding="utf-8")


def filled(name: str, parts: Mapping[str, str]) -> str:
    """Return a file with each $NAME replaced, all at once: a part may contain `$` itself."""
    return Template(asset(name)).substitute(parts)
