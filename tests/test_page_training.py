"""Training in the page: the same numbers as in PyTorch, and what a person sees of it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seq2attn.build import build_model
from seq2attn.config import load_config
from seq2attn.data.batches import make_batch
from seq2attn.data.tasks import Examples
from seq2attn.training.losses import training_losses
from seq2attn.training.schedule import learning_rate
from seq2attn.training.step import TrainingStep

pytest.importorskip("onnxscript", reason='needs the extra "export": pip install "seq2attn[export]"')

CONFIGS = Path(__file__).parent.parent / "configs"
SMALL = ["model.hidden=8", "model.embedding=4", "task.max_length=3", "task.alphabet=abcd", "training.batch_size=4"]
SMALL += ["training.warmup=2"]
STEPS = """
const NAMES = ["source", "source_lengths", "target", "target_lengths"];
const race = new Race(data.models, 5), rows = [], first = race.learners[0].weights();
const rowsOf = one => one.shape.length ? Array.from({length: one.shape[0]}, (_, k) =>
  Array.from(one.data.slice(k * one.data.length / one.shape[0], (k + 1) * one.data.length / one.shape[0]))) : one.data[0];
for (let step = 0; step < STEPS; step++) {
  const {examples, each: [{loss, result}]} = race.advance(RATE, 1);
  rows.push([loss, ...NAMES.map(name => rowsOf(examples[name])), rowsOf(result.decoder_input)]);
}
return [Array.from(first), rows, Array.from(race.learners[0].weights())];
"""


def replay(config, first, rows, rate):
    """The losses of these batches, and the last weights, by the project's own training step."""
    model, at = build_model(config), 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.tensor(first[at : at + parameter.numel()]).view_as(parameter))
            at += parameter.numel()
    step, losses = TrainingStep(model, config, torch.device("cpu")), []
    step.use_formulas()
    for number, (_, source, lengths, target, target_lengths, read) in enumerate(rows):
        lengths, target_lengths = (torch.tensor(one).long().flatten() for one in (lengths, target_lengths))
        examples = Examples(torch.tensor(source).long(), lengths, torch.tensor(target).long(), target_lengths)
        batch = make_batch(examples, source_eos=config.model.source_eos)
        object.__setattr__(batch, "decoder_input", torch.tensor(read).long())
        total = training_losses(step.forward(batch, number), batch, config.training).total
        step.gradients(total)
        share = learning_rate(config.training, number, 10**6) / config.training.learning_rate
        step.update(rate * share)
        losses.append(float(total.detach()))
    return losses, torch.cat([one.detach().flatten() for one in model.parameters()]).numpy()


def agree(browser, page, config, steps, rate=8e-3):
    browser.console()
    browser.open(page)
    script = STEPS.replace("STEPS", str(steps)).replace("RATE", str(rate))
    first, rows, last = browser.run(script)
    losses, weights = replay(config, first, rows, rate)
    assert browser.console() == []
    return np.abs(np.array(losses) - [row[0] for row in rows]), np.abs(weights - np.array(last)), rows


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    from seq2attn.pages.page import render, untrained

    file = tmp_path_factory.mktemp("training") / "page.html"
    configs = {name: load_config(CONFIGS / f"{name}.yaml", SMALL) for name in ("scaled", "none")}
    file.write_text(render(untrained(configs, ["abc"])))
    return file


@pytest.mark.slow
def test_fifty_steps_are_those_of_pytorch(browser, small):
    differences, weights, rows = agree(browser, small, load_config(CONFIGS / "scaled.yaml", SMALL), 50)
    assert differences.max() < 1e-3 and weights.max() < 1e-2
    assert np.isfinite(weights).all()  # embeddings of symbols that no batch had, too
    lengths = [one[0] for row in rows for one in row[2]]
    assert set(lengths) == {1, 2, 3}
    for source, (length,), target in ((*one,) for row in rows for one in zip(row[1], row[2], row[3], strict=True)):
        assert target[: int(length)] == source[: int(length)][::-1]
