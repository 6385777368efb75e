"""What trains on a CPU trains on a GPU. `test_device.py` runs this in a process of its own, on a
simulated GPU, and on a real one where there is one: DEVICE=cuda.
"""

from dataclasses import replace

import pytest
import torch
from chosen_device import DEVICE, nothing_waits  # before what it changes
from inline import TINY, call_main
from models import CPU, TRANSFORMER, make_config
from test_combinations import COMBINATIONS, config_of

from seq2attn.build import build_model, build_task, build_training_data
from seq2attn.config import load_config
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.predictor import Predictor
from seq2attn.model.scores import Dot
from seq2attn.training.proof import prove
from seq2attn.training.step import TrainingStep

RESETS = "training.encoder_reset=.5 training.decoder_reset=.5"
simulated = pytest.mark.skipif(DEVICE.type == "cuda", reason="it is about the simulated device")
real = pytest.mark.skipif(DEVICE.type != "cuda", reason="it needs a real GPU")


def configs():
    """Configs in which every part of a recurrent model is met; and a Transformer."""
    yield make_config(TRANSFORMER)
    yield make_config(f"model.hidden=8 {RESETS}")
    met = set()
    for choices in COMBINATIONS:
        if not met.issuperset(choices.items()):
            met.update(choices.items())
            yield config_of(**choices)


CONFIGS = list(configs())
FUSED = [config for config in CONFIGS[1:] if config.model.cell.name != "rnn"][:2]


def step_and_batch(config):
    model = build_model(config).to(DEVICE, torch.float64)
    data = replace(build_training_data(config, DEVICE), batch_size=4)
    return TrainingStep(model, config, DEVICE), next(data.batches())


@pytest.mark.parametrize("config", CONFIGS)
def test_training(config):
    step, batch = step_and_batch(config)
    with nothing_waits():
        losses = step.losses(step.forward(batch, 0), batch)
        step.gradients(losses["loss"])
        step.update(1e-2)


@pytest.mark.parametrize("config", FUSED)
def test_the_kernels_compute_what_the_formulas_say(config):
    step, batch = step_and_batch(config)
    assert step.faster_form is not None
    prove(step, batch, 0)


@pytest.mark.parametrize("config", CONFIGS[:2])
def test_evaluation_and_prediction(config):
    measured = []
    for device in (DEVICE, CPU):
        model = build_model(config).to(device, torch.float64)
        predictor = Predictor(model, build_task(config), config.model.source_eos, device)
        measured.append(evaluate(predictor, [2], samples=4, seed=1, errors=True))
    found, expected = measured
    assert found.answers == expected.answers
    values = [[row.value for row in one.rows] for one in measured]
    assert values[0] == pytest.approx(values[1], abs=1e-6)


@simulated
def test_a_tensor_left_on_the_cpu_is_refused(monkeypatch):
    from benchmarks.launches import count

    monkeypatch.setattr(Dot, "project", lambda score, keys: keys * torch.ones(keys.size(2)))
    with pytest.raises(RuntimeError, match="same device"):
        count(make_config("model.attention.score=dot"))


@simulated
def test_few_launches():
    from benchmarks.launches import count

    assert count(load_config("configs/scaled.yaml")) <= 450


@real
def test_the_commands(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    where = f"--runs-dir {tmp_path}/runs"
    train = f"train --config {tmp_path}/tiny.yaml --device cuda {where}"
    call_main(f"{train} --name whole --set training.steps=6").check()
    call_main(f"{train} --name again --set training.steps=6").check()
    whole, again = (
        (tmp_path / "runs" / name / "checkpoints" / "best.safetensors").read_bytes()
        for name in ("whole", "again")
    )
    assert whole == again
    evaluate_it = f"eval whole --lengths 1 2 --json {where} --device"
    rows = [call_main(f"{evaluate_it} {device}").json["rows"] for device in ("cuda", "cpu")]
    assert [row["value"] for row in rows[0]] == pytest.approx([row["value"] for row in rows[1]])
    assert call_main(f"predict abc --run whole --device cuda {where}").check().out
