"""Training in the page: the same numbers as in PyTorch, and what a person sees of it."""

import re

import pytest
import yaml
from inline import call_main, read
from pages import CONFIGS

SMALL = """
--set=model.hidden=8 --set=model.embedding=4 --set=training.batch_size=4 --set=task.alphabet=abcd
--set=task.max_length=3
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory, traced_once):
    """A race, as the command writes it, of two models that differ in their warm-up."""
    folder = tmp_path_factory.mktemp("training")
    scaled = read(CONFIGS / "scaled.yaml")
    for name, warmup in (("scaled", 2), ("slow", 9)):
        (folder / f"{name}.yaml").write_text(scaled.replace("warmup: 100", f"warmup: {warmup}"))
    file = folder / "page.html"
    configs = f"--train {folder}/scaled.yaml --train {folder}/slow.yaml"
    said = call_main(f"page --text abc --to {file} {configs} {SMALL}").check().err
    assert "exporting slow" in said.splitlines()
    assert file.stat().st_size < 700_000
    return file


LIVE = """
const wait = async what => {
  for (let k = 0; k < 1500 && !what(); k++) await new Promise(done => setTimeout(done, 20));
};
const now = () => by("train-now").textContent, said = {};
const weights = () => views.map(view => Array.from(view.learnt));
return (async () => {
  await wait(() => views.every(view => view.learnt));
  Object.assign(said, {before: now(), play: by("train-play").textContent});
  const first = weights();
  by("train-step").click();
  await wait(() => training.step === 1);
  said.after = now();
  said.moved = weights().every((one, k) => one.some((value, at) => value !== first[k][at]));
  const masked = training.losses[0][0];
  setWeight(0, 1, 1);
  ban("0");
  hold("write", 0, 4);
  Object.assign(state, {temperature: 2, padding: 1});
  by("train-rate").value = -1.5;
  by("train-rate").dispatchEvent(new Event("input"));
  by("train-play").click();
  said.pause = by("train-play").textContent;
  await wait(() => training.step > 20);
  by("text").value = "ba";
  by("text").dispatchEvent(new Event("input"));
  const [step, later] = views[0].now.steps, live = views[0].canvas.toDataURL();
  Object.assign(said, {rate: state.rate, weight: step.weights.data[1]});
  said.answer = views[0].right.length;
  const changed = by("changes").children.length;
  said.changes = [step.written, later.weights.data[0], step.weights.data.length, changed];
  await wait(() => views[0].canvas.toDataURL() !== live);
  said.live = views[0].canvas.toDataURL() !== live;
  by("train-play").click();
  let stopped = -1;  // the batch that is under way may end later
  for (let k = 0; k < 25 && stopped !== training.step; k++) {
    stopped = training.step;
    await new Promise(done => setTimeout(done, 200));
  }
  said.stopped = training.step === stopped;
  said.counted = training.losses.map(losses => losses.length === stopped);
  said.charts = Array.from(by("train").querySelectorAll("canvas"), one => one.ariaLabel);
  said.losses = by("train-loss").textContent;
  const [one, other] = training.right;
  said.fair = [...one.keys()].every(length => one.get(length)[1] === other.get(length)[1]);
  by("train-reset").click();
  await wait(() => training.step === 0 && weights()[0][0] === first[0][0]);
  said.again = now();
  said.same = weights().every((one, k) => one.every((value, at) => value === first[k][at]));
  by("mask").checked = false;
  by("mask").dispatchEvent(new Event("input"));
  by("train-step").click();
  await wait(() => training.step === 1);
  said.unmasked = training.losses[0][0] - masked;
  by("train-seed").value = 7;
  by("train-seed").dispatchEvent(new Event("change"));
  await wait(() => weights()[0][0] !== first[0][0]);
  said.other = weights()[0][0] !== first[0][0];
  by("train-until").value = 3;
  by("train-until").dispatchEvent(new Event("change"));
  by("train-play").click();
  await wait(() => training.step === 3);
  await new Promise(done => setTimeout(done, 300));
  const shared = new URLSearchParams(fragment(true)).get("until");
  return {...said, end: [training.step, training.playing, shared]};
})();
"""
SAID = """
before: untrained
play: ▶ Train
after: after 1 batch
moved: true
pause: ❚❚ Pause
rate: 0.032
answer: 2
changes: [4, 0, 3, 5]  # written; banned; padded; in the bar: also weight and temperature
live: true
stopped: true
counted: [true, true]
fair: true
again: untrained
same: true
other: true
end: [3, false, "3"]
"""


@pytest.mark.slow
def test_training_goes_on_while_a_person_types_and_changes(quiet, small):
    """The buttons; two models on the same batches; what a person sets stays set, and the answer
    follows.
    """
    quiet.open(small)
    said = quiet.run(LIVE)
    expected = yaml.safe_load(SAID)
    assert {name: said[name] for name in expected} == expected
    assert said["weight"] == pytest.approx(1, abs=1e-6)
    assert abs(said["unmasked"]) > 1e-4
    loss, right, lengths = said["charts"]
    assert re.search(r"after \d+ batches; of a guess 1\.9: ━ scaled \d.*┅ slow", loss)
    new = r"not trained on: ━ scaled strings [01]\.\d\d, ┅ slow strings [01]\.\d\d$"
    assert re.search(new, right)
    assert "length 3: " in lengths
    assert re.fullmatch(r"━ scaled \d\.\d  ┅ slow \d\.\d", said["losses"])
    told = quiet.spoken()
    kinds = {"button", "slider", "spinbutton", "checkbox", "image", "img", "region", "textbox"}
    assert [one for one in told if one[0] in kinds and not one[1]] == []
    assert ("slider", "Learning rate") in told
    others = "performance.getEntriesByType('resource').filter(one => !one.name.startsWith('blob:'))"
    assert quiet.run(f"return {others}") == []
    quiet.open(small, "?again#text=ab&until=2")
    moment = (
        "const wait = async k => { while (k-- && training.step < 2) await new Promise(d "
        "=> setTimeout(d, 50)); };"
    )
    arrived = quiet.run(
        f"{moment} return wait(200).then(() => [training.step, training.playing, state.text])"
    )
    assert arrived == [2, False, "ab"]
