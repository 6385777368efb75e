"""What the columns of a file hold, judged by their contents and by the names in a header.

Imports no torch.
"""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from seq2attn.data.format import Format, Texts

SAMPLE = 2000  # lines of a large file that are looked at
MOST_SYMBOLS = 1000  # text in short words has more kinds of them than any list of phones
ENOUGH = 0.8  # share of the lines that have the same number of columns
COMMENTS = ("#", ";;;", "//", "sep=")
PHONES = r"segments|tokens|phones?|phonemes?|ipa.*|phon.*|pron.*|transcription"
LEMMAS = r"lemma|base|root|stem|singular|infinitive", r"form|inflected.*|word|surface.*|plural"
NAMED = (  # names of sources, and of their answers, in a header; those that decide most first
    (r"form|word|orth.*|graphemes?|spelling|headword|lemma|entry|text|written", PHONES),
    LEMMAS,
    (
        r"source|src|input|wrong|error|misspell.*|original|native.*",
        r"target|tgt|trg|output|correct.*|expected|translit.*|roman.*|latin|normali[sz]ed",
    ),
)
COGNATES = "(.*_)?cog.*"  # forms beside them are rarely each other's answers
OTHER = (  # names of columns that are neither sources nor answers
    "id|.*_id|id_.*|.*_gloss|lang.*|pos|feat.*|.*name|count|freq.*|gloss|tags?|no|number|"
    + COGNATES
)
NAME = "|".join([*(name for pair in NAMED for name in pair), OTHER])
# of features; or no name, without a header
FEATURES = r"|feat.*|.*tags?|msd|morph.*|infl.*|gram.*"
TAG = r"([A-Z0-9_]|[a-z]+=)[\w.+:{}()\[\]/,=*;|-]*"  # V;PST, Case=Nom|Number=Sing, case=nom
PLAIN = r"[A-Za-z][\w .()/-]*|"  # a name in a header


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a file."""

    number: int
    """from 1"""
    name: str
    """in the header; empty without one, or if another column has the same"""
    cells: Texts
    role: str
    """what it holds: words, segments (symbols with blanks between them), features, number, id,
    category (few different values) or empty"""

    @property
    def keys(self) -> tuple[int | str, ...]:
        """What a `Format` may call the column."""
        return (self.name, self.number) if self.name else (self.number,)

    @property
    def key(self) -> int | str:
        """What a `Format` calls the column, its name if it has one."""
        return self.keys[0]

    def __str__(self) -> str:
        label = f"{self.number} {self.name}".rstrip()
        example = next(filter(None, self.cells), "")
        return f"{label} ({self.role}, such as {example[:20]!r})"


def find_columns(filled: Texts, form: Format) -> tuple[Format, list[Column]] | None:
    """Return the format that splits the lines into columns, with `header` if the first one names
    them, and these columns; None if no delimiter gives most of the lines the same number of
    columns.

    filled: the lines that are not blank, at least one. form: the user's own format. The columns
    that it names are ignored: the file may lack them.
    """
    form = replace(form, source_column=1, target_column=2, features_column=None, columns=None)
    lines = without_comments(filled)
    # strip: a blank before a quotation mark would hide it, and cells are compared
    found = _delimited(sample(lines), replace(form, strip=True))
    if found is None:
        return None
    # at least one row, as most lines have this width
    rows = [fields for fields in map(found.split, lines) if len(fields) == found.width]
    # A blank divides a word from its symbols, and such files have no header.
    header = found.delimiter != " " and is_header(rows[0], sample(rows[1:]))
    names = rows.pop(0) if header else [""] * found.width
    columns = []
    for number, (name, *cells) in enumerate(zip(names, *rows, strict=True), start=1):
        unique = name if names.count(name) == 1 else ""  # a name that recurs points to no column
        columns.append(Column(number, unique, cells, role(sample(cells))))
    return replace(found, header=header), columns


def _delimited(lines: Texts, form: Format) -> Format | None:
    """Return the format with the delimiter that gives the most lines the same number of columns;
    on a tie, the user's own or a tab, and then the one that gives most columns. None if fewer than
    `ENOUGH` of the lines agree.

    A blank comes last, since sentences have blanks, too: it divides words from their symbols only.
    """
    best: tuple[float, bool, int] = (0, False, 0)
    found: Format | None = None
    for delimiter in (form.delimiter, "\t", "|", ";", ","):
        if delimiter == " ":  # the user's own: it comes last
            continue
        candidate = replace(form, delimiter=delimiter)
        widths = Counter(len(candidate.split(line)) for line in lines)
        width, count = widths.most_common(1)[0]
        is_usual = delimiter in (form.delimiter, "\t")
        # compared in this order; rounded, so that nearly as many lines are as many
        fit = round(count / len(lines), 2), is_usual, width
        if width > 1 and fit > best:
            best, found = fit, replace(candidate, columns=width)
    share_of_lines = best[0]
    if share_of_lines >= ENOUGH:
        return found
    if _symbols_after_word(lines) >= ENOUGH:
        return replace(form, delimiter=" ", columns=2)
    return None


def without_comments(lines: Texts) -> Texts:
    """Return the lines that do not look like comments; a blank one if all do."""
    return [line for line in lines if not line.startswith(COMMENTS)] or [""]


def _symbols_after_word(lines: Texts) -> float:
    """Return the share of lines in which the first blank divides a word from its symbols, such as
    `cat K AE T`. If the rests of the lines are not symbols, return the share of lines whose rest is
    in another script than the word, such as `cat кат`.

    Symbols are few different ones in all lines together, hardly any word is one of them, and they
    do not stand in columns, as tags do.
    """
    words, rests, in_two_scripts = [], [], 0
    for line in lines:
        parts = line.split(maxsplit=1)
        if len(parts) == 2:
            word, rest = parts
            words.append(word)
            rests.append(rest)
            in_two_scripts += script(rest) not in ("", script(word))  # "": it has no letter
    symbols = set(parts_of(rests))
    not_symbols = sum(word not in symbols for word in words)
    if is_segmented(rests) and not _is_table(rests) and not_symbols > ENOUGH * len(words):
        return len(words) / len(lines)
    return in_two_scripts / len(lines)


def _is_table(lines: Texts) -> bool:
    """Return True if blanks separate columns, such as tags after a word, and not symbols: lines
    have equally many parts, and a part rarely occurs in more than one column.
    """
    rows = [line.split() for line in lines]
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if count <= 0.95 * len(rows):  # lines differ in their parts, as words do in their symbols
        return False
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    values = [set(column) for column in columns]
    different = set().union(*values)
    # The two numbers are equal if no value is in two columns; symbols recur in nearly all of them.
    return sum(map(len, values)) < 1.5 * len(different)


def script(text: str) -> str:
    """Return the script of a text's first letter, such as LATIN; empty if it has no letter."""
    return next((unicodedata.name(sign, "?").split()[0] for sign in text if sign.isalpha()), "")


def sample(values: Sequence[Any]) -> list[Any]:
    """Return some values in their order, the same ones each time: neither the first nor each n-th,
    since files are sorted, and have lines in turns.
    """
    chosen = random.Random(0).sample(range(len(values)), min(len(values), SAMPLE))
    return [values[index] for index in sorted(chosen)]


def parts_of(texts: Texts, separator: str | None = None) -> list[str]:
    """Return the parts of all texts, by default what blanks separate."""
    return list(chain.from_iterable(text.split(separator) for text in texts))


def share_of(pattern: str, texts: Texts) -> float:
    """Return the share of texts that match a pattern as a whole; 0 of none."""
    return sum(bool(re.fullmatch(pattern, text)) for text in texts) / max(1, len(texts))


# ---- what a column holds ----


def is_header(first: Texts, rows: Sequence[Texts]) -> bool:
    """Return True if the first row names the columns: at least half of its cells are known names;
    or all of them look like names, and at least one is unlike what stands below it.

    rows: some of those below the first.
    """
    known = sum(is_name(NAME, name) for name in first)
    if known >= 0.5 * len(first):
        return True
    below = zip(*rows, strict=True)
    return share_of(PLAIN, first) == 1 and any(map(_is_unlike, first, below))


def _is_unlike(name: str, cells: Texts) -> bool:
    """Return True if a word in the first row is the name of its column and not a value: the cells
    below are numbers, features or a few values, or have other symbols or another script.

    name: the word, of letters and no number (`PLAIN`), or empty. cells: those below it.
    """
    # It names nothing, or is a value that recurs; or chance may make it unlike a few cells.
    if not name or name in cells or len(cells) < 10:
        return False
    kind = role(cells)
    if kind == "segments":
        return not set(name.split()).issubset(parts_of(cells))
    same_script = sum(script(cell) == script(name) for cell in cells)
    return kind in ("number", "category", "features") or same_script < 0.1 * len(cells)


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
    are_few = len(set(symbols)) < min(0.2 * len(symbols) + 60, MOST_SYMBOLS)
    return have_blanks and are_short and are_few


def role(cells: Texts) -> str:
    """Return what a column holds: the first role of these that fits: empty, number, segments, id,
    features, category, words. The limits are rules of thumb, and allow for some odd cells.
    """
    filled = [cell for cell in cells if cell not in ("", "_", "-")]  # signs of an empty cell
    different = len(set(filled))
    if not filled or len(filled) < 0.5 * len(cells):
        return "empty"
    # also 1,000.5 and 50%, dates such as 3/5/1998, and times
    if share_of(r"[-+]?\d([\d.,:%/ -]*[\d%])?(e-?\d+)?", filled) > 0.95:
        return "number"
    if is_segmented(filled):
        return "segments"
    # web addresses; or digits in nearly every cell, and nearly every cell different
    has_digits = share_of(r".*\d.*", filled) > 0.9
    if share_of(r"https?:.*", filled) > 0.9 or (has_digits and different > 0.95 * len(filled)):
        return "id"
    # V;PST or Case=Nom|Number=Sing: parts are in capitals or have a value, and recur; only three
    # different ones, such as M, F and N, are a category
    parts = re.split("[;|,]", ";".join(filled))
    if (
        share_of(TAG, filled) > 0.95
        and 3 < len(set(parts)) < 0.2 * len(parts)
        and share_of("[^a-z]*|.*=.*", parts) > 0.5
    ):
        return "features"
    # a category has fewer different values than 5 % of its cells; in a small file, than 20 % or
    # than 4, whichever is less
    few = max(0.05 * len(filled), min(4, 0.2 * len(filled)))
    return "category" if different < min(60, few) else "words"


# ---- which column is what ----


def choose(columns: Sequence[Column]) -> tuple[list[Column], bool]:
    """Return the columns of source, target and, if there are some, features; and whether that is
    sure: if not, the user has to choose. No columns are returned if fewer than two different ones
    hold words or symbols.

    Where a header does not decide, symbols are the answer to words.
    """
    words, tags = [], []
    for column in columns:
        if column.role in ("words", "segments") and not is_name(OTHER, column.name):
            words.append(column)
        elif column.role == "features" and is_name(FEATURES, column.name):
            tags.append(column)
    if chosen := _named(words, has_features=bool(tags)):
        return [*chosen, *tags[:1]], True

    # the header does not say it
    chosen = _different(words)
    if len(chosen) < 2:
        return [], False
    if chosen[0].role == "segments":  # they are the answer, so they come second
        chosen.reverse()  # (of more than two, the user is asked, whatever their order)
    # Beside a column of one of these names, two words may be compared, neither the other's answer.
    is_classified = any(is_name(f"label|class|score|{COGNATES}", column.name) for column in columns)
    sure = len(chosen) == 2 and len(tags) < 2 and not is_classified
    return [*chosen[:2], *tags[:1]], sure


def is_name(pattern: str, name: str) -> bool:
    """Return True if the name of a column matches a pattern, in whatever case."""
    return bool(re.fullmatch(pattern, name, re.IGNORECASE))


def _named(words: Sequence[Column], *, has_features: bool) -> list[Column]:
    """Return the columns that a header names as source and target, in this order; none if it does
    not.

    words: the columns of words or symbols. has_features: the file also has a column of features.
    """
    for source_names, target_names in NAMED:
        sources = [column for column in words if is_name(source_names, column.name)][:1]
        others = [column for column in words if column not in sources]
        targets = [column for column in others if is_name(target_names, column.name)][:1]
        if not sources or not targets:
            continue
        # A lemma has many forms, unless features say which, but a form has one lemma: then the
        # forms are the sources.
        is_lemma = (source_names, target_names) == LEMMAS and not has_features
        if is_lemma and is_one_of_many(sources[0].cells, targets[0].cells):
            return targets + sources
        return sources + targets
    return []


def is_one_of_many(sources: Texts, targets: Texts) -> bool:
    """Return True if most sources have several answers, but most answers one source, as lemmas and
    their forms: it is better to ask for the source.
    """
    different = len(set(zip(sources, targets, strict=True)))
    # More than 1.3 answers to a source, and fewer than 1.15 sources of an answer, on average.
    return different > 1.3 * len(set(sources)) and different < 1.15 * len(set(targets))


def _different(columns: Sequence[Column]) -> list[Column]:
    """Return the columns without those that repeat an earlier one in most lines, as in files of
    CLDF the column Form repeats Value.
    """
    kept: list[Column] = []
    for column in columns:
        if not any(_is_repeated(column.cells, other.cells) for other in kept):
            kept.append(column)
    return kept


def _is_repeated(cells: Texts, others: Texts) -> bool:
    equal = sum(map(str.__eq__, cells, others))
    return equal >= 0.9 * len(cells)
