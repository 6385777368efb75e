"""Walks through the commands in this process: what they print, on a terminal and in a pipe, and what they write."""

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from measured import value_of

from seq2attn import __version__, parts
from seq2attn.cli import main
from seq2attn.cli.app import _prepare_streams
from seq2attn.config import check_config, load_config
from seq2attn.data.tasks import Answer
from seq2attn.data.tasks.reverse import Reverse
from seq2attn.display.console import write_json
from seq2attn.display.progress import Lines
from seq2attn.kernels import describe, library
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.runs.create import run_name
from seq2attn.runs.lock import training_lock
from seq2attn.runs.run import Run, check_name

# Only six strings: learnt within a second for any seed.
TINY = """\
task: {alphabet: ab, max_length: 2}
model: {hidden: 16, embedding: 4}
training: {steps: 80, batch_size: 16, learning_rate: 0.03, evaluate_every: 80, validation_samples: 10, snapshots: 1}
evaluation: {samples: 10}
"""

SCORE = '''\
import torch
from seq2attn.model.scores import Score, register


@register("negative_distance", formula="-|s - h|^2", equal_widths=True)
class NegativeDistance(Score):
    """How near query and key are."""

    def forward(self, query, keys):
        return -torch.cdist(query, keys).square()
'''


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    def isatty(self):
        return True


def seq2attn(*arguments, stdin="", terminal=False):
    """`seq2attn ARGUMENTS` as in a separate process: scores that earlier calls registered are unknown."""
    out = Terminal() if terminal else io.StringIO()
    err = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["seq2attn", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin)
        for registry, name in itertools.product(parts.EXTENSIBLE, ("_entries", "_synonyms")):
            patch.setattr(registry, name, dict(getattr(registry, name)))
        try:
            main()
        except SystemExit as stop:
            return Result(stop.code or 0, out.getvalue(), err.getvalue())
    return Result(0, out.getvalue(), err.getvalue())


def succeed(*arguments, **keywords):
    """The standard output of a command that must succeed."""
    done = seq2attn(*arguments, **keywords)
    assert done.code == 0, done.err
    return done.out


def plain(text):
    """`text` without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def rows(text):
    """Tab-separated lines under a header -> one dict a line."""
    header, *lines = [line.split("\t") for line in text.splitlines()]
    assert all(len(line) == len(header) for line in lines)
    return [dict(zip(header, line, strict=True)) for line in lines]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with tiny.yaml and two runs: tiny-001, which has learnt its task, and the newer `second`."""
    threads = torch.get_num_threads()
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.yaml").write_text(TINY)
    with contextlib.chdir(folder):
        first = succeed("train", "--config", "tiny.yaml")
        second = succeed("train", "-c", "tiny.yaml", "--name", "second", "--set", "training.steps=1", "-s", "seed=2")
    assert (first, second) == ("runs/tiny-001\n", "runs/second\n")
    yield folder
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def work(trained, tmp_path, monkeypatch):
    """A copy of that directory to work in."""
    for name in ("SEQ2ATTN_RUNS", "FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "work"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    return folder


# ---- train ----


def test_a_training_from_its_config_to_its_records(work):
    done = seq2attn("train", "-c", "tiny.yaml", "-s", "training.steps=1", "--set", "model.attention.score=concat")
    run = work / "runs" / "tiny-score_concat-steps_1-001"
    assert (done.code, done.out) == (0, f"runs/{run.name}\n")
    said = done.err.splitlines()
    assert f"training runs/{run.name} on cpu from step 0" in said
    assert any(line.startswith("step 1: exact match ") for line in said)
    assert said[-1] == f"Next: seq2attn eval {run.name}"
    names = {path.name for path in run.iterdir() if not path.name.startswith("events.out.")}
    files = {
        "config.yaml",
        "environment.json",
        "status.json",
        "metrics.jsonl",
        "attention.jsonl",
        "checkpoints",
        "training.lock",
    }
    assert names == files
    config = load_config(run / "config.yaml")
    assert (config.score_name, config.model.hidden, config.training.steps) == ("additive", 16, 1)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["changes"] == ["model.attention.score=concat", "training.steps=1"]
    assert environment["command"][1:3] == ["train", "-c"]
    assert (environment["device"], environment["threads"], environment["seed"]) == ("cpu", 1, 1)
    assert environment["versions"]["torch"] == torch.__version__
    assert environment["versions"]["seq2attn"] == __version__


def test_train_keeps_runs_in_the_runs_dir(work, monkeypatch):
    done = seq2attn("train", "-c", "tiny.yaml", "-s", "training.steps=1", "--runs-dir", "elsewhere")
    assert done.out == "elsewhere/tiny-steps_1-001\n"
    assert done.err.splitlines()[-1] == "Next: seq2attn eval tiny-steps_1-001 --runs-dir elsewhere"
    monkeypatch.setenv("SEQ2ATTN_RUNS", "elsewhere")
    assert succeed("train", "-c", "tiny.yaml", "-s", "training.steps=1") == "elsewhere/tiny-steps_1-002\n"
    assert succeed("predict", "ab", "--run", "tiny-steps_1-001").count("\n") == 1


def test_a_stopped_and_resumed_run_ends_with_identical_weights(work, monkeypatch):
    step = Lines.step

    def interrupted(self, trial, number, text):
        step(self, trial, number, text)
        if number == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Lines, "step", interrupted)
        done = seq2attn("train", "-c", "tiny.yaml")
    assert (done.code, done.out) == (128 + signal.SIGINT, "")
    said = "stopped by SIGINT after step 20; everything is saved.\nContinue with: seq2attn train --resume tiny-002\n"
    assert done.err.endswith(said)
    newest = rows(succeed("runs", "--limit", "1"))
    assert [(row["run"], row["state"], row["step"]) for row in newest] == [("tiny-002", "interrupted", "20/80")]
    assert succeed("train", "--resume", "tiny-002") == "runs/tiny-002\n"
    one, other = (load_checkpoint(work / f"runs/tiny-{n}/checkpoints/last.safetensors") for n in ("001", "002"))
    assert one.tensors.keys() == other.tensors.keys()
    assert all(tensor.equal(other.tensors[name]) for name, tensor in one.tensors.items())


def test_training_without_a_compiler_is_noted_as_slow(work, monkeypatch):
    monkeypatch.setattr(library, "LIBRARY", work / "recurrence.so")
    monkeypatch.setattr(library, "WHY_NONE", work / "recurrence.txt")
    (work / "recurrence.txt").write_text("there is no C compiler (cc)\n")
    library._load.cache_clear()
    done = seq2attn("train", "-c", "tiny.yaml", "-s", "training.steps=1")
    library._load.cache_clear()
    assert done.code == 0
    message = " ".join(done.err.split())
    assert "there is no C compiler (cc); training takes longer than it would compiled. To change that" in message
    assert "pip install --force-reinstall --no-deps" in message


def test_resuming_with_other_kernels_is_noted(work, monkeypatch):
    compiled = describe(torch.device("cpu"))
    if "were not compiled" in compiled:
        pytest.skip(compiled)
    with monkeypatch.context() as patch:
        patch.setattr(Lines, "step", lambda self, *_: os.kill(os.getpid(), signal.SIGINT))
        assert [seq2attn("train", "-c", "tiny.yaml").code for _ in "ab"] == [128 + signal.SIGINT] * 2
    assert json.loads((work / "runs" / "tiny-002" / "environment.json").read_text())["kernels"] == compiled
    assert "kernels" not in seq2attn("train", "--resume", "tiny-003").err
    monkeypatch.setenv("SEQ2ATTN_KERNELS", "off")
    said = f"runs/tiny-002 was started with other kernels ({compiled}) than it continues with (SEQ2ATTN_KERNELS is off)"
    assert said in " ".join(seq2attn("train", "--resume", "tiny-002").err.split())


def test_resuming_a_finished_run_changes_nothing(work):
    before = {path: path.read_bytes() for path in (work / "runs" / "tiny-001").rglob("*") if path.is_file()}
    done = seq2attn("train", "--resume", "tiny-001")
    assert (done.code, done.out) == (0, "runs/tiny-001\n")
    assert "is finished: 80 of 80 steps" in done.err
    assert {path: path.read_bytes() for path in (work / "runs" / "tiny-001").rglob("*") if path.is_file()} == before


def test_divergence_exits_with_code_1(work):
    done = seq2attn("train", "-c", "tiny.yaml", "--set", "training.learning_rate=1e38", "--set", "training.steps=9")
    assert (done.code, done.out) == (1, "")
    assert "error: training diverged at step" in done.err
    assert "Continue with" not in done.err and "Traceback" not in done.err


# ---- eval ----


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        (["--lengths", "3", "5", "7", "10"], ["3", "5", "7", "10"]),
        (["--lengths", "7", "--lengths", "3", "--lengths=5"], ["3", "5", "7"]),
        (["--lengths", "3,5", "7-8"], ["3", "5", "7", "8"]),
        ([], ["1", "2"]),  # the config's
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("first", [True, False])
def test_eval_measures_the_given_lengths(words, lengths, first):
    arguments = ["tiny-001", *words] if first else ["--samples", "3", *words, "--seed", "1"]
    assert [row["length"] for row in rows(succeed("eval", *arguments)) if row["metric"] == "entropy"] == lengths


def test_eval_prints_tab_separated_lines_in_a_pipe():
    printed = rows(succeed("eval", "tiny-001", "--lengths", "1-3", "--samples", "20"))
    found = {(row["length"], row["metric"]): row for row in printed}
    assert len(found) == 3 * 5 and {row["family"] for row in printed} == {"random"}
    for length, trained in (("1", "yes"), ("2", "yes"), ("3", "no")):
        assert (found[length, "entropy"]["trained"], found[length, "entropy"]["samples"]) == (trained, "20")
    for metric in ("exact_match", "character_accuracy", "teacher_forced"):
        # Wilson's interval for 20 of 20: from n / (n + z^2) to 1
        numbers = [float(found["1", metric][name]) for name in ("value", "low", "high")]
        assert numbers == pytest.approx([1, 20 / (20 + 1.959964**2), 1], abs=1e-6)
    assert 0 <= float(found["1", "alignment"]["value"]) <= 1
    assert 0 <= float(found["1", "entropy"]["value"]) <= 0.693148  # ln 2: one character and <eos>
    assert found["1", "entropy"]["low"] == ""


def test_eval_prints_and_saves_json(work):
    record = json.loads(succeed("eval", "tiny-001", "--lengths", "1", "2", "--samples", "5", "--seed", "3", "--json"))
    assert (record["run"], record["checkpoint"], record["seed"]) == ("tiny-001", "best", 3)
    assert [row["length"] for row in record["rows"] if row["metric"] == "entropy"] == [1, 2]
    assert all(row["trained"] and row["samples"] == 5 for row in record["rows"])
    assert value_of(record, "exact_match", 2) == 1.0
    (kept,) = (work / "runs" / "tiny-001" / "evaluations").iterdir()
    assert json.loads(kept.read_text()) == record


def test_evaluations_are_never_overwritten(work):
    folder = work / "runs" / "tiny-001" / "evaluations"
    succeed("eval", "tiny-001", "--samples", "1")
    first = (folder / "best-001.json").read_bytes()
    succeed("eval", "tiny-001", "--samples", "2")
    succeed("eval", "tiny-001", "--samples", "3", "--checkpoint", "last")
    assert sorted(path.name for path in folder.iterdir()) == ["best-001.json", "best-002.json", "last-001.json"]
    assert (folder / "best-001.json").read_bytes() == first
    assert {row["samples"] for row in json.loads((folder / "best-002.json").read_text())["rows"]} == {2}


def test_the_newest_run_is_chosen_and_noted():
    note = "run: runs/second (the newest; choose another with "
    done = seq2attn("eval", "--samples", "1", "--json")
    assert json.loads(done.out)["run"] == "second" and note in done.err
    assert note in seq2attn("predict", "ab").err
    assert "run:" not in seq2attn("eval", "tiny-001", "--samples", "1").err


def test_eval_strings_depend_only_on_the_seed():
    arguments = ["eval", "second", "--lengths", "2", "--samples", "40"]
    assert succeed(*arguments) == succeed(*arguments) != succeed(*arguments, "--seed", "1")


def test_eval_prints_a_table_on_a_terminal(work, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    words = ("eval", "tiny-001", "--lengths", "2", "3", "--samples", "20", "--plot", "accuracy.png")
    done = seq2attn(*words, terminal=True)
    assert "exact match" in done.out
    assert "1.000 [0.839, 1.000]" in done.out  # 20 / (20 + 1.96^2) = 0.839
    assert "3*" in done.out and "2*" not in done.out
    assert "* never seen in training" in done.err
    assert "figure: accuracy.png" in done.err
    assert (work / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_task_without_alignment_has_no_such_metric(monkeypatch):
    solve = Reverse.solve
    monkeypatch.setattr(Reverse, "solve", lambda *arguments: replace(solve(*arguments), alignment=None))
    found = rows(succeed("eval", "tiny-001", "--lengths", "2", "--samples", "5"))
    assert {row["metric"] for row in found} == {"exact_match", "character_accuracy", "teacher_forced", "entropy"}
    assert "alignment" not in succeed("eval", "tiny-001", "--lengths", "2", "--samples", "5", terminal=True)


# ---- predict ----


def test_predict_prints_only_the_outputs():
    done = seq2attn("predict", "ab", "b", "ba", "--run", "tiny-001")
    assert (done.out, done.err) == ("ba\nb\nab\n", "")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["aba"], "", "the string has a length never seen in training (trained: 1 to 2 symbols)"),
        (["aba", "ab"], "", "1 of 2 strings have a length never seen in training (trained: 1 to 2 symbols)"),
        (["-"], "aba\nb\nabab\n", "2 of 3 strings have a length never seen in training (trained: 1 to 2 symbols)"),
        (["-"], "", "standard input is empty: there is nothing to predict"),
    ],
)
def test_predict_prints_notes_on_stderr(arguments, stdin, message):
    done = seq2attn("predict", *arguments, "--run", "tiny-001", stdin=stdin)
    assert done.code == 0
    assert done.err.splitlines()[-1] == message
    assert done.out.count("\n") == stdin.count("\n") or not stdin


def test_predict_prints_json():
    printed = succeed("predict", "ab", "a", "-r", "tiny-001", "--json")
    first, second = map(json.loads, printed.splitlines())
    assert (first["source"], first["output"], first["finished"]) == ("ab", "ba", True)
    assert (first["source_symbols"], first["output_symbols"]) == (["a", "b", "<eos>"], ["b", "a", "<eos>"])
    assert [sum(row) for row in first["weights"]] == pytest.approx([1, 1, 1], abs=1e-4)
    assert [len(row) for row in first["weights"]] == [3, 3, 3]
    assert (second["source"], second["output"]) == ("a", "a")


@pytest.mark.parametrize("lines", ["ab\nba\nb\n", "ab\r\nba\r\nb\r\n", "ab\nba\nb"])
def test_predict_reads_the_lines_of_standard_input(lines):
    assert succeed("predict", "-", "--run", "tiny-001", stdin=lines) == "ba\nab\nb\n"
    answers = succeed("predict", "-", "--run", "tiny-001", "--json", stdin=lines).splitlines()
    assert [json.loads(line)["output"] for line in answers] == ["ba", "ab", "b"]


def test_predict_names_the_line_that_the_model_cannot_read():
    done = seq2attn("predict", "-", "--run", "tiny-001", stdin="ab\nAB\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: line 2 of standard input: 'AB' has characters the model never saw: ")


def test_a_line_typed_on_a_terminal_is_answered_before_the_next():
    done = seq2attn("predict", "-", "--run", "tiny-001", stdin=Terminal("ab\nax\n"), terminal=True)
    assert done.code == 2 and "ab -> ba" in plain(done.out)
    assert plain(done.err).startswith(
        "Type one string a line. Ctrl-D ends.\nerror: line 2 of standard input: 'ax' has "
    )


@pytest.mark.parametrize(("kind", "ground"), [("xterm-256color", "\x1b[48;5;"), ("xterm", None), ("dumb", None)])
def test_predict_prints_a_heat_map_on_a_terminal(monkeypatch, kind, ground):
    monkeypatch.setenv("TERM", kind)
    lines = succeed("predict", "ab", "--run", "tiny-001", terminal=True).splitlines()
    answer, head, *drawn, explained = [line for line in lines if plain(line)]  # an old rich adds one
    assert "ab -> ba" in answer and "a b $" in head
    assert len(drawn) == 3
    if ground is None:
        assert all(set(row[-6:]) <= set(" .:~*+o%#@") for row in drawn)
    else:
        assert [row.count(ground) for row in drawn] == [3, 3, 3]
    large = "dense" if ground is None else "bright"
    assert f"rows: output, columns: source, $ <eos>, {large}: attended to" in explained


def test_predict_notes_a_terminal_too_narrow_for_the_map(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    note = "the map is too wide for this terminal; --plot FILE draws it"
    done = {text: seq2attn("predict", text, "--run", "tiny-001", terminal=True) for text in ("ab", "abababab")}
    assert note not in done["ab"].err
    assert note in done["abababab"].err


@pytest.mark.parametrize("answer", [None, Answer("bb")])
def test_predict_works_for_a_task_without_answer_or_alignment(work, monkeypatch, answer):
    assert "(expected: ba)" in succeed("predict", "ab", "--run", "second", terminal=True)
    monkeypatch.setattr(Reverse, "answer", lambda self, text: answer)
    shown = succeed("predict", "ab", "--run", "tiny-001", terminal=True)
    assert "ab -> ba" in shown
    assert ("(expected: bb)" in shown) == (answer is not None)
    done = seq2attn("predict", "ab", "ba", "--run", "tiny-001", "--plot", "a.svg")
    assert (done.out, done.err) == ("ba\nab\n", "figure: a.svg\n")
    assert "<svg" in (work / "a.svg").read_text()
    done = seq2attn("predict", "ab", "--run", "tiny-001", "--plot", "b.svg", "--ideal")
    assert (done.code, done.out) == (2, "ba\n")
    assert done.err.startswith("error: there is no ideal alignment to outline: none is known for 'ab'")
    assert not (work / "b.svg").exists()


# ---- runs, inspect, list ----


def test_runs_lists_the_newest_first():
    printed = rows(succeed("runs"))
    assert list(printed[0]) == ["run", "state", "step", "score", "seed", "task", "exact_match_worst", "wer", "made"]
    first, second = printed
    assert (first["run"], first["state"], first["step"], first["seed"]) == ("second", "finished", "1/1", "2")
    assert (second["run"], second["state"], second["step"], second["seed"]) == ("tiny-001", "finished", "80/80", "1")
    assert (second["task"], second["score"], second["exact_match_worst"]) == ("reverse", "scaled", "1")
    records = json.loads(succeed("runs", "--json"))
    assert [record["run"] for record in records] == ["second", "tiny-001"]
    assert (records[1]["step"], records[1]["steps"], records[1]["exact_match_worst"]) == (80, 80, 1.0)
    assert [record["run"] for record in json.loads(succeed("runs", "--json", "-n", "1"))] == ["second"]
    assert json.loads(succeed("runs", "--json", "--runs-dir", "elsewhere")) == []
    shown = seq2attn("runs", "-n", "1", terminal=True)
    assert "second" in shown.out and "1/1" in shown.out and "WER" not in shown.out
    assert "1 older runs; --limit shows more" in shown.err


def test_states_without_a_readable_status(work):
    def state():
        return rows(succeed("runs"))[1]["state"]

    run = work / "runs" / "tiny-001"
    (run / "status.json").write_text("{")
    assert state() == "unreadable status.json"
    (run / "status.json").unlink()
    assert state() == "stopped"  # it has a checkpoint
    with training_lock(Run(run)):
        assert state() == "training"
    shutil.rmtree(run / "checkpoints")
    assert state() == "no checkpoint"
    (run / "status.json").write_text('{"state": "interrupted", "step": 3}')
    done = seq2attn("train", "--resume", "tiny-001")
    assert "last.safetensors is missing: training restarts from step 0" in done.err
    assert (run / "checkpoints" / "last.safetensors").is_file()


def test_a_copied_run_keeps_its_place_and_a_trial_is_not_the_newest(work):
    def copy(name, **environment):
        file = shutil.copytree(work / "runs" / "tiny-001", work / "runs" / name) / "environment.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | environment))

    copy("older", created="2001-01-01T00:00:00+00:00")
    copy("newer", created="2999-01-01T00:00:00+00:00")
    assert [row["run"] for row in rows(succeed("runs"))] == ["newer", "second", "tiny-001", "older"]
    trial = {"experiment": {"name": "widths", "group": "wide", "values": {}}, "created": "2999-01-02T00:00:00+00:00"}
    copy("trial", **trial)
    assert "run: runs/newer (the newest; choose" in seq2attn("predict", "a").err
    for name in ("newer", "second", "tiny-001", "older"):
        shutil.rmtree(work / "runs" / name)
    assert "run: runs/trial (the newest, a trial of widths; choose" in seq2attn("eval", "--samples", "1").err


@pytest.mark.parametrize("found", ["best", "last"])
def test_eval_records_the_checkpoint_that_it_measured_with_its_step(work, found):
    run = Run(work / "runs" / "tiny-001")
    best = load_checkpoint(run.checkpoint("best"))
    save_checkpoint(run.checkpoint("best"), best.tensors, {**best.state, "step": 1})
    if found == "last":
        run.checkpoint("best").unlink()
    done = seq2attn("eval", "tiny-001", "--samples", "1", "--lengths", "2", "--json")
    (saved,) = run.evaluations.iterdir()
    assert saved.name == f"{found}-001.json"
    for record in (json.loads(done.out), json.loads(saved.read_text())):
        assert (record["checkpoint"], record["step"]) == (found, 1 if found == "best" else 80)
    note = "runs/tiny-001/checkpoints/best.safetensors is missing: this is checkpoint last, of step 80\n"
    assert (note in done.err) == (found == "last")


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


def test_inspect_prints_the_whole_config_as_loadable_yaml(work):
    given = ["model.hidden=24", "evaluation.lengths=1-3", "model.attention.score=additive"]
    words = [word for change in given for word in ("--set", change)]
    printed = succeed("inspect", "tiny.yaml", *words)
    (work / "printed.yaml").write_text(printed)
    assert load_config(work / "printed.yaml") == load_config(work / "tiny.yaml", given)
    meanings = dict(line.split("  # ") for line in printed.splitlines() if "  # " in line)
    found = {key.strip(): meaning for key, meaning in meanings.items()}
    assert found["hidden: 24"].startswith("D, width of ")
    assert found["width: null"].startswith("D_a, the width of the hidden layer")
    assert "hidden: 24" in succeed("inspect", "tiny.yaml", *words, terminal=True)


ALPHABETS = ["'#: \"-'", '"\\\\\'"', '"\\u00e9\\u6587\\t"', "'no'", "'012'", "'~'", "' '", "'[{&*!|>%@`'"]


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_inspect_quotes_any_alphabet(work, alphabet):
    config = load_config(work / "tiny.yaml", [f"task.alphabet={alphabet}"])
    (work / "printed.yaml").write_text(succeed("inspect", "tiny.yaml", "--set", f"task.alphabet={alphabet}"))
    assert load_config(work / "printed.yaml") == config


def test_inspect_of_a_run_shows_its_config(work):
    (work / "printed.yaml").write_text(succeed("inspect", "second"))
    assert load_config(work / "printed.yaml") == load_config(work / "tiny.yaml", ["training.steps=1", "seed=2"])
    assert succeed("inspect", "runs/second") == succeed("inspect", "second")


def test_inspect_s_ledger_counts_every_parameter(work):
    vocabulary, embedding, hidden = 5, 4, 16  # <pad>, <sos>, <eos>, a, b
    shown = json.loads(succeed("inspect", "tiny.yaml", "--json"))
    expected = {
        "encoder embedding": vocabulary * embedding,
        "encoder cells": 3 * hidden * (embedding + hidden + 2),
        "initial state": hidden * hidden + hidden,
        "attention": 0,
        "decoder embedding": vocabulary * embedding,
        "output layer": vocabulary * (2 * hidden + 1),
        "decoder cells": 3 * hidden * (embedding + 2 * hidden + 2),
    }
    assert shown["parameters"] == {**expected, "total": sum(expected.values())}
    assert check_config(shown["config"]) == load_config(work / "tiny.yaml")
    general = json.loads(succeed("inspect", "tiny.yaml", "--json", "--set", "model.attention.score=general"))
    assert general["parameters"]["attention"] == hidden * hidden
    assert f"# parameters of total: {sum(expected.values())}" in succeed("inspect", "tiny.yaml").splitlines()


def test_list_names_everything_a_config_can_use():
    everything = rows(succeed("list"))
    kinds = ["scores", "tasks", "windows", "histories", "cells", "decoders"]
    kinds += ["initial-states", "architectures", "schedules", "families"]
    assert list(dict.fromkeys(row["kind"] for row in everything)) == kinds
    named = {(row["kind"], row["name"]) for row in everything}
    scores = ("dot", "scaled", "general", "scaled_general", "additive", "cosine", "key_value", "none")
    tasks = ("reverse", "copy", "sort", "duplicate", "dates")
    assert {("scores", name) for name in scores} | {("tasks", name) for name in tasks} <= named
    for kind in kinds:
        assert rows(succeed("list", kind)) == [row for row in everything if row["kind"] == kind]
    scores = {record["name"]: record for record in json.loads(succeed("list", "scores", "--json"))}
    assert scores["scaled"]["formula"] == "s.h / sqrt(D)"
    assert "concat" in scores["additive"]["synonyms"] and "width" in scores["additive"]["options"]
    assert (scores["dot"]["equal_widths"], scores["general"]["parameters"]) == (True, "D_s*D_h")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["list", "scores"], ["(multiplicative)", "(scaled_bilinear)", "learned_strength", "bottleneck:"]),
        (["analyze", "ledger"], ["scaled_general"]),
        (["analyze", "saturation", "--samples", "10"], ["weights by rank"]),
        (["inspect", "tiny.yaml"], ["scalable_softmax:", "parameters"]),
    ],
)
def test_no_word_is_broken_or_cut_at_80_columns(monkeypatch, command, words):
    monkeypatch.setenv("COLUMNS", "80")
    out = plain(succeed(*command, terminal=True))
    assert all(set(word.split()) <= set(out.split()) for word in words)
    assert max(map(len, out.splitlines())) <= 80


# ---- a user's own score ----


def test_a_plugin_score_works_from_the_contract_to_prediction(work):
    (work / "mine.py").write_text(SCORE)
    mine = ["--plugin", "mine.py"]
    assert {row["result"] for row in rows(succeed("check", *mine))} == {"passed"}
    named = [(row["name"], row["formula"]) for row in rows(succeed("list", *mine))]
    assert ("negative_distance", "-|s - h|^2") in named
    (work / "mine.yaml").write_text(TINY + "seed: 3\n")
    done = seq2attn("train", "-c", "mine.yaml", "--set", "model.attention.score=negative_distance", *mine)
    run = "mine-score_negative_distance-001"
    assert (done.code, done.out) == (0, f"runs/{run}\n")
    assert done.err.splitlines()[-1] == f"Next: seq2attn eval {run} --plugin mine.py"
    found = rows(succeed("eval", run, *mine))
    assert [float(row["value"]) for row in found if row["metric"] == "exact_match"] == [1, 1]
    assert succeed("predict", "ab", "--run", run, *mine) == "ba\n"
    assert "negative_distance" in succeed("inspect", run, *mine)
    assert "mine.py" in json.loads((work / "runs" / run / "environment.json").read_text())["plugins"][0]
    assert rows(succeed("runs"))[0]["score"] == "negative_distance"
    for command in (["eval", run], ["predict", "ab", "--run", run], ["train", "--resume", run], ["inspect", run]):
        done = seq2attn(*command)
        assert (done.code, done.out) == (2, "")
        assert "unknown score 'negative_distance'" in done.err
        assert "made with --plugin mine.py" in done.err


@pytest.mark.parametrize(("encoding", "written"), [("ascii", r'"\u00e4"'), ("utf-8", '"ä"')])
def test_json_is_valid_in_any_encoding(monkeypatch, encoding, written):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", file)
    _prepare_streams()
    write_json("ä")
    file.flush()
    assert file.buffer.getvalue().decode(encoding) == f"{written}\n"
