"""`seq2attn check`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn import catalogue
from seq2attn.cli import options
from seq2attn.cli.output import on_terminal, stdout, table, write_rows
from seq2attn.errors import Seq2AttnError

HEADER = ("score", "check", "result")


def check(
    scores: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCORE...", help="Names; default: those of the plug-ins, or else all."),
    ] = None,
    plugin: options.Plugins = None,
) -> None:
    """Hold score functions against the contract that the built-in ones keep.

    Shapes, exact zeros on padding, rows with nothing to attend to, independence of padding and batch, gradients against
    finite differences, and agreement of one big call with many small ones.

    Examples:

      seq2attn check --plugin my_score.py

      seq2attn check additive
    """
    built_in = set(catalogue.SCORES.names())
    options.load_plugins(plugin)
    added = [name for name in catalogue.SCORES.names() if name not in built_in]
    names = [catalogue.SCORES.get(name).name for name in scores or added or catalogue.SCORES.names()]
    from seq2attn.contract import CHECKS, advice, run_check

    rows = [(name, label, run_check(label, name)) for name in names if name != "none" for label in CHECKS]
    if on_terminal():
        stdout().print(table(HEADER, [(name, label, result or "kept") for name, label, result in rows]))
    else:
        write_rows(HEADER, [(name, label, result or "kept") for name, label, result in rows])
    broken = [row for row in rows if row[2]]
    if broken:
        hints = [advice(name) for name in dict.fromkeys(name for name, *_ in broken)]
        hint = "\n".join(filter(None, hints)) or None
        raise Seq2AttnError(f"{len(broken)} of {len(rows)} checks failed", hint=hint, exit_code=1)
