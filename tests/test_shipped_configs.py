"""Every shipped config trains: a step of each."""

import pytest
import torch
from inline import ROOT
from models import CPU

from seq2attn.build import build_model, build_task, build_training_data
from seq2attn.config import load_config
from seq2attn.training.step import TrainingStep

CONFIGS = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name != "experiments"
)


def on_files(folder):
    """The overrides for a config of a task that reads files."""
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{text}\t{' '.join(text)}\n" for text in "ab cab bc a ba".split()))
    return [f"task.train={file}", f"task.dev={file}"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_trains(path, tmp_path):
    files = on_files(tmp_path) if path.parent.name == "pairs" else []
    config = load_config(path, ["training.batch_size=4", "model.hidden=16", *files])
    task = build_task(config)
    model = build_model(config, task)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = TrainingStep(model, config, CPU)
    batch = next(build_training_data(config, CPU, task).batches())
    step.gradients(step.losses(step.forward(batch, 0), batch)["loss"])
    step.update(0.01)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, old)
