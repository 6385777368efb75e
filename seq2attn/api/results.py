"""Accuracy by string length, as a list that shows itself as a table."""

from __future__ import annotations

from seq2attn.inference.intervals import Estimate
from seq2attn.inference.results import SHARES, LengthResult
from seq2attn.parts import RANDOM
from seq2attn.plotting.html import html_table


class Lengths(list[LengthResult]):
    """The results of an evaluation by family of strings and by length, ascending."""

    def _rows(self) -> list[list[str]]:
        """A header, and a row for each length; a column without any value is left out."""
        measured = [name for name in SHARES if any(getattr(one, name) is not None for one in self)]
        entropy = ["entropy"] if any(one.entropy is not None for one in self) else []
        families = any(one.family != RANDOM for one in self)
        header = [*(["family"] if families else []), "length"]
        rows = [[*header, *(name.replace("_", " ") for name in (*measured, *entropy))]]
        for one in self:
            numbers = ["-" if one.entropy is None else f"{one.entropy:.3f}"] if entropy else []
            untrained = "" if one.trained else "*"
            place = [*([one.family] if families else []), f"{one.length}{untrained}"]
            rows.append([*place, *(_share(getattr(one, name)) for name in measured), *numbers])
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([*lines, *self._note()])

    def _repr_html_(self) -> str:
        header, *rows = self._rows()
        return html_table(header, rows) + "".join(f"<p>{line}</p>" for line in self._note())

    def _note(self) -> list[str]:
        return [] if all(one.trained for one in self) else ["* never seen in training"]


def _share(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
