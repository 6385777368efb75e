"""The page on which score is better has the figures of a study, and no guess sees them before."""

import itertools
import math
import re
import runpy
import statistics

import pytest
from inline import ROOT, read_json

SITE = ROOT / "docs/site"
STUDY = read_json(ROOT / "docs/studies/scores.json")
SEEN = "one => one.checkVisibility({visibilityProperty: true})"


def by_seed(families, kind):
    """The exact match of each seed, of random strings or of the kind that it has least right."""
    shown = [families["random"]] if kind == "random" else families.values()
    return [min(family[seed] for family in shown) for seed in "123"]


def wilson(share, sign):
    """An end of the 95 % interval of a share p of 100 strings (Wilson 1927): a root of the equation
    (x - p)^2 = z x (1 - x).
    """
    z = 1.959964**2 / 100
    return (share + z / 2 + sign * math.sqrt(z * share * (1 - share) + z**2 / 4)) / (1 + z)


def best_by_hand(values):
    """The scores of which the best seed reaches the worst of the score with the highest mean."""
    best = values[max(values, key=lambda score: statistics.mean(values[score]))]
    lowest = wilson(min(best), -1)
    return {score for score, shares in values.items() if wilson(max(shares), 1) >= lowest}


def worst_by_hand(families):
    """What is said of a score: the kinds of strings that it has least right, over all seeds."""
    names = {"unary": "of one letter", "two_letter": "of two letters", "runs": "in runs"}
    means = {family: statistics.mean(seeds.values()) for family, seeds in families.items()}
    worst = [names.get(family, family) for family in means if means[family] == min(means.values())]
    if len(worst) == len(means):
        return "all kinds alike"
    return "worst: " + " and ".join(worst)


@pytest.mark.slow
def test_which_score_is_better_is_guessed_box_by_box(quiet):
    quiet.resize(1366, 704)
    quiet.open(ROOT / "docs/ranking.html")
    run = quiet.run
    assert (
        run(f"return [...document.querySelectorAll('.mean, .said, .tally')].some({SEEN})") is False
    )
    counts = dict.fromkeys(STUDY["parameters"], 0)
    read = "label => [label.textContent.trim(), label.className, label.title]"
    places = list(itertools.product(("random", "worst"), STUDY["values"]))
    for number, (kind, task) in enumerate(places):
        assert run("return document.querySelector('.tally').checkVisibility()") == (number >= 3)
        scores = STUDY["values"][task]
        values = {score: by_seed(families, kind) for score, families in scores.items()}
        best = best_by_hand(values)
        box = f"const box = document.getElementById('{kind}-{task}'); "
        labels = run(
            f"{box} box.querySelector('input').click(); "
            f"return [...box.querySelectorAll('label')].map({read})"
        )
        for text, marked, title in labels:
            score, mean = re.match(r"([a-z_]+)(.+)", text).groups()
            assert float(mean) == pytest.approx(statistics.mean(values[score]), abs=0.0051)
            assert bool(marked) == (score in best), (kind, task, score)
            assert title == (worst_by_hand(scores[score]) if kind == "worst" else "")
            counts[score] += score in best
    said = "".join(name for role, name in quiet.spoken() if role == "StaticText")
    assert f"among the best in {counts['dot']} of 8 boxes" in said  # the first of each box
    for score, count in counts.items():
        assert f"{score} ({STUDY['parameters'][score]:,} parameters): {count} of 8" in said
    assert run("return document.querySelector('.end').checkVisibility()")
    edges = "const box = selector => document.querySelector(selector).getBoundingClientRect(); "
    assert run(f"{edges} return box('#worst-sort').bottom <= box('.tally').top")  # not covered
    everywhere = {score for score, count in counts.items() if count == 8}
    concluded = run("return document.querySelector('.end').textContent")
    assert ("no score is among the best in every box" in concluded) == (not everywhere)
    assert all(score in concluded for score in everywhere)


def test_page_and_table_are_made_of_the_study(monkeypatch):
    monkeypatch.setattr("sys.argv", ["refresh.py"])
    monkeypatch.syspath_prepend(SITE)
    for name, page in runpy.run_path(str(SITE / "refresh.py"))["OWN"].items():
        assert page() == (ROOT / f"docs/{name}.html").read_text("utf-8"), name
    table = {}
    for line in (SITE / "models.rst").read_text("utf-8").splitlines():
        if row := re.match(r"``(\w+)`` +([\d,]+) +(.*)", line):
            table[row[1]] = [row[2], *row[3].split()]
    for score, number in STUDY["parameters"].items():
        worst = [min(by_seed(scores[score], "worst")) for scores in STUDY["values"].values()]
        assert table[score] == [f"{number:,}", *(f"{one:.2f}".removeprefix("0") for one in worst)]
