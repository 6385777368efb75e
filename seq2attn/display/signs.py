"""The signs for symbols that cannot be seen, and the colours of attention weights and of scores,
the same in the terminal, figures, TensorBoard, the report and the page.
"""

import re
import unicodedata
from collections.abc import Collection

from seq2attn.display.console import printable

SIGNS = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"}
PLAIN_SIGNS = {"<eos>": "$", "<pad>": "0", "<sos>": "^", " ": "_"}
"""for a terminal that has no more than ASCII"""
MEANINGS = {"<pad>": "padding", " ": "space"}
"""what a key says of a symbol, if not the symbol itself"""
CONJOINING = "^HANGUL (CHOSEONG|JUNGSEONG|JONGSEONG)"
DOTTED_CIRCLE = "\u25cc"  # carries a combining mark that stands alone


def sign(symbol: str, *, plain: bool = False) -> str:
    """Return a symbol as the label of a row or column of a map or a table: a sign for one that
    would not be seen, such as a blank; a combining mark on a dotted circle; for a Korean letter
    that would join its neighbours to a syllable the same letter that stands alone (Unicode has
    both); any other as it is, with control characters escaped.

    plain: True for signs in ASCII; it makes no difference to a symbol that has no sign.
    """
    signs = PLAIN_SIGNS if plain else SIGNS
    if symbol in signs:
        return signs[symbol]
    if len(symbol) != 1:
        return printable(symbol)
    # a combining mark (of a category Mn, Mc or Me), such as an accent, is seen on a letter only
    if unicodedata.category(symbol).startswith("M"):
        return DOTTED_CIRCLE + symbol
    try:  # of any other symbol the name stays the same, and so what is looked up is the symbol
        name = re.sub(CONJOINING, "HANGUL LETTER", unicodedata.name(symbol))
        return printable(unicodedata.lookup(name))
    except (ValueError, KeyError):  # it has no name, or there is no such letter
        return printable(symbol)


def explain_signs(symbols: Collection[str], *, plain: bool = False) -> list[str]:
    """Return `⏎ <eos>` and so on for those of the symbols that have a sign."""
    return [
        f"{sign(symbol, plain=plain)} {MEANINGS.get(symbol, symbol)}"
        for symbol in SIGNS
        if symbol in symbols
    ]


def isolate_direction(text: str) -> str:
    """Return a text for a title, between left-to-right marks if it is written from right to left,
    so that it does not turn around what stands beside it.
    """
    text = printable(text.replace("\t", " "))  # a tab stands before a source's features
    directions = {unicodedata.bidirectional(character) for character in text}
    return text if directions.isdisjoint({"R", "AL", "AN"}) else f"\u200e{text}\u200e"


# ---- colours ----

COLOUR_MAP = "cividis"  # in matplotlib, for the figures; readable with any kind of colour vision
CIVIDIS = (  # the same at 0, 1/8, ..., 1, for all else (Nunez et al. 2018)
    "#00224e",
    "#1a386f",
    "#434e6c",
    "#61656f",
    "#7d7c78",
    "#9b9476",
    "#bcae6c",
    "#dec958",
    "#fee838",
)
WHITE = "#ffffff"
BLUE = "#0072b2"
ORANGE = "#d55e00"
SERIES_COLOURS = (  # of metrics, and of families of strings, which are no more than these
    "#2563c9",
    "#c2571a",
    "#3c7d4c",
    "#7a3b9a",
    "#8a6d1f",
    "#2b8a9d",
    "#b0306a",
)
SCORE_COLOURS = {  # after Okabe & Ito 2008
    "scaled": BLUE,
    "dot": ORANGE,
    "general": "#009e73",
    "additive": "#cc79a7",
    "cosine": "#e69f00",
    "scaled_general": "#56b4e9",
    "key_value": "#6a3d9a",
    "none": "#7f7f7f",
}


def weight_colour(weight: float) -> str:
    """Return the colour of an attention weight, such as `#00224e`. It is interpolated between the
    colours of `CIVIDIS`, which stand for 0, 1/8, ..., 1; a weight outside has the colour of the
    nearer end.
    """
    position = max(0.0, min(1.0, weight)) * (len(CIVIDIS) - 1)
    below = min(int(position), len(CIVIDIS) - 2)
    return mixed(CIVIDIS[below], CIVIDIS[below + 1], position - below)


def mixed(first: str, second: str, share: float) -> str:
    """Mix two colours such as `#0072b2`: a share of 0 gives the first, 1 the second."""
    channels = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    return "#" + bytes(round(low + share * (high - low)) for low, high in channels).hex()


def score_colour(name: str) -> str:
    """Return the colour of a score. That of a plug-in's score is derived from its name."""
    palette = list(SCORE_COLOURS.values())
    return SCORE_COLOURS.get(name, palette[sum(name.encode()) % len(palette)])
