"""Every shipped config trains: a step of each."""

import pytest
import torch
from inline import ROOT

from seq2attn.build import build_model, build_training_data, load_task
from seq2attn.config import load_config
from seq2attn.display.progress import Display
from seq2attn.runs.create import NewRun, create_run
from seq2attn.training.loop import Trainer

CONFIGS = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name != "experiments"
)
SHORT = (
    "training.steps=1 training.warmup=0 training.batch_size=4 training.validation_samples=1 "
    "training.snapshots=0 model.hidden=16 evaluation.lengths=[13]"  # which every task has
).split()


def on_files(folder):
    """The overrides for a config of a task that reads files."""
    (folder / "pairs.tsv").write_text(
        "".join(f"{text}\t{' '.join(text)}\n" for text in "ab cab bc a ba".split())
    )
    return [
        "training.epochs=null",
        *(f"task.{name}={folder / 'pairs.tsv'}" for name in ("train", "dev")),
    ]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_trains(path, tmp_path):
    config = load_config(
        path, [*SHORT, *(on_files(tmp_path) if path.parent.name == "pairs" else [])]
    )
    task = load_task(config)
    cpu = torch.device("cpu")
    run = create_run(NewRun(tmp_path, "run", exact=False), config, {})
    data = build_training_data(config, cpu, task)
    trainer = Trainer(run, config, build_model(config, task), cpu, Display(), data)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    assert trainer.train() is None
    assert trainer.progress.step == 1
    after = list(trainer.model.parameters())
    assert all(parameter.isfinite().all() for parameter in after)
    unused = sum(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert unused == 0
