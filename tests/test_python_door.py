"""The Python interface: its functions do what the commands do, and the names for plug-ins can be imported."""

import json
import shutil

import pytest
import torch

import seq2attn
from seq2attn.config import check_config
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import Run

TINY = {
    "model": {"hidden": 8, "embedding": 4},
    "task": {"min_length": 1, "max_length": 3},
    "training": {"steps": 2, "batch_size": 4, "validation_samples": 2},
    "evaluation": {"samples": 2},
}


@pytest.fixture
def runs(tiny_run, tmp_path):
    return shutil.copytree(tiny_run.runs, tmp_path / "runs")


def test_python_and_the_command_line_train_the_same_run(runs):
    config = runs / "tiny" / "config.yaml"
    ours = seq2attn.train(config, runs_dir=runs, name="ours", device="cpu")
    assert ours == Run(runs / "ours")
    tensors, others = (load_checkpoint(run.checkpoint("last")).tensors for run in (ours, Run(runs / "tiny")))
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)
    assert ours.status().state == "finished"


@pytest.mark.parametrize("config", [TINY, check_config(TINY)], ids=["mapping", "Config"])
def test_train_accepts_values_and_overrides(tmp_path, config):
    run = seq2attn.train(config, ["seed=5"], runs_dir=tmp_path, device="cpu")
    assert run.name == "run-seed_5-001"
    assert (run.config().seed, run.status().step) == (5, 2)


def test_train_continues_a_run(tmp_path):
    run = seq2attn.train(TINY, runs_dir=tmp_path, device="cpu")
    whole = run.checkpoint("last").read_bytes()
    run.checkpoint("last").unlink()
    assert seq2attn.train(run, device="cpu") == run
    assert len(run.checkpoint("last").read_bytes()) == len(whole)
    assert seq2attn.train(run, device="cpu") == run  # it is finished
    with pytest.raises(Seq2AttnError, match="a run is continued unchanged"):
        seq2attn.train(run, ["training.steps=9"])


def test_load_returns_a_predictor(runs):
    predictor = seq2attn.load(runs_dir=runs)
    assert [answer.source for answer in predictor.predict(["ab", "c"])] == ["ab", "c"]
    assert seq2attn.load("tiny", runs_dir=runs, checkpoint="last").predict(["ab"])[0].source == "ab"
    with pytest.raises(Seq2AttnError, match="unknown checkpoint 'worst'; allowed: best, last"):
        seq2attn.load("tiny", runs_dir=runs, checkpoint="worst")


def test_evaluate_measures_and_records(runs):
    results = seq2attn.evaluate("tiny", ["1-2"], samples=3, runs_dir=runs)
    assert [(result.length, result.samples) for result in results] == [(1, 3), (2, 3)]
    (file,) = Run(runs / "tiny").evaluations.iterdir()
    record = json.loads(file.read_text())
    assert record["lengths"]["2"]["exact_match"]["value"] == results[1].exact_match.value
    assert len(seq2attn.evaluate(Run(runs / "tiny"))) == 3  # the config's lengths


def test_compare_trains_measures_and_summarises(tmp_path):
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    arguments = {"configs": [tmp_path / "tiny.yaml"], "vary": ["seed=1-2"], "runs_dir": tmp_path / "runs"}
    comparison = seq2attn.compare(**arguments, metric="teacher_forced", name="c", device="cpu", workers=1)
    assert [trial.run for trial in comparison.groups[0].trials] == ["c-seed_1", "c-seed_2"]
    assert (comparison.metric, comparison.failed) == ("teacher_forced", {})
    before = Run(tmp_path / "runs" / "c-seed_1").checkpoint("last").stat().st_mtime_ns
    assert seq2attn.compare(**arguments, metric="teacher_forced", name="c") == comparison  # uses the finished runs
    assert Run(tmp_path / "runs" / "c-seed_1").checkpoint("last").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", sorted(seq2attn._MODULES))
def test_names_for_plugins_are_importable(name):
    assert getattr(seq2attn, name).__name__ == name
    assert name in seq2attn.__all__


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'seq2attn' has no attribute 'trian'"):
        seq2attn.trian  # noqa: B018
