"""Pairs of strings from files of columns, parsed strictly: every malformed line is reported, and
nothing is guessed. Splits such a file into parts that share no word, or no value of a column.

Imports no torch.
"""

import codecs
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2attn.data.advice import examine
from seq2attn.data.format import VARIANT, Format, PairFile, column_number
from seq2attn.data.vocabulary import FEATURES
from seq2attn.errors import Seq2AttnError, first_of, quoted
from seq2attn.files import MAX_BYTES, open_plain
from seq2attn.registry import composed

MOST_LISTED = 10  # kinds of malformed lines in one message
MOST_COLUMNS = 5  # that are compared beside source and target
Units = Mapping[int, str]
"""the number of each line that has pairs -> its unit, which must not be in two parts: a word, or
the value of a column"""
Parts = Mapping[str, list[int]]
"""the name of each part -> the numbers of its lines"""


def load_pairs(path: Path, form: Format) -> PairFile:
    """Load a file in UTF-8, or in UTF-16 with a byte order mark, that has one source a line.
    Up to `form.skip_bad` malformed lines are left out. The result's `record` is what a run keeps of
    the file.

    Raises `Seq2AttnError` for a file or lines that cannot be read, with the options that would read
    them.
    """
    data, text = _read_file(path)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    parsed = form.parse_all(lines)
    # (without pairs, there is at least one problem: `parse_all` says so)
    if not parsed.rows or len(parsed.problems) > form.skip_bad:
        message = f"{path}: {_list_problems(parsed.problems, lines)}"
        hint, settings = examine(lines, form, path)
        raise Seq2AttnError(message, hint=hint, settings=settings)
    parsed.record = {
        "name": path.name,
        "bytes": len(data),
        "pairs": len(parsed.pairs),
        "left_out": len(parsed.problems),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return parsed


def left_out_of(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many malformed lines are left out of these files, by name, if any are.

    records: of `PairFile`s.
    """
    return {one["name"]: one["left_out"] for one in records if one["left_out"]}


def _list_problems(problems: Mapping[int, str], lines: Sequence[str]) -> str:
    """Return a message that counts the malformed lines and lists them: those with the same problem
    together, with the text of the first, and at most `MOST_LISTED` problems, then "...".

    problems: line number -> what is wrong with the line. lines: all lines of the file.
    """
    message = f"{len(problems):,} of {len(lines):,} lines cannot be read"
    kinds: dict[str, list[int]] = {}
    for number, problem in problems.items():
        kinds.setdefault(problem, []).append(number)
    for problem, numbers in list(kinds.items())[:MOST_LISTED]:
        where = f"line {numbers[0]}"
        if len(numbers) > 1:
            where = f"{len(numbers):,} lines ({first_of(numbers)})"
        message += f"\n  {where}: {problem}: {quoted(lines[numbers[0] - 1])}"
    return message if len(kinds) <= MOST_LISTED else f"{message}\n  ..."


def _read_file(path: Path) -> tuple[bytes, str]:
    """Return the content of a regular file, as bytes and as text, in which bytes that are not UTF-8
    have become surrogates. A pipe or a device, for which reading might wait, is refused.

    Raises `Seq2AttnError` for a file that cannot be read or is larger than `MAX_BYTES`.
    """
    try:
        with open_plain(path, most=MAX_BYTES) as file:
            data = file.read()
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data, data.decode("utf-16")
        return data, data.decode("utf-8-sig", "surrogateescape")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error  # an OSError's words, without its number
        hint = (
            "Name your files, or a part of one that is too large: train takes "
            "--set task.train=FILE --set task.dev=FILE, and eval takes --data FILE."
        )
        raise Seq2AttnError(f"{path}: cannot be read: {reason}", hint=hint) from None


# ---- splitting ----


def words_of(file: PairFile) -> Units:
    """Return the word of each line: its source without features, in lower case, and `about` for
    `about(2)`, even in a format without variants: as a word of its own, it might be in the test set
    while `about` is in the training set.
    """
    return {
        number: VARIANT.sub("", source.partition(FEATURES)[0]).casefold()
        for number, ((source, _), *_) in file.rows.items()  # all pairs of a line have one source
    }


def values_of(file: PairFile, column: str) -> Units:
    """Return the value of each line in a column, given by its number or its name. Raises
    `Seq2AttnError` if there is no such column.
    """
    at = int(column) if column.isdecimal() else column_number(composed(column), file.names, "--by")
    if not 1 <= at <= file.form.width:
        raise Seq2AttnError(f"--by: there is no column {at}; lines have {file.form.width}")
    return {number: row[at - 1] for number, row in file.cells().items()}


def split_by(units: Units, shares: Mapping[str, float], seed: int) -> Parts:
    """Split lines into the parts that `shares` names and `train`, the rest, so that all lines of a
    unit, such as a word, are in one part.

    shares: name of a part -> its share of the different units. The parts take units in the order of
        a hash: the same units, shares and seed give the same parts, in whatever order the lines
        are.

    Raises `Seq2AttnError` if `train`, or a part with a share above 0, has no unit.
    """
    order = sorted(
        set(units.values()), key=lambda unit: hashlib.sha256(f"{seed} {unit}".encode()).digest()
    )
    part_of: dict[str, str] = {}  # unit -> part; train takes the rest
    for name, share in [*shares.items(), ("train", 1.0)]:
        start = len(part_of)
        part_of |= dict.fromkeys(order[start : start + round(share * len(order))], name)
    parts: dict[str, list[int]] = {name: [] for name in ("train", *shares)}
    for number, unit in units.items():
        parts[part_of[unit]].append(number)
    for name, numbers in parts.items():
        if not numbers and shares.get(name) != 0:  # with a share of 0, a part may be empty
            raise Seq2AttnError(
                f"too few words, or values to split by: none is left for {name}",
                hint="Choose other shares, or a larger file.",
            )
    return parts


def shared_with_train(file: PairFile, parts: Parts) -> Iterator[str]:
    """Yield a sentence for each other part that has lines: how many of them share with a line of
    train the source's word, an answer, or the value of one of the first `MOST_COLUMNS` other
    columns, such as concepts.
    """
    form, names, cells = file.form, file.names, file.cells()
    # what a sentence says of it -> line number -> values
    columns = {
        "share their source with train": {at: [word] for at, word in words_of(file).items()},
        "their target": {at: [answer for _, answer in row] for at, row in file.rows.items()},
    }
    others = [index for index in range(form.width) if index + 1 not in form.used]
    for index in others[:MOST_COLUMNS]:
        # a header may have fewer names than lines have columns
        name = names[index] if index < len(names) else f"column {index + 1}"
        columns[f"their {name}"] = {number: [row[index]] for number, row in cells.items()}

    for part, numbers in parts.items():
        if part == "train" or not numbers:
            continue
        counts = []
        for name, values in columns.items():
            known = {value for number in parts["train"] for value in values[number]}
            shared = sum(not known.isdisjoint(values[number]) for number in numbers)
            counts.append(f"{shared:,} {name}")
        yield f"{part}: of {len(numbers):,} lines, {', '.join(counts)}"
