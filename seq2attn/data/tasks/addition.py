"""`21+93 -> 15`: 12 + 39 = 51, the last digits first"""

import re

from torch import Generator

from seq2attn.data.tasks.base import Examples, Solution, Task, draw_integers
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
        self.source_vocabulary = Vocabulary(f"{DIGITS}+")
        self.target_vocabulary = Vocabulary(DIGITS)
        self.min_digits = min_digits
        self.max_digits = max_digits
        self.min_length = 2 * min_digits + 1
        self.max_length = 2 * max_digits + 1

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw sums of two numbers of equally, and uniformly, many digits; or, with `length`, of so
        many that a source has this length. Raises `Seq2AttnError` if no source has it.

        No number begins with 0: since it is written from its last digit to its first, the digit
        that is written last is not 0.
        """
        shortest, longest = self.min_digits, self.max_digits
        if length is not None:
            if length % 2 == 0 or length < 3:
                hint = "Of two numbers with n digits each: 2n + 1, such as 21."
                raise Seq2AttnError(f"task addition: no source has {length} characters", hint=hint)
            shortest = longest = length // 2
        sizes = draw_integers(random, shortest, longest, count)  # (N,) digits of each number
        digits = draw_integers(random, 0, 9, count, 2, longest)
        last_written = draw_integers(random, 1, 9, count, 2, 1)
        last = (sizes - 1).view(-1, 1, 1).expand(-1, 2, 1)  # (N, 2, 1) position of that digit
        digits = digits.scatter(2, last, last_written)  # (N, 2, longest)
        pairs = []
        for size, rows in zip(sizes.tolist(), digits.tolist(), strict=True):
            text = "+".join("".join(map(str, row[:size])) for row in rows)
            pairs.append((text, _add(text)))
        return self.encode(pairs, random.device)

    def target_length(self, source_length: int) -> int:
        return source_length // 2 + 1

    def is_trained(self, length: int) -> bool:
        return length % 2 == 1 and super().is_trained(length)

    def answer(self, text: str) -> Solution | None:
        """Return the sum; None unless `text` is two numbers of equally many digits."""
        numbers = re.fullmatch("([0-9]+)[+]([0-9]+)", text)
        if numbers is None or len(numbers[1]) != len(numbers[2]):
            return None
        return Solution(_add(text))


def _add(text: str) -> str:
    """`21+93` -> `15`, digit by digit, because `int` refuses numbers of more than 4,300 digits."""
    first, second = text.split("+")
    carry, total = 0, ""
    for a, b in zip(first, second, strict=True):
        carry, digit = divmod(int(a) + int(b) + carry, 10)
        total += str(digit)
    return f"{total}1" if carry else total
