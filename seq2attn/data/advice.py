"""What a file is whose lines cannot be read, and the options that read it: they are tried on all of
its lines before they are named.

Imports no torch.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from seq2attn.data.columns import (
    COMMENTS,
    Column,
    choose,
    find_columns,
    share_of,
    without_comments,
)
from seq2attn.data.format import COLUMN_KEYS, Format, Pair, Parsed, Texts
from seq2attn.data.warnings import Oddity, key_values, oddities, settings
from seq2attn.errors import Seq2AttnError
from seq2attn.text import first_of, quoted

MANY = 0.5  # share of malformed lines that show that a file has another format
BAD = 0.02  # share of malformed lines that may be left out
TRIES = 10  # oddities that follow from each other
MOST_COLUMNS = 40  # in one message
TO = "> words.tsv"
SIGN = r"(\|\|\||=>|->|::|=|:|~)"  # between two columns, for sed
ENCODINGS = ("CP1252", "ISO-8859-2", "CP1251", "EUC-JP", "CP932", "GB18030")
Kind = tuple[str, str, str, float, str]
"""a kind of file; patterns of its first line that is not a comment, and of its lines; the share of
lines that has to be exceeded by those of the second pattern; what helps"""
NOT_PAIRS: tuple[Kind, ...] = (  # here a byte that is not UTF-8 is a surrogate
    ("compressed", "\x1f\udc8b.*", ".*", 0, "First: gunzip FILE"),
    ("compressed", "\udcfd7zXZ.*", ".*", 0, "First: unxz FILE"),
    ("compressed", "BZh.*", ".*", 0, "First: bunzip2 FILE"),
    (
        "a spreadsheet",  # .xlsx or .ods, which are zip files; .xls
        r"PK\x03\x04.*(\[Content_Types|docProps|mimetype).*|\udcd0\udccf\x11.*",
        ".*",
        0,
        "First: save it as CSV, in UTF-8",
    ),
    ("compressed", "PK\x03\x04.*", ".*", 0, "First: unzip FILE"),
    (  # a character is two bytes, of which one is 0 in Latin letters, and in the tab of any script
        "UTF-16BE",
        "\0.*|(..)*\0\t.*",
        ".*\0.*",
        BAD,
        "First: iconv -f UTF-16BE -t UTF-8 FILE > utf8.txt",
    ),
    (
        "UTF-16LE",
        ".\0.*|(..)*\t\0.*",
        ".*\0.*",
        BAD,
        "First: iconv -f UTF-16LE -t UTF-8 FILE > utf8.txt",
    ),
    ("XML", r"<\?xml.*", ".*", 0.5, "a parser has to take the words out"),
    ("XML or HTML", r"\s*<[?!\w].*", r"\s*<.*", 0.5, "a parser has to take the words out"),
    (
        "JSON",
        r"\s*[\[{](?!')[^\t]*",
        r'\s*[\[\]{}"\d][^\t]*',
        0.9,
        f"choose two of its keys: jq -r '[.KEY, .OTHER] | @tsv' FILE {TO}",
    ),
    (
        "a file of fields with markers, as Toolbox writes it",
        r"\\\w+\s.*",
        r"\\\w+\b.*",
        0.9,
        r"choose two of its markers: awk -v OFS='\t' '/^\\KEY[ \t]/ {key = $0} "
        rf"/^\\OTHER[ \t]/ {{print key, $0}}' FILE | sed -E 's/\\\w+\s+//g' {TO}",
    ),
    ("interlinear glosses", r"\\\w+ .*", r"\\\w+\b.*", 0.5, "an example is several lines"),
    ("s-expressions", r"[(;\w].*", r"\s*[();][^\t]*", 0.9, "a script has to take the words out"),
    (
        "a treebank in CoNLL-U",
        r"1(-\d+)?\t.*",
        r"#.*|\d+([-.]\d+)?(\t[^\t]*){9}",
        0.95,
        "for forms, lemmas and features, each once: "
        f"awk -F '\\t' '$1 ~ /^[0-9]+$/ {{print $2 FS $3 FS $6}}' FILE | sort -u {TO}",
    ),
)
UNDIVIDED: tuple[Kind, ...] = (  # files whose lines no delimiter splits
    (
        "interlinear glosses",
        ".*",
        r".*\w\w[-=.]([A-Z]{2}|[1-3][A-Z]).*",  # eat-PST, go-3SG; not B-LOC, a tag of entities
        0.15,
        "choose two lines of each block between blank lines: "
        rf"awk -v RS= -F '\n' -v OFS='\t' '{{print $1, $2}}' FILE {TO}",
    ),
    (
        "a file with a sign between two columns",
        ".*",
        rf"((?!{SIGN}).)+{SIGN}((?!{SIGN}).)+",
        0.9,
        rf"sed -E 's/ *{SIGN} */\t/' FILE {TO}",
    ),
    (
        "a list of divided words",
        ".*",
        r"\w+([-·|=]\w+)+",
        0.3,
        "a word before each: "
        rf"""awk '{{w = $0; gsub(/[-·|=]/, "", w); print w "\t" $0}}' FILE {TO}""",
    ),
)


@dataclass
class Findings:
    """What is known of a file, and what to do."""

    kind: str
    notes: list[str]
    sure: bool = False
    """True if the options are all that is needed; False: the user has to decide"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """the fields of a `Format` that differ from the user's"""
    read: int = 0
    """lines that are then read"""
    examples: Sequence[Pair] = ()

    @property
    def settings(self) -> list[str]:
        """The options as `KEY=VALUE`, if they are all that is needed."""
        return key_values(self.options) if self.sure else []

    def __str__(self) -> str:
        lines = [f"It is {self.kind}.", *self.notes]
        if self.examples:
            shown = "; ".join(" -> ".join(map(quoted, pair)) for pair in self.examples)
            way = "" if self.sure else f" with {settings(self.options)}"
            lines.append(f"{self.read:,} lines are then read{way}, such as {shown}")
        return "\n".join(lines)


def examine(lines: Texts, form: Format, path: Path) -> Findings:
    """Find out what a file is, and which options read it.

    lines: all lines of the file. form: the user's own format, which is kept if it reads more than
    9 of 10 lines. path: of the file, for the commands that are advised.

    The first of these that fits is told: a kind of file that holds no pairs, such as XML; text that
    is not UTF-8; pairs in the user's format; a kind of file that no delimiter divides, such as
    glosses; columns, by their delimiter; one of two parallel files, or no file of pairs.
    """
    filled = [line for line in lines if line.strip()] or [""]  # one at least, for what follows
    if found := _recognised(NOT_PAIRS, filled, path) or _encoded(filled, path):
        return found
    # 0.8: 9 of 10 lines are read (0.9), minus the malformed one (0.1)
    if _net_read(lines, form) > 0.8 * len(filled):
        return _read_with(form, lines, own=form, kind="a file of pairs")
    divided = find_columns(filled, form)
    # Where a blank would be the delimiter, these may be sentences, and no columns.
    is_doubtful = divided is None or divided[0].delimiter == " "
    if is_doubtful and (found := _recognised(UNDIVIDED, without_comments(filled), path)):
        return found
    if divided is None:
        return _alone(lines, path)
    column_form, columns = divided
    return _with_columns(lines, form, column_form, columns)


def _with_columns(lines: Texts, own: Format, form: Format, columns: Sequence[Column]) -> Findings:
    """Find out which columns hold source, target and features, and read the lines with them: the
    columns that the user has named, if they are there; else those that the header or the contents
    point to. If these do not decide, the findings ask the user to choose.

    own: the user's format. form: how lines are split into `columns`.
    """
    kind = f"a file of {form.width} columns between {quoted(form.delimiter)}"
    shown = first_of(list(map(str, columns)), MOST_COLUMNS)
    present = set().union(*(column.keys for column in columns))
    named = own.differing()  # what the user has set, unless it is the default
    # the column of the source, the target and the features, as far as they are known
    wanted = {key: named[key] for key in COLUMN_KEYS if named.get(key) in present}
    if "source_column" not in wanted or "target_column" not in wanted:
        chosen, sure = choose(columns)
        if not chosen:
            return Findings(kind, [f"No two of them look like source and answer: {shown}"])
        if not sure:
            has_features = any(column.role == "features" for column in columns)
            keys = COLUMN_KEYS if has_features else COLUMN_KEYS[:2]
            ask = " ".join(["Choose", *(f"--set task.{key}=N" for key in keys)])
            return Findings(kind, [f"{ask}: {shown}"])
        source, target, *features = chosen
        if wanted.get("source_column") in target.keys or wanted.get("target_column") in source.keys:
            source, target = target, source  # the user's column is one of the two: keep its side
        # (there may be no features)
        found = zip(COLUMN_KEYS, [source, target, *features], strict=False)
        wanted = {key: column.key for key, column in found} | wanted  # what the user named counts
    is_by_name = any(isinstance(column, str) for column in wanted.values())
    # A column that is named implies a header: the option `header` would be one too many.
    form = replace(form, **wanted, header=form.header and not is_by_name)
    return _read_with(form, lines, own, kind)


def _net_read(lines: Texts, form: Format) -> int:
    """Return the number of lines that a format reads minus those that it cannot read."""
    try:
        parsed = form.parse_all(lines)
    except Seq2AttnError:  # its header lacks a column
        return -len(lines)
    return len(parsed.rows) - len(parsed.problems)


def _simplest(lines: Texts, own: Format, form: Format) -> tuple[Format, int]:
    """Return `form` adjusted to a file, and its `_net_read`: the lines read minus those malformed.

    It gets a sign of comments if that raises this number; and the user's `own` values of `columns`
    and `strip` if they do not lower it: the fewer options differ, the fewer the user has to set.
    """
    tries: list[dict[str, Any]] = []
    for sign in COMMENTS:
        if any(line.startswith(sign) or f" {sign}" in line for line in lines):
            tries.append({"comment": sign})
    tries += [{"columns": own.columns}, {"strip": own.strip}]
    form = replace(form, strip=True)  # reads the most lines, but many files do not need that
    most = _net_read(lines, form)
    for change in tries:
        changed = replace(form, **change)
        # a format that did not change is not tried again, since reading all lines takes time
        net = most if changed == form else _net_read(lines, changed)
        is_own = "comment" not in change
        if net > most or (net == most and is_own):
            form, most = changed, net
    return form, most


def _read_with(form: Format, lines: Texts, own: Format, kind: str) -> Findings:
    """Read all lines in a format that is first adjusted to them, and report how many are read, what
    is odd about them, and which of the user's `own` options have to change.

    kind: what the report calls the file. No options are named if they would not help: if more than
    `MANY` times as many lines are malformed as are read.
    """
    form, net = _simplest(lines, own, form)
    if net == -len(lines):  # not one line can be read, or the header lacks a column
        return Findings(kind, [])
    form, parsed, odd = _without_oddities(lines, form)
    notes = [f"Perhaps: {one.text}; {settings(one.changes)}" for one in odd if not one.sure]
    notes += [str(one) for one in odd if not one.changes]  # no option mends these
    bad, read = len(parsed.problems), len(parsed.rows)
    # sure: the user has nothing to decide, and few lines are malformed (3 even in a small file)
    sure = not notes and bad <= max(3, BAD * read)
    if bad:
        form = replace(form, skip_bad=bad)  # an option that the advice then names, too
        number, problem = min(parsed.problems.items())
        text = f"Malformed even so: {bad:,} of {len(lines):,} lines, such as line {number}"
        notes.append(f"{text}: {problem}: {quoted(lines[number - 1])}")
    if bad > MANY * read:  # the options are not the right ones
        return Findings(kind, notes)
    examples = parsed.pairs[:: read // 3 + 1][:3]  # from all over the file
    return Findings(kind, notes, sure, form.differing(own), read, examples)


def _without_oddities(lines: Texts, form: Format) -> tuple[Format, Parsed, list[Oddity]]:
    """Change the options that surely make pairs odd, such as the separator where blanks stand
    between symbols. Return the format, the lines read in it, and the oddities that are left.

    One change may reveal another oddity, so the lines are read again after each; at most `TRIES`
    times, in case two changes undo each other.
    """
    for _ in range(TRIES):
        parsed = form.parse_all(lines)
        odd = list(oddities(parsed.pairs, form)) if parsed.rows else []
        changes: dict[str, Any] = {}
        for one in odd:
            if one.sure:
                changes |= one.changes
        if not changes:
            break
        form = replace(form, **changes)
    return form, parsed, odd


# ---- files without columns ----


def _recognised(kinds: Sequence[Kind], lines: Texts, path: Path) -> Findings | None:
    """Return the first kind whose patterns a file fits, and what helps; None if it fits none."""
    first = next((line for line in lines if not line.startswith("#")), lines[0])
    for kind, head, body, share, help in kinds:
        if re.fullmatch(head, first) and share_of(body, lines) > share:
            return Findings(kind, [help.replace("FILE", _shell(path))])
    return None


def _encoded(lines: Texts, path: Path) -> Findings | None:
    """Show the first line that is not UTF-8 in each of the usual encodings, since only people know
    which is right. Return None if all lines are UTF-8, or all but a share below `BAD`.
    """
    # bytes that are not UTF-8 were read as surrogates
    broken = [line for line in lines if re.search("[\ud800-\udfff]", line)]
    if not broken or len(broken) < BAD * len(lines):
        return None
    data = broken[0].encode(errors="surrogateescape")  # the bytes that the file has
    shown = [f"{name}, {quoted(data.decode(name, 'replace'))}" for name in ENCODINGS]
    note = f"Which is right? {'; '.join(shown)}: iconv -f NAME -t UTF-8 {_shell(path)} > utf8.txt"
    return Findings("not UTF-8", [note])


def _alone(lines: Texts, path: Path) -> Findings:
    """Return what is known of a file whose lines no delimiter divides. A file beside it may have
    the answers, as `words.de` those to `words.en`, if it has the same name with another ending, and
    as many lines; without such a file, this is not a file of pairs.

    lines: all lines, blank ones counted: a parallel file has a line for each.
    """
    for other in path.parent.glob(f"{path.stem}.*"):
        if other != path and other.is_file() and _has_lines(other, len(lines)):
            note = f"If {other} has their answers: paste {_shell(path)} {_shell(other)} {TO}"
            return Findings("one of two parallel files", [note])
    return Findings("no file of pairs", ["No delimiter gives its lines equally many columns."])


def _has_lines(path: Path, count: int) -> bool:
    """Return whether a file can be read and has so many lines, without reading many more."""
    try:
        with path.open("rb") as file:
            return sum(1 for _ in islice(file, count + 1)) == count
    except OSError:
        return False


def _shell(path: Path) -> str:
    """Return a file's name as a shell reads it."""
    return shlex.quote(str(path))
