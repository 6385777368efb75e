"""Training in the page: the same numbers as in PyTorch, and what a person sees of it."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from inline import call_main
from pages import CONFIGS, MECHANISMS, exported_once

from seq2attn.build import build_model
from seq2attn.config import load_config
from seq2attn.data.batches import drop_words, make_batch
from seq2attn.data.tasks import Examples
from seq2attn.parts import TASKS
from seq2attn.plugins import load_plugin
from seq2attn.training.schedule import learning_rate
from seq2attn.training.step import TrainingStep

pytest.importorskip("onnxscript", reason='needs the extra "export": pip install "seq2attn[export]"')

DOCS = CONFIGS.parent / "docs/plugins.md"
FEW = "model.hidden=8 task.alphabet=abcd training.batch_size=4".split()
SMALL = [*FEW, "model.embedding=4", "task.max_length=3"]
TINY = [*FEW, "task.min_length=1", "task.max_length=2", "training.warmup=2"]
RESETS = (
    "training.word_dropout=0.3 training.encoder_reset=0.3 "
    "training.reset_first=false training.decoder_reset=0.3"
)
TRAINED = {
    **MECHANISMS,
    "dropout, resets": f"mechanisms.yaml model.cell=lstm model.dropout=0.5 model.layers=2 {RESETS}",
    "a plug-in's score": "scaled.yaml model.attention.score=metric",
}
ODD = """
import torch
from seq2attn import Score, register
@register("odd", formula="s . h + j")
class Odd(Score):
    def forward(self, query, keys):
        places = [float(place) for place in range(keys.size(1))]
        return query @ keys.mT + torch.tensor(places)
@register("noisy", formula="s . h, with noise in training")
class Noisy(Score):
    def forward(self, query, keys):
        scores = query @ keys.mT
        return scores + torch.empty_like(scores).exponential_() if self.training else scores
"""
STEPS = """
const race = new Race(data.models.slice(0, 1), 5), rows = [];
const [learner] = race.learners, first = learner.weights();
const whole = ({shape, data}) => [shape, Array.from(data)], {graph} = learner, run = graph.run;
let random = [];
graph.run = given => {
  random = Object.entries(given).filter(([name]) => name.startsWith("random."));
  return run.call(graph, given);
};
for (let step = 0; step < STEPS; step++) {
  const {examples, each: [{loss}]} = race.advance(RATE, MASK);
  rows.push([loss, Object.values(examples).map(whole), random.map(([, one]) => whole(one))]);
}
const moments = name => Array.from(learner.values[`exp_avg.${name}`].data);
const averages = data.models[0].weights.flatMap(([name]) => moments(name));
return [Array.from(first), rows, Array.from(learner.weights()), averages];
"""


def box_muller(radius, angle):
    return (-2 * (1 - radius).log()).sqrt() * (2 * torch.pi * angle).cos()


def replay(config, first, rows, rate):
    """The losses of these batches, the last weights and first moments, by the project's own
    training step.
    """
    model = build_model(config)
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.tensor(first[at : at + parameter.numel()]).view_as(parameter))
            at += parameter.numel()
    step = TrainingStep(model, config, torch.device("cpu"))
    losses = []
    step.leaf = None
    for number, (_, given, random) in enumerate(rows):
        examples = Examples(*(torch.tensor(one).long().view(shape) for shape, one in given))
        batch = make_batch(examples, source_eos=config.model.source_eos)
        drawn = (torch.tensor(one).view(shape) for shape, one in random)
        normal = lambda *_, drawn=drawn: box_muller(*next(drawn))  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", lambda *_, drawn=drawn, **__: next(drawn))
            patch.setattr(torch, "randn_like", normal)
            patch.setattr(
                F,
                "dropout",
                lambda x, p, *_, drawn=drawn: x * (next(drawn) < 1 - p) / (1 - p) if p else x,
            )
            batch = drop_words(batch, config.training.word_dropout, torch.Generator())
            total = step.losses(step.forward(batch, number), batch).total
        assert next(drawn, None) is None
        step.gradients(total)
        share = learning_rate(config.training, number, 10**6) / config.training.learning_rate
        step.update(rate * share)
        losses.append(float(total.detach()))
    averages = [step.state[f"exp_avg.{name}"] for name, _ in model.named_parameters()]
    ends = (model.parameters(), averages)
    return losses, *(torch.cat([one.detach().flatten() for one in some]).numpy() for some in ends)


def agree(browser, page, config, steps, rate=8e-3, mask="null"):
    """The largest differences of losses, weights and first moments; and the rows of the page's
    steps.
    """
    browser.console()
    browser.open(page)
    script = STEPS.replace("STEPS", str(steps)).replace("RATE", str(rate)).replace("MASK", mask)
    first, rows, *last = browser.run(script)
    losses, *expected = replay(config, first, rows, rate)
    assert browser.console() == []
    pairs = zip(([row[0] for row in rows], *last), (losses, *expected), strict=True)
    return *(np.abs(np.array(one) - np.array(other)).max() for one, other in pairs), rows


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A race, as the command writes it, of two models that differ in their warm-up."""
    folder = tmp_path_factory.mktemp("training")
    scaled = (CONFIGS / "scaled.yaml").read_text()
    for name, warmup in (("scaled", 2), ("slow", 9)):
        (folder / f"{name}.yaml").write_text(scaled.replace("warmup: 100", f"warmup: {warmup}"))
    file = folder / "page.html"
    configs = f"--train {folder}/scaled.yaml --train {folder}/slow.yaml"
    settings = " ".join(f"--set={setting}" for setting in SMALL)
    with exported_once("export_graphs", "export_training", "export_answer"):
        said = call_main(f"page --text abc --to {file} {configs} {settings}").check().err
    assert "exporting the training of slow (5 of 6)" in said.splitlines()
    assert file.stat().st_size < 1_500_000
    return file


LIVE = """
const wait = async what => {
  for (let k = 0; k < 600 && !what(); k++) await new Promise(done => setTimeout(done, 50));
};
const now = () => by("train-now").textContent, said = [];
const weights = () => views.map(view => Array.from(view.learnt));
return (async () => {
  await wait(() => views.every(view => view.learnt));
  said.push(now(), by("train-play").textContent);
  const first = weights();
  by("train-step").click();
  await wait(() => training.step === 1);
  said.push(now(), weights().every((one, k) => one.some((value, at) => value !== first[k][at])));
  setWeight(0, 1, 1);
  ban("0");
  hold("write", 0, 4);
  Object.assign(state, {temperature: 2, padding: 1});
  by("train-rate").value = -1.5;
  by("train-rate").dispatchEvent(new Event("input"));
  by("train-play").click();
  said.push(by("train-play").textContent);
  await wait(() => training.step > 20);
  by("text").value = "ba";
  by("text").dispatchEvent(new Event("input"));
  said.push(state.rate, views[0].now.steps[0].weights.data[1], views[0].right.length);
  const [step, later] = views[0].now.steps, live = views[0].canvas.toDataURL();
  const changed = by("changes").children.length;
  said.push([step.written, later.weights.data[0], step.weights.data.length, changed]);
  await wait(() => views[0].canvas.toDataURL() !== live);
  said.push(views[0].canvas.toDataURL() !== live);
  by("train-play").click();
  await new Promise(done => setTimeout(done, 500));
  const stopped = training.step;
  await new Promise(done => setTimeout(done, 500));
  said.push(training.step === stopped, training.losses.map(losses => losses.length === stopped));
  said.push([...by("train").querySelectorAll("canvas")].map(one => one.getAttribute("aria-label")));
  said.push(by("train-loss").textContent);
  const [one, other] = training.right;
  said.push([...one.keys()].every(length => one.get(length)[1] === other.get(length)[1]));
  by("train-reset").click();
  await wait(() => training.step === 0 && weights()[0][0] === first[0][0]);
  said.push(now(), weights().every((one, k) => one.every((value, at) => value === first[k][at])));
  const masked = [];
  for (const kept of [true, false]) {
    by("train-reset").click();
    await wait(() => training.step === 0);
    by("mask").checked = kept;
    by("mask").dispatchEvent(new Event("change"));
    by("train-step").click();
    await wait(() => training.step === 1);
    masked.push(training.losses[0][0]);
  }
  said.push(masked);
  by("train-seed").value = 7;
  by("train-seed").dispatchEvent(new Event("change"));
  await wait(() => weights()[0][0] !== first[0][0]);
  said.push(weights()[0][0] !== first[0][0]);
  by("train-until").value = 3;
  by("train-until").dispatchEvent(new Event("change"));
  by("train-play").click();
  await wait(() => training.step === 3);
  await new Promise(done => setTimeout(done, 300));
  const shared = new URLSearchParams(fragment(true)).get("batch");
  return [said, [training.step, training.playing, shared]];
})();
"""


def test_training_goes_on_while_a_person_types_and_changes(browser, small):
    """The buttons; two models on the same batches; what a person sets stays set, and the answer
    follows.
    """
    browser.console()
    browser.open(small)
    said, end = browser.run(LIVE)
    (
        before,
        play,
        after,
        moved,
        pause,
        rate,
        weight,
        answer,
        changes,
        live,
        stopped,
        counted,
        charts,
        *said,
    ) = said
    losses, fair, again, same, (masked, unmasked), other = said
    assert before == "untrained"
    assert play == "▶ Train"
    assert after == "after 1 batch"
    assert pause == "❚❚ Pause"
    assert again == "untrained"
    assert moved
    assert stopped
    assert counted == [True, True]
    assert fair
    assert same
    assert other
    assert rate == 0.032
    assert answer == 2
    assert weight == pytest.approx(1, abs=1e-6)
    assert changes == [4, 0, 3, 5]
    assert live  # written; banned; padded; in the bar: also the weight and the temperature
    assert re.search(r"after \d+ batches; of a guess 1\.9: ━ scaled \d.*┅ slow", charts[0])
    assert "length 3: " in charts[1]
    assert re.fullmatch(r"━ scaled \d\.\d{3}  ┅ slow \d\.\d{3}", losses)
    assert abs(masked - unmasked) > 1e-4
    assert end == [3, False, "3"]
    told = browser.spoken()
    kinds = {"button", "slider", "spinbutton", "checkbox", "image", "img", "region", "textbox"}
    assert [one for one in told if one[0] in kinds and not one[1]] == []
    assert (
        "slider",
        "Learning rate",
    ) in told
    others = "performance.getEntriesByType('resource').filter(one => !one.name.startsWith('blob:'))"
    assert browser.run(f"return {others}") == []
    browser.run("location.hash = 'text=ab&batch=2'; location.reload()")
    moment = (
        "const wait = async k => { while (k-- && training.step < 2) await new Promise(d "
        "=> setTimeout(d, 50)); };"
    )
    arrived = browser.run(
        f"{moment} return wait(200).then(() => [training.step, training.playing, state.text])"
    )
    assert arrived == [2, False, "ab"]
    assert browser.console() == []


def test_fifty_steps_are_those_of_pytorch(browser, small):
    loss, weights, _, rows = agree(
        browser, small, load_config(small.with_name("scaled.yaml"), SMALL), 50
    )
    assert loss < 1e-3
    assert weights < 1e-2  # embeddings of symbols that no batch had, too
    seeds = (
        "const [one, other] = [1, 2].map(seed => new Race(data.models, seed).learners[0].values);"
    )
    same = "([name]) => one[name].data.every((value, k) => value === other[name].data[k])"
    assert browser.run(f"{seeds} return data.models[0].weights.filter({same})") == []
    drawn = browser.run(f"{seeds} return Array.from(one['encoder.embedding.weight'].data)")
    assert abs(np.mean(drawn)) < 4 / len(drawn) ** 0.5  # four standard errors of N(0, 1)
    assert 0.5 < np.std(drawn) < 1.5
    for _, ((shape, source), (_, lengths), (_, target), (_, target_lengths)), _ in rows:
        sources, targets = (
            np.array(one).reshape(shape[0], -1).tolist() for one in (source, target)
        )
        assert lengths == target_lengths
        assert set(lengths) <= {1, 2, 3}
        for read, length, written in zip(sources, map(int, lengths), targets, strict=True):
            assert written[:length] == read[:length][::-1]


@pytest.mark.slow
@pytest.mark.parametrize("words", TRAINED.values(), ids=TRAINED)
def test_steps_of_every_mechanism_are_those_of_pytorch(browser, tmp_path, own_scores, words):
    from seq2attn.pages.models import untrained_models
    from seq2attn.pages.page import render

    (tmp_path / "metric.py").write_text(
        re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    )
    load_plugin(tmp_path / "metric.py")
    name, *overrides = words.split()
    config = load_config(CONFIGS / name, [*overrides, *TINY])
    (tmp_path / "page.html").write_text(render(untrained_models({"model": config})))
    loss, _, averages, _ = agree(browser, tmp_path / "page.html", config, 2)
    assert loss < 1e-5
    assert averages < 1e-5


def test_the_mask_can_be_left_out_of_training(browser, small):
    settings = [*SMALL, "model.attention.mask_padding=false"]
    unmasked = load_config(small.with_name("scaled.yaml"), settings)
    loss, _, averages, _ = agree(browser, small, unmasked, 2, mask="false")
    assert loss < 1e-5
    assert averages < 1e-5
    assert agree(browser, small, unmasked, 1)[0] > 1e-4  # with the mask it is another loss


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dates", "pairs"])
def test_what_the_page_cannot_draw_it_has_as_examples(browser, tmp_path, cli, name):
    """Dates, and pairs of a file: each example that is drawn is right, and the page learns from
    them.
    """
    (tmp_path / "pairs.tsv").write_text("ab\tx\nba\ty\nabba\tx y x\n")
    files = "--set task.train=pairs.tsv --set task.dev=pairs.tsv" if name == "pairs" else ""
    config = {"dates": CONFIGS / "dates.yaml", "pairs": CONFIGS / "pairs/small.yaml"}[name]
    settings = "--set model.hidden=8 --set model.embedding=4 --set training.batch_size=4"
    cli(f"page --train {config} {settings} {files}").check()
    browser.open(tmp_path / "page.html")
    drawn, losses = browser.run("""
      const race = new Race(data.models, 1), [{source, target}] = data.models;
      const drawn = [], losses = [];
      for (let step = 0; step < 5; step++) {
        const {examples, each: [{loss}]} = race.advance(0.01, null);
        const {source_lengths: {data: counts}} = examples;
        losses.push(loss);
        for (let k = 0; k < counts.length; k++) drawn.push(["source", "target"].map(side => {
          const {shape, data: ids} = examples[side], {tokens} = data.models[0][side];
          const count = examples[`${side}_lengths`].data[k];
          const row = ids.slice(k * shape[1], k * shape[1] + count);
          return Array.from(row, id => tokens[id]).join("");
        }));
      }
      return [drawn, losses];
    """)
    task = TASKS.load("dates")()
    known = {"ab": "x", "ba": "y", "abba": "xyx"}
    examples = browser.run("return data.models[0].examples")
    assert all(text in known or (name == "dates" and task.answer(text)) for text in examples)
    assert "banana" not in examples
    assert len(drawn) == 20
    assert len(set(map(tuple, drawn))) > 2
    assert all(map(np.isfinite, losses))
    for source, target in drawn:
        assert target == (known[source] if name == "pairs" else task.answer(source).text)


@pytest.mark.parametrize(
    "words, message",
    [
        (
            "--train CONFIG --train CONFIG",
            "--train takes one config, or two of different names, and no runs",
        ),
        (
            "--train CONFIG --plugin odd.py --set model.attention.score=odd",
            "of a source of length 1, step gives other",
        ),
        pytest.param(  # refused by its graphs, which take long
            "--train CONFIG --plugin odd.py --set model.attention.score=noisy",
            "it lacks the ONNX operation Random",
            marks=pytest.mark.slow,
        ),
        ("--train CONFIG --train dates.yaml", "vocabularies differ"),
        ("--train CONFIG --train other.yaml", "task and training.batch_size must be equal"),
    ],
)
def test_what_the_page_cannot_train_is_refused(cli, tmp_path, own_scores, words, message):
    (tmp_path / "odd.py").write_text(ODD)
    for name, task in (
        ("CONFIG", "max_length: 1"),
        ("dates.yaml", "name: dates"),
        ("other.yaml", "max_length: 2"),
    ):
        (tmp_path / name).write_text(
            f"{{model: {{hidden: 8}}, training: {{batch_size: 2}}, task: {{{task}}}}}\n"
        )
    assert message in cli(f"page {words}").refusal
    assert not list(tmp_path.glob("*.html"))
