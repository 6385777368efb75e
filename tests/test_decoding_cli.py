"""`predict` and `eval` with a beam, and with several runs as an ensemble."""

import json
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
    for text, found in (("abc", rows[:3]), ("b", rows[3:])):
        (expected,) = beam_of(runs_copy, 5).predict([text])
        assert len(expected.hypotheses) == 5
        assert expected.output == expected.hypotheses[0].output
        best = [
            (one.output, pytest.approx(one.log_probability, abs=1e-6))
            for one in expected.hypotheses[:3]
        ]
        assert [(row[1], float(row[2])) for row in found] == best


def test_a_length_penalty_alone_asks_for_a_beam(cli, runs_copy):
    assert len(cli("predict abc --length-penalty 1 --json").json["hypotheses"]) == 5


def test_eval_with_a_beam_counts_right_outputs_and_is_not_kept(cli, runs_copy):
    record = cli("eval --beam 4 --lengths 1 2 --samples 40 --json").json
    assert not (runs_copy / "tiny/evaluations").exists()
    assert record["rows"] == evaluate(beam_of(runs_copy, 4), [1, 2], samples=40, seed=0).records()


def test_an_ensemble_of_two_runs(cli, runs_copy):
    cli("train --config runs/tiny/config.yaml --set seed=9 --name other --device cpu").check()
    predictor = load_ensemble(
        [Run(runs_copy / "tiny"), Run(runs_copy / "other")], device="cpu"
    ).predictor
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
    assert [path.name for path in (runs_copy / "tiny/evaluations").iterdir()] == ["best-001.json"]
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
    alone = {name: cli(f"eval {name} --lengths 1 2 --json").json for name in ("tiny", "other")}
    both = cli("eval tiny other --lengths 1 2 --json").json
    assert [one["run"] for one in both] == ["tiny", "other"]
    for one in both:
        assert one["rows"] == alone[one["run"]]["rows"]
    lines = cli("eval tiny other --lengths 1 2").rows()
    assert {row["run"] for row in lines} == {"tiny", "other"}
    assert len(lines) == sum(len(one["rows"]) for one in both)
    shown = cli("eval tiny other --lengths 1 2", terminal=True).out.split()
    assert shown[:5] == ["exact", "match", "length", "tiny", "other"]
    outputs = {name: cli(f"predict ab b --run {name}").out.split() for name in ("tiny", "other")}
    expected = [
        f"{name}\t{text}\t{outputs[name][index]}"
        for name in outputs
        for index, text in enumerate(("ab", "b"))
    ]
    assert cli("predict ab b --run tiny --run other").out.splitlines() == expected
    answers = cli("predict ab b --run tiny --run other --json").out.splitlines()
    assert json.loads(answers[2]).items() >= {"run": "other", "source": "ab"}.items()
    for line, says in (
        ("predict - --run tiny --run other", "standard input is answered by one run"),
        ("eval tiny other --errors e.tsv", "--errors writes the wrong answers of one run"),
    ):
        assert says in cli(line).refusal
