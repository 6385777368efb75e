"""`seq2attn split`"""

from pathlib import Path
from typing import Annotated

from seq2attn.cli.options import Overrides, argument, option
from seq2attn.cli.outputs import Force, check_output, write_output
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError

Share = Annotated[float, option("%", "Share of the words.", min=0, max=100)]


def split(
    file: Annotated[Path, argument("FILE", "The file of pairs.")],
    dev: Share = 10.0,
    test: Share = 10.0,
    seed: Annotated[int, option("N", "Another seed chooses other words.")] = 0,
    to: Annotated[Path, option("FOLDER", "Where the parts are written.", file_okay=False)] = Path(),
    overrides: Overrides = None,
    force: Force = False,
) -> None:
    """Split a file of pairs into train, dev and test, by word.

    All lines of a word are in one part, so that no part has a word of another; lines with the same
    source and other features count as one word. Writes train, dev and test with the ending of FILE,
    under its header. The task.* keys of `train` say how FILE is read.

    Examples:

      seq2attn split words.tsv

      seq2attn split words.csv --dev 5 --test 5 --to parts --set 'task.delimiter=","'
    """
    from seq2attn.config import load_config
    from seq2attn.data.pairs import Format, split_by_word

    names = ("train", "dev", "test")
    paths = {name: to / f"{name}{file.suffix}" for name in names}
    for path in paths.values():
        if path.exists() and path.samefile(file):
            raise Seq2AttnError(f"{path} is FILE itself", hint="Name another folder with --to.")
        check_output(path, "part that may be replaced", None, force)
    values = {"task": {"name": "pairs", "train": str(file), "dev": str(file)}}
    task = dict(load_config(values, overrides or ()).task)
    form = Format(**{name: task[name] for name in vars(Format())})
    parts = split_by_word(file, form, {"dev": dev / 100, "test": test / 100}, seed)
    rows = []
    for name, part in parts.items():
        if part.words:
            text = "".join(f"{line}\n" for line in part.lines)
            write_output(paths[name], text.encode(errors="surrogateescape"))
            rows.append((str(paths[name]), len(part.words), len(part.lines)))
    Table(list(map(Column, ("file", "words", "lines"))), rows).show()
