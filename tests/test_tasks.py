"""Tasks by worked examples; and written-out dates, measured on those that training never draws."""

import datetime
import itertools

import pytest
import torch
from models import CPU, make_task, seeded
from refusal import refused
from tables import table

import seq2attn
from seq2attn.data.tasks import Solution
from seq2attn.data.tasks.computed import Dates, is_held_out, written

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@table(
    "name, source, target, places",
    """
reverse | hello | olleh | 43210
reverse | a | a | 0
copy | hello | hello | 01234
copy | a | a | 0
sort | hello | ehllo | 10234
sort | banana | aaabnn | 135024
sort | zyxz | xyzz | 2103
sort | a | a | 0
duplicate | abc | abcabc | 012012
duplicate | a | aa | 00
odds_first | abcde | bdace | 13024
odds_first | abcd | bdac | 1302
odds_first | a | a | 0
flip | abcd | badc | 1032
flip | abcde | badce | 10324
flip | a | a | 0
recopy | 2408 | 2444088888 | 0111233333
recopy | 3679 | 36667777799999 | 01112222233333
dedupe | 7772 | 72 | 03
dedupe | 44444 | 4 | 0
""",
)  # equal letters are sorted in their order
def test_worked_examples(name, source, target, places):
    alignment = tuple(map(int, places))
    assert make_task(name).answer(source) == Solution(target, alignment)
    if name == "sort":  # by the order of the alphabet
        assert make_task(name, alphabet="cba").answer("abcab") == Solution("cbbaa", (2, 1, 4, 0, 3))
    if name == "recopy":
        assert make_task(name, reverse=True).answer(source) == Solution(
            target[::-1], alignment[::-1]
        )


def test_defaults_are_the_letters_and_lengths_of_1_to_12():
    task = make_task()
    assert task.source_vocabulary is task.target_vocabulary
    assert "".join(task.source_vocabulary.symbols) == LETTERS
    assert task.min_length == 1
    assert task.max_length == 12
    assert [length for length in range(15) if task.is_trained(length)] == list(range(1, 13))
    lengths = [
        made.target_length(length) for made in (task, make_task("duplicate")) for length in (1, 7)
    ]
    assert lengths == [1, 7, 2, 14]


def test_an_alphabet_of_so_many_symbols():
    accented = map(chr, [*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x104)])
    every = LETTERS + LETTERS.upper() + "0123456789" + "".join(accented)
    assert len(every) == 128
    for count in (2, 26, 62, 128):
        assert "".join(make_task(symbols=count).source_vocabulary.symbols) == every[:count]


def test_pairs_of_texts_as_examples():
    task = make_task()
    task.source_vocabulary = seq2attn.Vocabulary("ab")
    task.target_vocabulary = seq2attn.Vocabulary("xyz")
    encoded = task.encode([("ab", "z"), ("b", "xyx")], CPU)
    assert encoded.source.tolist() == [[3, 4], [4, 0]]
    assert encoded.source_lengths.tolist() == [2, 1]
    assert encoded.target.tolist() == [[5, 0, 0], [3, 4, 3]]
    assert encoded.target_lengths.tolist() == [1, 3]
    assert encoded.alignment is None
    for source, target, says in (("ax", "x", "'x'"), ("a", "xa", "'a'"), ("", "x", "empty")):
        with refused(says):
            task.encode([("a", "x"), (source, target)], CPU)


# ---- tasks of others ----


def test_sources_of_dedupe_are_runs_of_1_3_or_5():
    task = make_task("dedupe")
    runs = []
    for source, _ in drawn(task, 300, 40):
        runs += [len(list(run)) for _, run in itertools.groupby(source)][:-1]
    assert set(runs) >= {1, 2, 3, 4, 5, 6}  # two runs of one digit are one
    apart = 300 * 38 / 3 * 0.9  # 3 digits a run, and one run in ten goes on with its digit
    assert len(runs) == pytest.approx(apart, rel=0.05)


def test_sums_are_written_from_their_last_digit():
    task = make_task("addition", min_digits=2, max_digits=4)
    assert task.answer("21+93") == Solution("15")  # 12 + 39
    assert task.answer("9+1") == Solution("01")
    assert task.answer("1" * 4000 + "+" + "8" * 4000) == Solution("9" * 4000)
    assert [task.answer(text) for text in "12 1+22 + 1+2+3".split()] == [None] * 4
    sizes = set()
    for source, target in drawn(task, 200):
        one, other = source.split("+")
        assert int(one[::-1]) + int(other[::-1]) == int(target[::-1])
        assert len(one) == len(other) == len(str(int(one[::-1])))
        sizes.add(len(one))
    assert sizes == {2, 3, 4}
    assert [task.target_length(length) for length in (5, 9)] == [3, 5]
    assert [length for length in (3, 5, 6, 9, 11) if task.is_trained(length)] == [5, 9]


def test_the_share_of_strings_that_training_has_drawn():
    """Of strings of 1 to 4 letters of "abcde", of which 400 are drawn."""
    task = make_task(alphabet="abcde", min_length=1, max_length=4)
    for length in (1, 2, 3, 4):
        never = (1 - 1 / 4 / 5**length) ** 400  # one of 4 lengths, and of 5 letters each
        assert task.share_drawn(length, 400) == pytest.approx(1 - never, abs=1e-3)
    assert task.share_drawn(5, 400) == 0
    assert make_task("dates").share_drawn(10, 400) is None


def test_eval_says_which_strings_training_has_drawn(cli, runs_copy):
    err = cli("eval tiny --lengths 1 3 9").check().err
    saw = "of the possible strings, training saw about 10 %"  # 1 - exp(-8 / 3 / 26)
    assert f"{saw} of those of length 1" in err
    assert "length 9" not in err


# ---- dates ----


DAYS = [datetime.date(1999, 12, 31) + datetime.timedelta(days=step) for step in range(0, 800)]


def drawn(task, count, length=None, seed=0):
    """Sources and targets as text."""
    examples = task.examples(seeded(seed), count, length)
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
    for line in STYLED.splitlines():
        styles = line.split("|")
        date = datetime.datetime.strptime(styles[0], "%d.%m.%Y").date()
        assert written(date) == styles


def test_every_text_reads_as_its_date():
    task = Dates()
    for date in DAYS[::3]:
        solution = Solution(date.isoformat())
        for text in written(date):
            assert task.answer(text) == solution


def test_ordinals():
    expected = """
1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th 13th 14th 15th 16th 17th 18th 19th 20th 21st 22nd
23rd 24th 25th 26th 27th 28th 29th 30th 31st
"""
    ordinals = [written(datetime.date(2000, 1, day))[6].partition(" ")[0] for day in range(1, 32)]
    assert ordinals == expected.split()


def test_answers():
    task = Dates()
    assert task.answer("the thirty-first of December 1999").text == "1999-12-31"
    assert task.answer("29 Feb 2000") == Solution("2000-02-29", None)
    unknown = """29 Feb 1900
Monday, 3 May 1998
3rd of Mai 1998
3-5-1998
0.5.1998

21th of May 1998""".split("\n")
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


def test_what_is_held_out_depends_on_the_date_alone():
    dates = [datetime.date(1900, 1, 1) + datetime.timedelta(days=step) for step in range(5_000)]
    tenth = {date for date in dates if is_held_out(date)}
    assert abs(len(tenth) - 500) < 4 * (5_000 * 0.1 * 0.9) ** 0.5
    # a change would mix training and test
    of_60 = " ".join(date.isoformat() for date in dates[:60] if date in tenth)
    assert of_60 == "1900-01-09 1900-01-27 1900-02-11 1900-02-28"


def test_what_has_no_dates_is_refused():
    with refused("no held-out date is written in 37 characters"):
        Dates().examples(torch.Generator(), 1, 37)
