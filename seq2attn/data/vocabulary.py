"""Characters and their ids."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from seq2attn.errors import Seq2AttnError, character_name

PAD, SOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<sos>", "<eos>")


class Vocabulary:
    """`<pad>`=0, `<sos>`=1, `<eos>`=2, then the symbols, single characters, in order.

    A character is a Unicode code point of a text in normal form C (NFC), in which e with a combining accent is the one
    character é.

    >>> Vocabulary("abc").encode("cab")
    [5, 3, 4]
    """

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(normal_form(symbols) if isinstance(symbols, str) else map(normal_form, symbols))
        self._ids = {symbol: len(SPECIAL) + index for index, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The ids of the characters of `text`. Raises as `check` does."""
        text = self.check(text)
        return [self._ids[character] for character in text]

    def check(self, text: str) -> str:
        """The text in the form in which the model reads it.

        Raises `Seq2AttnError` if it is empty or has characters that are not in the vocabulary.
        """
        if not text:
            raise Seq2AttnError("the string is empty", hint="Give at least one character.")
        if self._ids.keys() >= set(text):  # as written, even where its characters would combine
            return text
        text = normal_form(text)
        if not self._ids.keys() >= set(text):
            raise Seq2AttnError(self._unseen_message(text))
        return text

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens as `<eos>`."""
        return "".join(self.symbol(index) for index in ids)

    def symbol(self, index: int) -> str:
        """One id as text: a character, `<pad>`, `<sos>` or `<eos>`."""
        return SPECIAL[index] if index < len(SPECIAL) else self.symbols[index - len(SPECIAL)]

    def _unseen_message(self, text: str) -> str:
        unseen = sorted(set(text) - set(self.symbols))
        names = ", ".join(map(character_name, unseen[:10])) + (
            f" and {len(unseen) - 10} more" if len(unseen) > 10 else ""
        )
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        return f"{shown!r} has characters the model never saw: {names}; its alphabet is {abridged(self.symbols)}"


def normal_form(text: str) -> str:
    """`text` in normal form C: marks are combined with the letters before them where Unicode has the combination."""
    return unicodedata.normalize("NFC", text)


def abridged(alphabet: Sequence[str]) -> str:
    """An alphabet with its ranges shortened: `abcdefxyz` -> `a-f x-z`."""
    runs: list[list[str]] = []
    for character in alphabet:
        if runs and ord(runs[-1][-1]) + 1 == ord(character):
            runs[-1].append(character)
        else:
            runs.append([character])
    text = " ".join(part for run in runs for part in _abridged_run(run))
    return text if len(text) <= 200 else f"{text[:197]}..."


def _abridged_run(run: Sequence[str]) -> list[str]:
    """Consecutive characters: `a-f`, or each of one or two; those that cannot be seen alone by their code points."""
    names = [character if _is_visible(character) else character_name(character) for character in run]
    if len(run) > 2:
        return [f"{names[0]}-{names[-1]}"]
    return ["".join(names)] if all(map(_is_visible, run)) else names


def _is_visible(character: str) -> bool:
    printable = character.isprintable() and not character.isspace()
    return printable and not unicodedata.category(character).startswith("M")
