"""What trains on a CPU trains on a GPU. `test_device.py` runs this in a process of its own."""

from dataclasses import replace

import pytest
import torch
from models import CPU, TRANSFORMER, make_config
from test_combinations import config_of, pairwise

from benchmarks.launches import count
from benchmarks.simulated_device import DEVICE, waits
from seq2attn.build import build_model, build_training_data, load_task
from seq2attn.config.load import load_config
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.scores import Dot
from seq2attn.training.proof import prove
from seq2attn.training.step import TrainingStep

RESETS = "training.encoder_reset=.5 training.decoder_reset=.5"


def configs():
    """Configs in which every part of a recurrent model is met; and a Transformer."""
    yield make_config(TRANSFORMER)
    yield make_config(f"model.hidden=8 {RESETS}")
    met = set()
    for choices in pairwise():
        if not met.issuperset(choices.items()):
            met.update(choices.items())
            yield config_of(choices)


CONFIGS = list(configs())


@pytest.mark.parametrize("config", CONFIGS)
def test_training(config):
    model = build_model(config).to(DEVICE, torch.float64)
    step = TrainingStep(model, config, DEVICE)
    data = replace(build_training_data(config, DEVICE), batch_size=4)
    batch = next(data.batches())
    prove(step, batch, 0)
    waits.clear()
    losses = step.losses(step.forward(batch, 0), batch)
    step.gradients(losses.total)
    step.update(1e-2)
    assert not waits


@pytest.mark.parametrize("config", CONFIGS[:5])
def test_evaluation_and_prediction(config):
    measured = []
    for device in (DEVICE, CPU):
        model = build_model(config).to(device, torch.float64)
        predictor = Predictor(model, load_task(config), config.model.source_eos, device)
        measured.append(evaluate(predictor, [2], samples=4, seed=1, errors=True))
    found, expected = measured
    assert found.answers == expected.answers
    values = [[row.value for row in one.rows] for one in measured]
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_a_tensor_left_on_the_cpu_is_refused(monkeypatch):
    monkeypatch.setattr(Dot, "project", lambda score, keys: keys * torch.ones(keys.size(2)))
    with pytest.raises(RuntimeError, match="same device"):
        count(make_config("model.attention.score=dot"))


def test_few_launches():
    assert count(load_config("configs/scaled.yaml")) <= 450
