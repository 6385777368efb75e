"""Tables of tests, whose rows are lines of text."""

import re

import pytest
import yaml


def table(names, text, values=""):
    """Parametrize a test by the lines of `text`, whose cells stand between bars. Those of the
    columns `values` are YAML, the others plain text. What follows two blanks and a # is a comment;
    an indented line continues the one above it.
    """
    lines = re.sub(r"  # .*", "", text).replace("\n ", " ").strip().split("\n")
    readers = [
        yaml.safe_load if name in values.split() else str.strip for name in names.split(", ")
    ]
    rows = []
    for line in lines:
        cells = zip(readers, line.split(" |"), strict=True)
        row = [read(cell) for read, cell in cells]
        rows.append(row if len(row) > 1 else row[0])
    return pytest.mark.parametrize(names, rows)
