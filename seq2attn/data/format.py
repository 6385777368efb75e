"""The format of files of pairs: which columns their lines have, and how a line becomes pairs.

Imports no torch.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from seq2attn.data.vocabulary import FEATURE, FEATURES, Vocabulary
from seq2attn.errors import Seq2AttnError, first_of, quoted
from seq2attn.registry import composed

BOM = "\ufeff"  # a byte order mark, which begins a file, and a line where files were joined
COLUMN_KEYS = ("source_column", "target_column", "features_column")  # of a `Format`
BETWEEN = (FEATURE, "|", ",", " ")  # signs between features
VARIANT = re.compile(r"(?<=.)\(\d+\)$")  # about(2), the second pronunciation

Texts = Sequence[str]
Pair = tuple[str, str]
"""a source, with its features after a tab if it has any, and its right answer"""


@dataclass(frozen=True)
class Format:
    """The format of a file's lines. A column is given by its number, from 1, or by its name in the
    header.
    """

    source_column: int | str = 1
    target_column: int | str = 2
    features_column: int | str | None = None
    columns: int | None = None
    """columns of each line; None: as many as the header, or as the last one named"""
    delimiter: str = "\t"
    quotation: bool | None = None
    """quotation marks around a column are taken off, as in CSV; None: unless the delimiter is a tab
    or a blank"""
    header: bool = False  # a column that is named implies it
    comment: str = ""  # at the beginning of a line or after a blank
    variants: bool = False  # a number in parentheses at the end of a source counts its answers
    source_separator: str = ""
    target_separator: str = ""
    target_alternatives: str = ""  # between right answers of one source
    target_quotes: str = ""  # around each answer: / or []
    skip_bad: int = 0  # malformed lines that may be left out
    normalise: str = "nfc"
    """the Unicode normal form of symbols, nfc or nfd; strings are composed, even with nfd"""

    @property
    def has_header(self) -> bool:
        """True if the first line of a file names the columns."""
        return self.header or any(isinstance(column, str) for column in self.used)

    @property
    def used(self) -> tuple[int | str, ...]:
        """The columns of source, target and features."""
        columns = (self.source_column, self.target_column, self.features_column)
        return tuple(filter(None, columns))

    @property
    def width(self) -> int:
        """The number of columns that each line must have; of named ones, `named` knows it."""
        # 1: for a format all of whose columns have names
        return self.columns or max(column for column in (1, *self.used) if isinstance(column, int))

    def differing(self, other: "Format") -> dict[str, Any]:
        """Return the fields that are unlike those of another format, with their values here."""
        usual = vars(other)
        return {name: value for name, value in vars(self).items() if value != usual[name]}

    def named(self, line: str) -> "Format":
        """Return the format of the lines below a header, with numbers in place of the names of
        columns. Raises `Seq2AttnError` for a name that is not there, and for one column with two
        meanings.
        """
        names = self.split(line)
        numbers: dict[str, Any] = {}
        for key in COLUMN_KEYS:
            name = getattr(self, key)
            if isinstance(name, str):
                numbers[key] = column_number(name, names, f"task.{key}")
        known = replace(self, header=False, **numbers)
        if len(set(known.used)) < len(known.used):
            used = f"source, target, features = {known.used}"
            raise Seq2AttnError(f"one column is used twice: {used}")
        # a header may be shorter than its lines, whose columns a config can number
        return replace(known, columns=self.columns or max(len(names), known.width))

    def rows(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not blank, with their numbers and without comments."""
        for number, line in enumerate(lines, start=1):
            line = self.without_comment(line.removeprefix(BOM))
            if line.strip():
                yield number, line

    def vocabularies(
        self, source: Texts = (), target: Texts = (), features: Texts = ()
    ) -> tuple[Vocabulary, Vocabulary]:
        """Return the vocabularies of sources and targets with these symbols and features. Without
        symbols they can split texts, but know none: any symbol becomes `<unk>`.
        """
        make = partial(Vocabulary, unknown=True, normalise=self.normalise)
        return (
            make(
                source,
                separator=self.source_separator,
                features=features if self.features_column else None,
            ),
            make(target, separator=self.target_separator),
        )

    def parse_all(self, lines: Texts) -> "PairFile":
        """Parse the lines of a file into pairs, and note what is wrong with malformed lines. If the
        header does not fit (`named`), that is the only problem, and no pair is parsed.
        """
        rows = self.rows(lines)
        parsed = PairFile(self, lines)
        if self.has_header:
            at, header = next(rows, (0, ""))  # an empty one for a file without lines
            try:
                parsed = PairFile(self.named(header), lines, self.split(header))
            except Seq2AttnError as error:
                parsed.problems[at] = error.message
                return parsed
        for number, line in rows:
            try:
                parsed.rows[number] = parsed.form.parse(line)
            except ValueError as error:
                parsed.problems[number] = str(error)
        if not parsed.rows and not parsed.problems:
            # blank lines, comments and a header only: the last line has the problem
            parsed.problems[len(lines)] = "no pair follows"
        return parsed

    def without_comment(self, line: str) -> str:
        """Return a line, or a source, without the comment at its end; "" for a comment alone."""
        if not self.comment:
            return line
        # The sign counts after a blank, and at the beginning: so a blank is put there, too.
        text, sign, _ = f" {line}".partition(f" {self.comment}")
        return text[1:].rstrip(" ") if sign else line

    def split(self, line: str) -> list[str]:
        """Return the fields of a line, one for each column, without blanks around them; none if its
        quotation marks do not match.
        """
        if self.quotation or (self.quotation is None and self.delimiter not in "\t "):
            try:
                (fields,) = csv.reader(  # a single row, since it gets a single line
                    [line.strip(" ")], delimiter=self.delimiter, strict=True, skipinitialspace=True
                )
            except csv.Error:
                return []
        elif self.delimiter == " ":  # one blank or more; the last column may contain blanks, too
            fields = re.split(" +", line.strip(" "), maxsplit=self.width - 1)
        else:
            fields = line.split(self.delimiter)
        return [field.strip() for field in fields]

    def canonical(self, source: str) -> str:
        """Return a source, with its features after a tab if it has any, as a model reads it:
        composed (normal form C), without a comment, `about` for `about(2)` if the format has
        variants, and with `;` between features, in place of the first sign of `BETWEEN` that they
        have.
        """
        text = composed(self.without_comment(source))
        word, tab, features = text.partition(FEATURES)
        if self.variants:
            word = VARIANT.sub("", word)
        sign = next((sign for sign in BETWEEN if sign in features), FEATURE)
        return word + tab + FEATURE.join(part.strip() for part in features.split(sign))

    def source_of(self, line: str) -> str:
        """Return the source of a line as a model reads it, with its features after a tab. The line
        may lack its last columns, such as the answer, or be one word. Of a line with too few or too
        many columns, all is taken for the source: the vocabulary then refuses it.
        """
        fields = self.split(line)
        source, features = self.source_column, self.features_column
        if isinstance(source, str) or isinstance(features, str):
            return self.canonical(line)  # no header has said where a named column is
        if max(source, features or 0) <= len(fields) <= self.width:
            line = fields[source - 1]
            if features:
                line += FEATURES + fields[features - 1]
        return self.canonical(line)

    def parse(self, line: str) -> list[Pair]:
        """Return a pair for each different answer in a line, which has no line end. This format has
        numbers for all columns (`named`). Raises `ValueError` with what is wrong with the line.
        """
        fields = self.split(line)
        if not fields:
            raise ValueError("unmatched quotation marks")
        if len(fields) != self.width:
            raise ValueError(f"columns: found {len(fields)}, expected {self.width}")
        text = "".join(fields)
        if wrong := re.search(f"[\0\r\t{BOM}]", text):
            raise ValueError(f"it contains {quoted(wrong[0])}")
        if re.search("[\ud800-\udfff]", text):  # surrogates, of bytes that are not UTF-8
            raise ValueError("not UTF-8 text; save it as UTF-8")
        # (`int` for the type checker alone: names have become numbers)
        source, target, *features = (fields[int(column) - 1] for column in self.used)
        source = self.canonical(FEATURES.join([source, *features]))
        word, *features = source.split(FEATURES)
        self._check("source", word, self.source_separator)
        for tags in features:
            self._check("features", tags, FEATURE)
        answers = dict.fromkeys(self._answers(composed(target)))  # different, in their order
        return [(source, answer) for answer in answers]

    def _answers(self, target: str) -> Iterator[str]:
        """Yield the right answers in a cell of the target's column. If the format has a sign
        between answers, or quotes around them, these are taken off, and the blanks beside them.
        Raises `ValueError` for an answer that lacks its quotes, or that `_check` refuses.
        """
        answers = target.split(self.target_alternatives) if self.target_alternatives else [target]
        for answer in map(str.strip, answers):
            if self.target_quotes:
                first, last = self.target_quotes[0], self.target_quotes[-1]
                inside = answer.removeprefix(first).removesuffix(last)
                if len(inside) != len(answer) - 2:
                    raise ValueError(f"an answer is not between {first} and {last}")
                answer = inside.strip()
            self._check("target", answer, self.target_separator)
            yield answer

    def _check(self, name: str, text: str, separator: str) -> None:
        """Raise `ValueError` if the text of a cell is empty, or has an empty part between two
        separators.

        name: source, target or features. separator: between its symbols or features; "" if there is
        none, as each character is a symbol.
        """
        if not text or (separator and "" in text.split(separator)):
            column = getattr(self, f"{name}_column")
            raise ValueError(f"the {name} (column {column}) is empty, or has an empty part")


@dataclass
class PairFile:
    """A file of pairs, by the numbers of its lines, from 1."""

    form: Format
    """with numbers for the names of columns"""
    lines: Texts
    """without their ends"""
    names: Texts = ()
    """of the columns, in the header"""
    rows: dict[int, list[Pair]] = field(default_factory=dict)
    """the pairs of each line that has some"""
    problems: dict[int, str] = field(default_factory=dict)
    """what is wrong with each malformed line"""
    record: dict[str, Any] = field(default_factory=dict)
    """what a run keeps of the file, to recognise it: its name, bytes, pairs and sha256; `left_out`:
    how many malformed lines it has"""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, in order."""
        return tuple(pair for row in self.rows.values() for pair in row)

    def cells(self) -> dict[int, list[str]]:
        """Return the columns of each line that has pairs, by its number, in normal form C."""
        cells = {}
        for number, line in self.form.rows(self.lines):
            if number in self.rows:
                cells[number] = [composed(cell) for cell in self.form.split(line)]
        return cells

    def part(self, numbers: Sequence[int]) -> str:
        """Return the text of a file that has only these of the lines with pairs, below what
        precedes all of them, such as the header.
        """
        first = min([*self.rows, *self.problems])  # a malformed line does not count as a header
        lines = [*self.lines[: first - 1], *(self.lines[number - 1] for number in numbers)]
        return "".join(f"{line}\n" for line in lines)


def column_number(name: str, names: Texts, what: str) -> int:
    """Return the number of a column, from 1, by its name in a header. Raises `Seq2AttnError` if no
    column has this name, or several have it.

    name: in Unicode's normal form C, as a config has it. names: those in the header, in any form.
    what: the option that gave the name, for the message.
    """
    names = [composed(other) for other in names]
    if names.count(name) == 1:
        return names.index(name) + 1
    found, header = names.count(name), first_of(map(quoted, names))
    raise Seq2AttnError(f"{what}: {quoted(name)} names {found} columns; the header has {header}")
