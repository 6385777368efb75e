"""`seq2attn runs` with intact and damaged runs, on terminals of any width."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seq2attn.inference.predictor import Predictor
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.runs.evaluations import newest_evaluation
from seq2attn.runs.lock import training_lock
from seq2attn.runs.making import run_name
from seq2attn.runs.run import Run, check_name

HEADER = ["run", "state", "step", "score", "seed", "task", "exact_match_worst", "wer", "made"]


def test_a_pipe_gets_every_column(cli, runs_copy):
    header, row = cli("runs").out.splitlines()
    assert header.split("\t") == HEADER
    assert row.split("\t")[0] == "tiny"


@pytest.fixture
def state(cli, runs_copy):
    return lambda: cli("runs").out.splitlines()[1].split("\t")[1]


def test_states_without_a_readable_status(runs_copy, state):
    status = runs_copy / "tiny" / "status.json"
    status.write_text("{")
    assert state() == "unreadable status.json"
    status.unlink()
    assert state() == "stopped"  # it has a checkpoint
    shutil.rmtree(runs_copy / "tiny" / "checkpoints")
    assert state() == "no checkpoint"


def test_a_run_is_training_while_a_process_trains_it(runs_copy, state):
    (runs_copy / "tiny" / "status.json").unlink()
    with training_lock(Run(runs_copy / "tiny")):
        assert state() == "training"


def test_a_run_without_checkpoints_restarts(cli, runs_copy):
    shutil.rmtree(runs_copy / "tiny" / "checkpoints")
    done = cli("train", "--resume", "tiny")
    assert done.code == 0, done.err
    assert "last.safetensors is missing: training restarts from step 0" in done.err
    assert (runs_copy / "tiny" / "checkpoints" / "last.safetensors").is_file()


@pytest.mark.parametrize(
    ("missing", "asked", "found", "step"), [("best", "best", "last", 2), (None, "best", "best", 2)]
)
def test_eval_records_the_checkpoint_that_it_measured_with_its_step(cli, runs_copy, missing, asked, found, step):
    run = Run(runs_copy / "tiny")
    if missing:
        run.checkpoint(missing).unlink()
    done = cli("eval", "--samples", "1", "--lengths", "2", "--checkpoint", asked, "--json")
    assert done.code == 0, done.err
    (saved,) = run.evaluations.iterdir()
    assert saved.name == f"{found}-001.json"
    for record in (json.loads(done.out), json.loads(saved.read_text())):
        assert (record["checkpoint"], record["step"]) == (found, step)
    note = "runs/tiny/checkpoints/best.safetensors is missing: this is checkpoint last, of step 2\n"
    assert (note in done.err) == (missing is not None)


def test_the_step_of_an_evaluation_is_that_of_its_checkpoint(cli, runs_copy):
    run = Run(runs_copy / "tiny")
    checkpoint = load_checkpoint(run.checkpoint("best"))
    save_checkpoint(run.checkpoint("best"), checkpoint.tensors, {**checkpoint.state, "step": 1})
    assert json.loads(cli("eval", "--samples", "1", "--lengths", "2", "--json").out)["step"] == 1


def test_copying_runs_does_not_change_their_order(cli, runs_copy):
    for name, year in (("older", 2001), ("newer", 2002)):
        shutil.copytree(runs_copy / "tiny", runs_copy / name)
        environment = json.loads((runs_copy / name / "environment.json").read_text())
        environment["created"] = f"{year}-01-01T00:00:00+00:00"
        (runs_copy / name / "environment.json").write_text(json.dumps(environment))
    for time, name in enumerate(("newer", "tiny", "older")):
        os.utime(runs_copy / name / "config.yaml", (time, time))
    assert [line.split("\t")[0] for line in cli("runs").out.splitlines()[1:]] == ["tiny", "newer", "older"]
    (runs_copy / "tiny" / "environment.json").write_text("{}")  # from here on its file's time: 1970
    assert "run: runs/newer (the newest; " in cli("predict", "a").err


def trial_of(run, name, year):
    """Make a copy of `run` that is a trial of the comparison `name`."""
    copy = Path(shutil.copytree(run, run.parent / f"{name}-{year}"))
    trial = {"experiment": {"name": name, "group": "wide", "values": {}}, "created": f"{year}-01-01T00:00:00+00:00"}
    environment = json.loads((copy / "environment.json").read_text())
    (copy / "environment.json").write_text(json.dumps(environment | trial))


def test_the_newest_run_is_not_a_trial_of_a_comparison(cli, runs_copy):
    trial_of(runs_copy / "tiny", "widths", 2002)
    assert "run: runs/tiny (the newest; choose" in cli("predict", "a").err
    trial_of(runs_copy / "tiny", "widths", 2999)
    assert "run: runs/tiny (the newest but for trials of comparisons; choose" in cli("predict", "a").err
    shutil.rmtree(runs_copy / "tiny")
    note = "run: runs/widths-2999 (the newest, a trial of widths; choose another with "
    assert f"{note}--run RUN)" in cli("predict", "a").err
    assert f"{note}seq2attn eval RUN)" in cli("eval", "--samples", "1").err


@pytest.mark.parametrize(
    "command",
    [
        "eval {} --samples 1",
        "report {}",
        "plot loss {} --plot a.png",
        "plot accuracy {} --plot a.png",
        "plot attention {} --plot a.png",
    ],
)
def test_a_run_is_named_by_its_name_or_by_the_option(cli, runs_copy, command):
    shutil.copytree(runs_copy / "tiny", runs_copy / "other")
    first, second = (cli(*command.format(f"{spelling}tiny").split()) for spelling in ("", "--run "))
    assert first.code == second.code == 0
    assert first.out == second.out
    assert "the newest" not in first.err + second.err
    assert "did you mean 'tiny'" in cli(*command.format("--run tinyy").split()).err


def test_one_run_is_drawn_through_training(cli, runs_copy):
    done = cli("plot", "attention", "tiny", "--run", "other", "--plot", "a.png")
    assert done.code == 2
    shutil.copytree(runs_copy / "tiny", runs_copy / "other")
    assert "is drawn for one run" in cli("plot", "attention", "tiny", "--run", "other", "--plot", "a.png").err


def test_a_string_that_is_the_name_of_a_run_gets_a_note(cli, runs_copy):
    shutil.copytree(runs_copy / "tiny", runs_copy / "hello")
    done = cli("predict", "hello")
    assert done.code == 0
    assert "'hello' is read as a string; for the run of this name: --run hello\n" in done.err
    assert "read as a string" not in cli("predict", "hello", "--run", "tiny").err


def test_empty_outputs_are_noted(cli, runs_copy, monkeypatch):
    cut = Predictor.predict
    monkeypatch.setattr(
        Predictor,
        "predict",
        lambda *args, **kw: [replace(one, output=one.output if one.source == "a" else "") for one in cut(*args, **kw)],
    )
    assert "the output is empty: the model ended at once" in cli("predict", "b", "--run", "tiny").err
    assert "2 of 3 outputs are empty" in cli("predict", "b", "a", "c", "--run", "tiny").err
    assert "empty" not in cli("predict", "a", "--run", "tiny").err


def test_the_newest_evaluation_is_the_last_measured(cli, runs_copy):
    for samples in ("1", "2"):
        assert cli("eval", "--samples", samples, "--lengths", "2").code == 0
    run = Run(runs_copy / "tiny")
    os.utime(run.evaluations / "best-001.json")  # as a copy might
    os.utime(run.evaluations / "best-002.json", (1, 1))
    name, found = newest_evaluation(run)
    assert (name, found.samples) == ("best-002.json", 2)


def test_the_default_name_and_the_note_say_what_was_changed(cli, runs_copy):
    shutil.copy(runs_copy / "tiny" / "config.yaml", "mine.yaml")
    words = ("train", "-c", "mine.yaml", "--set", "training.steps=2", "--set", "model.attention.score=dot")
    assert cli(*words, "--set", "task.name=copy").out == "runs/mine-score_dot-task_copy-001\n"  # steps were 2 before
    note = "(the newest; with model.attention.score=dot, task=copy; choose another with "
    assert note in cli("predict", "a").err
    assert cli("train", "-c", "mine.yaml").out == "runs/mine-001\n"
    assert "(the newest; choose" in cli("predict", "a").err


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ([], "chapter-dot"),
        (["seed=2", "task=sort"], "chapter-dot-seed_2-task_sort"),
        (["task.alphabet=äb c", "training.learning_rate=0.003"], "chapter-dot-alphabet_b-c-learning_rate_0.003"),
        (["task.alphabet=ä"], "chapter-dot-alphabet_x"),
        (["evaluation.lengths=[1, 2]"], "chapter-dot-lengths_1-2"),
        (["a=1", f"b={'x' * 70}", "c=3"], "chapter-dot-a_1-etc"),
    ],
)
def test_a_name_shows_changes_in_plain_characters_as_far_as_they_fit(changes, name):
    assert run_name(Path("configs/chapter/dot.yaml"), changes) == name
    check_name(f"{name}-001")
