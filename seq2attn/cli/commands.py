"""Typer's commands and groups, with options that take several values, such as `--lengths 3 5 7`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import typer
from typer.core import TyperCommand

from seq2attn.parts import FAMILIES

UsageError: Any = typer.BadParameter.__bases__[
    0
]  # the module that defines it differs between versions of Typer

_FAMILY = rf"({'|'.join(['all', *FAMILIES.names()])}|,)+"
VARIADIC = {  # options that take several values -> what a value after the first looks like: a run's name may follow
    "--lengths": re.compile(r"[0-9][0-9,-]*"),
    "--families": re.compile(_FAMILY),
    **dict.fromkeys(
        ("--scores", "--widths", "--keys", "--scales"), re.compile(r"[^-].*", re.DOTALL)
    ),
}


class Command(TyperCommand):
    """A command whose options in `VARIADIC` take several words."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first line of its help, which a list of commands wraps instead of cutting it."""
        return (self.help or "").partition("\n")[0]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        several = [
            one.opts[-1]
            for one in self.params
            if one.opts[-1] in VARIADIC and getattr(one, "multiple", False)
        ]
        try:  # resilient: while the shell completes a line
            return super().parse_args(
                ctx, args if ctx.resilient_parsing else repeat_flags(args, several)
            )
        except UsageError as error:
            error.ctx = error.ctx or ctx
            raise


def group(name: str, **settings: Any) -> typer.Typer:
    """A group of commands, with plain help: panels take half as long again."""
    return typer.Typer(
        name=name,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **settings,
    )


def repeat_flags(args: list[str], flags: Collection[str]) -> list[str]:
    """`["--lengths", "3", "5", "--json"]` -> `["--lengths", "3", "--lengths", "5", "--json"]`,
    which Typer can parse.

    The word after a flag is its value; further words only if they look like values.
    """
    result: list[str] = []
    flag = previous = ""
    for place, word in enumerate(args):
        if word == "--":
            return [*result, *args[place:]]
        if flag and previous != flag and VARIADIC[flag].fullmatch(word):
            result.append(flag)
        elif word.partition("=")[0] in flags:
            flag = word.partition("=")[0]
        elif previous != flag:
            flag = ""
        result.append(word)
        previous = word
    return result
