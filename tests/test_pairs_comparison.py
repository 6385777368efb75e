"""`seq2attn compare` over pairs of strings: error rates in every output."""

import os
from pathlib import Path

import pytest
from inline import read, write
from measured import value_of
from test_pairs_cli import CONFIG, WORDS, write_pairs

LAYERS = "--vary model.hidden=8,16 --vary seed=1-2 --name widths"


@pytest.fixture(autouse=True)
def work(cli, tmp_path, trials_here, blank_figures):
    """Files of pairs and their config in the working directory, and a pool that is this process."""
    write_pairs("train.tsv", WORDS)
    write_pairs("dev.tsv", "bb aa ab bba aabb".split())
    write("pairs.yaml", CONFIG.replace("epochs: 2", "epochs: 1, log_every: 1"))
    return tmp_path


def compare(cli, line="", *words, **keywords):
    return cli(f"compare -c pairs.yaml --device cpu {line}", *words, **keywords)


def measured(cli, run):
    """The word and symbol error rates of a run on the dev file, by `eval`."""
    record = cli(f"eval {run} --data dev.tsv --json").json
    return {rate: value_of(record, rate) for rate in ("wer", "ser", "cut_off")}


def test_error_rates_over_seeds_in_every_output(cli):
    rows = compare(cli, LAYERS).rows()
    each = [(width, rate) for width in (8, 16) for rate in ("wer", "ser", "cut_off")]
    assert [(row["group"], row["metric"]) for row in rows] == [
        (f"hidden={width}", rate) for width, rate in each
    ]
    rates = {
        width: [measured(cli, f"widths-hidden_{width}-seed_{seed}") for seed in (1, 2)]
        for width in (8, 16)
    }
    for row, (width, rate) in zip(rows, each, strict=True):
        values = [one[rate] for one in rates[width]]
        expected = [sum(values) / 2, max(values), min(values)]  # the worst is the highest
        found = [float(row[name]) for name in ("mean", "worst", "best")]
        assert found == pytest.approx(expected, rel=1e-5)
    assert min(rows[::3], key=lambda row: float(row["mean"]))["rank"] == "1"

    comparison = compare(cli, f"{LAYERS} --plot figures --latex table.tex --json").json
    assert comparison["metric"] == "wer"
    trial = [row for row in comparison["trials"] if row["run"] == "widths-hidden_8-seed_1"]
    assert {"wer", "ser", "loss"} <= {row["metric"] for row in trial if not row["length"]}
    drawn = set(os.listdir("figures"))
    assert {"widths-results.png", "widths-loss.png"} <= drawn
    table = read("table.tex")
    for row in rows:
        if row["metric"] != "cut_off":
            rate = f"{row['group']} & {row['metric'].upper()} & 2 & 5 & "
            assert f"{rate}{100 * float(row['mean']):.1f} [" in table
    assert "% difference: from hidden=8, seed by seed; p: of its paired t-test" in table
    by_length = compare(cli, f"{LAYERS} --metric exact_match").rows()
    assert [row["length"] for row in by_length] == ["2", "3", "4"] * 2
    assert "hidden=8: word error rate, the baseline" in compare(cli, LAYERS, terminal=True).out


def test_what_the_dev_file_has_in_common_is_told(cli):
    done = compare(cli, "--vary seed=1 --set task.dev=train.tsv --set training.epochs=1").check()
    assert "8 of 8 dev pairs are also in the training file" in done.err


def test_a_dev_file_that_changed_before_the_measurement(cli):
    arguments = "--vary seed=1 --name one --set training.epochs=1"
    compare(cli, arguments).check()
    for file in Path("runs/one-seed_1/evaluations").iterdir():
        file.unlink()
    write_pairs("dev.tsv", ["bb"])
    done = compare(cli, arguments)
    assert done.code == 1
    assert "dev.tsv has changed, or is gone, since run 'one-seed_1' was started" in done.err
