"""The signs for symbols that cannot be seen, the same in the terminal, figures, the report and the
page.
"""

import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from seq2attn.display.console import printable


class Sign(NamedTuple):
    """How a symbol is written, and what the key says."""

    sign: str
    ascii: str
    """for a terminal that has no more"""
    meaning: str


SIGNS = {
    "<eos>": Sign("⏎", "$", "<eos>"),
    "<pad>": Sign("∅", "0", "padding"),
    "<sos>": Sign("⊢", "^", "<sos>"),
    " ": Sign("␣", "_", "space"),
}
CONJOINING = "^HANGUL (CHOSEONG|JUNGSEONG|JONGSEONG)"
DOTTED_CIRCLE = "\u25cc"  # carries a combining mark that stands alone


def sign(symbol: str, *, plain: bool = False) -> str:
    """Return a symbol as the label of a row or column of a map or a table: a sign for one that
    would not be seen, such as a blank; control characters are escaped.

    plain: True for signs in ASCII; it makes no difference to a symbol that has no sign.
    """
    if symbol in SIGNS:
        return SIGNS[symbol].ascii if plain else SIGNS[symbol].sign
    # a combining mark (of a category Mn, Mc or Me), such as an accent, is seen on a letter only
    if len(symbol) == 1 and unicodedata.category(symbol).startswith("M"):
        return DOTTED_CIRCLE + symbol
    return printable(_letter(symbol))


def _letter(symbol: str) -> str:
    """Return a Korean letter that would join its neighbours to a syllable as the same letter that
    stands alone, which Unicode has, too; other symbols as they are.
    """
    name = unicodedata.name(symbol, "") if len(symbol) == 1 else ""
    try:  # the name of any other symbol stays, and so it is found itself
        return unicodedata.lookup(re.sub(CONJOINING, "HANGUL LETTER", name))
    except KeyError:  # it has no name, or there is no such letter
        return symbol


def explain_signs(symbols: Collection[str], *, plain: bool = False) -> list[str]:
    """Return `⏎ <eos>` and so on for those of the symbols that have a sign."""
    return [
        f"{sign(symbol, plain=plain)} {row.meaning}"
        for symbol, row in SIGNS.items()
        if symbol in symbols
    ]


def isolate_direction(text: str) -> str:
    """Return a text for a title, between left-to-right marks if it is written from right to left,
    so that it does not turn around what stands beside it.
    """
    text = printable(text.replace("\t", " "))  # a tab stands before a source's features
    directions = {unicodedata.bidirectional(character) for character in text}
    return text if directions.isdisjoint({"R", "AL", "AN"}) else f"\u200e{text}\u200e"
