"""Analyses of attention: seeded functions that return an `Analysis`, one idea a file. Imports no
torch.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from seq2attn.display.table import Table


class Analysis(NamedTuple):
    """What was asked for and what was found."""

    settings: Mapping[str, Any]
    """the number of samples, the seed and so on, by name"""
    table: Table

    @property
    def rows(self) -> list[Any]:
        """The rows of the table, with an attribute for each column."""
        return [SimpleNamespace(**record) for record in self.table.records()]
