"""`seq2attn check`"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from seq2attn import catalogue
from seq2attn.cli import options
from seq2attn.cli.output import on_terminal, stdout, table, write_rows
from seq2attn.errors import Seq2AttnError

HEADER = ("score", "check", "result")
KEPT = "kept"


def check(
    scores: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCORE...", help="Names; default: those of the plug-ins, or else all."),
    ] = None,
    plugin: options.Plugins = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the score, such as width=8. Repeat it for more.",
        ),
    ] = None,
) -> None:
    """Hold score functions against the contract that the built-in ones keep.

    Shapes, exact zeros on padding, rows with nothing to attend to, independence of padding and batch, gradients against
    finite differences, and agreement of one big call with many small ones.

    Examples:

      seq2attn check --plugin my_score.py

      seq2attn check additive

      seq2attn check additive --option width=8
    """
    built_in = set(catalogue.SCORES.names())
    options.load_plugins(plugin)
    added = [name for name in catalogue.SCORES.names() if name not in built_in]
    if plugin and not added and not scores:
        raise Seq2AttnError("the plug-in registered no score; check is for scores")
    names = [catalogue.SCORES.get(name).name for name in scores or added or catalogue.SCORES.names()]
    if option and len(names) > 1:
        raise Seq2AttnError(f"--option is for one score; there are {len(names)}: {', '.join(names)}")
    given = _options(names[0], option) if option else {}
    from seq2attn.analysis.score_contract import CHECKS, advice, run_check

    rows = [(name, label, run_check(label, name, given)) for name in names if name != "none" for label in CHECKS]
    if on_terminal():
        stdout().print(table(HEADER, list(_once(rows))))
    else:
        write_rows(HEADER, [(name, label, result or KEPT) for name, label, result in rows])
    broken = [row for row in rows if row[2]]
    if broken:
        hints = [advice(name, given) for name in dict.fromkeys(name for name, *_ in broken)]
        hint = "\n".join(filter(None, hints)) or None
        raise Seq2AttnError(f"{len(broken)} of {len(rows)} checks failed", hint=hint, exit_code=1)


def _options(score: str, given: list[str]) -> dict[str, Any]:
    """`NAME=VALUE`s as a config would have them, refused as there."""
    from seq2attn.config import RecurrentConfig, check_config

    for one in given:
        if not one.partition("=")[1]:
            raise Seq2AttnError(f"--option {one}: expected NAME=VALUE, such as width=8")
    overrides = [f"model.attention.score.{one}" for one in given]
    config = check_config({"model": {"attention": {"score": score}}}, overrides, source="--option")
    assert isinstance(config.model, RecurrentConfig)
    return dict(config.model.attention.score.options)


def _once(rows: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """For people: what a score breaks several checks with is told in full once."""
    told = set()
    for name, label, result in rows:
        yield name, label, "the same" if (name, result) in told else result or KEPT
        if result:
            told.add((name, result))
