"""`predict` and `eval` with a beam, and with several runs as an ensemble."""

import json

import pytest
from measured import value_of

from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.evaluation import evaluate
from seq2attn.inference.trained_model import load_ensemble, load_run
from seq2attn.runs.run import Run


def beam_of(runs, width):
    predictor = load_run(Run(runs / "tiny"), device="cpu").predictor
    predictor.search = BeamSearch(width)
    return predictor


def test_n_best_lines_are_source_output_and_log_probability(cli, runs_copy):
    rows = [
        line.split("\t") for line in cli("predict", "abc", "b", "--n-best", "3").out.splitlines()
    ]
    assert [row[0] for row in rows] == ["abc"] * 3 + ["b"] * 3
    for text, found in (("abc", rows[:3]), ("b", rows[3:])):
        (expected,) = beam_of(runs_copy, 5).predict([text])
        assert len(expected.hypotheses) == 5 and expected.output == expected.hypotheses[0].output
        best = [
            (one.output, pytest.approx(one.log_probability, abs=1e-6))
            for one in expected.hypotheses[:3]
        ]
        assert [(row[1], float(row[2])) for row in found] == best


def test_eval_with_a_beam_counts_right_outputs_and_is_not_kept(cli, runs_copy):
    record = json.loads(
        cli("eval", "--beam", "4", "--lengths", "1", "2", "--samples", "40", "--json").out
    )
    assert not (runs_copy / "tiny" / "evaluations").exists()
    assert record["rows"] == evaluate(beam_of(runs_copy, 4), [1, 2], samples=40, seed=0).records()


def test_an_ensemble_of_two_runs(cli, runs_copy):
    (runs_copy.parent / "tiny.yaml").write_text((runs_copy / "tiny" / "config.yaml").read_text())
    done = cli(
        "train", "--config", "tiny.yaml", "--set", "seed=9", "--name", "other", "--device", "cpu"
    )
    assert done.code == 0, done.err
    predictor = load_ensemble(
        [Run(runs_copy / "tiny"), Run(runs_copy / "other")], device="cpu"
    ).predictor
    words = ["abc", "hello"]
    expected = [one.output for one in predictor.predict(words)]
    assert cli("predict", *words, "--run", "tiny", "--run", "other").out.split() == expected
    both, single = (
        json.loads(cli("eval", *runs, "--lengths", "2", "--json").out)
        for runs in (("tiny", "other"), ("tiny",))
    )
    assert (both["run"], single["run"]) == ("tiny + other", "tiny")
    assert value_of(both, "entropy", 2) != value_of(single, "entropy", 2)
    assert [path.name for path in (runs_copy / "tiny" / "evaluations").iterdir()] == [
        "best-001.json"
    ]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("predict abc --length-penalty 1", "--length-penalty ranks the outputs of a beam"),
        ("eval --length-penalty 1", "--length-penalty ranks the outputs of a beam"),
        ("predict abc --n-best 6 --beam 5", "--n-best 6 asks for more outputs than --beam 5 keeps"),
        ("predict abc --beam 0", "--beam"),
    ],
)
def test_mistakes(cli, runs_copy, command, says):
    done = cli(*command.split())
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
