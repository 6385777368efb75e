"""What a file is whose lines cannot be read, and the options that read it: they are tried on all of
its lines before they are named.

Imports no torch.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2attn.data.columns import choose, find_columns, share_of
from seq2attn.data.format import COLUMN_KEYS, Format, PairFile, Texts
from seq2attn.data.warnings import key_values, oddities, settings
from seq2attn.errors import first_of, quoted

BAD = 0.02  # share of malformed lines that may be left out
MOST_COLUMNS = 40  # in one message
COMMENT = re.compile("# |;;;|//|sep=")  # at the beginning of a line
CHOOSE = (
    "Choose --set task.source_column=N --set task.target_column=N, and --set "
    "task.features_column=N for features, if there are any"
)
TO = "> words.tsv"
UNDIVIDED = (
    "No delimiter gives its lines equally many columns. If another file has the answers, line by "
    f"line: paste FILE OTHER {TO}"
)
Advice = tuple[str, list[str]]
"""what a file is, and what to do; the options, as `KEY=VALUE`, if they are all that is needed"""
Kind = tuple[str, str, str, float, str]
"""a kind of file; patterns of its first line and of its lines; the share of lines that has to be
exceeded by those of the second pattern; what helps"""
KINDS: tuple[Kind, ...] = (  # a byte that is not UTF-8 is a surrogate
    (
        "a compressed file or a spreadsheet",  # .gz, .xz, .bz2, .zip (as .xlsx and .ods are), .xls
        "\x1f\udc8b.*|\udcfd7zXZ.*|BZh.*|PK\x03\x04.*|\udcd0\udccf\x11.*",
        ".*",
        0,
        "First: save a spreadsheet as CSV, in UTF-8; otherwise gunzip, unxz, bunzip2 or unzip FILE",
    ),
    (  # a character is two bytes, of which one is 0 in Latin letters, and in the tab of any script
        "UTF-16 without a byte order mark",
        "\0.*|.\0.*|(..)*(\0\t|\t\0).*",
        ".*",
        0,
        "First: iconv -f UTF-16LE -t UTF-8 FILE > utf8.txt, or the same with UTF-16BE",
    ),
    (
        "not UTF-8",
        ".*",
        ".*[\ud800-\udfff].*",
        BAD,
        "First: iconv -f NAME -t UTF-8 FILE > utf8.txt. NAME is its encoding: CP1252 in Western "
        "Europe, ISO-8859-2 in Central Europe, CP1251 for Cyrillic, EUC-JP or CP932 for Japanese, "
        "GB18030 for Chinese, ...",
    ),
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
    (
        "a treebank in CoNLL-U",
        r"1(-\d+)?\t.*",
        r"\d+([-.]\d+)?(\t[^\t]*){9}",
        0.95,
        "for forms, lemmas and features, each once: "
        f"awk -F '\\t' '$1 ~ /^[0-9]+$/ {{print $2 FS $3 FS $6}}' FILE | sort -u {TO}",
    ),
    (
        "interlinear glosses",
        ".*",
        r"[^\t]*\w\w[-=.]([A-Z]{2}|[1-3][A-Z])[^\t]*",  # eat-PST, go-3SG; not B-LOC
        0.15,
        "choose two lines of each block between blank lines: "
        rf"awk -v RS= -F '\n' -v OFS='\t' '{{print $1, $2}}' FILE {TO}",
    ),
)


def examine(lines: Texts, own: Format, path: Path) -> Advice:
    """Find out what a file is, and which options read it. Return both as a text for the user, and
    the options as `KEY=VALUE`, if these are all that is needed; otherwise none.

    lines: all lines of the file. own: the user's format, which is kept if it reads more than 9 of
    10 lines. path: of the file, for the commands that are advised.

    The first of these that fits is told: a kind of file without columns, such as XML or glosses;
    pairs in the user's format; columns, by their delimiter; or no file of pairs. The columns of
    source, target and features are those that the user has set, if source and target are; else
    those that the header or the contents point to; if these do not decide, the user is asked.
    """
    form, name = own, shlex.quote(str(path))
    # comments begin as the first line that looks like one does, such as with `//`, unless the user
    # has said how
    sign = next(filter(None, map(COMMENT.match, lines)), None)
    if sign and not own.comment:
        form = replace(own, comment=sign[0].strip())
    filled = [line for _, line in form.rows(lines)] or [""]  # one at least, for what follows
    for kind, head, body, share, help in KINDS:
        if re.fullmatch(head, filled[0]) and share_of(body, filled) > share:
            return _told(kind, help.replace("FILE", name)), []
    parsed = form.parse_all(lines)
    if len(parsed.rows) > 9 * len(parsed.problems):
        return _read_with(form, lines, own, "a file of pairs")
    divided = find_columns(filled, form)
    if divided is None:
        return _told("no file of pairs", UNDIVIDED.replace("FILE", name)), []
    form, columns = divided
    kind = f"a file of {form.width} columns between {quoted(form.delimiter)}"
    named = own.differing(Format())  # what the user has set, unless it is the default
    wanted = {key: named[key] for key in COLUMN_KEYS if key in named}
    if not {"source_column", "target_column"} <= wanted.keys():
        chosen = choose(columns)
        if not chosen:
            return _told(kind, f"{CHOOSE}: {first_of(columns, MOST_COLUMNS)}"), []
        # (not strict: `chosen` has source and target, and features only if there are some)
        wanted = {key: column.key for key, column in zip(COLUMN_KEYS, chosen, strict=False)}
    is_by_name = any(isinstance(column, str) for column in wanted.values())
    # A column that is named implies a header: the option `header` would be one too many.
    form = replace(form, **wanted, header=form.header and not is_by_name)
    usual = replace(form, columns=own.columns)
    # the option `columns`, how many a line has, can stay as the user left it if that is the same
    # number: set, or that of the highest column in use; or if it is not set, and a header tells it
    if usual.width == form.width or (form.has_header and own.columns is None):
        form = usual
    return _read_with(form, lines, own, kind)


def _told(kind: str, *notes: str) -> str:
    """Return what kind of file it is, and what else there is to say, in lines of their own."""
    return "\n".join([f"It is {kind}.", *notes])


def _read_with(form: Format, lines: Texts, own: Format, kind: str) -> Advice:
    """Read all lines in a format. Return a text that tells how many are read, what is odd about
    them, and which of the user's `own` options have to change; and these options as `KEY=VALUE`,
    none if the user has to decide something.

    kind: what the file is called.
    """
    form, parsed, notes = _without_oddities(lines, form)
    bad, read = len(parsed.problems), len(parsed.rows)
    # sure: the user has nothing to decide, and few lines are malformed (3 even in a small file)
    sure = not notes and bad <= max(3, BAD * read)
    if bad:
        form = replace(form, skip_bad=bad)  # an option that the advice then names, too
        number, problem = min(parsed.problems.items())
        text = f"Malformed even so: {bad:,} of {len(lines):,} lines, such as line {number}"
        notes.append(f"{text}: {problem}: {quoted(lines[number - 1])}")
    changes = form.differing(own)
    if bad < read:  # otherwise the options are not the right ones
        way = "" if sure else f" with {settings(changes)}"
        examples = parsed.pairs[:: read // 3 + 1][:3]  # from all over the file
        shown = "; ".join(" -> ".join(map(quoted, pair)) for pair in examples)
        notes.append(f"{read:,} lines are then read{way}, such as {shown}")
    return _told(kind, *notes), key_values(changes) if sure else []


def _without_oddities(lines: Texts, form: Format) -> tuple[Format, PairFile, list[str]]:
    """Change the options that make pairs odd, such as the separator where blanks stand between
    symbols. Return the format, the lines read in it, and what is still odd.

    One change may reveal another oddity, so the lines are read again after each; at most 10
    times, in case two changes undo each other.
    """
    for _ in range(10):
        parsed = form.parse_all(lines)
        odd = list(oddities(parsed.pairs, form)) if parsed.rows else []
        changes: dict[str, Any] = {}
        for one in odd:
            changes |= one.changes
        if not changes:
            break
        form = replace(form, **changes)
    return form, parsed, list(map(str, odd))
