"""`seq2attn compare` over pairs of strings: error rates, word by word, in every output."""

import json
from pathlib import Path

import pytest
from measured import value_of
from test_pairs_cli import CONFIG, WORDS, write

LAYERS = ["--vary", "model.hidden=8,16", "--vary", "seed=1-2", "--name", "widths"]


@pytest.fixture(autouse=True)
def work(cli, tmp_path, trials_here):
    """Files of pairs and their config in the working directory, and a pool that is this process."""
    write("train.tsv", WORDS)
    write("dev.tsv", ["bb", "aa", "ab", "bba", "aabb"])
    Path("pairs.yaml").write_text(CONFIG.replace("epochs: 2", "epochs: 8"))
    return tmp_path


def compare(cli, *arguments):
    return cli("compare", "-c", "pairs.yaml", "--device", "cpu", *arguments)


def rows_of(done):
    assert done.code == 0, done.err
    header, *lines = [line.split("\t") for line in done.out.splitlines()]
    return [dict(zip(header, line, strict=True)) for line in lines]


def wrong_words(cli, run):
    """The dev words that a run gets wrong, by `eval`."""
    record = json.loads(cli("eval", run, "--data", "dev.tsv", "--json").out)
    return {one["source"] for one in record["answers"] if one["edits"] or not one["finished"]}, record


def test_error_rates_over_seeds_and_word_by_word(cli):
    rows = rows_of(compare(cli, *LAYERS))
    assert [(row["group"], row["metric"]) for row in rows] == [
        ("hidden=8", "wer"),
        ("hidden=8", "ser"),
        ("hidden=16", "wer"),
        ("hidden=16", "ser"),
    ]
    measured = {width: [wrong_words(cli, f"widths-hidden_{width}-seed_{seed}") for seed in (1, 2)] for width in (8, 16)}
    rates = {width: [len(wrong) / 5 for wrong, _ in found] for width, found in measured.items()}
    for place, width in ((0, 8), (2, 16)):
        assert float(rows[place]["mean"]) == pytest.approx(sum(rates[width]) / 2, rel=1e-5)
        assert float(rows[place]["worst"]) == pytest.approx(max(rates[width]), rel=1e-5)  # the highest error rate
        assert float(rows[place]["best"]) == pytest.approx(min(rates[width]), rel=1e-5)
        expected = sum(value_of(record, "ser") for _, record in measured[width]) / 2
        assert float(rows[place + 1]["mean"]) == pytest.approx(expected, rel=1e-5)
    assert float(rows[2]["difference"]) == pytest.approx((sum(rates[16]) - sum(rates[8])) / 2, rel=1e-5)
    right = {
        width: {word: sum(word not in wrong for wrong, _ in found) for word in ("bb", "aa", "ab", "bba", "aabb")}
        for width, found in measured.items()
    }
    assert int(rows[2]["words_better"]) == sum(right[16][word] > right[8][word] for word in right[8])
    assert int(rows[2]["words_worse"]) == sum(right[16][word] < right[8][word] for word in right[8])
    assert float(rows[2]["over_words_low"]) <= float(rows[2]["difference"]) <= float(rows[2]["over_words_high"])
    assert rows[0]["words_better"] == ""
    best = min(rates, key=lambda width: sum(rates[width]))
    assert {row["group"] for row in rows if row["rank"] == "1"} >= {f"hidden={best}"}


def test_nothing_is_trained_twice_and_every_output_has_the_rates(cli, monkeypatch):
    assert compare(cli, *LAYERS).code == 0
    again = compare(cli, *LAYERS, "--plot", "figures", "--json")
    assert "all 4 trials are done" in again.err
    comparison = json.loads(again.out)
    assert comparison["metric"] == "wer" and [one["metric"] for one in comparison["groups"]] == ["wer", "ser"] * 2
    assert comparison["groups"][0]["p"] is None and 0 <= comparison["groups"][2]["p"] <= 1
    rows = [row for row in comparison["trials"] if row["run"] == "widths-hidden_8-seed_1"]
    assert {"wer", "ser", "loss"} <= {row["metric"] for row in rows if not row["length"]}
    assert {row["length"] for row in rows if row["metric"] == "exact_match"} == {2, 3, 4}
    assert {path.name for path in Path("figures").iterdir()} >= {"widths-results.png", "widths-loss.png"}
    assert cli("report", "widths", "--to", "page.html").code == 0
    assert "word by word, against the baseline" in Path("page.html").read_text()
    by_length = rows_of(compare(cli, *LAYERS, "--metric", "exact_match"))
    assert [row["length"] for row in by_length] == ["2", "3", "4"] * 2
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = " ".join(compare(cli, *LAYERS).out.split())
    assert "word error rate" in shown and "word by word, against the baseline" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "task.train=none.tsv"], "none.tsv"),
        (["--lengths", "3"], "lengths: runs on pairs are measured on all pairs of their dev file"),
        (["--samples", "3"], "samples: runs on pairs are measured on all pairs of their dev file"),
        (["--vary", "task.source_column=0,1"], "task.source_column"),
    ],
)
def test_mistakes_are_reported_before_anything_is_trained(cli, arguments, says):
    done = compare(cli, "--vary", "seed=1-2", *arguments)
    assert done.code == 2 and says in done.err
    assert not Path("runs").exists()


def test_error_rates_of_a_task_without_files(cli):
    Path("tiny.yaml").write_text("task: {max_length: 3}\n")
    done = cli("compare", "-c", "tiny.yaml", "--vary", "seed=1-2", "--metric", "wer")
    assert done.code == 2 and "metric: wer is measured on files of pairs" in done.err


def test_what_the_dev_file_has_in_common_is_told(cli):
    done = compare(cli, "--vary", "seed=1", "--set", "task.dev=train.tsv", "--set", "training.epochs=1")
    assert done.code == 0 and "8 of 8 dev pairs are also in the training file" in done.err


def test_a_dev_file_that_changed_before_the_measurement(cli):
    arguments = ["--vary", "seed=1", "--name", "one", "--set", "training.epochs=1"]
    assert compare(cli, *arguments).code == 0
    for file in Path("runs/one-seed_1/evaluations").iterdir():
        file.unlink()
    write("dev.tsv", ["bb"])
    done = compare(cli, *arguments)
    assert done.code == 1 and "dev.tsv has changed since run 'one-seed_1' was started" in done.err
