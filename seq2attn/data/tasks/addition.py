"""`21+93 -> 15`: 12 + 39 = 51, the last digits first"""

from __future__ import annotations

import torch

from seq2attn.data.tasks.base import Examples, Solution, Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import DIGITS


class Addition(Task):
    """The sum of two numbers with equally many digits; every number is written from its last digit
    to its first.

    21+93 -> 15 (12 + 39 = 51)    9+1 -> 01 (9 + 1 = 10)

    A source of n digits each has 2n + 1 characters. There is no ideal alignment: most digits of the
    sum copy none.
    """

    def __init__(self, *, min_digits: int = 5, max_digits: int = 10) -> None:
        if min_digits > max_digits:
            raise Seq2AttnError(f"min_digits, {min_digits}, is above max_digits, {max_digits}")
        self.source_vocabulary, self.target_vocabulary = (
            Vocabulary(f"{DIGITS}+"),
            Vocabulary(DIGITS),
        )
        self.min_digits, self.max_digits = min_digits, max_digits
        self.min_length, self.max_length = 2 * min_digits + 1, 2 * max_digits + 1

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """Numbers of uniformly many digits; none begins with 0."""
        if length is not None and (length % 2 == 0 or length < 3):
            hint = "Of two numbers with n digits each: 2n + 1, such as 21."
            raise Seq2AttnError(f"task addition: no source has {length} characters", hint=hint)
        shortest, longest = (
            (self.min_digits, self.max_digits) if length is None else (length // 2, length // 2)
        )
        digits = torch.randint(
            shortest, longest + 1, (count,), generator=random, device=random.device
        ).tolist()
        drawn = torch.randint(10, (count, 2, longest), generator=random, device=random.device)
        first = torch.randint(1, 10, (count, 2), generator=random, device=random.device)
        texts = []
        for size, pair, leading in zip(digits, drawn.tolist(), first.tolist(), strict=True):
            numbers = [
                "".join(map(str, [*one[: size - 1], top]))
                for one, top in zip(pair, leading, strict=True)
            ]
            texts.append("+".join(numbers))
        return self.encode([(text, _sum(text)) for text in texts], random.device)

    def target_length(self, source_length: int) -> int:
        return source_length // 2 + 1

    def is_trained(self, length: int) -> bool:
        return length % 2 == 1 and super().is_trained(length)

    def answer(self, text: str) -> Solution | None:
        """The sum; None unless `text` is two numbers of equally many digits."""
        numbers = text.split("+")
        known = (
            len(numbers) == 2
            and 0 < len(numbers[0]) == len(numbers[1])
            and set(text) <= set(f"{DIGITS}+")
        )
        return Solution(_sum(text)) if known else None


def _sum(text: str) -> str:
    """`21+93` -> `15`, digit by digit, so that numbers may have any length."""
    one, other = text.split("+")
    carry, found = 0, ""
    for a, b in zip(one, other, strict=True):
        carry, digit = divmod(int(a) + int(b) + carry, 10)
        found += str(digit)
    return f"{found}1" if carry else found
