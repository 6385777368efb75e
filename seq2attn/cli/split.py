"""`seq2attn split`"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from seq2attn.cli.options import Overrides, argument, option
from seq2attn.cli.outputs import Force, check_output, write_output
from seq2attn.data.format import Format, Pair, PairFile
from seq2attn.data.pairs import (
    left_out_of,
    load_pairs,
    shared_with_train,
    split_by,
    values_of,
    words_of,
)
from seq2attn.data.warnings import oddities, settings, warnings
from seq2attn.display.console import say
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.text import left_out_notes

Share = Annotated[float, option("%", "Share of the words.", min=0, max=100)]
By = Annotated[
    str,
    option("COLUMN", "Split by this column's values, such as lemmas; by number or name."),
]
Folder = Annotated[
    Path,
    option("FOLDER", "Where the parts are written.", file_okay=False),
]
FOUND = ("header", "source_separator", "target_separator")
"""what the pairs themselves tell, unless it is set"""
SMALL = 3_000
MEDIUM = 30_000
"""the most pairs that these recipes are for"""


def split(
    file: Annotated[Path, argument("FILE", "The file of pairs.")],
    dev: Share = 10.0,
    test: Share = 10.0,
    by: By = "",
    seed: Annotated[int, option("N", "Another seed chooses other words.")] = 0,
    to: Folder = Path(),
    overrides: Overrides = None,
    force: Force = False,
) -> None:
    """Split a file of pairs into train, dev and test, by word or by the values of a column.

    All lines of a word are in one part, so that no part has a word of another; lines with the same
    source and other features count as one word, and so do variants such as about(2), and sources
    that differ only in case. With --by, all lines with one value of a column are in one part. Says
    how many lines of each part share their source, their target or the value of another column with
    train. Writes train, dev and test with the ending of FILE, under its header. The task.* keys of
    `train` say how FILE is read.

    Examples:

      seq2attn split words.tsv

      seq2attn split forms.csv --by Concept --to parts --set 'task.delimiter=","'
    """
    paths = {name: to / f"{name}{file.suffix}" for name in ("train", "dev", "test")}
    for path in paths.values():
        if path.exists() and path.samefile(file):
            raise Seq2AttnError(f"{path} is FILE itself", hint="Name another folder with --to.")
        # The advice stands in the message, beside the hint of `check_output` to name another file:
        # the names of the parts are fixed. No mark (None) tells a part from other files.
        check_output(path, "part; name another folder with --to", None, force)
    loaded, form = _load(file, overrides or ())
    # line number -> what no two parts share: a column's value, or a word in lower case
    units = values_of(loaded, by) if by else words_of(loaded)
    parts = split_by(units, {"dev": dev / 100, "test": test / 100}, seed)
    rows = []
    for name, numbers in parts.items():
        if numbers:  # a part whose share is 0 has none
            # (bytes of the file that are not UTF-8 stay as they are)
            write_output(paths[name], loaded.part(numbers).encode(errors="surrogateescape"))
            different = len({units[number] for number in numbers})
            rows.append((str(paths[name]), different, len(numbers)))
    Table([Column("file"), Column(by or "words", key="words"), Column("lines")], rows).show()
    train_pairs = _pairs(loaded, parts["train"])
    dev_pairs = _pairs(loaded, parts["dev"])
    for text in (
        *left_out_notes(left_out_of([loaded.record])),
        *shared_with_train(loaded, parts),
        *warnings(train_pairs, dev_pairs, form),
    ):
        say(text)
    if dev_pairs:
        say(f"Next: {_next_command(paths, form, train_pairs)}")


def _pairs(file: PairFile, numbers: Iterable[int]) -> list[Pair]:
    """Return the pairs (source, answer) of the lines with these numbers: a line with several
    answers has several.
    """
    pairs: list[Pair] = []
    for number in numbers:
        pairs += file.rows[number]
    return pairs


def _load(file: Path, overrides: Sequence[str]) -> tuple[PairFile, Format]:
    """Load the file, and return it with the format in which it was read: the one that the options
    set.

    What of `FOUND` the options do not set, such as a header, is found out from the pairs: if they
    look odd because of it, the file is read once more, with a note.
    """
    from seq2attn.config import load_config

    values = {"task": {"name": "pairs", "train": str(file), "dev": str(file)}}
    task = dict(load_config(values, overrides).task)
    form = Format(**{name: task[name] for name in vars(Format())})  # its fields are keys of `task`
    loaded = load_pairs(file, form)
    found: dict[str, Any] = {}
    options = " ".join(overrides)
    # a key may also stand in an option's value, as in task={header: true}
    unset = [name for name in FOUND if name not in options]
    for oddity in oddities(loaded.pairs, form):
        for name, value in oddity.changes.items():  # fields of the format that would end it
            if name in unset:
                say(f"note: {oddity.text}; read with {settings({name: value})}")
                found[name] = value
    if not found:
        return loaded, form
    form = replace(form, **found)
    return load_pairs(file, form), form


def _next_command(paths: Mapping[str, Path], form: Format, train: Sequence[Pair]) -> str:
    """Return the command that trains on the parts, with the recipe for files of this size, and with
    the settings by which the parts are read as FILE was.
    """
    for oddity in oddities(train, form):
        form = replace(form, **oddity.changes)
    recipe = "large"
    if len(train) <= SMALL:
        recipe = "small"
    elif len(train) <= MEDIUM:
        recipe = "medium"
    changes: dict[str, Any] = {"train": str(paths["train"]), "dev": str(paths["dev"])}
    changes |= replace(form, skip_bad=0).differing(Format())  # malformed lines are left out already
    # always set, since the recipes set another separator than the usual one
    changes.setdefault("target_separator", form.target_separator)
    return f"seq2attn train --config configs/pairs/{recipe}.yaml {settings(changes)}"
