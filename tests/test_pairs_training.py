"""Training on files of pairs: epochs, selection, patience, resuming, and which command opens which
file.
"""

import itertools
import json
import math
import os
import shutil
from pathlib import Path

import pytest
from inline import read, write
from outcomes import StopAt, metrics, same_tensors, step_of
from tables import rows, slow, table

import seq2attn
from seq2attn.build import build_task
from seq2attn.config import load_config
from seq2attn.data.tasks import pairs as pairs_task
from seq2attn.results.metrics import rows_of
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import Run
from seq2attn.training import loop, session
from seq2attn.training.recorder import watched_strings
from seq2attn.training.session import NewRun

CONFIG = """\
task: {name: pairs, train: data/train.tsv, dev: data/dev.tsv, target_separator: " "}
model: {hidden: 8, embedding: 4, cell: lstm, bidirectional: true, dropout: 0.3,
  attention: {score: additive}}
training: {epochs: 3, batch_size: 4, word_dropout: 0.1, log_every: 2, snapshots: 0,
  losses: {name: cross_entropy, label_smoothing: 0.1}}
"""
pytestmark = pytest.mark.usefixtures("formulas_alone", "blank_figures")
WHOLE = "training.batch_size=18"  # an epoch is one step
LETTERS, PRIME = "abcde", "'"  # each symbol of a target is a letter and a prime


def lines(words):
    return "".join(
        f"{word}\t{' '.join(letter + PRIME for letter in reversed(word))}\n" for word in words
    )


@pytest.fixture
def work(tmp_path, monkeypatch):
    """my.yaml, and data/ with 18 words to train on and 5 to measure on."""
    words = list(map("".join, itertools.product("ab", LETTERS, ("", "cd"))))[:18]
    write(tmp_path / "data/train.tsv", lines(words))
    write(tmp_path / "data/dev.tsv", lines("a eb dab cabd abcde".split()))
    write(tmp_path / "my.yaml", CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(config, where=NewRun(Path("runs"), "a"), **options):  # noqa: B008
    return session.train(config, where, device="cpu", **options)


def stopped_run(work, at=1, overrides=(WHOLE,), name="mine"):
    """A run that was stopped at a step, and the outcome of its training."""
    return trained(
        load_config("my.yaml", list(overrides)), NewRun(work / "runs", name), **StopAt(at).given
    )


def test_train_predict_and_inspect(work, cli):
    write(work / "my.yaml", CONFIG.replace("snapshots: 0", "snapshots: 1"))
    done = cli("train --config my.yaml").check()
    assert done.out == "runs/my-001\n"
    assert "training runs/my-001 on cpu from epoch 0" in done.err
    lines = [line.partition(":")[0] for line in done.err.splitlines() if "WER" in line]
    assert lines == ["epoch 1", "epoch 2", "epoch 3"]
    run = Run(work / "runs/my-001")
    status = run.status()
    assert None not in (status.wer, status.ser, status.dev_loss)
    assert status.step == status.steps == 15  # 18 pairs in batches of 4: 5 an epoch
    shutil.rmtree(work / "data")  # a run needs no file of pairs
    answered = cli("predict abx --json").check()
    assert "symbols that the training file lacks, read as <unk>: 'x'" in answered.err
    record = answered.json
    assert record["source_symbols"] == "a b <unk> <eos>".split()
    written = [symbol for symbol in record["output_symbols"] if symbol != "<eos>"]
    assert record["output"] == " ".join(written)
    shown = cli("inspect my-001").out
    assert '"name": "train.tsv"' in shown
    assert '"pairs": 18' in shown
    assert """# target: ["a'", "b'", "c'", "d'", "e'"]""" in shown
    cli("report my-001").check()
    assert "exact match, mean to worst length" not in read("report.html")
    maps = json.loads(run.attention_file.read_text().splitlines()[-1])["maps"]
    assert [one["source"] for one in maps] == ["dab", "abcde"]


def test_paths_are_relative_to_the_config_and_in_overrides_to_the_working_directory(
    work, monkeypatch
):
    (work / "elsewhere").mkdir()
    monkeypatch.chdir(work / "elsewhere")
    config = load_config("../my.yaml", ["task.dev=dev.tsv"])
    places = {"train": "data/train.tsv", "dev": "elsewhere/dev.tsv"}
    assert config.data_files == {split: str(work / place) for split, place in places.items()}


# ---- resuming ----


@pytest.mark.parametrize(
    "at",  # after an evaluation; in the first epoch, at the end of one
    [6, slow(2), slow(10)],
)
def test_a_resumed_training_ends_with_the_same_weights_and_records(work, at):
    changes = ["training.patience=9"]
    config = load_config("my.yaml", changes)
    whole = trained(config, NewRun(work / "runs", "whole"))
    stopped = stopped_run(work, at, changes)
    assert stopped.step == at
    assert stopped.stopped_by is None  # no signal did
    again = trained(config, stopped.run)
    assert again.stopped_by is None
    for which in ("last", "best"):
        same_tensors(whole.run, again.run, which)
    assert metrics(whole.run) == metrics(again.run)


def watch_reading(monkeypatch):
    """A list of the files of pairs that are read from now on."""
    paths = []
    monkeypatch.setattr(pairs_task, "load_pairs", lambda path, form: paths.append(path))
    return paths


def test_only_training_opens_the_files_of_a_run(work, cli, monkeypatch):
    stopped_run(work)
    opened = watch_reading(monkeypatch)
    for words in ("predict ab", "eval mine", "inspect mine", "report mine", "runs"):
        cli(words)
    assert opened == []


DAMAGES = {
    "another pair": lambda file: file.write_text(f"{file.read_text()}e\te'\n"),
    "not a pair": lambda file: file.write_text("secret\n"),  # a reader would quote the line
    "no file": lambda file: file.unlink(),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "a link": lambda file: (file.unlink(), file.symlink_to(__file__)),
}


@table(
    "option",
    """
train
dev
""",
)
def test_a_run_does_not_continue_on_other_files(work, cli, monkeypatch, option):
    run = stopped_run(work).run
    opened = watch_reading(monkeypatch)
    before = run.checkpoint("last").read_bytes()
    file = work / f"data/{option}.tsv"
    right = file.read_text()
    for name, damage in DAMAGES.items():
        damage(file)
        said, hint = cli("train --resume mine").refusal.splitlines()
        assert said == f"error: {file} has changed, or is gone, since run 'mine' was started", name
        assert hint.startswith("Restore that file, or start a new run: ")
        assert opened == [], name
        assert run.checkpoint("last").read_bytes() == before, name
        file.unlink(missing_ok=True)
        file.write_text(right)


def test_a_file_behind_a_link_is_the_same_file(work, cli):
    run = stopped_run(work).run
    (work / "data").rename(work / "elsewhere")
    (work / "data").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (work / "data" / name).symlink_to(work / "elsewhere" / name)
    assert cli("train --resume mine").check().out == "runs/mine\n"
    assert run.status().state == "finished"


DAMAGED = """
[] | task.json: not a valid record:
{} | task.json: not a valid record: files: is missing
{"files": {}} | task.json: not a valid record: source: is missing
{"files": {"train": {}}} | not a valid record: files.train.sha256: is missing
"""


WRONG = """
source | null
target | [1]
source_lengths | [0, 1]
source_lengths | [1]
source_lengths | [1, 1, 1]
files | []
longest_target | "many"
longest_target | 0
"""


def test_a_run_whose_records_are_damaged_opens_no_file(work, cli, monkeypatch):
    run = stopped_run(work).run
    opened = watch_reading(monkeypatch)
    right = run.task_file.read_text()
    for text, says in rows(DAMAGED):
        run.task_file.write_text(text)
        assert says in cli("train --resume mine").refusal
        assert opened == [], text
        assert cli("predict ab").code == 2, text
    whole = json.loads(right)
    for key, value in rows(WRONG):
        run.task_file.write_text(json.dumps({**whole, key: json.loads(value)}))
        for words in ("predict ab", "train --resume mine"):
            assert f"task.json: not a valid record: {key}" in cli(words).refusal
    for files in ({}, {"train": whole["files"]["train"]}):
        run.task_file.write_text(json.dumps({**whole, "files": files}))
        assert "has changed, or is gone, since run 'mine'" in cli("train --resume mine").refusal
    run.task_file.write_text(right)
    text = run.config_file.read_text()
    run.config_file.write_text(text.replace(f"{work}/data/train.tsv", '"a\\0b"'))
    assert "has changed, or is gone, since run 'mine'" in cli("train --resume mine").refusal


# ---- measuring, selection and patience ----


class Fixed:
    """Results of evaluations in turn: WER, loss, and SER if it differs from WER."""

    def __init__(self, *results):
        self.results = iter(results)

    def __call__(self, predictor, pairs):
        wer, loss, *ser = next(self.results)
        measured = {"wer": wer, "ser": (ser or [wer])[0], "loss": loss, "exact_match": 1 - wer}
        return seq2attn.Evaluation(
            tuple(rows_of(measured, [1, 1, 1], length=None, trained=True)), ()
        )


@pytest.fixture
def results(work, monkeypatch):
    """`results((wer, loss), ...)`: what the evaluations of the dev set give in turn."""
    return lambda *pairs: monkeypatch.setattr(loop, "evaluate_pairs", Fixed(*pairs))


@table(
    "select, step",
    """
wer | 3
ser | 1
loss | 5
""",
    "step",
)
def test_a_run_chooses_by_which_rate_the_best_checkpoint_is_found(results, select, step):
    equal = [(0.4, loss, 0.8) for loss in (2.0, 1.9, 3.0)]  # in WER and SER: the loss decides
    results((0.5, 1.0, 0.1), *equal, (0.5, 0.9, 0.2))
    overrides = ["training.epochs=5", f"training.select={select}", "training.target=0.9"]
    run = trained(load_config("my.yaml", [*overrides, WHOLE])).run
    assert step_of(run, "best") == step
    assert run.status().step == 5  # the target is exact match, whatever the rate


@pytest.mark.parametrize("loss", [1e9, math.nan])
def test_a_loss_beyond_all_measure_on_the_dev_set_is_a_divergence(work, results, loss):
    results((0.5, 1.0), (0.6, loss))
    with pytest.raises(
        loop.Diverged, match="diverged at step 2: the loss on the dev set is not a number"
    ) as caught:
        trained(load_config("my.yaml", [WHOLE]))
    assert "smaller training.learning_rate" in caught.value.hint
    run = Run(work / "runs/a")
    assert run.status().state == "failed"
    assert step_of(run) == 1


def test_training_stops_when_patience_runs_out(work, results, cli):
    results((0.5, 1.0), (0.4, 1.0), (0.4, 1.0), (0.5, 1.0), (0.3, 1.0))
    changes = f"--set training.epochs=9 --set training.patience=2 --set {WHOLE}"
    done = cli(f"train --config my.yaml {changes} --name my-001").check()
    assert "epoch 4: training.patience evaluations in a row brought no improvement" in done.err
    run = Run(work / "runs/my-001")
    assert run.status().state == "finished"
    assert run.status().step == 4
    assert "is finished: epoch 4 of 9" in cli("train --resume my-001").check().err


def test_a_target_is_for_the_dev_set(results):
    results((0.5, 1.0), (0.2, 1.0), (0.0, 1.0))
    config = load_config("my.yaml", ["training.epochs=9", "training.target=0.8", WHOLE])
    assert config.training.evaluate_every == 1  # in epochs
    assert trained(config).step == 2


def test_pairs_of_a_few_symbols_are_learned(work):
    """The whole way learns something: every target is the source reversed."""
    overrides = """
training.epochs=18 training.evaluate_every=18 training.learning_rate=0.05 training.batch_size=6
training.word_dropout=0 model.dropout=0 model.hidden=16 task.dev=data/train.tsv
"""
    ended = trained(load_config("my.yaml", overrides.split()))
    assert load_checkpoint(ended.run.checkpoint("best")).state["summary"]["wer"] < 0.2


def test_long_sources_of_short_answers_are_not_watched(work):
    long = "ab" * 100  # with <eos> wider than a map
    for name in ("train", "dev"):
        with (work / f"data/{name}.tsv").open("a") as file:
            file.write(f"{long}\ta{PRIME}\n")
    config = load_config("my.yaml")
    assert watched_strings(config, build_task(config)) == ["cabd"]
