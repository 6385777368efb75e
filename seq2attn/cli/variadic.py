"""`--lengths 3 5 7 10`: an option that takes all the values after it."""

from __future__ import annotations

import re
from typing import Any

from seq2attn.cli.usage import Command
from seq2attn.errors import Seq2AttnError

_NUMBER = re.compile(r"-?[0-9][0-9,-]*,?")
_WORD = re.compile(r"[^-].*|-[0-9.].*", re.DOTALL)


MANY = {
    "--scores": "dot scaled",
    "--widths": "16 64 256",
    "--keys": "16 64",
    "--scales": "0.1 1 10",
}
LENGTHS = {"--lengths": "3 5 7 10 or --lengths 3-10"}


class VariadicCommand(Command):
    """A command whose `--lengths` takes several values, written with or without repeating the flag."""

    flags = LENGTHS
    """options that take several values, each with an example of them"""
    value = _NUMBER
    """what the words after the first look like"""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite `--lengths 3 5` to `--lengths=3 --lengths=5`, which the parser below understands."""
        words = list(args)
        for flag, example in self.flags.items():
            words = repeat_flag(words, flag, example, self.value)
        return super().parse_args(ctx, words)


class ManyVariadicCommand(VariadicCommand):
    """A command without arguments, some of whose options take all the words that follow, up to the next option."""

    flags = MANY
    value = _WORD


def repeat_flag(
    args: list[str], flag: str = "--lengths", example: str = LENGTHS["--lengths"], value: re.Pattern[str] = _NUMBER
) -> list[str]:
    """`["--lengths", "3", "5", "--json"]` -> `["--lengths=3", "--lengths=5", "--json"]`.

    The first word after the flag is its value unless it is another option; the following words are, as long as they
    look like values.
    """
    result: list[str] = []
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if word == "--":
            return [*result, word, *args[index:]]
        if word != flag and not word.startswith(f"{flag}="):
            result.append(word)
            continue
        values = [word.partition("=")[2]] if word != flag else []
        if not values and index < len(args) and (not args[index].startswith("-") or value.fullmatch(args[index])):
            values.append(args[index])
            index += 1
        while index < len(args) and value.fullmatch(args[index]):
            values.append(args[index])
            index += 1
        if not values:
            one = flag.removeprefix("--").removesuffix("s")
            raise Seq2AttnError(f"{flag} needs at least one {one}, such as {flag} {example}")
        result += [f"{flag}={found}" for found in values]
    return result
