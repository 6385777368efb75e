"""Symbols and their ids."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence

from seq2attn.errors import Seq2AttnError, character_name, first_of, is_visible, quoted
from seq2attn.registry import composed

PAD, SOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<sos>", "<eos>")
UNKNOWN = "<unk>"
FEATURES, FEATURE = "\t", ";"  # the signs before a source's features, and between them


class Vocabulary:
    """The ids of `<pad>` (0), `<sos>` (1), `<eos>` (2), `<unk>` (3) if `unknown`, then of the
    symbols in order, then of the features.

    separator: the text between the symbols of a string; if it is empty, each character is a symbol.
    unknown: symbols outside the vocabulary become `<unk>`; otherwise they are refused.
    features: further symbols that follow those of a string, written as `walk<TAB>V;PST`; None:
        strings have none.
    normalise: the Unicode normal form that strings are brought to before they are split, nfc or
        nfd. Even with nfd, `decode` returns code points of form C, as users see them.

    A character is a Unicode code point of a string in that form: in normal form C, e with a
    combining accent is the one character é; in D, é is two characters, and a Korean syllable two or
    three.

    >>> Vocabulary("abc").encode("cab")
    [5, 3, 4]
    >>> Vocabulary(["a", "t͡ʃ"], separator=" ", unknown=True).encode("t͡ʃ a b")
    [5, 4, 3]
    """

    def __init__(
        self,
        symbols: Sequence[str],
        *,
        separator: str = "",
        unknown: bool = False,
        features: Sequence[str] | None = None,
        normalise: str = "nfc",
    ) -> None:
        self.symbols = tuple(normal_form(symbol, normalise) for symbol in symbols)
        self.separator = separator
        self.unknown = unknown
        self.normalise = normalise
        self.features = features
        special = (*SPECIAL, UNKNOWN) if unknown else SPECIAL
        self.tokens = (*special, *self.symbols, *(features or ()))  # each id as text
        self._first_feature = len(special) + len(self.symbols)
        self.ids = {symbol: index for index, symbol in enumerate(self.symbols, len(special))}
        """of the symbols alone, one of which may be spelled like a special token"""
        self._feature_ids = {
            name: index for index, name in enumerate(features or (), self._first_feature)
        }

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the symbols of `text`, then of its features if it has any.

        Raises `Seq2AttnError` for a text without symbols, or without features where strings have
        some; for an empty symbol or feature; without `unknown`, for those that the vocabulary
        lacks; and with `unknown`, for a tab too many, and for text that is not UTF-8.
        """
        symbols, features = self.split(text)
        if not symbols or "" in symbols:  # before the features, or between two separators
            raise Seq2AttnError(
                f"{quoted(text)} has no symbol, or an empty one", hint="Give at least one symbol."
            )
        if self.features is not None and (not features or "" in features):
            raise Seq2AttnError(
                f"{quoted(text)} lacks features, or has an empty one",
                hint=f"Write the word, a tab, and its features with {FEATURE!r} between them.",
            )
        # any other symbol becomes `<unk>`; but one tab alone may stand before features, and a
        # surrogate stands for a byte that is not UTF-8
        if self.unknown:
            if re.search("[\t\ud800-\udfff]", "".join([*symbols, *features])):
                raise Seq2AttnError(f"{quoted(text)} has a tab too many, or is not UTF-8 text")
        elif unseen := self.unseen(text):
            names = first_of(map(character_name, unseen))
            raise Seq2AttnError(
                f"{quoted(text)} has symbols the model never saw: {names}; "
                f"its alphabet is {abridged(self.symbols)}"
            )
        ids = [self.ids.get(symbol, UNK) for symbol in symbols]
        return ids + [self._feature_ids.get(feature, UNK) for feature in features]

    def split(self, text: str) -> tuple[list[str], list[str]]:
        """Split `text` into symbols and features; they need not be in the vocabulary."""
        text = normal_form(text, self.normalise)
        features: list[str] = []
        if self.features is not None and FEATURES in text:
            text, _, after = text.partition(FEATURES)
            features = after.split(FEATURE)
        return text.split(self.separator) if self.separator else list(text), features

    def symbols_of(self, text: str) -> tuple[str, ...]:
        """Return the symbols of `text`, its features last."""
        symbols, features = self.split(text)
        return (*symbols, *features)

    def unseen(self, text: str) -> list[str]:
        """Return the symbols of `text` that are not in the vocabulary, each once, sorted."""
        symbols, features = self.split(text)
        return sorted(
            set(symbols).difference(self.ids) | set(features).difference(self._feature_ids)
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, special tokens as `<eos>`."""
        end = self._first_feature
        text = self.text([self.tokens[index] for index in ids if index < end])
        features = [self.tokens[index] for index in ids if index >= end]
        return text + FEATURES + FEATURE.join(features) if features else text

    def text(self, symbols: Sequence[str]) -> str:
        """Return the text of these symbols."""
        return self.separator.join(self.joined(symbols))

    def joined(self, symbols: Sequence[str]) -> tuple[str, ...]:
        """Return the symbols as users count them.

        These are the symbols themselves, except with nfd, whose letters and accents are joined to
        code points of form C: é is one, and g̲, which has no composed form, stays two.
        """
        if self.normalise != "nfd":
            return tuple(symbols)
        whole: list[str] = []
        for symbol in symbols:
            # one character if this symbol is a mark that fits the last one
            both = composed(whole[-1] + symbol) if whole else ""
            if len(both) == 1 and not self.separator:  # symbols between separators stay apart
                whole[-1] = both
            else:
                whole.append(composed(symbol))
        return tuple(whole)


def normal_form(text: str, form: str) -> str:
    """Return `text` in Unicode's normal form C (nfc: a letter and its marks are one code point if
    there is one) or D (nfd: they are separate).
    """
    return unicodedata.normalize("NFD" if form == "nfd" else "NFC", text)


def abridged(alphabet: Sequence[str]) -> str:
    """Return an alphabet in one line, with code points for symbols that are invisible."""
    names = [symbol if is_visible(symbol) else character_name(symbol) for symbol in alphabet]
    return textwrap.shorten(" ".join(names), 200, placeholder=" ...")
