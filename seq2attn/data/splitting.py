"""Splits a file of pairs into parts that share no word, or no value of a column.

Imports no torch.
"""

import hashlib
from collections.abc import Iterator, Mapping

from seq2attn.data.format import VARIANT, column_number
from seq2attn.data.pairs import PairFile
from seq2attn.data.vocabulary import FEATURES, normal_form
from seq2attn.errors import Seq2AttnError

MOST_COLUMNS = 5  # that are counted beside source and target
Units = Mapping[int, str]
"""the number of each line that has pairs -> what must not be on two sides"""
Parts = Mapping[str, list[int]]
"""the name of each part -> the numbers of its lines"""


def words_of(file: PairFile) -> Units:
    """Return the word of each line: its source without features, and without what a warning knows
    to be no part of it: a comment, or the number of a variant.
    """
    words = {number: row[0][0].partition(FEATURES)[0] for number, row in file.parsed.rows.items()}
    known = set(words.values())
    units = {}
    for number, word in words.items():
        base = VARIANT.sub("", word.partition(" #")[0])
        units[number] = normal_form(base if base in known else word, "nfc")
    return units


def without_case(units: Units) -> Units:
    """Return the units in lower case."""
    return {number: unit.casefold() for number, unit in units.items()}


def values_of(file: PairFile, column: str) -> Units:
    """Return the value of each line in a column, given by its number or its name. Raises
    `Seq2AttnError` if there is no such column.
    """
    try:
        at = int(column) if column.isdecimal() else column_number(column, file.parsed.names, "--by")
    except ValueError as error:
        raise Seq2AttnError(str(error)) from None
    if not 1 <= at <= file.parsed.form.width:
        raise Seq2AttnError(f"--by: there is no column {at}; lines have {file.parsed.form.width}")
    return {number: normal_form(cells[at - 1], "nfc") for number, cells in file.cells()}


def split_by(units: Units, shares: Mapping[str, float], seed: int) -> Parts:
    """Split lines into the parts that `shares` names and `train`, the rest, so that all lines of a
    unit are in one part.

    shares: of the units. The same units, shares and seed give the same parts, in whatever order the
        lines are. Raises `Seq2AttnError` if a part with a share has no unit, or `train` has none.
    """
    kinds = set(units.values())
    order = sorted(kinds, key=lambda unit: hashlib.sha256(f"{seed} {unit}".encode()).digest())
    part_of = dict.fromkeys(order, "train")
    start = 0
    for name, share in shares.items():
        end = start + round(share * len(order))
        part_of.update(dict.fromkeys(order[start:end], name))
        start = end
    parts: dict[str, list[int]] = {name: [] for name in ("train", *shares)}
    for number, unit in units.items():
        parts[part_of[unit]].append(number)
    for name, numbers in parts.items():
        if not numbers and shares.get(name) != 0:
            message = f"too few words, or values to split by: none is left for {name}"
            raise Seq2AttnError(message, hint="Choose other shares, or a larger file.")
    return parts


def shared_with_train(file: PairFile, parts: Parts) -> Iterator[str]:
    """Say how many lines of each other part share their source, their target or the value of
    another column with a line of train.
    """
    train, *others = parts.items()
    rows = file.parsed.rows
    words = without_case(words_of(file))
    columns = {"share their source with train": {number: [words[number]] for number in rows}}
    columns["their target"] = {number: [answer for _, answer in rows[number]] for number in rows}
    for at in range(1, file.parsed.form.width + 1):
        values = values_of(file, str(at))
        name = file.parsed.names[at - 1] if file.parsed.names else f"column {at}"
        if at not in file.parsed.form.used and 1 < len(set(values.values())) < 0.9 * len(values):
            columns[f"their {name}"] = {number: [value] for number, value in values.items()}
    for part, numbers in others:
        counts = []
        for name, cells in list(columns.items())[: 2 + MOST_COLUMNS]:
            known = {value for number in train[1] for value in cells[number]}
            shared = sum(not known.isdisjoint(cells[number]) for number in numbers)
            counts.append(f"{shared:,} {name}")
        if numbers:
            yield f"{part}: of {len(numbers):,} lines, {', '.join(counts)}"
