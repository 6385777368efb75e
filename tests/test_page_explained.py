"""What the page says of a step, of an answer and of a string; its tour, its playing and its first screen."""

import json
import re

import numpy as np
import pytest
import torch
from pages import make_predictor, make_shown

from seq2attn.parts import TASKS

pytest.importorskip("onnxscript", reason='needs the extra "export": pip install "seq2attn[export]"')

from seq2attn.pages import page as page_module
from seq2attn.pages.graphs import export_answer
from seq2attn.pages.page import page_model, plain_graph, render

HELPERS = (
    "const type_ = text => { by('text').value = text; by('text').dispatchEvent(new Event('input')); };"
    "const row = part => Array.from(views[0].panel.rows[part].children, one => one.textContent);"
    "const heading = (view = 0) => views[view].find('.answer h3').textContent;"
    "const box = one => one.getBoundingClientRect();"
)


TOLD = "by('tour').querySelector('.told').textContent"


@pytest.fixture(scope="module")
def pages():
    """Pages of a model with attention, of one without, and of both."""
    shown = {name: make_shown(name) for name in ("scaled", "none")}
    for one in shown.values():
        one.predictor.task.max_length = 8
    models = {name: page_model(one) for name, one in shown.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "page_model", lambda one: models[one.name])
        together = render([shown["scaled"], shown["none"]])
        return {"scaled": render([shown["scaled"]]), "none": render([shown["none"]]), "both": together}


@pytest.fixture
def show(browser, tmp_path, pages):
    """Open one of the pages in a window: a function that runs a script in it."""
    browser.console()

    def opened(name="scaled", width=1440, height=900, fragment=""):
        file = tmp_path / f"{name}{width}.html"
        file.write_text(pages[name])
        browser.resize(width, height)
        browser.open(file)
        browser.run(f"location.hash = {fragment!r}; restore({fragment!r}); if (state.tour !== null) visit(state.tour)")
        return lambda script: browser.run(HELPERS + script)

    yield opened
    assert browser.console() == []


def test_a_score_unfolds_with_its_numbers_down_to_the_weight(show):
    run = show()
    said, weight, sentence = run("type_('cab'); choose(0, 2); return [row('score'), row('softmax'), row('context')]")
    predictor = make_predictor("scaled.yaml")
    ids = torch.tensor([predictor.task.source_vocabulary.encode("cab")])
    memory, state = predictor.model.encode(ids, torch.tensor([3]))
    scores = (memory.values[0] @ state.cell[0][0] / 12**0.5).tolist()
    formula, value = re.fullmatch(r"(.*) = (\S+)", said[1]).groups()
    assert formula == "s · h / √D: e₃ = s · (h₃ / 3.464)"
    assert float(value) == pytest.approx(scores[2], rel=1e-3)
    assert f"their products, sum {value}" in said[3] and "h₃ / 3.464" in said[3]
    power, total, share = map(
        float, re.fullmatch(r"p₃ = exp\(e₃\) / Σ exp = (\S+) / (\S+) = (\S+)", weight[1]).groups()
    )
    powers = np.exp(scores)
    assert (power, total, share) == pytest.approx((powers[2], powers.sum(), powers[2] / powers.sum()), rel=1e-3)
    assert sentence[1].endswith(" h₃ + …")
    key = run("return views[0].panel.rows.score.querySelector('canvas').getAttribute('aria-label')")
    assert key.startswith("h₃ / 3.464: 12 numbers, ")


def test_the_diagram_leads_to_the_rows_and_every_step_has_one_scale(show):
    run = show()
    lit = "[...document.querySelectorAll('.lit')].map(one => one.className.split(' ')[0])"
    click = (
        f"views[0].find('.stages .softmax').click(); return [document.activeElement.textContent.slice(0, 9), ...{lit}]"
    )
    assert run(f"type_('cabbage'); {click}") == ["softmax p", "softmax", "label", "part"]
    scale = "choose(t, null); return views[0].panel.axis.map(one => one.textContent).join()"
    axes = run(f"return views[0].now.steps.map((_, t) => {{ {scale} }})")
    assert len(axes) > 1 and len(set(axes)) == 1


def test_wrong_symbols_are_marked_and_lengths_and_models_compared(show):
    run = show("both")
    tile = "one => [one.textContent, one.classList.contains('wrong')]"
    tiles = f"[...views[0].find('.answer .tiles').querySelectorAll('button')].map({tile})"
    tiles, said, other = run(f"type_('cab'); return [{tiles}, heading(), heading(1)]")
    right = "bac⏎"
    assert [wrong for _, wrong in tiles] == [symbol != right[t : t + 1] for t, (symbol, _) in enumerate(tiles)]
    assert "✗ wrong" in said and "right is bac" in said and "longer" not in said
    assert "differs from scaled from step " in other
    assert "longer than trained (1-8)" in run("type_('abcdefghi'); return heading()")
    write = "for (const [t, id] of [5, 4, 3, 2].entries()) state.write.set(t, id);"
    assert "✓ right" in run(f"{write} type_('abc'); return heading()")
    assert "of the source is this one vector" in run("return views[1].panel.rows.vector.textContent")


@pytest.mark.parametrize("name", ["sort", pytest.param("recopy", marks=pytest.mark.slow)])
def test_the_right_answer_is_the_tasks_own(show, name):
    task, texts = TASKS.load(name)(), {"sort": ["banana", "a", "hello"], "recopy": ["5552226", "7", "24031"]}[name]
    graph = json.dumps(plain_graph(export_answer(task), set()))
    asked = json.dumps([task.source_vocabulary.encode(text) for text in texts])
    model = f"{{spec: {{answers: {{}}}}, graphs: {{answer: new Graph({graph}, new Map())}}}}"
    found = show()(f"const model = {model}; return {asked}.map(ids => rightAnswer(model, '', ids))")
    assert [task.target_vocabulary.decode(ids) for ids in found] == [task.answer(text).text for text in texts]


def test_no_message_moves_the_layout_and_a_near_miss_is_offered(show):
    run = show()
    look = "[by('message').textContent, by('text').getAttribute('aria-invalid'), box(by('models')).top]"
    texts = ["cab", "CAB", " cab ", "zQ7\u2028", "", "cab"]
    said = [run(f"type_({json.dumps(text)}); return {look}") for text in texts]
    assert [one[:2] for one in said] == [
        ["", "false"],
        ["The model does not know C A B · use cab", "true"],
        ["The model does not know ␣ (space) · use cab", "true"],
        ["The model does not know z Q 7 2028", "true"],
        ["Type a string.", "false"],
        ["", "false"],
    ]
    assert len({top for *_, top in said}) == 1
    take = "type_('CAB'); by('message').querySelector('button').click();"
    assert run(f"{take} return [state.text, document.activeElement.id]") == ["cab", "text"]


def test_the_first_screen_has_map_step_and_likeliest(show):
    for width, height in ((1024, 768), (1440, 900)):
        run = show("scaled", width, height)
        places = "[views[0].canvas, views[0].find('.heading'), views[0].find('.likeliest')]"
        bottoms = run(f"views[0].spec.most_steps.fill(6); type_('badge'); return {places}.map(one => box(one).bottom)")
        assert max(bottoms) <= height, (width, bottoms)
        look = "[views[0].layout.cell, ...[views[0].canvas, views[0].find('.likeliest')].map(one => box(one).top)]"
        before, after = run(f"const before = {look}; setWeight(0, 1, 1); return [before, {look}]")
        assert before == after
        widths = run(
            "type_('attention'.repeat(2)); const map = views[0].find('.scroll'); return [map.scrollWidth, map.clientWidth]"
        )
        assert widths[0] == widths[1]
    assert show()("return document.activeElement.id") == "text"
    narrow = show("scaled", 390, 844)
    scroll = "return [0, 29].map(j => { choose(0, j); return views[0].find('.attending').scrollLeft; })"
    first, last = narrow(f"type_('abcdefghij'.repeat(3)); {scroll}")
    assert first == 0 < last
    assert narrow("return document.documentElement.scrollWidth") == 390


def test_everything_to_use_has_a_name(show):
    kinds = "button, input, select, canvas, nav, aside, [role=slider], [role=img]"
    name = "one.getAttribute('aria-label') || one.textContent.trim() || one.title || (one.labels || []).length"
    unnamed = f"[...document.querySelectorAll('{kinds}')].filter(one => !({name})).map(one => one.outerHTML)"
    assert show("both", fragment="tour=1")(f"return {unnamed}") == []


def test_the_tour_hides_nothing_that_it_speaks_of(show):
    for width, height in ((1024, 768), (1440, 900)):
        run = show("scaled", width, height)
        run("views[0].spec.most_steps.fill(6); visit(3); by('tour').querySelector('.press').click()")
        shown = "[views[0].find('.answer'), views[0].canvas, views[0].find('.bars'), views[0].find('.likeliest')]"
        card, *boxes = run(f"return [by('tour'), ...{shown}].map(one => [box(one).top, box(one).bottom])")
        assert all(card[1] <= top and bottom <= height for top, bottom in boxes), (width, card, boxes)


def test_an_answer_is_that_to_the_string_it_names(show):
    assert show()("type_('cab'); type_('CAB'); return heading()") == "answer to cab"


def test_playing_goes_through_the_parts_of_each_step(show):
    run = show()
    played = run("""
      const queue = [], seen = [];
      window.setTimeout = act => queue.push(act);
      views[0].find('.play').click();
      seen.push(views[0].find('.play').textContent);
      while (queue.length) {
        if (state.part) seen.push(`${state.step} ${state.part}`);
        queue.shift()();
      }
      return [seen, views[0].now.steps.length, views[0].find('.play').textContent];
    """)
    parts = ["query", "score", "softmax", "weight", "context", "output"]
    seen, steps, label = played
    assert (seen[0], label) == ("❚❚ pause", "▶ play")
    assert list(dict.fromkeys(seen[1:])) == [f"{step} {part}" for step in range(steps) for part in parts]


@pytest.mark.parametrize(("name", "stops"), [("scaled", 8), ("none", 6)])
def test_the_tour_asks_acts_and_tells(show, name, stops):
    run = show(name, fragment="tour=2")
    title = "by('tour').querySelector('h2').textContent"
    assert run(f"return {title}") == f"2 of {stops}: Step after step"
    assert "tour=2" in run("return fragment()")
    said = "return [...by('tour').querySelectorAll('p')].map(one => one.textContent)"
    for number in range(stops):
        asked, told = run(f"visit({number}); by('tour').querySelector('.press').click(); {said}")
        assert "?" in asked and len(told) > 20 and "undefined" not in asked + told
    guess = "visit(0); const one = by('tour').querySelector('.guesses button'); if (!one) return null; one.click();"
    guessed = run(f"{guess} by('tour').querySelector('.press').click(); return [one.textContent, {TOLD}]")
    assert guessed is None if name == "none" else guessed[1].startswith(f"You guessed: {guessed[0]}. It attends to ")
    key = "new KeyboardEvent('keydown', {key: 'Escape', bubbles: true})"
    left = run(f"document.activeElement.dispatchEvent({key}); return [state.tour, by('tour').hidden, isChanged()]")
    assert left == [None, True, False]
