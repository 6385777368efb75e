"""Write DeDupe as Ray Chowdhury & Caragea 2023 draw it (their `preprocess/process_dedupe.py`), as
files of pairs.

A source has N digits, each written 1, 3 or 5 times; its answer has each run of equal digits once.
10,000 distinct pairs of 5 to 10 digits to train on, 2,000 of 10 to 15 as the dev file, and 2,000 of
each test length.

python examples/dedupe_pairs.py FOLDER
"""

import itertools
import random
from pathlib import Path

import typer

FILES = {"train": (5, 10, 10_000), "dev": (10, 15, 2_000)} | {
    f"test_{length}": (length, length, 2_000) for length in (15, 20, 25, 30, 50, 100)
}


def main(folder: Path):
    """Write train.tsv, dev.tsv, test_15.tsv, ..., test_100.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    for name, (shortest, longest, count) in FILES.items():
        pairs = {}
        while len(pairs) < count:
            digits = draw.choices("0123456789", k=draw.randint(shortest, longest))
            source = "".join(digit * draw.choice((1, 3, 5)) for digit in digits)
            pairs[source] = "".join(digit for digit, _ in itertools.groupby(digits))
        lines = [f"{source}\t{target}\n" for source, target in pairs.items()]
        (folder / f"{name}.tsv").write_text("".join(lines))


if __name__ == "__main__":
    typer.run(main)
