"""Symbols and their ids."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from seq2attn.errors import Seq2AttnError
from seq2attn.text import character_name, first_of, is_visible, quoted

PAD, SOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<sos>", "<eos>")
UNKNOWN = "<unk>"
FEATURES, FEATURE = "\t", ";"  # what stands before a source's features, and between them
FOLLOWS = "◌"  # stands before a character that continues a symbol


class Vocabulary:
    """`<pad>`=0, `<sos>`=1, `<eos>`=2, with `unknown` also `<unk>`=3, then the symbols in order,
    then the features.

    separator: what stands between the symbols of a text; if it is empty, each character is a
        symbol.
    unknown: symbols that are not in the vocabulary are read as `<unk>`; otherwise they are refused.
    split: each symbol of a text is read and written as its characters, letters and accents apart.
        `symbols` are these characters, with ◌ before those that continue a symbol: kʰ is k and ◌ʰ.
        `joined` puts the symbols together again.
    features: further symbols after a text's own, written as `walk<TAB>V;PST`; None: texts have
        none.
    normalise: Unicode's normal form into which texts are brought before they are split: nfc or nfd,
        or none. With nfd too, `shown` and `decode` return letters and marks composed, as users see
        them.

    A character is a Unicode code point of a text in that form: in normal form C, e with a combining
    accent is the one character é; in D, é is two characters, and a Korean syllable two or three.

    >>> Vocabulary("abc").encode("cab")
    [5, 3, 4]
    >>> Vocabulary(["a", "t͡ʃ"], separator=" ", unknown=True).encode("t͡ʃ a b")
    [5, 4, 3]
    >>> Vocabulary(["a", "k", "◌ʰ"], separator=" ", split=True).symbols_of("kʰ a")
    ('k', '◌ʰ', 'a')
    """

    def __init__(
        self,
        symbols: Sequence[str],
        *,
        separator: str = "",
        unknown: bool = False,
        split: bool = False,
        features: Sequence[str] | None = None,
        normalise: str = "nfc",
    ) -> None:
        if isinstance(symbols, str):
            symbols = [*normal_form(symbols, normalise)]
        self.symbols = tuple(normal_form(symbol, normalise) for symbol in symbols)
        self.separator, self.unknown, self.split, self.normalise = (
            separator,
            unknown,
            split,
            normalise,
        )
        self.features = None if features is None else tuple(features)
        special = (*SPECIAL, UNKNOWN) if unknown else SPECIAL
        self.tokens = (*special, *self.symbols, *(self.features or ()))  # each id as text
        self._first_feature = len(special) + len(self.symbols)
        self._ids = {symbol: index for index, symbol in enumerate(self.symbols, len(special))}
        self._feature_ids = {
            name: index for index, name in enumerate(self.features or (), self._first_feature)
        }

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`.

        Raises `Seq2AttnError` unless it consists of symbols, and without `unknown` of the
        vocabulary's only.
        """
        if not text:
            raise Seq2AttnError("the string is empty", hint="Give at least one symbol.")
        symbols, features = self.parts_of(text)
        if not symbols or "" in symbols:
            where = f" with {self.separator!r} between them" if self.separator else ""
            raise Seq2AttnError(
                f"{quoted(text)} is not a series of symbols{where}: there is an empty one"
            )
        if self.features is not None and (not features or "" in features):
            hint = f"Write the word, a tab, and its features with {FEATURE!r} between them."
            raise Seq2AttnError(f"{quoted(text)} lacks features, or has an empty one", hint=hint)
        if self.unknown and (
            wrong := re.search("[\t\ud800-\udfff]", "".join([*symbols, *features]))
        ):
            raise Seq2AttnError(
                f"{quoted(text)} {'has a tab too many' if wrong[0] < ' ' else 'is not UTF-8 text'}"
            )
        unseen = [] if self.unknown else self.unseen(text)
        if unseen:
            kind = "symbols" if self.separator else "characters"
            names, alphabet = first_of(list(map(character_name, unseen))), abridged(self.symbols)
            raise Seq2AttnError(
                f"{quoted(text)} has {kind} the model never saw: {names}; its alphabet is {alphabet}"
            )
        ids = [self._ids.get(symbol, UNK) for symbol in symbols]
        return ids + [self._feature_ids.get(feature, UNK) for feature in features]

    def symbols_of(self, text: str) -> tuple[str, ...]:
        """The symbols of `text`, its features last."""
        symbols, features = self.parts_of(text)
        return (*symbols, *features)

    def parts_of(self, text: str) -> tuple[list[str], list[str]]:
        """The symbols of `text`, and its features; they need not be in the vocabulary."""
        text = self._normal(text)
        word, tab, features = (
            text.partition(FEATURES) if self.features is not None else (text, "", "")
        )
        symbols = word.split(self.separator) if self.separator else list(word)
        if (
            self.split
        ):  # letters and marks apart, with ◌ before all characters of a symbol but its first
            apart = (
                symbols
                if self.normalise == "none"
                else [normal_form(symbol, "nfd") for symbol in symbols]
            )
            symbols = [
                part
                for symbol in apart
                for part in (symbol[:1], *(FOLLOWS + mark for mark in symbol[1:]))
            ]
        return symbols, features.split(FEATURE) if tab else []

    def unseen(self, text: str) -> list[str]:
        """The symbols of `text` that are not in the vocabulary, each once, sorted."""
        symbols, features = map(set, self.parts_of(text))
        return sorted((symbols - self._ids.keys()) | (features - self._feature_ids.keys()))

    def normalised(self, text: str) -> str:
        """The text in the form in which it is shown."""
        text = self._normal(text)
        return normal_form(text, "nfc") if self.normalise == "nfd" else text

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens as `<eos>`."""
        text = self.text([self.tokens[index] for index in ids if index < self._first_feature])
        features = [self.tokens[index] for index in ids if index >= self._first_feature]
        return f"{text}{FEATURES}{FEATURE.join(features)}" if features else text

    def text(self, symbols: Sequence[str]) -> str:
        """The text of these symbols."""
        return self.separator.join(self.joined(symbols))

    def joined(self, symbols: Sequence[str]) -> tuple[str, ...]:
        """The symbols as users count them: parts of one that was taken apart are put together;
        special tokens remain.
        """
        letters_apart = self.normalise == "nfd" and not self.separator
        whole: list[str] = []
        for symbol in symbols:
            mark = symbol[1:] if self.split and len(symbol) == 2 and symbol[0] == FOLLOWS else ""
            if whole and (
                mark or (letters_apart and len(normal_form(whole[-1] + symbol, "nfc")) == 1)
            ):
                whole[-1] += mark or symbol
            else:
                whole.append(symbol)
        return tuple(composed(symbol, self.normalise) for symbol in whole)

    def _normal(self, text: str) -> str:
        as_written = not self.separator and not self.unknown and self._ids.keys() >= set(text)
        return text if as_written else normal_form(text, self.normalise)


def normal_form(text: str, form: str) -> str:
    """`text` in Unicode's normal form C (nfc: a letter and its marks are one character where
    possible) or D (nfd: they are apart); none: as it is.
    """
    return (
        text if form == "none" else unicodedata.normalize("NFD" if form == "nfd" else "NFC", text)
    )


def composed(text: str, normalise: str) -> str:
    """`text` in normal form C, but as it is if `normalise` is none."""
    return normal_form(text, "none" if normalise == "none" else "nfc")


def abridged(alphabet: Sequence[str]) -> str:
    """An alphabet in one line, with spaces where symbols are longer, and code points for those that
    cannot be seen.
    """
    names = [symbol if is_visible(symbol) else character_name(symbol) for symbol in alphabet]
    text = ("" if all(len(name) == 1 for name in names) else " ").join(names)
    return text if len(text) <= 200 else f"{text[:197]}..."
