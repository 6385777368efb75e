"""`predict` and `eval` with a beam, and with several runs as an ensemble."""

import json
import os
import shutil

import pytest
from measured import value_of
from refusal import refused

import seq2attn
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.trained_model import load_ensemble, load_run
from seq2attn.runs.run import Run


def beam_of(runs, width):
    return load_run(Run(runs / "tiny"), device="cpu").searching(BeamSearch(width)).predictor


def test_n_best_lines_are_source_output_and_log_probability(cli, runs_copy):
    rows = [line.split("\t") for line in cli("predict abc b --n-best 3").out.splitlines()]
    assert [row[0] for row in rows] == ["abc"] * 3 + ["b"] * 3
    best = []
    for expected in beam_of(runs_copy, 5).predict(["abc", "b"]):
        assert len(expected.hypotheses) == 5
        assert expected.output == expected.hypotheses[0].output
        best += expected.hypotheses[:3]
    assert [row[1] for row in rows] == [one.output for one in best]
    logs = [one.log_probability for one in best]
    assert [float(row[2]) for row in rows] == pytest.approx(logs, abs=1e-6)


def test_a_length_penalty_alone_asks_for_a_beam(cli, runs_copy):
    assert len(cli("predict abc --length-penalty 1 --json").json["hypotheses"]) == 5


def test_eval_with_a_beam_counts_right_outputs_and_is_not_kept(cli, runs_copy):
    record = cli("eval --beam 4 --lengths 1 2 --samples 40 --json").json
    assert not (runs_copy / "tiny/evaluations").exists()
    assert record["rows"] == evaluate(beam_of(runs_copy, 4), [1, 2], samples=40, seed=0).records()


def test_an_ensemble_of_two_runs(cli, runs_copy):
    cli("train --config runs/tiny/config.yaml --set seed=9 --name other --device cpu").check()
    runs = [Run(runs_copy / name) for name in ("tiny", "other")]
    predictor = load_ensemble(runs, device="cpu").predictor
    expected = [one.output for one in predictor.predict(["abc", "hello"])]
    line = "predict abc hello --run tiny --run other --ensemble"
    assert cli(line).out.split() == expected
    answers = map(json.loads, cli(f"{line} --json").out.splitlines())
    assert [one["run"] for one in answers] == 2 * ["tiny + other"]
    both, single = (
        cli(f"eval {runs} --lengths 2 --json").json for runs in ("tiny other --ensemble", "tiny")
    )
    assert both["run"] == "tiny + other"
    assert single["run"] == "tiny"
    assert value_of(both, "entropy", 2) != value_of(single, "entropy", 2)
    assert os.listdir(runs_copy / "tiny/evaluations") == ["best-001.json"]
    loaded = seq2attn.load(["tiny", "other"], runs_dir=runs_copy, device="cpu")
    assert [one.output for one in loaded.predict(["abc", "hello"])] == expected
    namesake = shutil.copytree(runs_copy / "other", runs_copy.parent / "elsewhere/tiny")
    loaded = seq2attn.load([Run(runs_copy / "tiny"), Run(namesake)], device="cpu")
    assert len(loaded.module.models) == 2
    with refused("patch_map looks into one model, and tiny . tiny is an ensemble"):
        seq2attn.patch_map(loaded, "abc", "bca", "logits")
    with pytest.raises(TypeError):
        seq2attn.load([3], runs_dir=runs_copy)


def test_several_runs_stand_side_by_side(cli, runs_copy):
    cli("train --config runs/tiny/config.yaml --set seed=9 --name other --device cpu").check()
    both = cli("eval tiny other --lengths 1 2 --json").json
    for name, one in zip(("tiny", "other"), both, strict=True):
        alone = cli(f"eval {name} --lengths 1 2 --json").json
        assert (one["run"], one["rows"]) == (name, alone["rows"])
    lines = cli("eval tiny other --lengths 1 2").rows()
    assert {row["run"] for row in lines} == {"tiny", "other"}
    assert len(lines) == sum(len(one["rows"]) for one in both)
    shown = cli("eval tiny other --lengths 1 2", terminal=True).out.split()
    assert shown[:5] == ["exact", "match", "length", "tiny", "other"]
    expected = []
    for name in ("tiny", "other"):
        ab, b = cli(f"predict ab b --run {name}").out.split()
        expected += [f"{name}\tab\t{ab}", f"{name}\tb\t{b}"]
    assert cli("predict ab b --run tiny --run other").out.splitlines() == expected
    answers = cli("predict ab b --run tiny --run other --json").out.splitlines()
    assert json.loads(answers[2]).items() >= {"run": "other", "source": "ab"}.items()
    assert "input is answered by one run" in cli("predict - --run tiny --run other").refusal
    refusal = cli("eval tiny other --errors e.tsv").refusal
    assert "--errors writes the wrong answers of one run" in refusal
