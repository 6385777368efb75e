"""One table of plain cells, shown on a terminal, as tab-separated lines in a pipe, as JSON records,
or in HTML.
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from seq2attn.display.console import on_terminal, printable, say, stdout, write_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

GAP = 3  # characters between two columns on a terminal
TEXT_WIDTH = 100  # of a table as text
MOST_ITEMS = 4  # of a sequence in one cell, shown to people


@runtime_checkable
class WithInterval(Protocol):
    """A number with a 95 % confidence interval, such as `seq2attn.inference.statistics.Estimate`;
    the ends may be None.
    """

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


Cell = str | bool | int | float | WithInterval | Sequence[Any] | None
Texts = list[tuple["Column", list[str]]]  # what people see: columns with their cells


@dataclass(frozen=True)
class Column:
    """What a column is called and how its numbers are shown to people."""

    heading: str
    """on a terminal and in HTML; empty: only programs see the column"""
    right: bool = False
    """aligned to the right and never wrapped, as numbers are"""
    optional: bool = False
    """dropped from a terminal that is too narrow, the last such column first"""
    key: str = ""
    """in TSV and JSON; by default the heading in lower case, with `_` for spaces"""
    form: str = ""
    """a format such as `.4f` or `+.3f`; by default `,` for whole numbers and `.3f` for others.
    `.1%` shows 12.3 for 0.123"""

    @property
    def name(self) -> str:
        """The key."""
        return self.key or self.heading.lower().replace(" ", "_")


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells, with a title above and notes below."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    notes: Sequence[str] = ()

    @classmethod
    def of_records(
        cls,
        records: Sequence[Mapping[str, Cell]],
        columns: Sequence[Column] | None = None,
        title: str = "",
        notes: Sequence[str] = (),
    ) -> Table:
        """The table of records with the same keys, by default with a column for each key."""
        columns = columns or [Column(key, key=key) for key in (records[0] if records else ())]
        return cls(
            columns,
            [[record[column.name] for column in columns] for record in records],
            title,
            notes,
        )

    def show(self) -> None:
        """Print the table on a terminal, or tab-separated lines in a pipe. Notes are for people
        only.
        """
        if on_terminal():
            self.print()
        else:
            for line in self.tsv():
                write_line(line)

    def _flat(self) -> dict[str, list[Any]]:
        """The columns for programs. A number with an interval takes three: `x`, `x_low`, `x_high`."""
        columns: dict[str, list[Any]] = {}
        for column, cells in self._columns():
            columns[column.name] = [
                cell.value if isinstance(cell, WithInterval) else cell for cell in cells
            ]
            if any(isinstance(cell, WithInterval) for cell in cells):
                for end in ("low", "high"):
                    columns[f"{column.name}_{end}"] = [getattr(cell, end, None) for cell in cells]
        return columns

    def tsv(self) -> Iterator[str]:
        """Tab-separated lines under a header. Texts are printable, and backslashes and line ends
        escaped, too.
        """
        columns = [[name, *map(_field, cells)] for name, cells in self._flat().items()]
        return map("\t".join, zip(*columns, strict=True))

    def records(self) -> list[dict[str, Any]]:
        """A flat dictionary for each row, for JSON and pandas."""
        columns = self._flat()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def html(self) -> str:
        """A `<table>`; numbers have the class `right`."""
        columns = self._texts()
        classes = [' class="right"' if column.right else "" for column, _ in columns]

        def row(tag: str, texts: Iterable[str]) -> str:
            cells = (
                f"<{tag}{of}>{html.escape(text)}</{tag}>"
                for of, text in zip(classes, texts, strict=True)
            )
            return f"<tr>{''.join(cells)}</tr>"

        caption = f"<caption>{html.escape(printable(self.title))}</caption>" if self.title else ""
        head = row("th", (column.heading for column, _ in columns))
        body = "\n".join(
            row("td", texts) for texts in zip(*(texts for _, texts in columns), strict=True)
        )
        notes = "".join(f"<p>{html.escape(printable(text))}</p>\n" for text in self.notes)
        return (
            f"<table>{caption}\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n{notes}"
        )

    def _columns(self) -> list[tuple[Column, list[Cell]]]:
        return [
            (column, [row[place] for row in self.rows]) for place, column in enumerate(self.columns)
        ]

    def _texts(self) -> Texts:
        """The columns that are not empty."""
        return [
            (
                replace(column, heading=printable(column.heading)),
                [text_of(cell, column.form) for cell in cells],
            )
            for column, cells in self._columns()
            if column.heading and (not cells or any(cell not in (None, "") for cell in cells))
        ]

    # ---- the terminal ----

    def print(self) -> None:
        """Print the table for people."""
        console = stdout()
        tables, left_out = self._rich(console)
        console.print(*tables, sep="", soft_wrap=False)
        if left_out:
            say(f"left out: {', '.join(left_out)}; a wider terminal and --json have all columns")
        for text in self.notes:
            say(text)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=TEXT_WIDTH, color_system=None)
        with console.capture() as captured:
            console.print(*self._rich(console)[0], sep="")
        lines = [line.rstrip() for line in captured.get().splitlines()]
        return "\n".join([*filter(None, lines), *map(printable, self.notes)])

    def _rich(self, console: Console) -> tuple[list[RichTable], list[str]]:
        """Rich's table, without the optional columns that do not fit on the console, and the
        headings of these.

        Numbers are never broken. A table that is too wide without its optional columns comes in
        parts, one below the other, each with the first column.
        """
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        columns = self._texts()
        left_out: list[str] = []
        for shown in [shown for shown in reversed(columns) if shown[0].optional]:
            if _least_width(columns) > console.width:
                columns.remove(shown)
                left_out.insert(0, shown[0].heading)
        if (
            _least_width(columns) > console.width
        ):  # the last resort: headings of numbers are broken between words, too
            columns = [
                (replace(column, heading="\n".join(column.heading.split())), texts)
                for column, texts in columns
            ]
        parts = [columns[:1]]
        for shown in columns[1:]:
            if len(parts[-1]) > 1 and _least_width([*parts[-1], shown]) > console.width:
                parts.append(columns[:1])
            parts[-1].append(shown)
        console.width = max(console.width, *map(_least_width, parts))
        title = Text(printable(self.title), style="bold") if self.title else None
        tables = []
        for part in parts:
            table = RichTable(
                title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD
            )
            for column, texts in part:
                justify: Any = "right" if column.right else "left"
                whole = _is_whole(column, texts)
                table.add_column(
                    Text(column.heading), justify=justify, no_wrap=whole, overflow="fold"
                )
            for row in zip(*(texts for _, texts in part), strict=True):
                table.add_row(*map(Text, row))  # as text: `[s;h]` is not markup
            tables.append(table)
        return tables, left_out


def _is_whole(column: Column, texts: Sequence[str]) -> bool:
    """Whether the texts of a column are never broken: numbers, intervals included, and single
    words.
    """
    return column.right or not any(" " in text.partition(" [")[0] for text in texts)


def _least_width(columns: Texts) -> int:
    """How wide a terminal must be for these columns, if texts are broken between words."""
    from rich.cells import cell_len

    width = 1
    for column, texts in columns:
        lines = [column.heading, *texts]
        parts = (
            "\n".join(lines).splitlines() if _is_whole(column, texts) else " ".join(lines).split()
        )
        width += GAP + max(map(cell_len, parts), default=0)
    return width


def text_of(cell: Cell, form: str = "") -> str:
    """A cell for people: `0.987 [0.978, 0.992]`, `1,024`, `yes`; a dash for None."""
    if isinstance(cell, str):
        return printable(cell)
    if cell is None or isinstance(cell, bool):
        return {None: "-", True: "yes", False: "no"}[cell]
    if isinstance(cell, int | float):
        return format(cell, form or ("," if isinstance(cell, int) else ".3f")).removesuffix("%")
    if isinstance(cell, Sequence):
        items = "  ".join(text_of(item, form) for item in cell[:MOST_ITEMS])
        return f"{items} …" if len(cell) > MOST_ITEMS else items
    value, low, high = (
        None if end is None else text_of(float(end), form)
        for end in (cell.value, cell.low, cell.high)
    )
    return f"{value} [{low}, {high}]" if low is not None else str(value)


def _field(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, Sequence) and not isinstance(cell, str):
        return ",".join(map(_field, cell))
    return printable(str(cell), also="\\\n")
