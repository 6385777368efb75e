"""`seq2attn analyze ...`: analyses of attention that need no training, one file per subcommand."""

from __future__ import annotations

import typer

from seq2attn.cli.analyze.entropy import entropy
from seq2attn.cli.analyze.forms import forms
from seq2attn.cli.analyze.gradient import gradient
from seq2attn.cli.analyze.ledger import ledger
from seq2attn.cli.analyze.masks import masks
from seq2attn.cli.analyze.saturation import saturation
from seq2attn.cli.analyze.variance import variance
from seq2attn.cli.usage import Commands
from seq2attn.cli.variadic import ManyVariadicCommand

analyze = typer.Typer(
    name="analyze",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Analyses of attention that need no training, with theory beside measurement.",
    epilog="Start with:  seq2attn analyze variance",
)
for command in (variance, saturation, gradient, entropy, ledger, masks, forms):
    analyze.command(cls=ManyVariadicCommand)(command)

__all__ = ["analyze"]
