"""`predict` and `eval` with a beam, and with several runs as an ensemble."""

import pytest
from measured import value_of

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


def test_eval_with_a_beam_counts_right_outputs_and_is_not_kept(cli, runs_copy):
    record = cli("eval --beam 4 --lengths 1 2 --samples 40 --json").json
    assert not (runs_copy / "tiny/evaluations").exists()
    assert record["rows"] == evaluate(beam_of(runs_copy, 4), [1, 2], samples=40, seed=0).records()


def test_an_ensemble_of_two_runs(cli, runs_copy):
    (runs_copy.parent / "tiny.yaml").write_text((runs_copy / "tiny/config.yaml").read_text())
    cli("train --config tiny.yaml --set seed=9 --name other --device cpu").check()
    predictor = load_ensemble(
        [Run(runs_copy / "tiny"), Run(runs_copy / "other")], device="cpu"
    ).predictor
    expected = [one.output for one in predictor.predict(["abc", "hello"])]
    assert cli("predict abc hello --run tiny --run other").out.split() == expected
    both, single = (cli(f"eval {runs} --lengths 2 --json").json for runs in ("tiny other", "tiny"))
    assert both["run"] == "tiny + other"
    assert single["run"] == "tiny"
    assert value_of(both, "entropy", 2) != value_of(single, "entropy", 2)
    assert [path.name for path in (runs_copy / "tiny/evaluations").iterdir()] == ["best-001.json"]
