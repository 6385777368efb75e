"""Training with `training.compile`: the same numbers as without, compiled once, and one sentence where that cannot be."""

import pytest
import torch
from outcomes import StopAt, same_tensors

from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.kernels import leaf_for
from seq2attn.training import step as training_step
from seq2attn.training.loop import Diverged
from seq2attn.training.losses import training_losses
from seq2attn.training.session import NewRun, train
from seq2attn.training.step import TrainingStep

CPU = torch.device("cpu")
RESETS = {"encoder_reset": 0.2, "decoder_reset": 0.5}
PLAIN = {"attention": {"score": "none"}, "initial_state": "last"}
MECHANISMS = {
    "additive": {"attention": {"score": "additive"}},
    "local_p": {"attention": {"window": "local_p"}},
    "location": {"attention": {"score": "additive", "history": "location"}},
    "shift": {"attention": {"history": "shift"}},
    "shift_by_key": {"attention": {"history": "shift_by_key"}},
    "luong, input feeding": {"decoder": {"name": "luong", "input_feeding": True}},
    "lstm": {"cell": "lstm"},
    "transformer": {"architecture": "transformer", "layers": 1, "heads": 2, "feedforward": 8, "dropout": 0.0},
}


def made(model=(), training=()):
    widths = {"hidden": 8} if "architecture" in model else {"hidden": 8, "embedding": 4}
    values = {"steps": 8, "batch_size": 4, "log_every": 1, "evaluate_every": 4, "validation_samples": 2, "snapshots": 1}
    return check_config(
        {
            "model": {**widths, **dict(model)},
            "task": {"alphabet": "abcd", "max_length": 5},
            "training": {**values, "warmup": 0, **dict(training)},
        }
    )


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that torch.compile has made, each computed by PyTorch's own operations instead of generated code."""
    found = []
    monkeypatch.setattr(training_step, "BACKEND", lambda graph, _: found.append(graph) or graph.forward)
    yield found
    torch._dynamo.reset()


def after(count, model, training):
    """The weights after so many steps."""
    config = made(model, training)
    step, batches = TrainingStep(build_model(config), config, CPU), build_training_data(config, CPU).batches()
    for number in range(count):
        batch = next(batches)
        step.gradients(training_losses(step.forward(batch, number), batch, config.training).total)
        step.update(0.01)
    return torch.nn.utils.parameters_to_vector(step.model.parameters())


def test_a_step_is_compiled_once_and_has_the_same_numbers(double, graphs):
    plain = after(5, {}, RESETS)
    known = leaf_for(build_model(made())) is not None
    torch.testing.assert_close(after(5, {}, {**RESETS, "compile": True}), plain, rtol=0, atol=1e-12)
    assert len(graphs) == 1
    assert (leaf_for(build_model(made())) is not None) == known, "torch.compile changed nothing that is computed"


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_compiled(double, graphs, name):
    plain = after(3, MECHANISMS[name], {})
    torch.testing.assert_close(after(3, MECHANISMS[name], {"compile": True}), plain, rtol=0, atol=1e-10)
    assert len(graphs) == 1


@pytest.mark.slow
def test_generated_code_resumes_to_the_same_weights(tmp_path):
    check_resuming(tmp_path, made({}, {"compile": True}))


def test_a_compiled_run_records_that_and_resumes_to_the_same_weights(tmp_path, graphs):
    run = check_resuming(tmp_path, made(PLAIN, {"compile": True}))
    assert run.environment().kernels == "torch.compile"


def check_resuming(root, config):
    whole = train(config, NewRun(root, "whole"), device="cpu").run
    part = train(config, NewRun(root, "part"), device="cpu", **StopAt(5).given).run
    assert (part.status().state, part.status().step) == ("interrupted", 5)
    torch._dynamo.reset()
    same_tensors(train(config, part, device="cpu").run, whole)
    return whole


def test_what_does_not_compile_is_one_sentence(tmp_path, monkeypatch):
    def backend(graph, inputs):
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(training_step, "BACKEND", backend)
    with pytest.raises(Seq2AttnError) as caught:
        train(made(PLAIN, {"compile": True}), NewRun(tmp_path, "run"), device="cpu")
    assert str(caught.value) == (
        "training.compile: torch.compile cannot compile this model: "
        "RuntimeError: no C++ compiler\nSet training.compile to false."
    )


def test_a_training_set_is_refused():
    task = {"name": "pairs", "train": "train.tsv", "dev": "dev.tsv"}
    with pytest.raises(ConfigError, match=r"training\.compile: is true, but the batches"):
        check_config({"task": task, "training": {"epochs": 1, "steps": None, "compile": True}})


def test_what_is_not_finite_is_found_in_a_compiled_step_too(tmp_path, graphs):
    broken = {"compile": True, "learning_rate": 1e30, "clip_norm": None, "evaluate_every": 8}
    with pytest.raises(Diverged, match="training diverged at step 2"):
        train(made({"attention": {"score": "additive"}}, broken), NewRun(tmp_path, "run"), device="cpu")
