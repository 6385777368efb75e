"""What the page says of a step, of an answer and of a string; its tour, its playing and its first
screen.
"""

import json
import re
from functools import partial

import pytest
import torch
from pages import MECHANISMS, make_predictor, make_shown
from tables import rows, table
from torch.nn.functional import softplus

from seq2attn.data.vocabulary import SOS
from seq2attn.pages.page import render

pytestmark = pytest.mark.slow

HELPERS = """
const type_ = text => {
  by('text').value = text;
  by('text').dispatchEvent(new Event('input'));
};
const row = (part, view = 0) =>
  Array.from(views[view].rows[part].children, one => one.textContent);
const heading = (view = 0) => views[view].find('.answer h3').textContent;
const box = one => one.getBoundingClientRect();
"""
TOLD = "by('tour').querySelector('.told').textContent"
GENERAL = "mechanisms.yaml model.attention.score=general model.attention.history=shift_by_key"
COSINE = "mechanisms.yaml model.attention.score=cosine model.attention.history=coverage"
SCREENS = ((1024, 768), (1440, 900))
about = partial(pytest.approx, rel=1e-3)
NUMBER = r"\(?(-?[\d.]+)\)?"


def result_of(equation):
    return float(equation.split(" = ")[-1])


def numbers(label):
    """The first numbers of a vector, from its name."""
    return list(map(float, label.partition(" numbers, ")[2].removesuffix(" …").split(", ")))


@pytest.fixture(scope="module")
def pages(traced_once, tmp_path_factory):
    """A folder of pages of a model with attention, of one without, of both, and of more scores and
    histories.
    """
    shown = {name: make_shown(name) for name in ("scaled", "none")}
    for one in shown.values():
        one.predictor.task.max_length = 8
    scaled, none = shown.values()
    by_hand = [scaled, make_shown("pointer")]
    more = [make_shown(words) for words in (GENERAL, COSINE)]
    folder = tmp_path_factory.mktemp("pages")
    files = {"scaled": [scaled], "none": [none], "both": [scaled, none]}
    for name, shown in {**files, "by_hand": by_hand, "more": more}.items():
        (folder / f"{name}.html").write_text(render(shown), "utf-8")
    return folder


@pytest.fixture
def show(quiet, pages):
    """Show one of the pages in a window: a function that runs a script in it."""

    def opened(name="scaled", width=1440, height=900, fragment=""):
        quiet.resize(width, height)
        quiet.show(pages / f"{name}.html", fragment)
        return lambda script: quiet.run(HELPERS + script)

    return opened


# ---- the numbers of every formula, by plain arithmetic, at position 2 of a string ----

TEXT = "cabd"


@pytest.fixture
def read(show):
    """`read(page, view, step)`: what the rows of the parts say, and the names of their vectors."""
    vectors = "views[k].rows[part].querySelectorAll('canvas')"
    said = f"[row(part, k), Array.from({vectors}, one => one.ariaLabel)]"
    rows = f"['query', 'score', 'softmax', 'weight', 'states', 'context'].map(part => {said})"

    def read_page(page, view, step=0):
        return show(page)(f"type_({TEXT!r}); choose({step}, 1); const k = {view}; return {rows}")

    return read_page


def encoded(words):
    """The attention of a model, its first query s (D,), and its keys h (S, D)."""
    predictor = make_predictor(MECHANISMS.get(words, words))
    decoder = predictor.model.decoder
    ids = torch.tensor([predictor.task.source_vocabulary.encode(TEXT)])
    memory, state = predictor.model.encode(ids, torch.tensor([len(TEXT)]))
    query = state.cell[0][0]
    if decoder.copies:  # it reads `<sos>` before it attends
        query = decoder.cell(decoder.embedding(torch.tensor([[SOS]])), state.cell)[0][0, 0]
    return decoder.attention, query, memory.values[0]


def assert_score(said, formula, keys, scores, products, powers=None):
    """The formula, the score, the sum of products that it is made of, and the projected key; and
    its share, by the softmax (S,) of the scores, or of these powers of e. Returns the softmax.
    """
    (query, _), (texts, labels), *_ = said
    assert "decoder's state" in query[2]
    assert texts[1].startswith(formula)
    assert result_of(texts[1]) == about(scores[1].item())
    product = re.search(r"their products, sum (\S+) =", texts[3])[1]
    assert float(product) == about(products[1].item())
    assert numbers(next(one for one in labels if "h₂" in one)) == about(keys[1, :4].tolist())
    powers = scores.exp() if powers is None else powers
    shares = powers / powers.sum()
    chain = map(float, re.fullmatch(r".* = (\S+) / (\S+) = (\S+)", said[2][0][1]).groups())
    assert list(chain) == about([one.item() for one in (powers[1], powers.sum(), shares[1])])
    return shares


@torch.no_grad()
def test_a_scaled_score_down_to_the_context(read):
    _, s, h = encoded("scaled.yaml")
    keys = h / 12**0.5
    scores = keys @ s
    said = read("by_hand", 0)
    (_, query), (score, _), _, _, (_, states), (context, mean) = said
    assert "h₂ / 3.464" in score[3]
    formula = "s · h / √D, D = 12: e₂ = s · (h₂ / 3.464) = "
    shares = assert_score(said, formula, keys, scores, scores)
    assert context[1].endswith(" h₂ + …")
    for (label, *_), vector in ((query, s), (states, h[1]), (mean, shares @ h)):
        assert numbers(label) == pytest.approx(vector[:4].tolist(), rel=1e-3, abs=1e-4)


@torch.no_grad()
def test_a_score_by_a_linear_map_and_a_move_by_key(read):
    attention, s, h = encoded(GENERAL)
    keys = h @ attention.score.map.weight.T
    scores = keys @ s
    said = read("more", 0)
    _, (score, _), _, (weight, _), *_ = said
    assert "learned linear map" in score[2]
    shares = assert_score(said, "s W h: e₂ = s · (map h₂)", keys, scores, scores)
    sharper = shares ** (1 + softplus(attention.history.power))
    assert result_of(weight[1]) == about((sharper / sharper.sum())[1].item())


@torch.no_grad()
def test_an_additive_score_of_scalable_softmax_in_a_window(read):
    attention, s, h = encoded("pointer")
    part = attention.score
    keys = torch.tanh(s @ part.query_map.weight.T + h @ part.key_map.weight.T)
    scores = keys @ part.v.weight[0]
    window = attention.window
    centre = 3 * torch.sigmoid(window.v.weight[0] @ torch.tanh(window.map.weight @ s))
    distance = torch.arange(4) - centre
    near = distance.abs() <= 2
    factor = torch.exp(-2 * (distance / 2) ** 2)
    said = read("by_hand", 1)
    _, (score, _), (softmax, _), (weight, _), *_ = said
    assert "perceptron" in score[2]
    formula = "v · tanh(W [s;h]): e₂ = v · tanh(query_map s + key_map h₂)"
    powers = torch.where(near, (scores * near.sum().log()).exp(), 0)
    shares = assert_score(said, formula, keys, scores, scores, powers)
    assert " \u00d7 ln " in softmax[1]
    assert "Scalable: scores times ln n" in softmax[2]
    assert "local_p: a window around a learned centre" in softmax[2]
    (around,) = re.findall(r"around position (\S+), R = 2", softmax[2])
    assert float(around) == pytest.approx(centre.item() + 1, abs=0.06)
    assert "by the window local_p" in weight[2]
    product, result = re.search(r"([^=]+) = ([^=]+)$", weight[1]).groups()
    factors = list(map(float, re.findall(r"[\d.]+", product)))
    assert factors == about([shares[1].item(), factor[1].item()])
    assert float(result) == about((shares * factor)[1].item())


@torch.no_grad()
def test_a_cosine_with_its_strength_and_the_coverage_of_a_later_step(read):
    attention, s, h = encoded(COSINE)
    keys = h / h.norm(dim=1, keepdim=True)
    cosines = keys @ s / s.norm()
    scores = cosines * attention.score.log_strength.exp()
    said = read("more", 1)
    _, (score, _), _, (weight, _), *_ = said
    assert "cosine of the angle, with a learned scale. coverage: the sum of all past" in score[2]
    formula = "s · h / (|s| |h|) * exp(b): e₂ = (s / |s|) · (h₂ / |h₂|) \u00d7 exp("
    shares = assert_score(said, formula, keys, scores, cosines)
    assert result_of(weight[1]) == about(shares[1].item())
    _, (later, _), *_ = read("more", 1, step=1)
    term = rf"\+ {NUMBER} \u00d7 C₂ = .* C₂ = (\S+):"
    slope, past = re.search(term, " ".join(later)).groups()
    assert float(slope) == about(attention.history.map.weight.item())
    assert float(past) == about(shares[1].item())


def test_wrong_symbols_are_marked_and_lengths_compared(show):
    run = show("both")
    tile = "one => [one.textContent, one.classList.contains('wrong')]"
    tiles = f"[...views[0].find('.answer .tiles').querySelectorAll('button')].map({tile})"
    tiles, said = run(f"type_('cab'); return [{tiles}, heading()]")
    right = "bac⏎"
    assert [wrong for _, wrong in tiles] == [
        symbol != right[t : t + 1] for t, (symbol, _) in enumerate(tiles)
    ]
    assert "✗ wrong" in said
    assert "right is bac" in said
    assert "longer" not in said
    assert "longer than trained (1-8)" in run("type_('abcdefghi'); return heading()")
    write = "for (const [t, id] of [5, 4, 3, 2].entries()) state.write.set(t, id);"
    said = run(f"{write} type_('abc'); return heading()")  # right, by what the user wrote
    assert re.fullmatch(r"with your changes · it would write \w{4}", said)
    assert re.search(
        "of the source is this one vector.*: a bottleneck", run("return row('vector', 1)[2]")
    )


def test_the_diagram_leads_to_the_rows_and_every_step_has_one_scale(show):
    run = show()
    lit = "[...document.querySelectorAll('.lit')].map(one => one.className.split(' ')[0])"
    click = "type_('cabbage'); views[0].find('.stages .softmax').click();"
    found = run(f"{click} return [document.activeElement.textContent.slice(0, 9), ...{lit}]")
    assert found == ["softmax p", "softmax", "label", "part"]
    ends = "Array.from(views[0].label('score').children, one => one.textContent)"
    scale = f"choose(t, null); return {ends}.join()"
    axes = run(f"return views[0].now.steps.map((_, t) => {{ {scale} }})")
    assert len(axes) > 1
    assert len(set(axes)) == 1


def test_no_message_moves_the_layout_and_a_near_miss_is_offered(show):
    look = "[by('message').textContent, by('text').getAttribute('aria-invalid'), ...places()]"
    marks = "[by('hold'), by('models'), views[0].canvas, views[0].find('.parts')]"
    places = f"const places = () => {marks}.map(one => box(one).top);"
    texts = ["cab", "CAB", " cab ", "zQ7\u2028", "", "cab"]
    for width, height in ((1440, 900), (1024, 768), (390, 844)):
        run = show("scaled", width, height)
        said = [run(f"{places} type_({json.dumps(text)}); return {look}") for text in texts]
        assert [f"{invalid} {one}".strip() for one, invalid, *_ in said] == [
            "false",
            "true The model does not know C A B · use cab",
            "true The model does not know ␣ (space) · use cab",
            "true The model does not know z Q 7 2028",
            "false Type a string.",
            "false",
        ]
        assert len({tuple(tops) for _, _, *tops in said}) == 1, width
    assert "hello" not in run("return by('intro').textContent")
    assert run("return box(by('intro')).height") > 0
    take = "type_('CAB'); by('message').querySelector('button').click();"
    assert run("type_('CAB'); return heading()") == "answer to cab"
    assert run(f"{take} return [state.text, document.activeElement.id]") == ["cab", "text"]


def test_the_first_screen_has_map_step_and_likeliest(show):
    for width, height in SCREENS:
        run = show("scaled", width, height)
        places = "[views[0].canvas, views[0].find('.heading'), views[0].find('.likeliest')]"
        bottoms = run(
            f"views[0].spec.most_steps.fill(6); type_('badge'); return {places}.map(one => "
            f"box(one).bottom)"
        )
        assert max(bottoms) <= height, (width, bottoms)
        look = (
            "[views[0].layout.cell, ...[views[0].canvas, "
            "views[0].find('.likeliest')].map(one => box(one).top)]"
        )
        before, after = run(f"const before = {look}; setWeight(0, 1, 1); return [before, {look}]")
        assert before == after
        same = "state.write.set(0, views[0].now.steps[0].written); update();"
        sizes = (
            "return [...document.querySelectorAll('figure canvas')].slice(0, 2).map(one => "
            "[one.width, one.height])"
        )
        changed, untouched = run(f"undoAll(); {same} {sizes}")
        assert changed == untouched  # "without your changes" keeps its cell size
        widths = "const map = views[0].find('.scroll'); return map.scrollWidth === map.clientWidth"
        assert run(f"type_('attention'.repeat(2)); {widths}")
    typed = "const {id, selectionStart: from, selectionEnd: to, value} = document.activeElement;"
    assert show(fragment="step=1")(f"{typed} return [id, from, to === value.length]") == [
        "text",
        0,
        True,
    ]
    narrow = show("scaled", 390, 844)
    scroll = (
        "return [0, 29].map(j => { choose(0, j); return views[0].find('.attending').scrollLeft; })"
    )
    first, last = narrow(f"type_('abcdefghij'.repeat(3)); {scroll}")
    assert first == 0 < last
    attended = "undoAll(); choose(0, 0); setWeight(0, 29, 1); choose(0, null);"
    assert narrow(f"{attended} return views[0].find('.attending').scrollLeft") > 0
    assert narrow("return document.documentElement.scrollWidth") == 390


def test_everything_to_use_has_a_name(show, browser):
    """As the browser tells it to a screen reader: what has one of these roles, and every row of the
    panel.
    """
    used = {"button", "slider", "textbox", "checkbox", "combobox"}
    named = used | {"image", "img", "application", "region", "navigation", "complementary", "group"}
    for name, fragment, parts in (("both", "", 12), ("scaled", "tour=6", 8)):
        run = show(name, fragment=fragment)
        run("setWeight(0, 1, 1); by('palette').open = by('help').open = true")
        told = browser.spoken()
        assert {role for role, _ in told} >= used
        assert [(role, name) for role, name in told if role in named and not name.strip()] == []
        rows = "[...document.querySelectorAll('.part')].map(one => one.getAttribute('aria-label'))"
        labels = run(f"return {rows}")
        assert len(labels) == parts
        assert all(("group", label) in told for label in labels)


STYLED = """
.tiles .wrong | | textDecorationLine | underline
.tiles .differs | | fontWeight | 700
.tiles .written | | borderTopStyle | dashed
.tiles .chosen | | borderTopWidth | 2px
.bars .banned | | textDecorationLine | line-through
.bars .chosen | | borderTopStyle | solid
.cell [aria-pressed=true] | ::before | content | "✓ "
#numbers | ::before | content | "✓ "
.stages .lit | | boxShadow | inset
.label.lit | | textDecorationLine | underline
"""


def test_colour_is_never_the_only_sign(show):
    """Each state also has a letter, a mark, a line or a weight of its own."""
    run = show("both", fragment="write=0,5&force=0,1,0.8&ban=2")
    style = "(name, before) => getComputedStyle(document.querySelector(name), before)"
    for name, before, key, sign in rows(STYLED):
        press = "state.numbers || by('numbers').click(); light('score'); choose(0, 2);"
        assert sign in run(f"{press} return ({style})({name!r}, {before!r})[{key!r}]"), name
    assert "✗ wrong" in run("return heading()")
    assert run(f"return ({style})('.tiles .differs', '::before').content") == '"≠"'
    assert run(
        "const [, column] = views[0].columns;"
        "return views[0].map.different.size && column.weight.number.textContent"
    )
    assert "1, position 2" in run("return by('changes').textContent")
    guess = "visit(0); const one = by('tour').querySelector('.guesses button'); one.click();"
    assert run(f"{guess} return getComputedStyle(one, '::before').content") == '"• "'
    down, up = run("""
      return [-1, 1].map(value => {
        const canvas = document.createElement('canvas');
        Object.assign(look, {soft: '#000', negative: '#fff', positive: '#fff'});
        state.numbers = false;
        paintVector(canvas, [value], 100);
        const {data} = canvas.getContext('2d').getImageData(2, 0, 1, 22);
        return [5, 16].map(y => data[4 * y] > 200);
      });
    """)
    assert down == [False, True]
    assert up == [True, False]  # negative numbers hang below the middle


def test_the_tour_hides_nothing_that_it_speaks_of(show):
    for width, height in SCREENS:
        run = show("scaled", width, height)
        for stop in (0, 3, 4, 5, 6, 9):
            run(
                f"views[0].spec.most_steps.fill(6); visit({stop}); "
                f"by('tour').querySelector('.press').click()"
            )
            shown = (
                "[by('hold'), views[0].canvas, ...['.answer', '.bars', "
                "'.likeliest'].map(views[0].find)]"
            )
            card, *boxes = run(
                f"return [by('tour'), ...{shown}].map(one => [box(one).top, box(one).bottom])"
            )
            assert all(card[1] <= top and bottom <= height for top, bottom in boxes), (
                width,
                stop,
                card,
                boxes,
            )


def test_playing_goes_through_the_parts_of_each_step_at_a_readable_pace_and_pauses(show):
    run = show()
    played = run("""
      const queue = [], seen = [], lit = view => view.find('.stages .lit'), kept = setTimeout;
      window.setTimeout = (act, time) => queue.push([act, time]);
      views[0].find('.play').click();
      seen.push(views[0].find('.play').textContent);
      while (queue.length) {
        const [act, time] = queue.shift();
        if (lit(views[0]) && time > 200)
          seen.push([state.step, lit(views[0]).className.split(' ')[0], time]);
        act();
      }
      window.setTimeout = kept;
      const label = views[0].find('.play').textContent;
      return [seen, views[0].now.steps.length, label, Boolean(lit(views[0]))];
    """)
    parts = "query score softmax weight context update output".split()
    seen, steps, label, lit = played
    assert seen[0] == "❚❚ pause"
    assert label == "▶ play"
    assert lit is False
    paces = [[step, part, 220 if step else 800] for step in range(steps) for part in parts]
    assert seen[1:] == paces
    run = show()
    look = (
        "[views[0].find('.play').textContent, "
        "views[0].rows.query.classList.contains('lit'), state.step]"
    )
    click = "views[0].find('.play').click();"
    assert run(f"{click} return {look}") == ["❚❚ pause", True, 0]
    later = f"return new Promise(done => setTimeout(() => done({look}), 1200));"
    assert run(f"{click} {later}") == ["▶ play", False, 0]


@table(
    "name, stops, second",
    """
scaled | 9 | Step after step
none | 1 | Longer than in training
""",
    "stops",
)
def test_the_tour_asks_acts_and_tells(show, name, stops, second):
    run = show(name, fragment="tour=2")  # or the last
    title = "by('tour').querySelector('h2').textContent"
    number = min(2, stops)
    assert run(f"return {title}") == f"{number} of {stops}: {second}"
    assert f"tour={number}" in run("return fragment()")
    said = "return [...by('tour').querySelectorAll('p')].map(one => one.textContent)"
    press = "by('tour').querySelector('.press').click();"
    for number in range(stops):
        run(f"visit({number}); {press}")
        asked, told = run(f"if (playing) pause(); {said}")
        assert "?" in asked
        assert len(told) > 20
        assert not re.search(r"undefined|writes (\S+), not \1\.", asked + told)
    guess = "visit(0); const one = by('tour').querySelector('.guesses button'); one.click();"
    guessed = run(
        f"{guess} by('tour').querySelector('.press').click(); return [one.textContent, {TOLD}]"
    )
    judged = "(right|wrong, it is “.+?”)"
    assert re.match(f"You guessed “{guessed[0]}”: {judged}\\. It (attends|writes) ", guessed[1])
    key = "new KeyboardEvent('keydown', {key: 'Escape', bubbles: true})"
    left = run(
        f"document.activeElement.dispatchEvent({key}); return [state.tour, "
        f"by('tour').hidden, isChanged()]"
    )
    assert left == [None, True, False]
