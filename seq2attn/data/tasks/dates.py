"""`May 3, 1998 -> 1998-05-03`"""

from __future__ import annotations

import datetime
import functools
import hashlib
import re

import torch
from torch import Tensor

from seq2attn.data.tasks.base import Examples, Solution, Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError

STYLES = (
    "{day}.{month}.{year}",  # 3.5.1998, with points the day comes first
    "{month}/{day}/{year}",  # 5/3/1998, with slashes the month
    "{day} {month_name} {year}",  # 3 May 1998
    "{month_name} {day}, {year}",
    "{day} {month_short} {year}",  # 14 Oct 1998
    "{month_short} {day}, {year}",
    "{ordinal} of {month_name} {year}",  # 3rd of May 1998
    "{month_name} {ordinal}, {year}",
    "the {ordinal_word} of {month_name} {year}",  # the third of May 1998
    "{weekday}, {day} {month_name} {year}",  # Sunday, 3 May 1998
    "{weekday}, {month_name} {ordinal}, {year}",
    "{year}, {month_name} {day}",  # 1998, May 3
)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ONES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_ORDINAL_WORDS = (
    *_ONES,
    *(
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
    ),
    *(
        "eighteenth",
        "nineteenth",
        "twentieth",
        *(f"twenty-{one}" for one in _ONES),
        "thirtieth",
        "thirty-first",
    ),
)
_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


class Dates(Task):
    """A date in one of 12 English styles -> ISO 8601: the two alphabets differ, and the output is
    computed.

    May 3, 1998 -> 1998-05-03    the third of May 1998 -> 1998-05-03

    Training draws dates that are not held out, and styles, uniformly. Sources of a given length, on
    which a model is measured, are of held-out dates. There is no ideal alignment: most characters
    of the target copy none of the source.
    """

    def __init__(
        self,
        *,
        first_year: int = 1900,
        last_year: int = 2099,
        held_out: float = 0.1,
        min_length: int = 8,
        max_length: int = 36,
    ) -> None:
        if first_year > last_year:
            raise Seq2AttnError(f"first_year, {first_year}, is above last_year, {last_year}")
        self.source_vocabulary = Vocabulary(
            "".join(sorted({*"".join(_written(2000)), *"0123456789"}))
        )
        self.target_vocabulary = Vocabulary("0123456789-")
        self.min_length, self.max_length = min_length, max_length
        self.first_year, self.last_year = first_year, last_year
        self.held_out = held_out

    def examples(self, random: torch.Generator, count: int, length: int | None = None) -> Examples:
        """Uniform over dates and styles; those of one `length` are of held-out dates."""
        pool, dates = self._pool(length), _dates(self.first_year, self.last_year)
        places = torch.randint(len(pool), (count,), generator=random, device=random.device).cpu()
        drawn = [divmod(index, len(dates)) for index in pool[places].tolist()]
        dated = [(STYLES[style], dates[day]) for style, day in drawn]
        return self.encode(
            [(write_date(date, style), date.isoformat()) for style, date in dated], random.device
        )

    def target_length(self, source_length: int) -> int:
        return len("1998-05-03")

    def answer(self, text: str) -> Solution | None:
        """The date; None if `text` is not in one of the styles, or there is no such day."""
        date = read_date(text)
        return None if date is None else Solution(date.isoformat())

    def _pool(self, length: int | None) -> Tensor:
        """What `examples` draws from: (N,), each style * number of dates + date."""
        lengths, held_out = _table(self.first_year, self.last_year, self.held_out)
        if length is None:
            chosen = (lengths >= self.min_length) & (lengths <= self.max_length) & ~held_out
            wanted = (
                f"date for training is written in {self.min_length} to {self.max_length} characters"
            )
        else:
            chosen = (lengths == length) & held_out
            wanted = f"held-out date is written in {length} characters"
        pool = chosen.flatten().nonzero().squeeze(1)
        if not len(pool):
            years, least, most = (
                f"{self.first_year} to {self.last_year}",
                int(lengths.min()),
                int(lengths.max()),
            )
            raise Seq2AttnError(
                f"task 'dates': no {wanted}", hint=f"Dates of {years} have {least} to {most}."
            )
        return pool


def is_held_out(date: datetime.date, share: float) -> bool:
    """Whether `date` belongs to the held-out `share` of dates: a pure function of the two, the same
    in every run.

    A larger share contains the dates of a smaller one.
    """
    digest = hashlib.blake2b(date.isoformat().encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def write_date(date: datetime.date, style: str) -> str:
    """`date` in one of `STYLES`."""
    month = _MONTHS[date.month - 1]
    return style.format(
        day=date.day,
        ordinal=f"{date.day}{_ENDINGS.get(date.day, 'th')}",
        ordinal_word=_ORDINAL_WORDS[date.day - 1],
        month=date.month,
        month_name=month,
        month_short=month[:3],
        weekday=_WEEKDAYS[date.weekday()],
        year=date.year,
    )


def read_date(text: str) -> datetime.date | None:
    """The date that `text` writes in one of `STYLES`; None if it is none, or its weekday is wrong."""
    year = re.search(r"[0-9]{4}", text)
    return _written(int(year[0])).get(text) if year and int(year[0]) else None


@functools.lru_cache(maxsize=256)
def _written(year: int) -> dict[str, datetime.date]:
    """Every date of a year in every style."""
    return {write_date(date, style): date for date in _dates(year, year) for style in STYLES}


@functools.lru_cache(maxsize=4)
def _dates(first_year: int, last_year: int) -> list[datetime.date]:
    """Every date of these years, in order."""
    first, last = datetime.date(first_year, 1, 1), datetime.date(last_year, 12, 31)
    return list(map(datetime.date.fromordinal, range(first.toordinal(), last.toordinal() + 1)))


@functools.lru_cache(maxsize=4)
def _table(first_year: int, last_year: int, held_out: float) -> tuple[Tensor, Tensor]:
    """The length of each date in each style (styles, dates), and whether each date is held out
    (dates,).
    """
    dates = _dates(first_year, last_year)
    forms = [(date.month, date.day, date.weekday()) for date in dates]  # all that lengths depend on
    examples = dict(zip(forms, dates, strict=True))
    lengths = {
        form: [len(write_date(date, style)) for style in STYLES] for form, date in examples.items()
    }
    return torch.tensor([lengths[form] for form in forms]).T, torch.tensor(
        [is_held_out(d, held_out) for d in dates]
    )
