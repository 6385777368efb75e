"""What a file is whose lines cannot be read, and the options that read it: they are tried on all of
its lines before they are named.

Imports no torch.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seq2attn.data.columns import (
    Columns,
    choose,
    comment_sign,
    find_columns,
    share_of,
    without_comments,
)
from seq2attn.data.format import COLUMNS, Format, Pair, Texts
from seq2attn.data.warnings import as_value, oddities, settings
from seq2attn.text import quoted

MANY = 0.5  # share of malformed lines that show that a file has another format
BAD = 0.02  # share of malformed lines that may be left out
TRIES = 10  # oddities that follow from each other
TO = "> words.tsv"
SIGN = r"(\|\|\||=>|->|::|=|:|~)"  # between two columns, for sed
MAGIC = {b"\x1f\x8b": "gunzip", b"\xfd7zXZ": "unxz", b"BZh": "bunzip2", b"PK\x03\x04": "unzip"}
ENCODINGS = ("CP1252", "ISO-8859-2", "CP1251", "EUC-JP", "GB18030")
Kind = tuple[str, str, str, float, str]
"""a kind of file, what its first line that is no comment and more than a share of all lines look
like, what helps"""
UNLIKE: tuple[Kind, ...] = (  # files of pairs
    ("XML", r"<\?xml.*", ".*", 0.5, "a parser has to take the words out"),
    ("XML or HTML", r"\s*<[?!\w].*", r"\s*<.*", 0.5, "a parser has to take the words out"),
    (
        "JSON",
        r"\s*[\[{](?!')[^\t]*",
        r'\s*[\[\]{}"\d][^\t]*',
        0.9,
        f"choose two of its keys: jq -r '[.KEY, .OTHER] | @tsv' FILE {TO}",
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
        options = self.options.items() if self.sure else ()
        return [f"task.{name}={as_value(value)}" for name, value in options]

    def __str__(self) -> str:
        lines = [f"It is {self.kind}.", *self.notes]
        if self.examples:
            shown = "; ".join(" -> ".join(map(quoted, pair)) for pair in self.examples)
            way = "" if self.sure else f" with {settings(self.options)}"
            lines.append(f"{self.read:,} lines are then read{way}, such as {shown}")
        return "\n".join(lines)


def examine(lines: Texts, form: Format, path: Path) -> Findings:
    """Find out what a file is, and which options read it, beginning with the user's own."""
    filled = [line for line in lines if line.strip()] or [""]
    if found := _encoded(filled, path) or _recognised(UNLIKE, filled, path):
        return found
    if -_cost(lines, form) > 0.8 * len(filled):
        return _tried(lines, form, form, "a file of pairs")
    columns = find_columns(filled, form)
    if columns is None or columns.form.delimiter == " ":
        undivided = _recognised(UNDIVIDED, without_comments(filled), path)
        if undivided or columns is None:
            return undivided or _alone(filled, path)
    kind = f"a file of {columns.form.width} columns between {quoted(columns.form.delimiter)}"
    own = {key: value for key, value in vars(form).items() if value != getattr(Format(), key)}
    mine = {key: own[key] for key in COLUMNS if key in own}
    wanted: dict[str, Any] = {key: name for key, name in mine.items() if columns.has(name)}
    if not wanted.keys() >= set(COLUMNS[:2]):
        chosen, sure = choose(columns)
        if not chosen:
            return Findings(kind, [f"No two of them hold words: {columns}"])
        if not sure:
            keys = COLUMNS if "features" in columns.roles else COLUMNS[:2]
            ask = " ".join(["Choose", *(f"--set task.{key}=N" for key in keys)])
            return Findings(kind, [f"{ask}: {columns}"])
        wanted = chosen | wanted
    return _tried(lines, form, _with_columns(columns, wanted), kind)


def _with_columns(columns: Columns, wanted: Mapping[str, Any]) -> Format:
    """Return the format that reads the wanted columns."""
    form = replace(columns.form, **wanted)
    if columns.names or replace(form, columns=None).width == form.columns:
        form = replace(form, columns=None)  # the header, or the last column, says how many
    return replace(form, header=bool(columns.names) and not replace(form, header=False).has_header)


def _cost(lines: Texts, form: Format) -> int:
    """Return how many more lines a format does not read than it reads."""
    try:
        parsed = form.parse_all(lines)
    except ValueError:
        return len(lines)
    return len(parsed.problems) - len(parsed.rows)


def _tried(lines: Texts, own: Format, form: Format, kind: str) -> Findings:
    """Read all lines, with what ends each oddity of their pairs, and note what differs from the
    user's own format.
    """
    comments = dict.fromkeys([form.comment, form.comment or comment_sign(lines, form)])
    ways = [
        replace(form, comment=sign, strip=strip) for sign in comments for strip in (own.strip, True)
    ]
    form = min(ways, key=lambda way: _cost(lines, way))  # the first of equals
    if _cost(lines, form) == len(lines):
        return Findings(kind, [])
    for _ in range(TRIES):
        parsed = form.parse_all(lines)
        odd = list(oddities(parsed.pairs, form)) if parsed.rows else []
        changes = {name: value for one in odd if one.sure for name, value in one.changes.items()}
        if not changes:
            break
        form = replace(form, **changes)
    notes = [f"Perhaps: {one.text}; {settings(one.changes)}" for one in odd if not one.sure]
    bad, read = len(parsed.problems), len(parsed.rows)
    sure = not notes and bad <= max(3, BAD * read)
    notes += [str(one) for one in odd if not one.changes]
    if bad:
        form = replace(form, skip_bad=bad)
        at, problem = min(parsed.problems.items())
        text = f"Malformed even so: {bad:,} of {len(lines):,} lines, such as line {at}"
        notes.append(f"{text}: {problem}: {quoted(lines[at - 1])}")
    if bad > MANY * read:
        return Findings(kind, notes)
    options = {key: value for key, value in vars(form).items() if value != getattr(own, key)}
    return Findings(kind, notes, sure, options, read, parsed.pairs[:: read // 3 + 1][:3])


# ---- files without columns ----


def _recognised(kinds: Sequence[Kind], lines: Texts, path: Path) -> Findings | None:
    """Return the kind that a file looks like, and what helps."""
    first = next((line for line in lines if not line.startswith("#")), lines[0])
    for kind, head, line, share, help in kinds:
        if re.fullmatch(head, first) and share_of(line, lines) > share:
            return Findings(kind, [help.replace("FILE", str(path))])
    return None


def _encoded(lines: Texts, path: Path) -> Findings | None:
    """Recognise compressed files and other encodings."""
    first = lines[0].encode(errors="surrogateescape")
    for magic, command in MAGIC.items():
        if first.startswith(magic):
            return Findings("compressed", [f"First: {command} {path}"])
    broken = [line for line in lines if re.search("[\0\ud800-\udfff]", line)]
    if len(broken) < BAD * len(lines) or not broken:
        return None
    if "\0" in lines[0]:
        note = f"Without a byte order mark: iconv -f UTF-16LE -t UTF-8 {path} > utf8.txt"
        return Findings("UTF-16", [note])
    data = broken[0].encode(errors="surrogateescape")
    shown = [f"{name}, {quoted(data.decode(name, 'replace'))}" for name in ENCODINGS]
    note = f"Which is right? {'; '.join(shown)}: iconv -f NAME -t UTF-8 {path} > utf8.txt"
    return Findings("not UTF-8", [note])


def _alone(lines: Texts, path: Path) -> Findings:
    """Look for a parallel file, with a similar name and as many lines."""
    for other in path.parent.glob(f"{path.stem}.*"):
        if other != path and other.is_file() and other.read_bytes().count(b"\n") == len(lines):
            note = f"If {other} has their answers: paste {path} {other} {TO}"
            return Findings("one of two parallel files", [note])
    return Findings("no file of pairs", ["No delimiter gives its lines equally many columns."])
