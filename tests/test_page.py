"""The page of a model: it computes what PyTorch computes, shows it, and runs nothing else."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from inline import ROOT, read, write
from models import make_task
from numpy.testing import assert_allclose
from pages import CONFIGS, SMALL, WEIGHTS, make_predictor, make_shown
from refusal import refused
from tables import rows, table
from test_attention_changes import changed as predicted

import seq2attn
from seq2attn.data.vocabulary import EOS, PAD, SOS
from seq2attn.pages.page import PageModel, render, run_models
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.runs.run import find_run

pytestmark = pytest.mark.usefixtures("traced_once")
BRIEF = "training.steps=1 training.warmup=0 training.batch_size=2 training.snapshots=0".split()
NASTY = """</script><script>document.title='executed'</script>
<img src=x onerror="document.title='executed'">'&$data""".replace("\n", "")
STRANGE = '</script> <b> &amp; " \\ \x01 \u202e שלום e\u0301\u0302 $data'.split()


def open_page(browser, folder, page):
    (folder / "page.html").write_text(page, "utf-8")
    browser.console()
    browser.open(folder / "page.html")


# ---- what a person sees and does ----


@pytest.fixture(scope="module")
def predictor(traced_once):
    return make_predictor("scaled.yaml")


@pytest.fixture(scope="module")
def rendered(predictor, tmp_path_factory):
    """A page of two models whose weights differ, the first with earlier weights."""
    other = make_predictor("scaled.yaml", seed=2)
    snapshots = {"step 0": other.model.state_dict(), "step 9": predictor.model.state_dict()}
    models = [
        PageModel("first", predictor, {"score": "scaled"}, ["abc", "cab"], snapshots),
        PageModel("second", other, {"score": "scaled"}, ["abc"]),
    ]
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(render(models), "utf-8")
    return file


@pytest.fixture
def shown(quiet, rendered):
    quiet.resize(1400, 900)
    quiet.show(rendered)
    yield quiet
    assert quiet.run("return performance.getEntriesByType('resource').length") == 0


TYPE = """
const type_ = text => {
  by('text').value = text;
  by('text').dispatchEvent(new Event('input'));
};
"""
KEY = """
const key = (name, place = views[0].canvas) => place.dispatchEvent(
  new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
"""
TILES = "views[0].find('.answer .tiles').querySelectorAll(':scope > button')"
ANSWER = f"Array.from({TILES}, one => one.textContent)"
WEIGHTS_OF_STEPS = "views[0].now.steps.map(step => Array.from(step.weights.data))"


def answer_of(predictor, text, **changes):
    return [
        "⏎" if one == "<eos>" else one
        for one in predicted(predictor, text, **changes).output_symbols
    ]


def test_the_answer_follows_each_keystroke_and_unknown_symbols_are_named(shown, predictor):
    for text in "c ca cab ab".split():
        assert shown.run(f"{TYPE} type_({text!r}); return {ANSWER}") == answer_of(predictor, text)
    for text, message in (("abQ", "does not know Q"), ("", "Type a string.")):
        assert message in shown.run(f"{TYPE} type_({text!r}); return by('message').textContent")
    stuck = """
      const kept = Session.prototype.decode;
      Session.prototype.decode = () => broadcast([[2, 1, 3], [4]]);
    """
    told = "Session.prototype.decode = kept; return by('message').textContent"
    said = shown.run(f"{stuck} {TYPE} type_('ba'); {told}")
    assert "cannot read that: sizes 3 and 4 do not fit" in said
    assert shown.run(f"{TYPE} type_('ab'); return by('message').textContent") == ""


@pytest.mark.slow
@table(
    "keys, force, ban",
    """
ArrowDown ArrowLeft ArrowLeft ArrowLeft Enter | [[1, 0, 1.0]] | []
ArrowLeft ArrowLeft ArrowLeft ArrowRight 3 | [[0, 1, 0.3]] | []
ArrowLeft ArrowLeft ArrowLeft B | [] | [0]
ArrowLeft ArrowLeft ArrowLeft b ArrowDown 0 | [[1, 0, 0.0]] | [[0, 0]]
Enter Delete | [] | []
Enter b B Escape | [] | []
""",
    "force ban",
)
def test_keys_change_a_weight(shown, predictor, keys, force, ban):
    changes = {
        "force": {(step, position): weight for step, position, weight in force},
        "ban": [one if isinstance(one, int) else tuple(one) for one in ban],
    }
    presses = "".join(f"key({one!r});" for one in keys.split())
    found = f"[{ANSWER}, {WEIGHTS_OF_STEPS}, by('reset').disabled]"
    answer, weights, unchanged = shown.run(f"{TYPE} {KEY} type_('cabd'); {presses} return {found}")
    assert answer == answer_of(predictor, "cabd", **changes)
    assert_allclose(weights, predicted(predictor, "cabd", **changes).weights, atol=WEIGHTS)
    assert unchanged == (not force + ban)


def test_what_the_model_wrote_is_changed_beside_the_untouched_answer(shown, predictor):
    beside = ANSWER.replace(".answer .tiles", ".answer.untouched .tiles")
    hidden = "views[0].find('.answer.untouched').hidden"
    assert shown.run(f"{TYPE} type_('cab'); return {hidden}")
    changed = [False, answer_of(predictor, "cab"), answer_of(predictor, "cab", write={0: "e"})]
    look = f"return [{hidden}, {beside}, {ANSWER}]"
    assert shown.run(f"state.write.set(0, 7); update(); {look}") == changed
    press = "key('e', views[0].find('.answer .tiles').children[0]);"
    again = shown.run(f"{KEY} state.write.clear(); update(); {press} return {ANSWER}")
    assert again == changed[2]
    assert shown.run(f"{KEY} key('Backspace', document.body); return state.write.size") == 0


def test_a_weight_is_dragged(shown):
    drag = """
      const bar = views[0].columns[1].weight.bar, box = bar.getBoundingClientRect();
      const clientY = box.top + box.height / 4;
      bar.setPointerCapture = () => {};
      bar.hasPointerCapture = () => true;
      const move = (name, y) => {
        const at = {clientX: box.left + 2, clientY: y, bubbles: true};
        bar.dispatchEvent(new PointerEvent(name, at));
        return [...state.force];
      };
      return [move('pointerdown', clientY), move('pointermove', clientY + box.height / 4)];
    """
    assert shown.run(f"{TYPE} type_('cab'); {drag}") == [[["0,1", 0.75]], [["0,1", 0.5]]]


def test_a_position_is_banned_where_it_was_seen_and_loses_the_weight_that_was_set(shown):
    """Without a chosen cell a change is made at the largest weight, which stays chosen although it
    moves.
    """
    at = "[views[0].position(), [...state.ban], [...state.force]]"
    pressed = f"(() => {{ views[0].find('.cell').children[3].click(); return {at} }})()"
    (before, *_), once, twice = shown.run(
        f"{TYPE} type_('cab'); return [{at}, {pressed}, {pressed}]"
    )
    assert once == [before, [str(before)], []]
    assert twice == [before, [], []]
    change = "setWeight(0, 1, 0.6); setWeight(1, 1, 0.6); setWeight(0, 2, 0.1); ban('1');"
    assert shown.run(f"{change} return {at}.slice(1)") == [["1"], [["0,2", 0.1]]]
    banned = "setWeight(0, 1, 0.5); return [0, 1].map(t => views[0].map.banned(t, 1))"
    assert shown.run(banned) == [False, True]


def test_every_change_stands_in_the_bar_and_is_undone_there(shown):
    change = "Object.assign(state, {temperature: 5, padding: 2, mask: false});"
    change += "setWeight(0, 1, 1); ban('2'); hold('write', 1, 4);"
    texts = "[...by('changes').children].map(one => one.textContent)"
    chips = shown.run(f"{TYPE} type_('cab'); {change} return {texts}")
    assert chips[:3] == ["temperature 5.00 ✕", "padding 2 ✕", "not masked ✕"]
    assert chips[3:5] == ["step 1, position 2: 1.00 ✕", "position 3: banned ✕"]
    assert chips[5].startswith("step 2 writes")
    masked = "views[0].map.masked(3)"
    assert shown.run(f"return {masked}") is False
    assert shown.run(f"state.mask = null; update(); return {masked}") is True
    undo = "while (by('changes').firstChild) by('changes').firstChild.click();"
    assert shown.run(f"{undo} return isChanged()") is False


PRESSED = """
views[0].find('.next') | ArrowDown | state.step | 2
by('numbers') | n | state.numbers | false
views[0].columns[1].symbol | 5 | [...state.force] | [["2,1", 0.5]]
by('numbers') | Enter | [...state.force] | [["2,1", 0.5]]
"""  # a button, a key, and the state after both


def test_keys_work_after_a_button_was_clicked(shown):
    press = f"""
      {KEY}
      const press = (button, name) => {{ button.click(); button.focus(); key(name, button); }};
    """
    for button, key, result, expected in rows(PRESSED):
        kept = "" if key == "Enter" else f"{TYPE} type_('cab');"
        found = shown.run(f"{press} {kept} press({button}, {key!r}); return {result}")
        assert found == json.loads(expected)


def test_temperature_padding_and_mask(shown, predictor):
    turn = f"""
      by('temperature').value = -0.3; by('temperature').dispatchEvent(new Event('input'));
      by('padding').value = 2; by('padding').dispatchEvent(new Event('input'));
      by('mask').click();
      return [state.temperature, {WEIGHTS_OF_STEPS}];
    """
    temperature, weights = shown.run(f"{TYPE} type_('cab'); {turn}")
    expected = predicted(predictor, "cab", temperature=temperature, padding=2, mask_padding=False)
    assert_allclose(weights, expected.weights, atol=WEIGHTS)


def test_a_link_restores_everything_and_a_damaged_one_is_harmless(shown):
    listed = "value instanceof Object ? [...value] : value"
    what = f"Object.entries(state).map(([name, value]) => [name, {listed}])"
    change = """
      Object.assign(state, {step: 1, position: 2, temperature: 0.5, padding: 1, mask: false,
        numbers: true,
        snapshots: [0, 0], force: new Map([["0,1", 0.25], ["1,2", 1]]), ban: new Set(["2", "0,0"]),
        write: new Map([[1, 4]])});
      update();
    """
    then = f"const before = {what}; restore(fragment()); return [before, {what}]"
    before, after = shown.run(f"{TYPE} type_('cab'); {change} {then}")
    assert before == after
    assert dict(after)["text"] == "cab"
    forced = "restore('force=0,1,0.8;0,2,0.7'); return Object.fromEntries(state.force)"
    assert shown.run(forced) == {"0,1": 0.8, "0,2": 0.2}
    for fragment in (
        "force=0,0,NaN;x;1,1,2&ban=<b>;1,2,3&write=0,999999;-1,3&temperature=-1&padding=1e9&snapshots=7,x&step=x",
        "%",
        "text=%F0%9F%98%80",
    ):
        left = "state.force.size, state.ban.size, state.write.size, state.padding, state.step"
        then = f"update(); return [state.temperature, {left}]"
        assert shown.run(f"restore({fragment!r}); {then}") == [1, 0, 0, 0, 0, 0]


def test_through_training_and_side_by_side(shown):
    assert shown.run("return views.map(view => view.find('h2').textContent)") == ["first", "second"]
    slide = """
      const one = views[0].find('.snapshot input');
      one.value = 0;
      one.dispatchEvent(new Event('input'));
    """
    both = "views.map(view => Array.from(view.now.steps[0].logits.data))"
    before = shown.run(f"{TYPE} type_('cab'); return {both}")
    after = shown.run(f"{slide} return {both}")
    assert after[0] == after[1] == before[1] != before[0]
    tops = shown.run("return views.map(view => view.find('.answers').getBoundingClientRect().top)")
    assert tops[0] == tops[1]  # although only one has a slider


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_wider_than_the_window_or_cut_off(shown, width):
    shown.resize(width, 844)
    change = "state.force.set('0,0', 1); state.numbers = true; update();"
    shown.run(f"{TYPE} type_('abcdefghij'); {change}")
    assert shown.run("return document.documentElement.scrollWidth") == width
    if width > 1000:
        maps = "[...document.querySelectorAll('.maps .scroll')]"
        assert shown.run(f"return {maps}.every(one => one.scrollWidth <= one.clientWidth)")


def test_a_page_writes_neither_padding_nor_the_start(browser, tmp_path, predictor):
    model = copy.deepcopy(predictor.model)
    model.decoder.output.bias.data[: SOS + 1] = 50.0
    other = replace(predictor, model=model)
    open_page(browser, tmp_path, render([PageModel("one", other, {}, ["aa"])]))
    for text in ("a", "aaaa"):
        assert browser.run(f"{TYPE} type_({text!r}); return {ANSWER}") == answer_of(other, text)
    logits = browser.run("return views[0].now.steps.map(step => Array.from(step.logits.data))")
    assert all(row[PAD] > max(row[EOS:]) for row in logits)
    shown = "Array.from(document.querySelectorAll('.likeliest button'), one => one.textContent)"
    assert set(browser.run(f"return {shown}")) <= {*"abcdefghij", "⏎"}


@pytest.mark.slow
def test_weights_that_cannot_be_set_say_why(quiet, tmp_path, predictor):
    """On a page whose other model has none of them."""
    fixed = make_shown("mechanisms.yaml model.decoder=hard_monotonic")
    other = replace(make_shown("scaled.yaml"), predictor=predictor)
    open_page(quiet, tmp_path, render([fixed, other]))
    reason = "hard_monotonic computes its weights from all alignments so far"
    why = f"These weights cannot be set: {reason}."
    assert quiet.run("return shownModel() === views[1]")  # of whose weights the tour tells
    controls = "[...views[0].root.querySelectorAll('.bar.weight, .cell button:first-of-type')]"
    titles = f"{controls}.map(one => [one.title, one.disabled || one.ariaDisabled])"
    said = quiet.run(f"{TYPE} type_('cab'); return {titles}")
    assert said == [[why, True]] + [[why, "true"]] * 3
    drag = "document.querySelector('.bar.weight').dispatchEvent(new PointerEvent('pointerdown'))"
    told = "by('toast').hidden ? '' : by('toast').textContent"
    assert quiet.run(f"{KEY} key('Enter'); key('5'); {drag}; return {told}") == why
    rows = "views.map(view => [view.isForced(0, 1), Array.from(view.now.steps[0].weights.data)])"
    first, second = quiet.run(f"undoAll(); setWeight(0, 1, 1); return {rows}")
    for (is_forced, weights), model, force in (
        (first, fixed.predictor, {}),
        (second, predictor, {(0, 1): 1.0}),
    ):
        assert is_forced == bool(force)
        assert_allclose(weights, predicted(model, "cab", force=force).weights[0], atol=WEIGHTS)
    open_page(quiet, tmp_path, render([fixed]))
    look = "[state.force.size, tourSteps().some(stop => stop.title === 'Move its attention')]"
    link = "restore('text=cab&force=0,1,0.8&ban=0&temperature=2'); update();"
    reached, weights = quiet.run(f"{link} return [{look}, {WEIGHTS_OF_STEPS}]")
    assert reached == [0, False]
    expected = predicted(fixed.predictor, "cab", ban=[0], temperature=2.0).weights
    assert_allclose(weights, expected, atol=WEIGHTS)


@pytest.mark.slow
def test_a_link_with_a_text_that_the_model_cannot_read(shown, rendered, predictor):
    keys = "['Enter', 'ArrowDown', '5', 'b', 'Delete', 'constructor'].forEach(one => key(one));"
    new = "for (const view of views) view.now = view.before = view.answered = undefined;"
    shown.open(rendered, "?#text=HELLO&write=0,3")
    for text in ("HELLO&write=0,3", "constructor&position=2", "__proto__", ""):
        shown.run(f"{new} restore('text={text}'); update()")
        problem = shown.run(f"{KEY} {keys} play(); return by('message').textContent")
        assert problem.startswith("The model does not know" if text else "Type a string.")
        answer = shown.run(f"{TYPE} undoAll(); type_('cab'); return {ANSWER}")
        assert answer == answer_of(predictor, "cab")


# ---- what it refuses ----


@pytest.mark.slow
def test_nothing_in_names_and_symbols_is_executed(quiet, tmp_path, predictor):
    task = make_task()
    task.source_vocabulary = task.target_vocabulary = seq2attn.Vocabulary(STRANGE, separator=" ")
    strange = replace(predictor, task=task)
    text = " ".join(STRANGE)
    open_page(quiet, tmp_path, render([PageModel(NASTY, strange, {"score": NASTY}, [text])]))
    quiet.run("state.force.set('0,0', 1); state.numbers = true; update(); return 1")
    assert quiet.run("return [document.title, document.querySelector('h1').textContent]") == [
        NASTY,
        NASTY,
    ]
    bold = "document.querySelectorAll('b b')"
    assert quiet.run(f"return [document.images.length, {bold}.length]") == [0, 0]
    assert quiet.run("return document.scripts.length") == 3
    assert quiet.run("return by('text').value") == text
    assert quiet.run("return views[0].sources")[:7] == [*STRANGE[:5], "␁", "202E"]


def test_no_script_but_the_pages_own_runs(browser, tmp_path, rendered):
    nasty = "</header><script>document.title = 'executed'</script>"
    open_page(browser, tmp_path, read(rendered).replace("</header>", nasty))
    assert browser.run("return document.title") == "first and second"
    assert any("Content Security Policy" in line for line in browser.console())


# ---- a damaged page ----

SAID = "by('damaged') ? getComputedStyle(by('damaged')).visibility : 'gone'"
SAID = SAID.replace("by(", "document.getElementById(")


def cut(page, share):
    return page[: int(len(page) * share)]


def changed_numbers(page):
    """A page with 2,000 other characters of weights, all of base64."""
    start = page.index('"weights":"', page.index('"snapshots"')) + 200
    return page[:start] + page[start : start + 2000].swapcase() + page[start + 2000 :]


DAMAGED = {
    "cut off in the styles": lambda page: cut(page, 0.01),
    "cut off in the data": lambda page: cut(page, 0.4),
    "cut off in the scripts": lambda page: cut(page, 0.9),
    "without data": lambda page: re.sub(r'(id="data"[^>]*>).*?(</script>)', r"\1\2", page),
    "a script changed": lambda page: page.replace("function update()", "function upDate()"),
    "weights changed": changed_numbers,
}


def test_a_damaged_page_says_so(browser, tmp_path, rendered):
    """After two seconds, which end at once here."""
    browser.open(rendered)
    assert browser.run(f"return {SAID}") == "gone"
    whole = read(rendered)
    for name, damage in DAMAGED.items():
        page = damage(whole)
        assert page != whole, name
        open_page(browser, tmp_path, page)
        wait = "document.getAnimations().forEach(one => one.finish())"
        assert browser.run(f"const before = {SAID}; {wait}; return [before, {SAID}]") == [
            "hidden",
            "visible",
        ], name
        assert "damaged" in browser.run("return document.body.innerText"), name


def test_the_command_writes_a_page(cli, quiet):
    small = " ".join(f"--set {setting}" for setting in (*SMALL, *BRIEF))
    cli(f"train --config {CONFIGS}/scaled.yaml --name tiny {small}").check()
    assert cli("page tiny --to tiny.html --text abc --snapshots 5").check().out == "tiny.html\n"
    quiet.open(Path("tiny.html").absolute())
    assert quiet.run("return [document.title, by('text').value]") == ["tiny", "abc"]


@pytest.mark.slow  # that the page runs a pointer is tested in test_engine
def test_what_a_pointer_copies_has_the_name_that_it_has_in_the_source(browser, tmp_path, cli):
    write("few.tsv", "ab\tb\nba\ta\nbb\tb\nac\ta\n")  # the targets have no c
    write(
        "few.yaml",
        "task: {name: pairs, train: few.tsv, dev: few.tsv}\n"
        "model: {hidden: 6, embedding: 4, decoder: pointer}\n"
        "training: {epochs: 1, batch_size: 4, snapshots: 0}\n",
    )
    (shown,) = run_models([seq2attn.train("few.yaml", name="few", device="cpu", progress=False)])
    shown.predictor.model.decoder.generate.bias.data.fill_(-9.0)  # it copies at every step
    open_page(browser, tmp_path, render([shown]))
    said = []
    for text in ("azb", "zzyb", "cab", "yc"):
        answer = next(iter(shown.predictor.predict([text])))
        assert browser.run(f"{TYPE} type_('{text}'); return {ANSWER}")[: len(answer.output)] == [
            *answer.output
        ]
        said += answer.output
    assert {"z", "c"} & set(said)


CHANGES = """
setWeight(0, 1, 1)
ban('0')
state.temperature = 5
state.padding = 4; state.mask = false"""  # none first


def test_the_page_in_the_documentation_answers(quiet):
    docs = ROOT / "docs"
    quiet.open(docs / "scaled.html", "#tour=3")
    title = "return by('tour').querySelector('h2').textContent"
    assert quiet.run(title) == "3 of 10: From a score to a weight"
    said = quiet.run(f"leave(); {TYPE} type_('attention'); return {ANSWER}")
    assert said == [*"noitnetta", "⏎"]
    words = "hello attention banana level mississippi".split()
    assert quiet.run("return [...by('examples').children].map(one => one.textContent)") == words
    rows = r"^\| (?:none|step 1 attends.*|h banned|temperature 5|padding.*) \| (\w+) \|$"
    answers = re.findall(rows, read(docs / "lesson.md"), re.MULTILINE)
    for change, answer in zip(CHANGES.split("\n"), answers, strict=True):
        written = quiet.run(f"undoAll(); type('hello'); {change}; update(); return {ANSWER}")
        assert written == [*answer, "⏎"]
    assert quiet.run("return performance.getEntriesByType('resource').length") == 0


def test_a_run_that_kept_its_weights_is_shown_through_training(cli, tmp_path):
    write(
        "tiny.yaml",
        "model: {hidden: 8, embedding: 4}\ntask: {max_length: 3}\nevaluation: {samples: 2}\n"
        "training: {steps: 8, warmup: 0, batch_size: 2, validation_samples: 2, "
        "snapshots: 8, snapshot_weights: true}",
    )
    cli("train --config tiny.yaml --name kept").check()
    run = find_run(tmp_path / "runs", "kept")
    (all_of_them,) = run_models([run], "last", snapshots=100)
    assert list(all_of_them.snapshots)[:3] == ["step 0", "step 1", "step 2"]
    assert len(all_of_them.snapshots) == len(run.kept_steps()) > 8
    *others, given = all_of_them.examples
    (few,) = run_models([run], "last", [given], snapshots=2)
    assert few.examples == [given, *others]
    first, middle, last = few.snapshots
    assert first == "step 0"
    assert last == "step 8"
    assert middle in all_of_them.snapshots
    name, first = next(iter(few.predictor.model.named_parameters()))
    assert torch.equal(few.snapshots["step 8"][name], first)
    assert not torch.equal(few.snapshots["step 0"][name], first)
    kept = run.checkpoint("step-1")
    saved = load_checkpoint(kept)
    save_checkpoint(kept, {**saved.tensors, "model.other": torch.zeros(1)}, saved.state)
    with refused(r"step-1.*does not belong to this config"):
        run_models([run], "last", snapshots=100)
