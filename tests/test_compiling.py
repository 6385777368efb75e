"""Training with `training.compile`: the same numbers as without, compiled once, and one sentence where that cannot be."""

import signal

import pytest
import torch
import torch._inductor.config
from safetensors.torch import load_file

from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.training import compiling
from seq2attn.training.compiling import CannotCompile
from seq2attn.training.loop import Diverged, SilentDisplay
from seq2attn.training.session import NewRun, train
from seq2attn.training.signals import StopRequest
from seq2attn.training.stacking import StackedStep
from seq2attn.training.step import TrainingStep
from tests.test_stacking import MECHANISMS, PLAIN, SEEDS, double, made  # noqa: F401

CPU = torch.device("cpu")
RESETS = {"encoder_reset": 0.2, "decoder_reset": 0.5}


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that torch.compile has made, each computed by PyTorch's own operations instead of generated code."""
    found = []
    monkeypatch.setattr(compiling, "BACKEND", lambda graph, _: found.append(graph) or graph.forward)
    yield found
    torch._dynamo.reset()


def steps_of(model, training):
    configs = [made(model, training, seed) for seed in SEEDS]
    batches = [build_training_data(config, CPU).batches() for config in configs]
    return [TrainingStep(build_model(config), config, CPU) for config in configs], batches


def after(count, model, training, *, together=False):
    """The weights of each seed after so many steps, in one vector each."""
    steps, batches = steps_of(model, training)
    stack = StackedStep(steps) if together else None
    for number in range(count):
        drawn = [next(own) for own in batches]
        if stack is not None:
            stack.gradients(drawn, number)
            stack.update(0.01)
        for step, batch in zip(steps, drawn, strict=True) if stack is None else ():
            step.gradients(batch, number)
            step.update(0.01)
    return torch.stack([step.groups[0].vector for step in steps])


@pytest.mark.parametrize("together", [False, True])
def test_a_step_is_compiled_once_and_has_the_same_numbers(double, graphs, together):  # noqa: F811
    plain = after(5, {}, RESETS)
    compiled = after(5, {}, {**RESETS, "compile": True}, together=together)
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-12)
    assert len(graphs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_compiled_alone_and_together(double, graphs, name):  # noqa: F811
    plain = after(3, MECHANISMS[name], {})
    for together in (False, True):
        compiled = after(3, MECHANISMS[name], {"compile": True}, together=together)
        torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-10)
    assert len(graphs) == 2


@pytest.mark.slow
def test_generated_code_resumes_to_the_same_weights(tmp_path):
    config = made({}, {"compile": True})
    whole = train(config, NewRun(tmp_path, "whole"), device="cpu").run
    part = train(config, NewRun(tmp_path, "part"), device="cpu", display=StopsAfter(5), request=REQUEST).run
    assert part.status().step == 5
    torch._dynamo.reset()
    assert_same_weights(train(config, part, device="cpu").run, whole)


def test_a_compiled_run_records_that_and_resumes_to_the_same_weights(tmp_path, graphs):
    config = made(PLAIN, {"compile": True})
    whole = train(config, NewRun(tmp_path, "whole"), device="cpu").run
    assert whole.environment().kernels == "torch.compile"
    part = train(config, NewRun(tmp_path, "part"), device="cpu", display=StopsAfter(5), request=REQUEST).run
    assert (part.status().state, part.status().step) == ("interrupted", 5)
    assert_same_weights(train(config, part, device="cpu").run, whole)
    assert len(graphs) == 1


class StopsAfter(SilentDisplay):
    """Asks training to stop after this many steps."""

    def __init__(self, steps):
        self.steps = steps
        REQUEST.signal = None

    def step(self, report):
        REQUEST.signal = signal.SIGINT if report.step == self.steps else None


REQUEST = StopRequest()


def assert_same_weights(run, other):
    ours, theirs = (load_file(one.checkpoint("last")) for one in (run, other))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def test_what_does_not_compile_is_one_sentence(tmp_path, monkeypatch):
    def backend(graph, inputs):
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(compiling, "BACKEND", backend)
    with pytest.raises(CannotCompile) as caught:
        train(made(PLAIN, {"compile": True}), NewRun(tmp_path, "run"), device="cpu")
    assert str(caught.value) == (
        "training.compile: torch.compile cannot compile this model's training step: "
        "RuntimeError: no C++ compiler\nSet training.compile to false."
    )


def test_a_stop_while_compiling_is_a_stop(tmp_path, monkeypatch):
    request = StopRequest()

    def backend(graph, inputs):
        request.signal = signal.SIGINT  # which a C compiler in the same terminal gets too
        raise RuntimeError("the C compiler died of signal 2")

    monkeypatch.setattr(compiling, "BACKEND", backend)
    config = made(PLAIN, {"compile": True})
    ended = train(config, NewRun(tmp_path, "run"), device="cpu", request=request)
    assert (ended.step, ended.stopped_by, ended.run.status().state) == (0, signal.SIGINT, "interrupted")
    monkeypatch.setattr(compiling, "BACKEND", "eager")
    assert train(config, ended.run, device="cpu").finished


def test_a_training_set_is_refused_before_a_run_is_made(tmp_path):
    (tmp_path / "train.tsv").write_text("ab\tba\nabc\tcba\n")
    task = {"name": "pairs", "train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "train.tsv")}
    config = check_config({"task": task, "training": {"epochs": 1, "compile": True}})
    with pytest.raises(CannotCompile, match="the batches of a training set differ in length"):
        train(config, NewRun(tmp_path, "run"), device="cpu")
    assert not (tmp_path / "run").exists()


def test_what_is_not_finite_is_found_in_a_compiled_step_too(tmp_path, graphs):
    broken = {"compile": True, "learning_rate": 1e30, "clip_norm": None, "evaluate_every": 8}
    config = made({"attention": {"score": "additive"}}, broken)
    with pytest.raises(Diverged, match="is the first tensor that is not finite"):
        train(config, NewRun(tmp_path, "run"), device="cpu")


def test_without_a_cpp_compiler_no_run_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (None, "no-such-compiler"))
    with pytest.raises(CannotCompile, match="needs a C\\+\\+ compiler, and none was found; install one"):
        train(made(PLAIN, {"compile": True}), NewRun(tmp_path, "run"), device="cpu")
    assert not (tmp_path / "run").exists()
