"""Too large a batch, width or length: refused up front with numbers, or reported in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2attn.build import build_model, build_task
from seq2attn.config import check_config, load_config
from seq2attn.errors import Seq2AttnError
from seq2attn.runs import footprint as memory
from seq2attn.runs.footprint import least_parameters, training_bytes

ROOT = Path(__file__).parent.parent.parent
HUGE = ["training.batch_size=1000000", "model.hidden=65536", "task.max_length=100000"]


@pytest.mark.parametrize("override", HUGE)
def test_training_that_cannot_fit_is_refused(cli, work, monkeypatch, override):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: 2**30)
    extra = ("--set", "task.max_length=100") if "batch" in override else ()
    done = cli("train", "-c", "tiny.yaml", "--set", override, *extra)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith("error: training on cpu needs about ")
    assert first.endswith(" for one batch), and 1.0 GiB are free")
    assert second.startswith("Make one of these smaller: model.hidden (")
    assert not (work / "runs").exists()


def test_a_model_that_cannot_fit_is_refused_in_other_commands(run_copy, cli, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: 2**30)
    text = run_copy.config_file.read_text()
    run_copy.config_file.write_text(text.replace("hidden: 8", "hidden: 65536"))
    for command in (("predict", "ab"), ("eval",), ("inspect", "tiny")):
        done = cli(*command)
        assert done.code == 2
        assert "the model needs about " in done.err


def test_lengths_that_cannot_fit_are_refused(run_copy, cli, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: 2**20)
    done = cli("eval", "--lengths", "100000")
    assert done.code == 2  # 100,001 tokens x 8 wide x (2 + 3 gates) x 4 bytes
    assert "error: strings this long need about 15 MiB of memory, and 1 MiB are free" in done.err


def test_only_self_attention_needs_memory_for_the_square_of_a_length(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: 2**30)
    recurrent, transformer = (check_config({"model": {"architecture": name}}).model for name in ("gru", "transformer"))
    memory.check_answer_memory(recurrent, 8_000, 16_000)
    with pytest.raises(
        Seq2AttnError, match=r"need about 1\.9 GiB"
    ):  # 4 numbers of 4 bytes for each of 128 million pairs
        memory.check_answer_memory(transformer, 8_000, 16_000)


def test_unknown_free_memory_skips_the_check(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: None)
    memory._check("it", {"all": 10**30}, check_config({}), None)
    memory.check_answer_memory(check_config({}).model, 10**15, 10**15)


def test_the_built_model_is_checked_again_before_a_run_is_created(work, cli, monkeypatch):
    config = load_config(work / "tiny.yaml")
    free = sum(
        training_bytes(config, build_task(config), least_parameters(config, build_task(config))).values()
    )  # the model has more parameters than the least
    monkeypatch.setattr(memory, "available_bytes", lambda device=None: free)
    done = cli("train", "-c", "tiny.yaml")
    assert done.code == 2
    assert done.err.startswith("error: training on cpu needs about ")
    assert not (work / "runs").exists()


@pytest.mark.parametrize(
    "model",
    [
        {"attention": {"score": "none"}},
        {"attention": {"score": "none"}, "decoder": "luong"},
        {"attention": {"score": "additive"}, "bidirectional": True},
        {"architecture": "transformer"},
    ],
    ids=str,
)
def test_the_least_parameters_are_below_those_of_the_model_but_not_far(model):
    config = check_config({"model": model})
    parameters = sum(parameter.numel() for parameter in build_model(config).parameters())
    assert 0.5 * parameters < least_parameters(config, build_task(config)) <= parameters


def test_the_estimate_follows_its_formula():
    values = {"task": {"max_length": 9}, "model": {"hidden": 10, "embedding": 3}, "training": {"batch_size": 7}}
    config = check_config(values)
    parts = training_bytes(config, build_task(config), 100)  # S = L = 10, V = 29, D = 10
    assert parts["parameters and optimiser"] == 4 * 4 * 100
    assert parts["one batch"] == 4 * 7 * (8 * 20 * 10 + 4 * 10 * 29 + 10 * (5 * 10 + 2 * 10))


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="reads Linux's own numbers")
def test_free_memory_is_read():
    assert 10**7 < memory.available_bytes() < 10**15


TOO_MUCH = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
from seq2attn.runs import footprint as memory
memory.available_bytes = lambda device=None: None
from seq2attn.cli import main
sys.argv = ["seq2attn", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_running_out_of_memory_is_reported_in_one_sentence(work):
    words = ["train", "-c", "tiny.yaml", "--set", "training.batch_size=1000000", "--set", "model.hidden=128"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TOO_MUCH, *words], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "error: out of memory: " in done.stderr
    assert "Traceback" not in done.stderr


MEASURE = """
import json, sys, torch
from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.training.step import TrainingStep
torch.set_num_threads(1)
config = check_config(json.loads(sys.argv[1]))
def peak():  # of this program alone, not of the one that started it, as ru_maxrss is
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
before = peak()
step = TrainingStep(build_model(config), config, torch.device("cpu"))
batches = build_training_data(config, torch.device("cpu")).batches()
for number in range(2):
    step.gradients(next(batches), number)
    step.update(1e-3)
print(peak() - before)
"""
MEASURED = [
    (3000, 40, 96, "scaled", 26),
    (3000, 40, 96, "none", 26),
    (3000, 40, 96, "additive", 26),
    (2000, 20, 16, "scaled", 2000),
    (64, 600, 32, "scaled", 26),
    (100, 12, 2048, "general", 26),
]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", MEASURED, ids=str)
def test_the_estimate_is_below_what_training_takes_but_not_far(record_figure, sizes):
    batch, length, hidden, score, alphabet = sizes
    values = {
        "task": {
            "min_length": length,
            "max_length": length,
            "alphabet": "".join(map(chr, range(0x4E00, 0x4E00 + alphabet))),
        },
        "model": {"hidden": hidden, "initial_state": "last", "attention": {"score": score}},
        "training": {"batch_size": batch},
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", MEASURE, json.dumps(values)]
    measured = int(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)
    config = check_config(values)
    parameters = sum(parameter.numel() for parameter in build_model(config).parameters())
    estimate = sum(training_bytes(config, build_task(config), parameters).values())
    record_figure(MiB_estimated=estimate >> 20, MiB_measured=measured >> 20)
    assert 0.4 * measured < estimate < 1.02 * measured
