"""Characters and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seq2attn.errors import Seq2AttnError

PAD, SOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<sos>", "<eos>")


class Vocabulary:
    """`<pad>`=0, `<sos>`=1, `<eos>`=2, then the symbols, single characters, in order.

    >>> Vocabulary("abc").encode("cab")
    [5, 3, 4]
    """

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: len(SPECIAL) + index for index, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.symbols)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`. Raises as `check` does."""
        self.check(text)
        return [self._ids[character] for character in text]

    def check(self, text: str) -> None:
        """Raise `Seq2AttnError` unless `text` is not empty and uses only the vocabulary's characters."""
        if not text:
            raise Seq2AttnError("the string is empty", hint="Give at least one character.")
        if not self._ids.keys() >= set(text):
            raise Seq2AttnError(self._unseen_message(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens as `<eos>`."""
        return "".join(self.symbol(index) for index in ids)

    def symbol(self, index: int) -> str:
        """One id as text: a character, `<pad>`, `<sos>` or `<eos>`."""
        return SPECIAL[index] if index < len(SPECIAL) else self.symbols[index - len(SPECIAL)]

    def _unseen_message(self, text: str) -> str:
        unseen = sorted(set(text) - set(self.symbols))
        names = ", ".join(map(repr, unseen[:10])) + (f" and {len(unseen) - 10} more" if len(unseen) > 10 else "")
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        return f"{shown!r} has characters the model never saw: {names}; its alphabet is {abridged(self.symbols)}"


def abridged(alphabet: Sequence[str]) -> str:
    """An alphabet with its ranges shortened: `abcdefxyz` -> `a-f x-z`."""
    runs: list[list[str]] = []
    for character in alphabet:
        if runs and ord(runs[-1][-1]) + 1 == ord(character):
            runs[-1].append(character)
        else:
            runs.append([character])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else "".join(run) for run in runs]
    text = " ".join(part if part.isprintable() and part.strip() == part else repr(part) for part in parts)
    return text if len(text) <= 200 else f"{text[:197]}..."
