"""From a run directory to a model that answers."""

from __future__ import annotations

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.predictor import Predictor
from seq2attn.model.build import build_model, build_task
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.footprint import check_model_memory
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import Run, need_checkpoint


def load_predictor(run: Run, which: str = "best", device_name: str = "auto") -> Predictor:
    """The model of `run` with the weights of its checkpoint `best` or `last` (`last` replaces a missing `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit the config.
    """
    if which not in ("best", "last"):
        raise Seq2AttnError(f"unknown checkpoint {which!r}; allowed: best, last")
    config = need_checkpoint(run).config()
    device = choose_device(device_name)
    path = run.checkpoint(which)
    if which == "best" and not path.exists():
        path = run.checkpoint("last")
    check_model_memory(config)
    model = build_model(config)
    load_weights(path, load_checkpoint(path), model)
    return Predictor(model, build_task(config), source_eos=config.model.source_eos, device=device)
