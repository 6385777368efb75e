"""What the pages of the documentation teach: the mask, sqrt(D), and a tour that judges a guess."""

import math
import re

import pytest
from inline import ROOT

from seq2attn.pages import asset
from seq2attn.pages.page import CONTROLS, ENGINE, VIEW

DOCS = ROOT / "docs"
TOLD = "by('tour').querySelector('.told').textContent"
SIGNS = (
    "Array.from(views[0].find('.tiles').children, "
    "one => getComputedStyle(one, '::before').content.replaceAll('\"', ''))"
)


@pytest.fixture
def opened(browser):
    """Open a page of the documentation: a function that runs a script in it."""
    browser.console()

    def open_page(name, width=1440, height=900):
        browser.resize(width, height)
        browser.open(DOCS / f"{name}.html")
        return browser.run

    yield open_page
    assert browser.console() == []


def shares(numbers):
    powers = [math.exp(number - max(numbers)) for number in numbers]
    return [power / sum(powers) for power in powers]


def press(stop, guess=0):
    buttons = "by('tour').querySelectorAll('.guesses button')"
    return f"visit({stop}); {buttons}[{guess}].click(); by('tour').querySelector('.press').click();"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.html")), ids=lambda page: page.stem)
def test_a_page_of_the_documentation_has_todays_code(page):
    text = page.read_text("utf-8")
    files = {"engine": ENGINE, "view": VIEW, "controls": CONTROLS}
    names = [f"{folder}/{name}.js" for folder, some in files.items() for name in some]
    old = [name for name in (*names, "view/page.css") if asset(name) not in text]
    assert not old, "`make pages` puts them in"


def test_a_window_is_marked_on_the_map_and_in_the_bars(opened):
    run = opened("window")
    grid = "now.steps.map((_, t) => map.columns.map((_, j) => map.outside(t, j)))"
    forwards, backwards = run(f"return views.map(({{now, map}}) => {grid})")
    steps, positions = range(10), range(9)  # of "attention"
    assert forwards == [[abs(j - t) > 2 for j in positions] for t in steps]
    assert backwards == [[abs(j - (8 - t)) > 2 for j in positions] for t in steps]
    bars = "[...views[0].find('.bars').querySelectorAll('.bar.weight')].map(bar => bar.title)"
    said = "views[0].rows.softmax.textContent"
    around, titles, said = run(
        f"choose(2, 8); return [views[0].bars.around.textContent, {bars}, {said}]"
    )
    assert around == "┃ 3 ± 2"
    assert [title == "outside the window" for title in titles] == forwards[2]
    assert "around position 3, R = 2: position 9 is outside, its weight is 0." in said
    layout = "const {canvas, layout: {left, top, cell}} = views[0];"
    row = "canvas.getContext('2d').getImageData(left, top + 3, 9 * cell, 1).data"
    pixels = f"{layout} const row = {row}, at = j => 4 * (j * cell + 4);"
    inside, outside = run(f"{pixels} return [0, 8].map(j => [...row.slice(at(j), at(j) + 3)])")
    assert sum(outside) > sum(inside) + 200  # pale, not the colour of a weight of 0
    assert not run("setWeight(2, 8, 0.5); return views[0].map.outside(2, 8)")


@pytest.mark.parametrize("page, guess, told", [
    ("window", 0, "“forwards”: right. forwards writes ntitnette. Step 2 is the first"),
    ("coverage", 1, "“coverage”: wrong. plain writes eeeennsss. Step 9 is the first"),
    ("scores", 0, "“dot”: right. -8.72 to 23.2 (dot) and -2.39 to 4.86 (additive)."),
])  # fmt: skip
def test_a_page_of_two_asks_what_they_differ_in(opened, page, guess, told):
    run = opened(page)
    asked = "[...by('tour').querySelectorAll('p')][0].textContent"
    hidden = "getComputedStyle(views[0].find('.answers')).visibility"
    titles = run(f"visit(0); return [by('tour').querySelector('h2').textContent, {hidden}]")
    assert titles[0].startswith("1 of 2: ")
    assert titles[1] == "hidden"
    assert run(f"{press(0, guess)} return {TOLD}").startswith(f"You guessed {told}")
    assert len(run(f"{press(1)} return {TOLD}")) > 60
    assert "undefined" not in run(f"return {asked}")


def test_a_model_without_a_mask_needs_the_padding_of_its_training(opened):
    run = opened("unmasked")
    lesson = (DOCS / "lesson.md").read_text("utf-8")
    row = re.search(r"^\| `unmasked.html` \| (.*) \|$", lesson, re.MULTILINE)[1].split(" | ")
    padded = "count => { state.padding = count; update(); return answerOf(views[0]); }"
    assert run(f"return [0, 1, 2, 3, 4].map({padded})") == row
    told, signs = run(f"{press(0)} return [{TOLD}, {SIGNS}]")
    assert told.startswith(
        "You guessed “right”: right. It writes olleh, which is right. Step 1 puts .38 "
    )
    assert signs == ["✓"] * 6
    query = "views[0].rows.query.children[2].textContent"
    assert "It is still 0" in run(f"return {query}")
    run = opened("scaled")
    assert "still the encoder's last state, from which the key of position 5" in run(
        f"return {query}"
    )
    assert "still" not in run(f"choose(1, null); return {query}")
    assert run(f"setWeight(0, 1, 1); return {SIGNS}")[:2] == ["✗", "none"]


def test_without_the_root_the_softmax_saturates(opened):
    numbers = "[...['scores', 'weights'].map(name => Array.from(views[0].now.steps[4][name].data))"
    run = opened("scaled")
    (scores, before), (_, after, chip) = run(
        f"const look = () => {numbers}, by('changes').textContent]; "
        "const before = look(); by('unscaled').click(); return [before.slice(0, 2), look()]"
    )
    assert before == pytest.approx(shares(scores), abs=1e-4)
    unscaled = [score * math.sqrt(96) for score in scores]
    assert after == pytest.approx(shares(unscaled), abs=1e-3)
    assert max(before) < 0.9 < max(after)
    assert chip == "without √D ✕"
    assert run("by('unscaled').click(); return isChanged()") is False


def test_the_tour_tells_what_came_of_it_after_it_was_played(opened):
    run = opened("scaled", 390, 844)
    box = "name => document.querySelector(name).getBoundingClientRect()"
    look = f"[{TOLD}, ({box})('.bars').bottom < ({box})('#tour').top]"
    assert run(f"{press(1, 1)} return {look}") == ["", True]
    column = "views[0].canvas.getContext('2d').getImageData(left + 9, top, 1, 4 * cell).data"
    at = f"const {{left, top, cell}} = views[0].layout, column = {column};"
    painted = "[0, 3].map(t => column[4 * (t * cell + 9) + 3])"
    assert run(f"{at} return {painted}") == [255, 0]
    assert run(f"pause(); return {TOLD}").startswith(
        "You guessed “to the left”: right. The largest"
    )
    told = run(f"{press(4)} return {TOLD}")
    step = "views[0][result].steps[1], l = views[0].spec.target.tokens.indexOf('l')"
    both = run(
        f"return ['before', 'now'].map(result => {{ const step = {step};"
        "return [Array.from(step.weights.data), Array.from(step.logits.data), l]; })"
    )
    told = re.search(
        r"“from there”: wrong.*: (.*), and was (.*); p\(l\) was (.*) and is (\S+)\.", told
    )
    weights = [max(weights) for weights, _, _ in both]
    chances = [shares(logits)[place] for _, logits, place in both]
    expected = [weights[1], weights[0], *chances]
    assert list(map(float, told.groups())) == pytest.approx(expected, abs=0.006)


def test_a_term_is_explained_to_the_keyboard(opened):
    key = "new KeyboardEvent('keydown', {key: 'Escape', bubbles: true, cancelable: true})"
    shown = "setWeight(0, 0, 1); one.focus(); const said = by('tip').textContent;"
    hidden = f"one.dispatchEvent({key}); return [said, by('tip').hidden, isChanged()]"
    for page, name, meaning in (
        ("scaled", "views[0].find('.stages .query')", "What the step looks for"),
        ("scaled", "by('temperature')", "Scores are divided by it"),
        ("scaled", "by('about').querySelectorAll('.term')[1]", "s · h / √D: dot product"),
        ("race", "by('train').querySelector('.term')", "in nats a symbol"),
    ):
        run = opened(page)
        said, *after = run(f"const one = {name}; {shown} {hidden}")
        assert meaning in said
        assert after == [True, True]
