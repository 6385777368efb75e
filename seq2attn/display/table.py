"""One table of plain cells, shown on a terminal, as tab-separated lines in a pipe, as JSON records,
or in HTML.
"""

from __future__ import annotations

import html
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from seq2attn.display.console import on_terminal, printable, say, stdout, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

GAP = 3  # characters between two columns on a terminal
READABLE = 14  # the least width of a text that is broken into lines, unless it is shorter
TEXT_WIDTH = 100  # of a table as text
LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
"""what LaTeX reads as a command, or shows as another sign -> how it is written"""
MOST_ITEMS = 4  # of a sequence in one cell, for people


@dataclass(frozen=True)
class Column:
    """What a column is called and how people see its numbers."""

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


Number = partial(Column, right=True)
"""a column of numbers"""


@dataclass
class _Texts:
    """A column as people see it."""

    column: Column
    heading: str
    cells: list[str]

    @property
    def is_whole(self) -> bool:
        """True if no cell is broken into lines: in a column aligned to the right, and in one that
        has nothing to break, only single words and values with intervals.
        """
        return self.column.right or all(" " not in cell.partition(" [")[0] for cell in self.cells)

    @property
    def least(self) -> int:
        """The least width on a terminal: texts that are broken into lines keep `READABLE`
        characters, unless they need fewer.
        """
        from rich.cells import cell_len

        unbroken = max(map(cell_len, [*self.heading.split("\n"), *self.cells]))
        return unbroken if self.is_whole else min(unbroken, READABLE)

    def html(self, tag: str, text: str) -> str:
        """Return an element for one of the texts."""
        kind = ' class="right"' if self.column.right else ""
        return f"<{tag}{kind}>{html.escape(text)}</{tag}>"


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells, with a title above and notes below.

    A cell is a text, a number, a bool, a sequence of these, or None; or a number with a confidence
    interval: an object with a `value`, and with `low` and `high`, which may be None.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    notes: Sequence[str] = ()

    @classmethod
    def of_records(
        cls,
        records: Sequence[Mapping[str, Any]],
        columns: Sequence[Column] | None = None,
        title: str = "",
        notes: Sequence[str] = (),
    ) -> Table:
        """Return the table of records.

        columns: each record has their keys; what else it has is left out. None: a column for each
            key of the first record, aligned to the right if any record has a number there.
        """
        if columns is None:
            columns = []
            for key in records[0] if records else ():
                has_number = any(isinstance(record[key], int | float) for record in records)
                columns.append(Column(key, right=has_number, key=key))
        rows = [[record[column.name] for column in columns] for record in records]
        return cls(columns, rows, title, notes)

    def show(self, as_json: bool = False) -> None:
        """Print the table on a terminal, with notes on standard error; in a pipe, print
        tab-separated lines without the notes; print JSON if that is wanted.
        """
        if as_json:
            write_json(self.records())
            return
        if not on_terminal():
            for line in self.tsv():
                print(line)
            return
        console = stdout()
        tables, left_out = self._rich(console)
        for table in tables:
            console.print(table, soft_wrap=False)  # a table breaks its own lines
        if left_out:
            say(f"not shown for lack of width: {'; '.join(left_out)} (--json has them)")
        for note in self.notes:
            say(note)

    # ---- for programs ----

    def _flat(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the name and the cells of each column. A number with an interval takes three
        columns: `x`, `x_low` and `x_high`.
        """
        # each column with its cells from all rows
        for column, *cells in zip(self.columns, *self.rows, strict=True):
            yield column.name, [getattr(cell, "value", cell) for cell in cells]
            if any(hasattr(cell, "low") for cell in cells):
                for end in ("low", "high"):
                    yield f"{column.name}_{end}", [getattr(cell, end, None) for cell in cells]

    def tsv(self) -> Iterator[str]:
        """Return tab-separated lines under a header. Texts are printable, with backslashes and line
        ends escaped, too.
        """
        columns = [[name, *map(_field, cells)] for name, cells in self._flat()]
        return map("\t".join, zip(*columns, strict=True))

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dictionary for each row, for JSON and pandas."""
        columns = dict(self._flat())
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    # ---- for people ----

    def latex(self) -> str:
        """Return a `tabular` with the rules of LaTeX's package booktabs. Title and notes are
        comments above it.
        """
        columns = self._texts()
        kinds = "".join("r" if texts.column.right else "l" for texts in columns)
        # The first row has the headings.
        head, *rows = zip(*([texts.heading, *texts.cells] for texts in columns), strict=True)
        lines = [f"% {printable(text)}" for text in (self.title, *self.notes) if text]
        lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", _row(head), r"\midrule"]
        return "\n".join([*lines, *map(_row, rows), r"\bottomrule", r"\end{tabular}", ""])

    def _texts(self) -> list[_Texts]:
        """Return the columns that have a heading, as people see them, without those whose cells are
        all empty: None, "", or an empty list or tuple.
        """
        columns = []
        for column, *cells in zip(self.columns, *self.rows, strict=True):
            # a table without rows keeps its headings
            empty = cells and all(cell in (None, "", [], ()) for cell in cells)
            if column.heading and not empty:
                texts = [text_of(cell, column.form) for cell in cells]
                columns.append(_Texts(column, printable(column.heading), texts))
        return columns

    def html(self) -> str:
        """Return a `<table>`, with the notes as paragraphs below it; columns aligned to the right,
        such as numbers, have the class `right`.
        """
        columns = self._texts()
        caption = f"<caption>{html.escape(printable(self.title))}</caption>" if self.title else ""
        page = f"<table>{caption}\n<thead><tr>"
        for texts in columns:
            page += texts.html("th", texts.heading)
        page += "</tr></thead>\n<tbody>\n"
        for index in range(len(self.rows)):
            page += "<tr>"
            for texts in columns:
                page += texts.html("td", texts.cells[index])
            page += "</tr>\n"
        page += "</tbody>\n</table>\n"
        for note in self.notes:
            page += f"<p>{html.escape(printable(note))}</p>\n"
        return page

    def __str__(self) -> str:
        """Return the table in `TEXT_WIDTH` characters a line, if that can be, then the notes. As on
        a terminal, optional columns are dropped if they do not fit; here nothing says which.
        """
        from rich.console import Console

        console = Console(width=TEXT_WIDTH, color_system=None)
        with console.capture() as captured:
            console.print(*self._rich(console)[0])
        lines = [*captured.get().splitlines(), *map(printable, self.notes)]
        # without the blank lines around Rich's tables
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def _rich(self, console: Console) -> tuple[list[RichTable], list[str]]:
        """Return Rich's tables, and in words what was left out because it did not fit on the
        console: first the intervals of all optional columns, then these columns, from the last one
        on, then the other intervals.

        There is one table, unless what is left is still too wide. Then headings are broken between
        words, and the table is cut into several, to be shown one below the other, each with the
        first column. Numbers are never broken: for a table that is still too wide, `console` itself
        is made wider.
        """
        columns = self._texts()
        optional = [texts for texts in columns if texts.column.optional]
        left_out: dict[str, str] = {}  # heading -> what of it
        for narrowed in (optional, columns):
            if _width(columns) > console.width:
                for texts in narrowed:
                    if any(" [" in cell for cell in texts.cells):  # as in `0.93 [0.90, 0.95]`
                        texts.cells = [cell.partition(" [")[0] for cell in texts.cells]
                        left_out[texts.heading] = f"intervals of {texts.heading}"
            while optional and _width(columns) > console.width:
                last = optional.pop()
                columns.remove(last)
                left_out[last.heading] = last.heading
        if _width(columns) > console.width:
            for texts in columns:
                texts.heading = texts.heading.replace(" ", "\n")
        parts = [columns[:1]]
        for texts in columns[1:]:
            # a part has a column beside the first, however wide that is
            if len(parts[-1]) > 1 and _width([*parts[-1], texts]) > console.width:
                parts.append(columns[:1])
            parts[-1].append(texts)
        console.width = max(console.width, *map(_width, parts))
        return list(map(self._rich_table, parts)), list(left_out.values())

    def _rich_table(self, columns: Sequence[_Texts]) -> RichTable:
        """Return Rich's table of some columns. If the console is too narrow for whole texts, those
        of columns that are not `is_whole` are broken into lines, of the width `least` or more.
        """
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(printable(self.title), "bold"),
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        for texts in columns:
            table.add_column(
                Text(texts.heading),
                min_width=texts.least,
                justify="right" if texts.column.right else "left",
                no_wrap=texts.is_whole,
                overflow="fold",
            )
        for row in zip(*(texts.cells for texts in columns), strict=True):
            table.add_row(*map(Text, row))  # as text: `[s;h]` is not markup
        return table


def _width(columns: Sequence[_Texts]) -> int:
    """Return the least width of a table of these columns, with a blank at its left edge."""
    return 1 + sum(GAP + texts.least for texts in columns)


class Tabular:
    """The base of results that are printed, and shown in a notebook, as their tables."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables for people."""

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(map(Table.html, self.tables()))


def _row(cells: Sequence[str]) -> str:
    """Return a row of a LaTeX table."""
    row = " & ".join(map(_escaped, cells)) + r" \\"
    is_option = row.startswith(("[", "*"))  # of the line end before it
    return f"{{}}{row}" if is_option else row


def _escaped(text: str) -> str:
    """Return the text of a cell, as `text_of` made it, as LaTeX has to read it."""
    if text == "-":  # of None
        return "--"  # a dash
    if tiny := re.fullmatch(r"(\d\.?\d*)e-0*(\d+)", text):  # a p-value
        return rf"${tiny[1]} \cdot 10^{{-{tiny[2]}}}$"
    text = text.translate(LATEX)
    text = re.sub("-(?=-)", "-{}", text)  # two hyphens would be a dash
    # the minus sign of a number, but no hyphen in a word or a date
    return re.sub(r"(?<![\w.}-])-(?=\d)", "$-$", text)


def text_of(cell: Any, form: str = "") -> str:
    """Return a cell of a `Table` for people: `0.987 [0.978, 0.992]`, `1,024`, `yes`; a dash for
    None; of a sequence the first `MOST_ITEMS`. form: of numbers, as `Column.form`.
    """
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        cell = "yes" if cell else "no"
    if isinstance(cell, str):
        return printable(cell)
    if isinstance(cell, int | float):
        form = form or ("," if isinstance(cell, int) else ".3f")
        return format(cell, form).removesuffix("%")  # the column's heading has the sign
    if hasattr(cell, "low"):  # a number with its interval
        form = form or ".3f"
        value = text_of(cell.value, form)
        if cell.low is None:  # it has none
            return value
        return f"{value} [{text_of(cell.low, form)}, {text_of(cell.high, form)}]"
    items = "  ".join(text_of(item, form) for item in cell[:MOST_ITEMS])
    return f"{items} …" if len(cell) > MOST_ITEMS else items


def _field(cell: Any) -> str:
    """Return a value as a field of a TSV line: nothing for None, six digits of a float, commas
    between the items of a sequence, and texts without tabs and line ends, which are escaped.
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, Sequence) and not isinstance(cell, str):
        return ",".join(map(_field, cell))
    return printable(str(cell), also="\\\n")
