"""The options that the analyses share, and how their values are read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from seq2attn import catalogue
from seq2attn.cli import options
from seq2attn.errors import Seq2AttnError, shown

WIDEST = 65_536
MOST_KEYS = 4_096

Scores = Annotated[
    list[str] | None,
    typer.Option("--scores", metavar="NAME...", help="Score functions; `seq2attn list scores` shows them."),
]
Widths = Annotated[list[str] | None, typer.Option("--widths", metavar="D...", help="Widths of queries and keys.")]
Samples = Annotated[int, typer.Option("--samples", min=2, max=10**7, help="Random draws.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the random draws.")]
Batch = Annotated[int, typer.Option("--batch", "-B", min=1, max=2**20, help="B, sequences.")]
Source = Annotated[int, typer.Option("--source", "-S", min=1, max=10**6, help="S, keys of each: source positions.")]
Target = Annotated[int, typer.Option("--target", "-L", min=1, max=10**6, help="L, queries of each: output positions.")]
Width = Annotated[int, typer.Option("--width", "-D", min=1, max=WIDEST, help="D, width of queries and keys.")]


def begin(
    scores: list[str] | None,
    widths: list[str] | None,
    plot: Path | None,
    plugins: list[Path] | None,
    default_scores: str,
    default_widths: str,
) -> tuple[list[str], list[int]]:
    """Load plug-ins and read the names of scores and the widths, before anything is computed."""
    check_plot(plot)
    options.load_plugins(plugins)
    names = score_names(scores, default_scores)
    sizes = whole_numbers("--widths", widths, default_widths, WIDEST)
    prepare_torch()
    return names, sizes


def check_plot(plot: Path | None) -> None:
    """Refuse the name of a figure that cannot be written."""
    if plot is not None:
        from seq2attn.plotting.style import check_format

        check_format(plot)


def prepare_torch() -> None:
    """One thread: the tensors are small, and sums are then the same on every machine of a kind."""
    import torch

    torch.set_num_threads(1)


def score_names(values: list[str] | None, default: str) -> list[str]:
    """The names of `--scores`, synonyms resolved, each once."""
    names = []
    for word in _words(values, default):
        name = catalogue.SCORES.get(word).name
        if name == "none":
            raise Seq2AttnError("--scores: 'none' has no score function")
        names.append(name)
    return list(dict.fromkeys(names))


def whole_numbers(option: str, values: list[str] | None, default: str, highest: int) -> list[int]:
    """The values of an option that takes several whole numbers, each once."""
    numbers = []
    for word in _words(values, default):
        if not (word.isascii() and word.isdigit() and len(word) < 10 and 1 <= int(word) <= highest):
            raise Seq2AttnError(f"{option}: {shown(word)} is not allowed; allowed: whole numbers from 1 to {highest:,}")
        numbers.append(int(word))
    return list(dict.fromkeys(numbers))


def real_numbers(option: str, values: list[str] | None, default: str) -> list[float]:
    """The values of an option that takes several numbers, each once."""
    numbers = []
    for word in _words(values, default):
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not 1e-6 <= number <= 1e6:
            raise Seq2AttnError(f"{option}: {shown(word)} is not allowed; allowed: numbers from 1e-6 to 1e6")
        numbers.append(number)
    return list(dict.fromkeys(numbers))


def _words(values: list[str] | None, default: str) -> list[str]:
    words = [word for part in values or [] for word in part.split(",") if word]
    return words or default.split()
