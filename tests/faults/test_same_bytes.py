"""Same seed, same machine, same bytes: on one thread and on several; the seed decides; the order of --set does not."""

import itertools
import os

import pytest
from outcomes import metrics, same_outcome, weights

from seq2attn.runs.run import Run

WIDE = ("--set", "model.hidden=64", "--set", "training.batch_size=256", "--set", "training.steps=8")


def trained(server, work, name, *words):
    status, _, err = server.call(work, "train", "-c", "tiny.yaml", "--name", name, *words)
    assert status == 0, err
    return Run(work / "runs" / name)


@pytest.mark.parametrize(
    "threads", ["2", *(pytest.param(n, marks=pytest.mark.slow) for n in ("1", str(os.cpu_count())))]
)
def test_training_is_deterministic_with_threads(server, work, threads):
    runs = [trained(server, work, name, *WIDE, "--threads", threads) for name in ("one", "two")]
    same_outcome(*runs)
    for run in runs:
        assert run.environment().threads == int(threads)


@pytest.mark.slow
def test_the_order_of_set_does_not_matter(server, work):
    pairs = ["seed=3", "model.hidden=5", "training.word_dropout=0.5"]
    outcomes = []
    for number, order in enumerate(itertools.permutations(pairs)):
        words = [word for pair in order for word in ("--set", pair)]
        outcomes.append(weights(trained(server, work, f"run{number}", *words)))
    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.slow
def test_the_seed_determines_weights_data_and_dropout(server, work):
    for kind, key in (("without", "training.word_dropout=0"), ("with", "training.word_dropout=0.5")):
        one, again, other = (
            trained(server, work, f"{kind}-{n}", "--set", key, "--set", f"seed={seed}")
            for n, seed in enumerate((1, 1, 2))
        )
        assert weights(one) == weights(again) != weights(other)
        assert metrics(one) == metrics(again) != metrics(other)


@pytest.mark.slow
def test_evaluation_uses_the_same_strings_each_time(server, run_copy, work):
    first, second = (server.call(work, "eval", "tiny", "--samples", "50")[1] for _ in range(2))
    assert first == second
