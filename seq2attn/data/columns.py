"""What the columns of a file hold, judged by their contents and by the names in a header.

Imports no torch.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from seq2attn.data.format import Format, Texts

SAMPLE = 2000  # lines of a large file that are looked at
ENOUGH = 0.8  # share of the lines that have the same number of columns
PHONES = r"segments|tokens|phones?|phonemes?|ipa.*|phon.*|pron.*|transcription"
NAMED = (  # names of sources, and of their answers, in a header; those that decide most first
    (r"form|word|orth.*|graphemes?|spelling|headword|lemma|entry|text|written", PHONES),
    (r"lemma|base|root|stem|singular|infinitive", r"form|inflected.*|word|surface.*|plural"),
    (
        r"source|src|input|wrong|error|misspell.*|original|native.*",
        r"target|tgt|trg|output|correct.*|expected|translit.*|roman.*|latin|normali[sz]ed",
    ),
)
OTHER = (  # names of columns that are neither sources nor answers; in CLDF, Form repeats Value
    "id|.*_id|id_.*|.*_gloss|lang.*|pos|feat.*|.*name|count|freq.*|gloss|tags?|no|number|value|"
    "(.*_)?cog.*"
)
NAME = "|".join([*chain(*NAMED), OTHER])
# of features; or no name, without a header
FEATURES = r"|feat.*|.*tags?|msd|morph.*|infl.*|gram.*"
TAG = r"([A-Z0-9_]|[a-z]+=)[\w.+:{}()\[\]/,=*;|-]*"  # V;PST, Case=Nom|Number=Sing, case=nom
NUMBER = r"[-+]?\d([\d.,:%/ -]*[\d%])?(e-?\d+)?"  # also 1,000.5 and 50%, 3/5/1998, and times


class Column(NamedTuple):
    """One column of a file."""

    number: int
    """from 1"""
    name: str
    """in the header; empty without one"""
    cells: Texts
    role: str
    """what it holds: words, segments (symbols with blanks between them), features, or other things
    such as numbers"""

    @property
    def key(self) -> int | str:
        """What a `Format` calls the column."""
        return self.name or self.number

    def __str__(self) -> str:
        label = f"{self.number} {self.name}".rstrip()
        example = next(filter(None, self.cells), "")
        return f"{label} ({self.role}, such as {example[:20]!r})"


def find_columns(lines: Texts, form: Format) -> tuple[Format, list[Column]] | None:
    """Return the format that splits the lines into columns, and these columns; None if no delimiter
    gives most of the lines the same number of columns. The format has a header if at least half of
    the fields of the first line are usual names of columns.

    lines: those that are neither blank nor comments, at least one. form: the user's own format. The
    columns that it names are ignored: the file may lack them.
    """
    form = replace(form, source_column=1, target_column=2, features_column=None, columns=None)
    found = _delimited(sample(lines), form)
    if found is None:
        return None
    # at least one row, as most lines have this width
    rows = [fields for fields in map(found.split, lines) if len(fields) == found.width]
    header = sum(is_name(NAME, name) for name in rows[0]) >= 0.5 * found.width
    names = rows.pop(0) if header else [""] * found.width
    columns = []
    for number, (name, *cells) in enumerate(zip(names, *rows, strict=True), start=1):
        columns.append(Column(number, name, cells, role(sample(cells))))
    return replace(found, header=header), columns


def _delimited(lines: Texts, form: Format) -> Format | None:
    """Return the format with a delimiter, a usual one or its own, that gives at least `ENOUGH` of
    the lines the same number of columns: a tab, or else the one that gives most columns; None if
    there is none.

    A blank is tried last, since sentences have blanks, too: it divides words from their symbols
    only.
    """
    found = []
    for delimiter in ("\t", "|", ";", ",", "=", ":", form.delimiter):
        candidate = replace(form, delimiter=delimiter)
        width, count = Counter(len(candidate.split(line)) for line in lines).most_common(1)[0]
        if width > 1 and count >= ENOUGH * len(lines):
            found.append(replace(candidate, columns=width))
    if not found and _are_symbols_after_words(lines):
        found.append(replace(form, delimiter=" ", columns=2))
    return max(found, key=lambda one: (one.delimiter == "\t", one.width), default=None)


def _are_symbols_after_words(lines: Texts) -> bool:
    """Return True if the first blank of most lines divides a word from its symbols, such as `cat K
    AE T`: few different symbols occur in all lines together, and not equally many in nearly every
    line, as tags after a word do.
    """
    rests = list(filter(None, (line.strip().partition(" ")[2] for line in lines)))
    counts = Counter(len(rest.split()) for rest in rests)  # of symbols -> lines
    are_tags = max(counts.values(), default=0) > 0.95 * len(rests)
    return len(rests) > ENOUGH * len(lines) and is_segmented(rests) and not are_tags


def sample(values: Sequence[Any]) -> list[Any]:
    """Return some values, the same ones each time: neither the first nor each n-th, since files are
    sorted, and have lines in turns.
    """
    return random.Random(0).sample(values, min(len(values), SAMPLE))


def parts_of(texts: Texts, separator: str) -> list[str]:
    """Return what a separator divides, of all texts together."""
    return list(chain.from_iterable(text.split(separator) for text in texts))


def share_of(pattern: str, texts: Texts) -> float:
    """Return the share of texts that match a pattern as a whole; 0 of none."""
    return sum(bool(re.fullmatch(pattern, text)) for text in texts) / max(1, len(texts))


# ---- what a column holds ----


def is_name(pattern: str, name: str) -> bool:
    """Return True if the name of a column matches a pattern, in whatever case."""
    return bool(re.fullmatch(pattern, name, re.IGNORECASE))


def is_segmented(texts: Texts) -> bool:
    """Return True if most texts are symbols with blanks between them, such as phonemes, and not
    words of a language: symbols are short, and few of them are different.

    The limits are rules of thumb: `AA0 NG1` has 3 characters a symbol, words have 4 or more.
    """
    longer = [text for text in texts if len(text) > 3] or texts  # a shorter one may be one symbol
    symbols = parts_of(texts, " ")
    have_blanks = sum(" " in text for text in longer) > 0.9 * len(longer)
    are_short = sum(map(len, symbols)) < 3.2 * len(symbols)
    # Each symbol occurs 5 times or more, on average; but in a small file (60), few of them recur.
    # Text in short words has more kinds of them than any list of phones (1000).
    are_few = len(set(symbols)) < min(0.2 * len(symbols) + 60, 1000)
    return have_blanks and are_short and are_few


def role(cells: Texts) -> str:
    """Return what a column holds: segments, features, words, or other things: nothing, numbers,
    identifiers, a few categories. The limits are rules of thumb, and allow for some odd cells.
    """
    filled = [cell for cell in cells if cell not in ("", "_", "-")]  # signs of an empty cell
    if len(filled) <= 0.5 * len(cells) or share_of(NUMBER, filled) > 0.95:
        return "other"
    if is_segmented(filled):
        return "segments"
    # V;PST or Case=Nom|Number=Sing: parts begin with a capital or have a value, and recur; only
    # three different ones, such as M, F and N, are a category
    parts = re.split("[;|,]", ";".join(filled))
    if share_of(TAG, filled) > 0.95 and 3 < len(set(parts)) < 0.2 * len(parts):
        return "features"
    # identifiers have digits or are web addresses, and nearly every cell is different
    different = len(set(filled))
    is_id = share_of(r".*\d.*|https?:.*", filled) > 0.9 and different > 0.95 * len(filled)
    # a category has fewer different values than 60, and than 5 % of its cells, or in a small file
    # than 20 % or 4, whichever is less
    few = max(0.05 * len(filled), min(4, 0.2 * len(filled)))
    return "other" if is_id or different < min(60, few) else "words"


def choose(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of source, target and, if there are some, features: those that a header
    names (the first if it names several), or else the only two that hold words or symbols, of which
    symbols are the answer to words. The list is empty if the user has to choose.
    """
    words, tags = [], []
    for column in columns:
        if column.role in ("words", "segments") and not is_name(OTHER, column.name):
            words.append(column)
        elif column.role == "features" and is_name(FEATURES, column.name):
            tags.append(column)
    if len(tags) > 1:
        return []
    for source_names, target_names in NAMED:
        sources = [column for column in words if is_name(source_names, column.name)]
        targets = [column for column in words if is_name(target_names, column.name)]
        if sources and targets:
            return [sources[0], targets[0], *tags]
    if len(words) != 2:
        return []
    return sorted(words, key=lambda column: column.role == "segments") + tags
