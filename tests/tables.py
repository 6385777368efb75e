"""Tables of tests, whose rows are lines of text."""

import re

import pytest
import yaml


def rows(text):
    """The cells of each line, which stand between bars. What follows two blanks and a # is a
    comment; an indented line continues the one above it.
    """
    lines = re.sub(r"  # .*|\n +", " ", text).strip().split("\n")
    return [[cell.strip() for cell in line.split(" |")] for line in lines]


def table(names, text, values=""):
    """Parametrize a test by these rows. Cells of the columns `values` are YAML, the others plain
    text.
    """
    readers = [yaml.safe_load if name in values.split() else str for name in names.split(", ")]
    read = [[of(cell) for of, cell in zip(readers, row, strict=True)] for row in rows(text)]
    return pytest.mark.parametrize(names, read if len(readers) > 1 else [one for (one,) in read])


def slow(*values):
    """A row of a table that only `make test-slow` tries."""
    return pytest.param(*values, marks=pytest.mark.slow)
