"""Tasks whose targets are computed: most of their characters are copied from nowhere.

`21+93 -> 15`: 12 + 39 = 51, the last digits first; `May 3, 1998 -> 1998-05-03`
"""

import datetime
import functools
import re

import torch
from torch import Generator, Tensor

from seq2attn.data.batches import Examples, draw_integers, stable_hash
from seq2attn.data.tasks import Solution, Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import DIGITS

MOST_DIGITS = 4000  # of a number; `int` reads 4,300 at most
YEARS = 1900, 2099  # the first and the last
HELD_OUT = 0.1  # share of the dates that training never draws
_MONTHS = (  # noqa: SIM905
    "January February March April May June July August September October November December"
).split()
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905
_ORDINAL_WORDS = (  # noqa: SIM905
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first "
    "twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh "
    "twenty-eighth twenty-ninth thirtieth thirty-first"
).split()
_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


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
        """Draw sums of two numbers with equally many digits: a number of digits is drawn uniformly,
        or, with `length`, is that of sources of this many characters. Raises `Seq2AttnError` if no
        source has this length.

        No number begins with 0: since it is written from its last digit to its first, the digit
        that is written last is not 0.
        """
        fewest, most = self.min_digits, self.max_digits
        if length is not None:
            if length not in range(3, 2 * MOST_DIGITS + 2, 2):
                hint = "Of two numbers with n digits each: 2n + 1, such as 21."
                raise Seq2AttnError(f"task addition: no source has {length} characters", hint=hint)
            fewest = most = length // 2
        sizes = draw_integers(random, fewest, most, count)  # (N,) digits of each number
        digits = draw_integers(random, 0, 9, count, 2, most)  # (N, 2 numbers, digits)
        # those written last, which are not 0
        digits[torch.arange(count), :, sizes - 1] = draw_integers(random, 1, 9, count, 2)
        pairs = []
        for size, rows in zip(sizes.tolist(), digits.tolist(), strict=True):
            first, second = ("".join(map(str, row[:size])) for row in rows)
            pairs.append((f"{first}+{second}", _add(first, second)))
        return self.encode(pairs, random.device)

    def target_length(self, source_length: int) -> int:
        return source_length // 2 + 1

    def is_trained(self, length: int) -> bool:
        return length % 2 == 1 and super().is_trained(length)

    def answer(self, text: str) -> Solution | None:
        """Return the sum; None unless `text` is two numbers of equally many digits."""
        numbers = re.fullmatch("([0-9]+)[+]([0-9]+)", text)
        if numbers is None or not len(numbers[1]) == len(numbers[2]) <= MOST_DIGITS:
            return None
        return Solution(_add(numbers[1], numbers[2]))


def _add(first: str, second: str) -> str:
    """`21`, `93` -> `15`: the sum of two numbers whose last digit comes first, with as many digits
    as they have, or one more.
    """
    total = int(first[::-1]) + int(second[::-1])
    return str(total).zfill(len(first))[::-1]


# ---- dates ----


class Dates(Task):
    """A date in one of 12 English styles -> ISO 8601: the two alphabets differ, and the output is
    computed.

    May 3, 1998 -> 1998-05-03    the third of May 1998 -> 1998-05-03

    Training draws dates of two centuries that are not held out, and styles, uniformly. Sources of a
    given length, on which a model is measured, are of held-out dates. There is no ideal alignment:
    most characters of the target copy none of the source.
    """

    min_length, max_length = 8, 36  # such as 3.5.1998; the twenty-seventh of September 1998

    def __init__(self) -> None:
        # any one year has every name of a month, weekday and ordinal
        self.source_vocabulary = Vocabulary(sorted(set(DIGITS).union(*_parsed(2000))))
        self.target_vocabulary = Vocabulary(f"{DIGITS}-")

    def examples(self, random: Generator, count: int, length: int | None = None) -> Examples:
        """Draw dates, each in a style, uniformly: dates for training; or, with `length`, of the
        held-out dates and styles that have so many characters. Raises `Seq2AttnError` if none has.
        """
        dates, lengths, held_out = _table()  # lengths (styles, dates), held_out (dates,)
        chosen = ~held_out.expand_as(lengths) if length is None else held_out & (lengths == length)
        pool = chosen.nonzero()  # (N, 2) numbers of a style and of a date
        if not len(pool):
            hint = f"Dates have {self.min_length} to {self.max_length}."
            message = f"task 'dates': no held-out date is written in {length} characters"
            raise Seq2AttnError(message, hint=hint)
        # drawn on the generator's device, and brought to that of the pool
        rows = draw_integers(random, 0, len(pool) - 1, count).cpu()
        pairs = []
        for style, day in pool[rows].tolist():
            date = dates[day]
            pairs.append((written(date)[style], date.isoformat()))
        return self.encode(pairs, random.device)

    def target_length(self, source_length: int) -> int:
        return len("1998-05-03")

    def answer(self, text: str) -> Solution | None:
        """Return the date; None if `text` is not in one of the styles, or there is no such day."""
        year = re.search("[1-9][0-9]{3}", text)
        date = _parsed(int(year[0])).get(text) if year else None
        return Solution(date.isoformat()) if date else None


def is_held_out(date: datetime.date) -> bool:
    """Return True if `date` belongs to the `HELD_OUT` share: the same dates in every run."""
    return stable_hash(date.isoformat()) < HELD_OUT * 2**64


def written(date: datetime.date) -> list[str]:
    """Return `date` in each of 12 styles."""
    day, year = date.day, date.year
    month, weekday = _MONTHS[date.month - 1], _WEEKDAYS[date.weekday()]
    ordinal = f"{day}{_ENDINGS.get(day, 'th')}"
    return [
        f"{day}.{date.month}.{year}",  # 3.5.1998, with points the day comes first
        f"{date.month}/{day}/{year}",  # 5/3/1998, with slashes the month
        f"{day} {month} {year}",  # 3 May 1998
        f"{month} {day}, {year}",
        f"{day} {month[:3]} {year}",  # 14 Oct 1998
        f"{month[:3]} {day}, {year}",
        f"{ordinal} of {month} {year}",  # 3rd of May 1998
        f"{month} {ordinal}, {year}",
        f"the {_ORDINAL_WORDS[day - 1]} of {month} {year}",  # the third of May 1998
        f"{weekday}, {day} {month} {year}",  # Sunday, 3 May 1998
        f"{weekday}, {month} {ordinal}, {year}",
        f"{year}, {month} {day}",  # 1998, May 3
    ]


@functools.lru_cache(maxsize=256)
def _parsed(year: int) -> dict[str, datetime.date]:
    """Return every date of a year by its text in every style."""
    return {text: date for date in _dates(year, year) for text in written(date)}


def _dates(first_year: int, last_year: int) -> list[datetime.date]:
    """Return every date of these years, in order."""
    first = datetime.date(first_year, 1, 1).toordinal()
    last = datetime.date(last_year, 12, 31).toordinal()
    return [datetime.date.fromordinal(day) for day in range(first, last + 1)]


@functools.cache
def _table() -> tuple[list[datetime.date], Tensor, Tensor]:
    """Return the dates, how many characters each has in each style (styles, dates), and which are
    held out (dates,), bool.
    """
    dates = _dates(*YEARS)
    keys = [(date.month, date.day, date.weekday()) for date in dates]  # lengths depend on no more
    lengths = {}
    for key, date in dict(zip(keys, dates, strict=True)).items():  # a date for each key
        lengths[key] = list(map(len, written(date)))
    held_out = list(map(is_held_out, dates))
    return dates, torch.tensor([lengths[key] for key in keys]).T, torch.tensor(held_out)
