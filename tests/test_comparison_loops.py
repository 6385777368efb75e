"""`seq2attn.compare(train=...)`: a grid over training loops of one's own."""

import functools
import os
import sys
import time
from pathlib import Path

import pytest
import torch
from inline import TINY, Inline, contents, process, write
from outcomes import metrics
from refusal import refused

import seq2attn
from seq2attn.comparison.loops import fingerprint
from seq2attn.runs.run import Run

VARY = ["model.attention.score=dot,additive", "seed=1-2"]


@pytest.fixture(autouse=True)
def work(here, trials_here):
    write(here / "tiny.yaml", TINY)


def adam(model, optimiser=torch.optim.Adam, rate=0.01):
    optimiser = optimiser(model.module.parameters(), lr=rate)
    for number, batch in zip(range(4), model.batches(), strict=False):
        optimiser.zero_grad()
        model.loss(batch, step=number).backward()
        optimiser.step()


def sgd(model):
    adam(model, optimiser=torch.optim.SGD, rate=0.1)


def compare(train, vary=VARY, **options):
    options = {"name": "loops", "executor": Inline, "device": "cpu", **options}
    return seq2attn.compare(configs=["tiny.yaml"], vary=vary, train=train, **options)


def weights(name):
    return Run(Path("runs", name)).checkpoint("last").read_bytes()


def test_trials_are_trained_by_the_loop_saved_measured_and_paired():
    found = compare(adam)
    assert found.failed == {}
    assert [len(group.trials) for group in found.groups] == [2, 2]
    run = Run(Path("runs/loops-additive-seed_2"))
    assert (run.status().state, run.status().step) == ("finished", 4)
    assert run.environment.loop.startswith("adam ")
    assert run.config.seed == 2
    model = seq2attn.new_model("tiny.yaml", ["model.attention.score=additive", "seed=2"])
    adam(model)
    for name, weight in seq2attn.load(run).module.state_dict().items():
        assert torch.equal(weight, model.module.state_dict()[name])
    before = contents(Path("runs"))
    assert compare(adam).records() == found.records()  # nothing is trained again
    assert before == contents(Path("runs"))


def test_several_loops_are_compared_seed_by_seed():
    found = compare({"adam": adam, "sgd": sgd}, vary="seed=1-2")
    assert [(group.label, len(group.trials)) for group in found.groups] == [("adam", 2), ("sgd", 2)]
    assert weights("loops-adam-seed_1") != weights("loops-sgd-seed_1")
    assert metrics(Run(Path("runs/loops-adam-seed_1")))
    with refused("loops-sgd-seed_1.*trained by sgd ........, not by sgd ........; choose another"):
        compare({"adam": adam, "sgd": adam}, vary="seed=1-2")


def test_another_loop_under_the_same_names_is_refused():
    compare(adam, vary="seed=1-2")
    with refused("loops-seed_1.*trained by adam ........, not by sgd ........; choose another"):
        compare(sgd, vary="seed=1-2")
    with refused("trained by adam ........, not by seq2attn.train"):
        compare(None, vary="seed=1-2")


RATE = 0.1


def helper(factor):
    return factor * RATE


def times(factor):
    return lambda: helper(factor)


def test_functions_that_compute_something_else_have_other_checksums(monkeypatch):
    loop = times(1)
    before = fingerprint(loop)
    assert before == fingerprint(times(1)) != fingerprint(times(2))
    monkeypatch.setattr(sys.modules[__name__], "RATE", 0.2)
    assert fingerprint(loop) != before
    for one, other in (
        (lambda a: a + 1, lambda a: a - 1),
        (lambda a: a.real, lambda a: a.imag),
        (lambda a=1: a, lambda a=2: a),
        (lambda *, a=1: a, lambda *, a=2: a),
        (lambda: [1 for _ in "a"], lambda: [2 for _ in "a"]),
        (functools.partial(helper, 1), functools.partial(helper, 2)),
        (lambda: later, lambda: RATE),
    ):
        assert fingerprint(one) == fingerprint(one) != fingerprint(other)
    later = 1


def test_a_loop_that_fails_or_is_none_is_said():
    pytest.importorskip("cloudpickle")

    def broken(model):
        raise SystemExit(3)

    with refused(r"train: .*test_comparison_loops.py:\d+: SystemExit: 3"):
        compare(broken, vary="seed=1-2")
    for wrong in (3, "adam", lambda: None, {"a": adam, "b": lambda model, more: None}):
        with refused("train: expected a function of a model, or a mapping of names"):
            compare(wrong)
    assert not list(Path("runs").glob("loops-*"))


def test_a_stopped_comparison_stops_in_the_loop_and_goes_on(monkeypatch):
    vary = "seed=1-2"
    expected = compare(adam, vary, runs_dir="whole").records()
    calls = []

    def stopping(self):
        calls.append(1)
        if len(calls) == 9:  # in the second trial
            self.marker.write_bytes(b"stop")
        return self.marker.read_bytes() == b"stop"

    with monkeypatch.context() as patch:
        patch.setattr("seq2attn.comparison.trial.WorkerContext.should_stop", stopping)
        compare(adam, vary)
    assert len(list(Path("runs").glob("loops-*"))) == 1
    assert compare(adam, vary).records() == expected


def slow(model):
    with Path("began").open("x"):  # by two processes: an error, and the trial fails
        pass
    while not Path("go on").exists():
        time.sleep(0.01)
    adam(model)


def test_a_trial_that_another_process_trains_in_its_loop_is_left_to_it():
    if not (child := os.fork()):
        try:
            compare(slow, vary="seed=1")
        finally:
            os._exit(0)
    while not Path("began").exists():
        time.sleep(0.01)
    try:
        found = compare(slow, vary="seed=1")
    finally:
        Path("go on").touch()
        os.waitpid(child, 0)
    assert (found.failed, found.busy) == ({}, ("loops-seed_1",))
    saved = weights("loops-seed_1")
    assert len(compare(slow, vary="seed=1").groups) == 1  # and is not trained again
    assert weights("loops-seed_1") == saved
    assert not list(Path("runs").glob(".*.lock"))


def test_what_a_process_left_that_was_killed_while_it_saved_is_replaced():
    found = compare(adam, vary="seed=1")
    run = Run(Path("runs/loops-seed_1"))
    run.status_file.unlink()
    run.checkpoint("best").write_bytes(b"half")
    assert compare(adam, vary="seed=1").records() == found.records()
    assert (run.status().state, len(metrics(run))) == ("finished", 1)


def test_without_cloudpickle_a_function_of_a_function_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with refused("cannot be given to other processes: (.|\n)*pip install cloudpickle"):
        compare(lambda model: None)

    def of_script(model):
        pass

    of_script.__module__ = "__main__"
    with refused("of_script cannot be given to other processes: "):
        compare(of_script)
    assert compare(adam, vary="seed=1").failed == {}


SCRIPT = """\
import sys, torch, seq2attn

def train(model):
    optimiser = torch.optim.Adam(model.module.parameters(), lr=0.01)
    for number, batch in zip(range(4), model.batches()):
        optimiser.zero_grad()
        model.loss(batch, step=number).backward()
        optimiser.step()

if __name__ == "__main__":
    found = seq2attn.compare(configs=["tiny.yaml"], vary=["seed=1-3"], name="s", train=train,
                             workers=int(sys.argv[1]), runs_dir=sys.argv[2], progress=False)
    print(found.records())
"""


@pytest.mark.slow
def test_processes_of_a_script_give_the_same_table(tmp_path):
    write("script.py", SCRIPT)
    one, two = (process(tmp_path, f"script.py {line}").check().out for line in ("1 one", "2 two"))
    assert one == two
    assert "exact_match" in one
