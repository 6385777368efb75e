"""Splits a file of pairs into parts that share no word, or no value of a column.

Imports no torch.
"""

import hashlib
from collections.abc import Iterator, Mapping

from seq2attn.data.format import VARIANT, column_number
from seq2attn.data.pairs import PairFile
from seq2attn.data.vocabulary import FEATURES, normal_form
from seq2attn.errors import Seq2AttnError

MOST_COLUMNS = 5  # that are compared beside source and target
Units = Mapping[int, str]
"""the number of each line that has pairs -> its unit, which must not be in two parts: a word, or
the value of a column"""
Parts = Mapping[str, list[int]]
"""the name of each part -> the numbers of its lines"""


def words_of(file: PairFile) -> Units:
    """Return the word of each line: its source without features.

    `about(2)` and `about # verb` are the word `about` if that is a source, too, even in a format
    without variants and comments: as words of their own, they might be in the test set while
    `about` is in the training set.
    """
    words = {}
    for number, pairs in file.parsed.rows.items():
        source, _ = pairs[0]  # all pairs of a line have the same source
        words[number] = source.partition(FEATURES)[0]
    known = set(words.values())
    for number, word in words.items():
        base = VARIANT.sub("", word.partition(" #")[0])  # without `(2)`, or a comment
        words[number] = normal_form(base if base in known else word, "nfc")
    return words


def without_case(units: Units) -> Units:
    """Return the units in lower case."""
    return {number: unit.casefold() for number, unit in units.items()}


def values_of(file: PairFile, column: str) -> Units:
    """Return the value of each line in a column, given by its number or its name. Raises
    `Seq2AttnError` if there is no such column.
    """
    at = int(column) if column.isdecimal() else column_number(column, file.parsed.names, "--by")
    if not 1 <= at <= file.parsed.form.width:
        raise Seq2AttnError(f"--by: there is no column {at}; lines have {file.parsed.form.width}")
    return {number: normal_form(cells[at - 1], "nfc") for number, cells in file.cells()}


def split_by(units: Units, shares: Mapping[str, float], seed: int) -> Parts:
    """Split lines into the parts that `shares` names and `train`, the rest, so that all lines of a
    unit, such as a word, are in one part.

    shares: name of a part -> its share of the different units. The parts take units in the order of
        a hash: the same units, shares and seed give the same parts, in whatever order the lines
        are.

    Raises `Seq2AttnError` if `train`, or a part with a share above 0, has no unit.
    """
    different = set(units.values())
    order = sorted(different, key=lambda unit: hashlib.sha256(f"{seed} {unit}".encode()).digest())
    part_of = dict.fromkeys(order, "train")  # unit -> part
    start = 0
    for name, share in shares.items():
        end = start + round(share * len(order))  # past the end, a slice has what there is
        for unit in order[start:end]:
            part_of[unit] = name
        start = end
    parts: dict[str, list[int]] = {name: [] for name in ("train", *shares)}
    for number, unit in units.items():
        parts[part_of[unit]].append(number)
    for name, numbers in parts.items():
        if not numbers and shares.get(name) != 0:  # with a share of 0, a part may be empty
            message = f"too few words, or values to split by: none is left for {name}"
            raise Seq2AttnError(message, hint="Choose other shares, or a larger file.")
    return parts


def shared_with_train(file: PairFile, parts: Parts) -> Iterator[str]:
    """Yield a sentence for each other part that has lines: how many of them share their source,
    their target or the value of another column with a line of train.
    """
    columns = _compared(file)
    for part, numbers in parts.items():
        if part == "train" or not numbers:
            continue
        counts = []
        for name, values in columns.items():
            known = {value for number in parts["train"] for value in values[number]}
            shared = sum(not known.isdisjoint(values[number]) for number in numbers)
            counts.append(f"{shared:,} {name}")
        yield f"{part}: of {len(numbers):,} lines, {', '.join(counts)}"


def _compared(file: PairFile) -> dict[str, dict[int, list[str]]]:
    """Return what `shared_with_train` compares: the source's word in lower case, the answers, and
    the first `MOST_COLUMNS` other columns whose values recur, such as concepts.

    Each is a mapping, line number -> values. Its key is what the sentence says of it: "3 share
    their source with train, 5 their target".
    """
    words = without_case(words_of(file))
    sources, targets = {}, {}
    for number, row in file.parsed.rows.items():
        sources[number] = [words[number]]
        targets[number] = [answer for _, answer in row]
    form, names, cells = file.parsed.form, file.parsed.names, dict(file.cells())

    columns = {"share their source with train": sources, "their target": targets}
    for index in range(form.width):
        # columns of source, target and features are left out; 2: the two above
        if index + 1 in form.used or len(columns) == 2 + MOST_COLUMNS:
            continue
        values = {number: [normal_form(row[index], "nfc")] for number, row in cells.items()}
        different = len({value for (value,) in values.values()})
        # neither the same in all lines nor, like an id, nearly always another one
        if 1 < different < 0.9 * len(values):
            name = names[index] if names else f"column {index + 1}"
            columns[f"their {name}"] = values
    return columns
