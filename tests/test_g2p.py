"""`make g2p`: the table of pronunciations, continued where it stopped."""

import json
import sys
from pathlib import Path

import pytest
from measured import value_of
from test_pairs_cli import CONFIG, WORDS, write

from benchmarks import g2p


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """`python -m benchmarks.g2p` on two tiny languages, one in each layout of folders; only one has a test file."""
    data = tmp_path / "data"
    (data / "low").mkdir(parents=True)
    for split, words in (("train", WORDS), ("dev", ["bb", "aa", "ab"]), ("test", ["bba", "aab"])):
        write(data / f"low_ice_{split}.tsv", words)
        if split != "test":
            write(data / "low" / f"lav_{split}.tsv", words)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(g2p, "RECIPES", {"low": (recipe, 2), "medium": (recipe, 1)})

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["g2p", str(data), *arguments])
        g2p.main()
        return capsys.readouterr().out

    return call


def rows():
    return {row["language"]: row for row in json.loads(Path("runs/g2p/table.json").read_text())["rows"]}


def test_every_language_with_every_seed_and_nothing_twice(call, cli):
    out = call()
    assert [line.split(":")[0] for line in out.splitlines()[:4]] == ["ice-1", "lav-1", "ice-2", "lav-2"]
    table = rows()
    assert (table["ice"]["split"], table["lav"]["split"]) == ("test", "dev")
    found = [
        json.loads(
            cli("eval", f"ice-{seed}", "--runs-dir", "runs/g2p", "--data", "data/low_ice_test.tsv", "--json").out
        )
        for seed in (1, 2)
    ]
    wers, sers = ([value_of(one, metric) for one in found] for metric in ("wer", "ser"))
    assert (table["ice"]["WER mean"], table["ice"]["WER worst"]) == (50 * sum(wers), 100 * max(wers))
    assert table["ice"]["SER mean"] == pytest.approx(50 * sum(sers), abs=0.05)
    together = ["eval", "ice-1", "ice-2", "--ensemble", "--runs-dir", "runs/g2p", "--data", "data/low_ice_test.tsv"]
    ensemble = value_of(json.loads(cli(*together, "--json").out), "wer")
    assert table["ice"]["WER ensemble"] == 100 * ensemble
    assert (table["ice"]["baseline WER"], table["lav"]["baseline WER"]) == (12, 41)
    assert table["mean"]["WER mean"] == pytest.approx((table["ice"]["WER mean"] + table["lav"]["WER mean"]) / 2)
    assert call("--split", "dev").count("is trained") == 4
    assert rows()["ice"]["split"] == "dev"
    assert len(Path("runs/g2p/seconds.tsv").read_text().splitlines()) == 4


def test_a_beam_of_no_width_is_refused(call, capsys):
    with pytest.raises(SystemExit) as stopped:
        call("--language", "ice", "--beam", "0")
    assert stopped.value.code == 2 and "1 or more hypotheses" in capsys.readouterr().err


def test_runs_of_another_recipe_are_refused(call, capsys):
    call("--language", "ice")
    Path("recipe.yaml").write_text(CONFIG.replace("hidden: 8", "hidden: 4"))
    with pytest.raises(SystemExit) as stopped:
        call("--language", "ice")
    assert stopped.value.code == 2 and "ice-1 has another config" in capsys.readouterr().err


def test_a_folder_without_such_files(call, capsys):
    with pytest.raises(SystemExit) as stopped:
        call("--language", "wel_sw")
    assert stopped.value.code == 2 and "expected files such as low_ice_train.tsv" in capsys.readouterr().err
