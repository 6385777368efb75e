"""`seq2attn split`"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from seq2attn.cli.options import Overrides, argument, option
from seq2attn.cli.outputs import Force, check_output, write_output
from seq2attn.data import splitting
from seq2attn.data.format import Format, Pair
from seq2attn.data.pairs import PairFile, load_pairs
from seq2attn.data.warnings import oddities, settings, warnings
from seq2attn.display.console import say
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError

Share = Annotated[float, option("%", "Share of the words.", min=0, max=100)]
FOUND = ("header", "source_separator", "target_separator", "features_separator")
"""what the pairs themselves tell, unless it is set"""
SIZES = {"small": 3_000, "medium": 30_000}  # recipe -> the most pairs that it is for


def split(
    file: Annotated[Path, argument("FILE", "The file of pairs.")],
    dev: Share = 10.0,
    test: Share = 10.0,
    by: Annotated[
        str, option("COLUMN", "Split by this column's values, such as lemmas; by number or name.")
    ] = "",
    seed: Annotated[int, option("N", "Another seed chooses other words.")] = 0,
    to: Annotated[Path, option("FOLDER", "Where the parts are written.", file_okay=False)] = Path(),
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
    names = ("train", "dev", "test")
    paths = {name: to / f"{name}{file.suffix}" for name in names}
    for path in paths.values():
        if path.exists() and path.samefile(file):
            raise Seq2AttnError(f"{path} is FILE itself", hint="Name another folder with --to.")
        check_output(path, "part; name another folder with --to", None, force)
    loaded, form = _load(file, overrides or ())
    words = splitting.words_of(loaded)
    units = splitting.values_of(loaded, by) if by else splitting.without_case(words)
    parts = splitting.split_by(units, {"dev": dev / 100, "test": test / 100}, seed)
    rows, pairs = [], {}
    for name, numbers in parts.items():
        pairs[name] = [pair for number in numbers for pair in loaded.parsed.rows[number]]
        if numbers:
            write_output(paths[name], loaded.part(numbers).encode(errors="surrogateescape"))
            kinds = len({units[number] for number in numbers})
            rows.append((str(paths[name]), kinds, len(numbers)))
    Table([Column("file"), Column(by or "words", key="words"), Column("lines")], rows).show()
    alike = 0 if by else len(set(words.values())) - len(set(units.values()))
    if alike:
        say(f"note: {alike:,} words differ from another one only in case, and are in its part")
    for text in (
        *loaded.notes,
        *splitting.shared_with_train(loaded, parts),
        *warnings(pairs["train"], pairs["dev"], form),
    ):
        say(text)
    if pairs["dev"]:
        say(f"Next: {_next_command(paths, form, pairs['train'])}")


def _load(file: Path, overrides: Sequence[str]) -> tuple[PairFile, Format]:
    """Load the file as the options say, and as the pairs themselves tell."""
    from seq2attn.config import load_config

    values = {"task": {"name": "pairs", "train": str(file), "dev": str(file)}}
    task = dict(load_config(values, overrides).task)
    form = Format(**{name: task[name] for name in vars(Format())})
    loaded = load_pairs(file, form)
    found: dict[str, Any] = {}
    for oddity in oddities(loaded.pairs, form):
        for name, value in oddity.changes.items():
            if oddity.sure and name in FOUND and name not in " ".join(overrides):
                say(f"note: {oddity.text}; read with {settings({name: value})}")
                found[name] = value
    if not found:
        return loaded, form
    form = replace(form, **found)
    return load_pairs(file, form), form


def _next_command(paths: Mapping[str, Path], form: Format, train: Sequence[Pair]) -> str:
    """Return the command that trains on the parts, in the format of the file."""
    for oddity in oddities(train, form):
        form = replace(form, **oddity.changes) if oddity.sure else form
    recipe = next((name for name, most in SIZES.items() if len(train) <= most), "large")
    changes: dict[str, Any] = {name: str(paths[name]) for name in ("train", "dev")}
    # the recipe has a target separator, and malformed lines are left out already
    changes |= replace(form, skip_bad=0).differing()
    changes.setdefault("target_separator", form.target_separator)
    return f"seq2attn train --config configs/pairs/{recipe}.yaml {settings(changes)}"
