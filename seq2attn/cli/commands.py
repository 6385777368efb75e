"""Typer's commands and groups, with options that take several values, such as `--lengths 3 5 7`."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand

from seq2attn.parts import FAMILIES

UsageError: Any = typer.BadParameter.__bases__[0]  # the module that defines it differs between versions of Typer

_FAMILY = rf"({'|'.join(['all', *FAMILIES.names()])}|,)+"
VARIADIC = {  # options that take several values -> what a value after the first looks like: a run's name may follow
    "--lengths": re.compile(r"[0-9][0-9,-]*"),
    "--families": re.compile(_FAMILY),
    **dict.fromkeys(("--scores", "--widths", "--keys", "--scales"), re.compile(r"[^-].*", re.DOTALL)),
}


class Command(TyperCommand):
    """A command whose options in `VARIADIC` take several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in () if ctx.resilient_parsing else self.params:  # resilient: while the shell completes a line
            if parameter.opts[-1] in VARIADIC and getattr(parameter, "multiple", False):
                args = repeat_flag(args, parameter.opts[-1])
        try:
            return super().parse_args(ctx, args)
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


def repeat_flag(args: list[str], flag: str = "--lengths") -> list[str]:
    """`["--lengths", "3", "5", "--json"]` -> `["--lengths=3", "--lengths=5", "--json"]`, which Typer can parse.

    The first word after the flag is a value unless it is another option; further words only if they look like values.
    """
    words = iter(args)
    result: list[str] = []
    within = False  # whether the last word was a value of the flag
    for word in words:
        if word == "--":
            return [*result, word, *words]
        if word.startswith(f"{flag}=") or (within and VARIADIC[flag].fullmatch(word)):
            result.append(word if word.startswith(flag) else f"{flag}={word}")
            within = True
        elif word == flag:
            first = next(words, None)
            within = first is not None and not first.startswith("-")
            result += [f"{flag}={first}"] if within else [flag, *([] if first is None else [first])]
        else:
            result.append(word)
            within = False
    return result
