"""What the columns of a file hold, judged by their contents and by the names in a header.

Imports no torch.
"""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from seq2attn.data.format import COLUMNS, Format, Texts

SAMPLE = 2000  # lines of a large file that are looked at
MOST_SHOWN = 40  # columns in one message
MOST_SYMBOLS = 1000  # text in short words has more kinds of them than any list of phones
ENOUGH = 0.8  # share of the lines that have the same number of columns
COMMENTS = ("#", ";;;", "//", "sep=")
PHONES = r"segments|tokens|phones?|phonemes?|ipa.*|phon.*|pron.*|transcription"
NAMED = (  # names of sources, and of their answers, in a header; those that decide most first
    (r"form|word|orth.*|graphemes?|spelling|headword|lemma|entry|text|written", PHONES),
    (r"lemma|base|root|stem|singular|infinitive", r"form|inflected.*|word|surface.*|plural"),
    (
        r"source|src|input|wrong|error|misspell.*|original|native.*",
        r"target|tgt|trg|output|correct.*|expected|translit.*|roman.*|latin|normali[sz]ed",
    ),
)
OTHER = r"id|.*_id|id_.*|.*_gloss|lang.*|pos|feat.*|.*name|count|freq.*|gloss|tags?|no|number"
NAME = "|".join([*(name for pair in NAMED for name in pair), OTHER])
FEATURES = r"feat.*|.*tags?|msd|morph.*|infl.*|gram.*"
TAG = r"[A-Z0-9_][\w.+:{}()\[\]/,=*;|-]*"  # V;PST, Case=Nom|Number=Sing
PLAIN = r"[A-Za-z][\w .()/-]*|"  # a name in a header


@dataclass(frozen=True)
class Columns:
    """The columns of a file."""

    form: Format
    """how its lines are split; its source and target are not chosen yet"""
    names: Texts
    """in the header; empty without one"""
    values: Sequence[Texts]
    """the cells of each column"""
    roles: Texts
    """of each column: words, segments (symbols with blanks between them), features, number, id,
    category (few different values) or empty"""

    def has(self, column: int | str) -> bool:
        """Return True if there is a column of this number or name."""
        return column in self.names if isinstance(column, str) else column <= self.form.width

    def __str__(self) -> str:
        shown = []
        for number, (role, cells) in enumerate(zip(self.roles, self.values, strict=True), 1):
            name = f" {self.names[number - 1]}" if self.names else ""
            example = next(filter(None, cells), "")
            shown.append(f"{number}{name} ({role}, such as {example[:20]!r})")
        return ", ".join(shown[:MOST_SHOWN] + ["..."] * (len(shown) > MOST_SHOWN))


def find_columns(filled: Texts, form: Format) -> Columns | None:
    """Split lines that are not blank, at least one, by the delimiter that gives the most of them
    the same number of columns; None if none does.
    """
    some = sample(without_comments(filled))
    plain = replace(form, source_column=1, target_column=2, features_column=None, columns=None)
    ways = []
    for delimiter in dict.fromkeys(f"{form.delimiter.strip(' ')}\t|;,"):
        candidate = replace(plain, delimiter=delimiter, strip=True, header=False)
        widths = Counter(len(candidate.split(line)) for line in some)
        width, count = widths.most_common(1)[0]
        share = round(count / len(some), 2) if width > 1 else 0
        usual = delimiter in (form.delimiter, "\t")  # of several, or the one with most columns
        ways.append((share, usual, width, replace(candidate, columns=width)))
    most, _, _, chosen = max(ways, key=lambda way: way[:3])
    if most < ENOUGH:  # a blank is the last resort: it must separate two kinds of symbols
        most = _symbols_after_word(some)
        chosen = replace(plain, delimiter=" ", columns=2, strip=True, header=False)
    if most < ENOUGH:
        return None
    chosen = replace(chosen, comment=form.comment or comment_sign(filled, chosen))
    rows = [chosen.split(line) for _, line in chosen.rows(filled)]
    rows = [row for row in rows if len(row) == chosen.width]
    names = rows[0] if chosen.delimiter != " " and is_header(rows[0], sample(rows[1:])) else []
    values = list(zip(*rows[bool(names) :], strict=True))
    roles = [role(sample(column)) for column in values]
    return Columns(replace(chosen, header=bool(names)), names, values, roles)


def without_comments(lines: Texts) -> Texts:
    """Return the lines that do not look like comments; all lines if all do."""
    return [line for line in lines if not line.startswith(COMMENTS)] or lines


def comment_sign(lines: Texts, form: Format) -> str:
    """Return the sign that begins comments; empty if none does, or if it is a symbol, too."""
    for sign in COMMENTS:
        begin = [line for line in lines if line.startswith(sign)]
        rows = [line for line in begin if line[len(sign) :][:1] not in (" ", "")]
        rows = [line for line in rows if len(form.split(line)) == form.width]
        inside = sum(f" {sign}" in line for line in lines)
        if len(begin) > len(rows) and inside < 0.2 * len(lines):
            return sign
    return ""


def _symbols_after_word(lines: Texts) -> float:
    """Return the share of lines of a word, a blank, and symbols of few kinds or in another
    script.
    """
    halves = [line.split(maxsplit=1) for line in lines if len(line.split()) > 1]
    symbols = {symbol for _, rest in halves for symbol in rest.split()}
    new = sum(word not in symbols for word, _ in halves)
    if is_segmented([rest for _, rest in halves]) and new > ENOUGH * len(halves):
        return len(halves) / len(lines)
    return sum("" != script(rest) != script(word) for word, rest in halves) / len(lines)


def script(text: str) -> str:
    """Return the script of a text's first letter, such as LATIN; empty if it has no letter."""
    return next((unicodedata.name(sign, "?").split()[0] for sign in text if sign.isalpha()), "")


def sample(values: Sequence[Any]) -> list[Any]:
    """Return some values in their order, the same ones each time: neither the first nor each n-th,
    since files are sorted, and have lines in turns.
    """
    chosen = random.Random(0).sample(range(len(values)), min(len(values), SAMPLE))
    return [values[index] for index in sorted(chosen)]


def share_of(pattern: str, texts: Texts) -> float:
    """Return the share of texts that match a pattern as a whole; 0 of none."""
    return sum(bool(re.fullmatch(pattern, text)) for text in texts) / max(1, len(texts))


# ---- what a column holds ----


def is_header(first: Texts, rows: Sequence[Texts]) -> bool:
    """Return True if the first row names the columns: the names are known ones, or unlike what
    stands below.
    """
    below = list(zip(*rows, strict=True)) or [()] * len(first)
    if any(name in cells for name, cells in zip(first, below, strict=True) if name):
        return False
    known = sum(is_name(NAME, name) for name in first)
    if known >= 0.5 * len(first):
        return True
    return share_of(PLAIN, first) == 1 and any(map(_is_unlike, first, below))


def _is_unlike(name: str, cells: Texts) -> bool:
    """Return True if a name is no value of its column: that has few values, numbers, other symbols,
    or another script.
    """
    if not name or len(cells) < 10:
        return False
    same = sum(script(cell) == script(name) for cell in cells)
    kind = role(cells)
    if kind == "segments":
        return not {symbol for cell in cells for symbol in cell.split()}.issuperset(name.split())
    return kind in ("number", "category", "features") or same < 0.1 * len(cells)


def is_segmented(texts: Texts, share: float = 0.9) -> bool:
    """Return True if this share of texts are symbols with blanks between them, such as phonemes."""
    longer = [text for text in texts if len(text) > 3] or texts
    symbols = [symbol for text in texts for symbol in text.split(" ")]
    return (
        sum(" " in text for text in longer) > share * len(longer)
        and sum(map(len, symbols)) < 3.2 * len(symbols)
        and len(set(symbols)) < min(0.2 * len(symbols) + 60, MOST_SYMBOLS)
    )


def role(cells: Texts) -> str:
    """Return what a column holds, as `Columns` says."""
    filled = [cell for cell in cells if cell not in ("", "_", "-")]
    kinds = len(set(filled))
    if not filled or len(filled) < 0.5 * len(cells):
        return "empty"
    if share_of(r"[-+]?\d([\d.,:%/ -]*[\d%])?(e-?\d+)?", filled) > 0.95:
        return "number"
    if is_segmented(filled):
        return "segments"
    has_digits = share_of(r".*\d.*", filled) > 0.9
    if share_of(r"https?:.*", filled) > 0.9 or (has_digits and kinds > 0.95 * len(filled)):
        return "id"
    parts = [part for cell in filled for part in re.split("[;|]", cell)]
    if (
        share_of(TAG, filled) > 0.95
        and 3 < len(set(parts)) < 0.2 * len(parts)
        and share_of("[^a-z]*|.*=.*", parts) > 0.5
    ):
        return "features"
    return "category" if kinds < min(60, 0.05 * len(filled)) else "words"


# ---- which column is what ----


def choose(found: Columns) -> tuple[dict[str, Any], bool]:
    """Choose source, target and features, as a `Format` names them; and say whether that is sure.
    Nothing is chosen if fewer than two columns hold words.
    """
    words = [at for at, role in enumerate(found.roles) if role in ("words", "segments")]
    tags = [at for at, role in enumerate(found.roles) if role == "features"]
    if found.names:
        tags = [at for at in tags if is_name(FEATURES, found.names[at])]
    sure = True
    chosen = _named(found, words)
    if chosen and not tags and is_one_of_many(*(found.values[at] for at in chosen)):
        chosen.reverse()
    if not chosen:
        if found.names:
            words = [at for at in words if not is_name(OTHER, found.names[at])]
        chosen = _different(found, words)
        if len(chosen) == 1 and "number" in found.roles and _has_parts(found.values[chosen[0]]):
            chosen = [found.roles.index("number"), *chosen]
        if len(chosen) < 2:
            return {}, False
        is_classified = any(is_name("label|class|score", name) for name in found.names)
        sure = len(chosen) == 2 and len(tags) < 2 and not is_classified
        if found.roles[chosen[0]] == "segments":
            chosen.reverse()
    columns: dict[str, Any] = {}
    for key, at in zip(COLUMNS, [*chosen[:2], *tags[:1]], strict=False):
        name = found.names[at] if found.names else ""
        columns[key] = name if name and [*found.names].count(name) == 1 else at + 1
    return columns, sure


def is_name(pattern: str, name: str) -> bool:
    """Return True if the name of a column matches a pattern, in whatever case."""
    return bool(re.fullmatch(pattern, name, re.IGNORECASE))


def _has_parts(texts: Texts) -> bool:
    """Return True if texts are built of the same few parts, as the names of numbers are."""
    few = sample(texts)[:300]
    parts = [text[at : at + 4] for text in few for at in range(len(text) - 3)]
    return len(set(parts)) < 0.3 * len(parts)


def _named(found: Columns, words: Sequence[int]) -> list[int]:
    """Return the columns that a header names as source and target; none if it does not."""
    for patterns in NAMED if found.names else ():
        chosen: list[int] = []
        for pattern in patterns:
            fits = [at for at in words if is_name(pattern, found.names[at])]
            chosen += [at for at in fits if at not in chosen][:1]
        if len(chosen) == 2:
            return chosen
    return []


def is_one_of_many(sources: Texts, targets: Texts) -> bool:
    """Return True if a source has several answers, and an answer one source, as a lemma has forms:
    they ask for the lemma.
    """
    kinds = len(set(zip(sources, targets, strict=True)))
    return kinds > 1.3 * len(set(sources)) and kinds < 1.15 * len(set(targets))


def _different(found: Columns, columns: Sequence[int]) -> list[int]:
    """Return the columns without those that repeat one before them, as CLDF's Form repeats
    Value.
    """
    kept: list[int] = []
    for at in columns:
        cells = found.values[at]
        same = [sum(map(str.__eq__, cells, found.values[other])) for other in kept]
        if max(same, default=0) < 0.9 * len(cells):
            kept.append(at)
    return kept
