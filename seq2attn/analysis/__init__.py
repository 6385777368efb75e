"""Analyses of attention: seeded functions that return an `Analysis`, one idea a file. Rows have
fields that know how a table shows them. Imports no torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Analysis:
    """What was asked for and what was found."""

    settings: Mapping[str, Any]
    """the number of samples, the seed and so on, by name"""
    rows: Sequence[Any]
    """dataclasses; a table has a column for each field"""


def column(heading: str, form: str = "") -> Any:
    """Declare a field of a row: the heading of its column, in place of its name, and the format of
    its numbers, if it is not the usual one. With an empty heading, only programs see it.
    """
    return field(metadata={"heading": heading, "form": form})
