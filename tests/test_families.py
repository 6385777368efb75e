"""Families of strings: what they are, and measuring models on them."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from inline import read_json, write
from measured import value_of
from models import make_config, make_task, seeded
from refusal import refused
from test_comparison_cli import TINY as TINY_COMPARISON
from test_evaluation import FakeModel, measure, other, reverse

import seq2attn
from seq2attn.config import check_config
from seq2attn.config.schema import parse_families
from seq2attn.data.vocabulary import SPECIAL
from seq2attn.inference.evaluation import evaluate
from seq2attn.parts import SYMBOLS
from seq2attn.results.metrics import worst_note

ALL = tuple("random unary periodic two_letter palindrome sorted runs".split())


def draw(family, length=40, symbols=26, count=200, seed=0):
    """Strings as lists of numbers from 0."""
    task = make_task("copy", alphabet=SYMBOLS[:symbols], min_length=1, max_length=9)
    ids = task.family(family, seeded(seed), count, length).source
    assert ids.shape == (count, length)
    assert ids.dtype == torch.int64
    return (ids - len(SPECIAL)).tolist()


def runs_of(string):
    """The lengths of its runs of equal characters."""
    return [len(list(run)) for _, run in itertools.groupby(string)]


def period_of(string):
    return next(p for p in range(1, len(string) + 1) if string[p:] == string[:-p])


def test_the_strings_of_each_family():
    assert all(len(set(string)) == 1 for string in draw("unary"))
    assert {period_of(string) for string in draw("periodic")} >= set(range(2, 9))
    assert max(period_of(string) for string in draw("periodic")) == 8
    assert {len(set(string)) for string in draw("two_letter")} == {2}
    for length in (39, 40):
        assert all(string == string[::-1] for string in draw("palindrome", length))
    assert all(string == sorted(string) for string in draw("sorted"))
    lengths = [one for string in draw("runs", 1000, symbols=5000) for one in runs_of(string)[:-1]]
    assert set(lengths) >= set(range(1, 11))
    assert sum(lengths) / len(lengths) == pytest.approx(5.5, abs=0.1)  # uniform from 1 to 10


@pytest.mark.parametrize("family", ALL[1:])
def test_a_family_uses_any_whole_alphabet_and_depends_on_the_generator_alone(family):
    for symbols, length, count in ((9, 9, 200), (1, 5, 50), (2, 1, 50), (2, 9, 50)):
        drawn = draw(family, length, symbols, count)
        assert set().union(*drawn) == set(range(symbols))
    assert draw(family) == draw(family) != draw(family, seed=1)


def test_names_of_families():
    assert parse_families(["runs,unary", "random"]) == ("random", "unary", "runs")
    assert parse_families(["unary", "all"]) == ALL
    for nothing in ([], [3], [""]):
        with refused("^(no|unknown) family "):
            parse_families(nothing)
    assert make_config("evaluation.families=all").evaluation.families == ALL
    assert check_config({}).evaluation.families == ("random",)


def test_a_task_that_draws_its_own_strings_has_no_families():
    class Mine(seq2attn.StringTask):
        def alignment(self, source, lengths, positions):
            return positions.expand(len(source), -1)

        def examples(self, random, count, length=None):
            return super().examples(random, count, length)

    assert Mine().families == ("random",)
    with refused("cannot be measured on unary, runs; its families: random"):
        Mine().check_evaluation(["random", "unary", "runs"], ())


# ---- measuring ----


def doubts_repetition(ids):
    """A model that answers everything right except a string of one letter."""
    right = reverse(ids)
    return [other(right[0]), *right[1:]] if len(set(ids)) == 1 else right


def test_results_by_family_and_length_by_hand():
    results = measure(
        FakeModel(doubts_repetition), (2, 5), families=("palindrome", "unary", "sorted"), samples=30
    )
    found = {(one.family, one.length): one.exact_match.value for one in results}
    assert list(found) == list(itertools.product(("palindrome", "unary", "sorted"), (2, 5)))
    # a palindrome of 2 is aa
    assert found["unary", 2] == found["unary", 5] == found["palindrome", 2] == 0
    assert found["palindrome", 5] > 0.5 < found["sorted", 5]


def test_each_block_of_a_family_has_strings_of_its_own():
    model = FakeModel(reverse)
    measure(model, (4,), 1005, families=("runs",))
    assert model.seen[:3] != model.seen[1000:1003]


def test_the_worst_family_by_hand():
    places = [*itertools.product(("random", "unary"), (8, 20)), ("runs", 8)]
    values = dict(zip(places, (1.0, 0.9, 0.9, 0.95, 1.0), strict=True))
    # random has the same lowest value and a higher mean
    assert worst_note(values) == ["worst family: unary, 0.900 at length 8"]
    assert worst_note({**values, ("runs", 8): 0.5}) == ["worst family: runs, 0.500 at length 8"]
    assert worst_note({("random", 8): 0.2, ("random", 20): 0.1}) == []  # one family
    assert worst_note({("random", 8): 1.0, ("unary", 8): 1.0}) == []


# ---- from the command line ----


def test_eval_prints_a_table_by_family_and_length(cli, runs_copy, monkeypatch, blank_figures):
    def measured(*args, **kwargs):
        found = evaluate(*args, **kwargs)
        values = {"unary": 0.25}
        made = (
            replace(row, value=values.get(row.family, 1.0), low=0.0, high=1.0) for row in found.rows
        )
        return replace(found, rows=tuple(made))

    monkeypatch.setattr("seq2attn.inference.trained_model.evaluate", measured)
    done = cli("eval --families all --lengths 2 5 --samples 4", terminal=True).check()
    rows = [line.split()[:3] for line in done.out.splitlines() if line.split()]
    for length in ("2", "5*"):
        found = [row[1:] for row in rows if row[0] == length]
        assert found == [[name, "0.250" if name == "unary" else "1.000"] for name in ALL]
    assert "worst family: unary, 0.250 at length 2" in done.err
    (path,) = (runs_copy / "tiny/evaluations").glob("*.json")
    record = read_json(path)
    places = [
        (row["family"], row["length"]) for row in record["rows"] if row["metric"] == "entropy"
    ]
    assert places == list(itertools.product(ALL, (2, 5)))
    assert value_of(record, "exact_match", 5, "unary") == 0.25
    cli("plot accuracy --by-length --plot f.svg").check()


def test_eval_in_a_pipe_has_a_column_for_the_family_which_a_config_may_name(cli, runs_copy):
    done = cli("eval --families unary sorted --lengths 2 tiny")
    measured = [(row["family"], row["length"]) for row in done.rows() if row["metric"] == "entropy"]
    assert measured == [("unary", "2"), ("sorted", "2")]
    config = runs_copy / "tiny/config.yaml"
    config.write_text(config.read_text().replace("- random", "- unary"))
    assert {row["family"] for row in cli("eval --lengths 2").rows()} == {"unary"}


def test_compare_measures_families(cli, trials_here, blank_figures):
    write("tiny.yaml", TINY_COMPARISON)
    line = "compare -c tiny.yaml --name t --vary seed=1-2 --device cpu --families"
    told = cli(f"{line} random runs --lengths 2-3 --json --plot figures").json
    groups = [f"{row['family']} {row['length']} {row['seeds']}" for row in told["groups"]]
    assert groups == ["random 2 2", "random 3 2", "runs 2 2", "runs 3 2"]
    trials = [row for row in told["trials"] if row["metric"] == "exact_match"]
    places = [f"{row['family']} {row['length']} 2" for row in trials]
    assert places == groups * 2
    assert Path("figures/t-results.png").stat().st_size > 0
    again = cli(f"{line} runs --lengths 3")  # measured once more, without training
    assert "2 trials, 0 done, 2 to run" in again.err
    assert [row["family"] for row in again.rows()] == ["runs"]
    cli("report t").check()
