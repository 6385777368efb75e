"""The results of a training, in a form that can be compared with another's; and a display that
stops one.
"""

import json
from collections import Counter

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seq2attn.display.console import Display
from seq2attn.runs.checkpoint import load_checkpoint

TIMED = "tokens_per_second"  # the one number that differs from run to run


def metrics(run):
    """The lines of metrics.jsonl, all of them complete."""
    text = run.metrics_file.read_text()
    assert text.endswith("\n")
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if key != TIMED} for line in lines]


def accumulated(run):
    """TensorBoard's own reader of the run's events."""
    found = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    found.Reload()
    return found


def events(run):
    """tag -> its (step, value)s, in order; a step that was recorded twice fails."""
    found = accumulated(run)
    tags = found.Tags()
    result = {
        tag: sorted((e.step, e.value) for e in found.Scalars(tag))
        for tag in tags["scalars"]
        if TIMED not in tag
    }
    for tag, values in result.items():
        steps = Counter(step for step, _ in values)
        assert set(steps.values()) == {1}, (tag, steps)
    return result


class StopAt(Display):
    """Asks to stop at a step: `train(..., **StopAt(6).given)`."""

    def __init__(self, step):
        super().__init__()
        self.at = step
        self.reached = False
        self.given = {"display": self, "should_stop": lambda: self.reached}

    def step(self, trial, step, text):
        self.reached |= step >= self.at


def same_tensors(run, other, which="last"):
    """The two runs' checkpoints hold the same tensors, bit by bit; returns them."""
    ours, theirs = (load_checkpoint(one.checkpoint(which)).tensors for one in (run, other))
    assert ours.keys() == theirs.keys()
    assert [name for name, tensor in ours.items() if not torch.equal(tensor, theirs[name])] == []
    return ours


def step_of(run, which="last"):
    """Of a checkpoint."""
    return load_checkpoint(run.checkpoint(which)).state["step"]


def weights(run, which="last"):
    """Every tensor of a checkpoint as bytes, and its state but for the lengths of files, whose
    names hold the time.
    """
    checkpoint = load_checkpoint(run.checkpoint(which))
    state = {key: value for key, value in checkpoint.state.items() if key != "positions"}
    return {
        name: (str(tensor.dtype), tensor.numpy().tobytes())
        for name, tensor in checkpoint.tensors.items()
    }, state


def same_outcome(run, other):
    """The two runs are equal except for times."""
    assert weights(run) == weights(other)
    assert run.checkpoint("best").read_bytes() == other.checkpoint("best").read_bytes()
    assert metrics(run) == metrics(other)
    assert run.attention_file.read_bytes() == other.attention_file.read_bytes()
    assert events(run) == events(other)
    assert run.status() == other.status()
    assert run.config_file.read_bytes() == other.config_file.read_bytes()
    names = [
        {path.name for path in run.path.rglob("*") if "events" not in path.name}
        for run in (run, other)
    ]
    assert names[0] - {"training.lock"} == names[1] - {"training.lock"}
