"""A run as release 0.1 left it, in `released/`: every command that reads runs still understands it.

Commit 791c8a2 trained it for 200 steps, from a config with an option of each part that had any: score additive of width 8,
window local_m, history location.
"""

import json
import shutil
from pathlib import Path

import pytest

RELEASED = Path(__file__).parent / "released"
NAME = "release-0.1"


@pytest.fixture
def run(tmp_path):
    """A copy, in the runs directory where the commands look."""
    return Path(shutil.copytree(RELEASED, tmp_path / "runs")) / NAME


def test_its_config_means_what_it_meant(cli, run):
    resolved = json.loads(cli("inspect", NAME, "--json").out)
    attention = resolved["config"]["model"]["attention"]
    assert attention["score"] == {"name": "additive", "width": 8}
    assert attention["window"] == {"name": "local_m", "radius": 3, "centre": "reversed"}
    assert attention["history"] == {"name": "location", "filters": 8, "kernel": 3}
    assert resolved["config"]["task"] == {"name": "reverse", "alphabet": "abcdef", "min_length": 1, "max_length": 4}


def test_it_is_evaluated_to_the_same_numbers(cli, run):
    before = json.loads((run / "evaluations" / "best-001.json").read_text())
    now = json.loads(cli("eval", NAME, "--json").out)
    assert now["lengths"].keys() == before["lengths"].keys()
    for length, result in before["lengths"].items():
        for share in ("exact_match", "character_accuracy", "teacher_forced", "alignment"):
            assert now["lengths"][length][share] == pytest.approx(result[share], rel=1e-12)
        assert now["lengths"][length]["entropy"] == pytest.approx(result["entropy"], abs=1e-5)


def test_it_answers(cli, run):
    assert cli("predict", "abcd", "fed", "--run", NAME).out.split() == ["dcba", "def"]


def test_it_is_listed_reported_and_drawn(cli, run, tmp_path):
    assert cli("runs").out.splitlines()[1].startswith(f"{NAME}\tfinished\t200/200\treverse\tadditive\t3")
    for command in (
        ("report", NAME, "--to", "page.html"),
        ("plot", "loss", NAME, "--plot", "loss.png"),
        ("plot", "attention", NAME, "--plot", "attention.png"),
    ):
        done = cli(*command)
        assert done.code == 0, done.err
        assert (tmp_path / command[-1]).stat().st_size > 1000


def test_it_is_finished_when_it_is_resumed(cli, run):
    done = cli("train", "--resume", NAME)
    assert done.code == 0
    assert "is finished: 200 of 200 steps" in done.err


def test_it_is_trained_again_from_its_config(cli, run):
    done = cli("train", "--config", str(run / "config.yaml"), "--set", "training.steps=2", "--name", "again")
    assert done.code == 0, done.err
    assert cli("predict", "ab", "--run", "again").code == 0
