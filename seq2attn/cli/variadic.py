"""`--lengths 3 5 7 10`: an option that takes all the values after it."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

from seq2attn.errors import Seq2AttnError

OPTION = "--lengths"
_VALUE = re.compile(r"-?[0-9][0-9,-]*,?")


class VariadicCommand(TyperCommand):
    """A command whose `--lengths` takes several values, written with or without repeating the flag."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--lengths 3 5` to `--lengths=3 --lengths=5`, which the parser below understands."""
        return super().parse_args(ctx, repeat_flag(list(args)))


def repeat_flag(args: list[str]) -> list[str]:
    """`["--lengths", "3", "5", "--json"]` -> `["--lengths=3", "--lengths=5", "--json"]`.

    The first word after the flag is its value unless it is another option; the following words are, as long as they
    look like lengths.
    """
    result: list[str] = []
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if word == "--":
            return [*result, word, *args[index:]]
        if word != OPTION and not word.startswith(f"{OPTION}="):
            result.append(word)
            continue
        values = [word.partition("=")[2]] if word != OPTION else []
        if not values and index < len(args) and (not args[index].startswith("-") or _VALUE.fullmatch(args[index])):
            values.append(args[index])
            index += 1
        while index < len(args) and _VALUE.fullmatch(args[index]):
            values.append(args[index])
            index += 1
        if not values:
            raise Seq2AttnError(f"{OPTION} needs at least one length, such as {OPTION} 3 5 7 10 or {OPTION} 3-10")
        result += [f"{OPTION}={value}" for value in values]
    return result
