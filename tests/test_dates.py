"""The task `dates`: written-out dates -> ISO 8601, measured on dates that training never draws."""

import datetime

import torch
from refusal import refused

from seq2attn.contract.tasks import check_examples
from seq2attn.data.tasks import Solution
from seq2attn.data.tasks.computed import Dates, is_held_out, written
from seq2attn.findings.engine import first

MAY_3 = datetime.date(1998, 5, 3)
OCTOBER_22 = datetime.date(2031, 10, 22)
DAYS = [datetime.date(1999, 12, 31) + datetime.timedelta(days=step) for step in range(0, 800)]

HELD_OUT = "1900-01-09 1900-01-27 1900-02-11 1900-02-28".split()  # of the first 60 days of 1900


def drawn(task, count, length=None, seed=0):
    """Sources and targets as text."""
    examples = task.examples(torch.Generator().manual_seed(seed), count, length)
    for source, target in zip(examples.source.tolist(), examples.target.tolist(), strict=True):
        yield (
            task.source_vocabulary.decode([*filter(None, source)]),
            task.target_vocabulary.decode([*filter(None, target)]),
        )


STYLED = """\
3.5.1998|5/3/1998|3 May 1998|May 3, 1998|3 May 1998|May 3, 1998|3rd of May 1998|May 3rd, 1998\
|the third of May 1998\
|Sunday, 3 May 1998|Sunday, May 3rd, 1998|1998, May 3
22.10.2031|10/22/2031|22 October 2031|October 22, 2031|22 Oct 2031|Oct 22, 2031\
|22nd of October 2031\
|October 22nd, 2031\
|the twenty-second of October 2031|Wednesday, 22 October 2031|Wednesday, October 22nd, 2031\
|2031, October 22"""


def test_the_styles_as_a_person_writes_them():
    for date, line in zip((MAY_3, OCTOBER_22), STYLED.splitlines(), strict=True):
        assert written(date) == line.split("|")


def test_every_text_reads_as_its_date():
    task = Dates()
    for date in DAYS[::3]:
        solution = Solution(date.isoformat())
        for text in written(date):
            assert task.answer(text) == solution


def test_ordinals():
    expected = (
        "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th 13th 14th 15th 16th 17th "
        "18th 19th 20th 21st 22nd"
    )
    ordinals = [written(datetime.date(2000, 1, day))[6].partition(" ")[0] for day in range(1, 32)]
    assert " ".join(ordinals) == f"{expected} 23rd 24th 25th 26th 27th 28th 29th 30th 31st"


def test_answers():
    task = Dates()
    assert task.answer("the thirty-first of December 1999").text == "1999-12-31"
    assert task.answer("29 Feb 2000") == Solution("2000-02-29", None)
    unknown = (
        "29 Feb 1900",
        "Monday, 3 May 1998",
        "3rd of Mai 1998",
        "3-5-1998",
        "0.5.1998",
        "",
        "21th of May 1998",
    )
    assert [task.answer(text) for text in unknown] == [None] * 7


def test_training_never_draws_a_held_out_date_and_measuring_draws_no_other():
    task = Dates()
    training = [*drawn(task, 3_000)]
    measured = [pair for length in range(11, 30) for pair in drawn(task, 15, length)]
    seen = {datetime.date.fromisoformat(target) for _, target in training}
    held_out = {datetime.date.fromisoformat(target) for _, target in measured}
    assert not any(is_held_out(date) for date in seen)
    assert all(is_held_out(date) for date in held_out)
    assert len(seen) > 1000
    assert len(held_out) > 80
    assert all(task.answer(source).text == target for source, target in training + measured)


def test_the_lengths_of_training_are_kept():
    task = Dates()
    assert {len(source) for source, _ in drawn(task, 5_000)} <= set(range(8, 37))
    assert first(check_examples, task) is None


def test_what_is_held_out_depends_on_the_date_alone():
    dates = [datetime.date(1900, 1, 1) + datetime.timedelta(days=step) for step in range(5_000)]
    tenth = {date for date in dates if is_held_out(date)}
    assert abs(len(tenth) - 500) < 4 * (5_000 * 0.1 * 0.9) ** 0.5
    # a change would mix training and test
    assert [date.isoformat() for date in dates[:60] if date in tenth] == HELD_OUT


def test_what_has_no_dates_is_refused():
    with refused("no held-out date is written in 37 characters"):
        Dates().examples(torch.Generator(), 1, 37)
