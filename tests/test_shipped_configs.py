"""Every shipped config trains: a step of each."""

import pytest
from inline import ROOT

import seq2attn

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
    small = ["training.batch_size=4", "model.hidden=16", *files]
    model = seq2attn.new_model(path, small, device="cpu")
    model.loss(next(model.batches())).backward()
    for parameter in model.module.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()
