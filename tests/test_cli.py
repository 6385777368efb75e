import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from measured import value_of

from seq2attn import __version__, parts
from seq2attn.cli import main
from seq2attn.cli.output import prepare_streams, program, write_json
from seq2attn.config import Config, load_config
from seq2attn.data.tasks import Answer
from seq2attn.data.tasks.reverse import Reverse
from seq2attn.display.progress import Lines
from seq2attn.kernels import describe_kernels, library
from seq2attn.runs.checkpoint import load_checkpoint

CONFIGS = Path(__file__).parent.parent / "configs"
CONSOLE_SCRIPT = Path(sys.executable).parent / "seq2attn"

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


def test_train_prints_only_the_run_path_on_stdout(work):
    done = seq2attn("train", "--config", "tiny.yaml", "--set", "training.steps=1")
    assert (done.code, done.out) == (0, "runs/tiny-steps_1-001\n")
    assert "exact match" in done.err
    assert "seq2attn eval tiny-steps_1-001" in done.err
    names = {
        path.name for path in (work / "runs" / "tiny-steps_1-001").iterdir() if not path.name.startswith("events.out.")
    }
    assert names == {
        "config.yaml",
        "environment.json",
        "status.json",
        "metrics.jsonl",
        "attention.jsonl",
        "checkpoints",
    }


def test_train_applies_overrides(work):
    succeed(
        "train", "-c", "tiny.yaml", "-s", "training.steps=1", "--set", "model.attention.score=concat", "--set", "seed=5"
    )
    config = load_config(work / "runs" / "tiny-score_additive-seed_5-steps_1-001" / "config.yaml")
    assert (config.score_name, config.seed, config.model.hidden) == ("additive", 5, 16)
    assert load_config(work / "tiny.yaml").seed == 1


def test_train_records_its_environment(work):
    succeed("train", "-c", "tiny.yaml", "-s", "training.steps=1", "--threads", "1", "--device", "cpu")
    environment = json.loads((work / "runs" / "tiny-steps_1-001" / "environment.json").read_text())
    assert environment["changes"] == ["training.steps=1"]
    assert environment["command"][1:3] == ["train", "-c"]
    assert (environment["device"], environment["threads"], environment["seed"]) == ("cpu", 1, 1)
    assert environment["versions"]["torch"] == torch.__version__
    assert environment["versions"]["seq2attn"] == __version__


def test_train_keeps_runs_in_the_runs_dir(work, monkeypatch):
    printed = succeed("train", "-c", "tiny.yaml", "-s", "training.steps=1", "--runs-dir", "elsewhere")
    assert printed == "elsewhere/tiny-steps_1-001\n"
    monkeypatch.setenv("SEQ2ATTN_RUNS", "elsewhere")
    assert succeed("train", "-c", "tiny.yaml", "-s", "training.steps=1") == "elsewhere/tiny-steps_1-002\n"
    assert succeed("predict", "ab", "--run", "tiny-steps_1-001").count("\n") == 1


def test_a_resumed_run_ends_with_identical_weights(work, monkeypatch):
    step = Lines.step

    def interrupted(self, trial, number, text):
        step(self, trial, number, text)
        if number == 20:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Lines, "step", interrupted)
    done = seq2attn("train", "-c", "tiny.yaml")
    monkeypatch.undo()
    monkeypatch.chdir(work)
    assert (done.code, done.out) == (128 + signal.SIGINT, "")
    assert "stopped by SIGINT after step 20" in done.err
    assert "seq2attn train --resume tiny-002" in done.err
    assert rows(succeed("runs", "--limit", "1")) == [
        {**rows(succeed("runs"))[0], "run": "tiny-002", "state": "interrupted", "step": "20/80"}
    ]
    assert succeed("train", "--resume", "tiny-002") == "runs/tiny-002\n"
    ends = [
        load_checkpoint(work / "runs" / name / "checkpoints" / "last.safetensors") for name in ("tiny-001", "tiny-002")
    ]
    assert ends[0].tensors.keys() == ends[1].tensors.keys()
    assert all(tensor.equal(ends[1].tensors[name]) for name, tensor in ends[0].tensors.items())


def test_training_without_a_compiler_is_noted_as_slow(work, monkeypatch):
    monkeypatch.setattr(library, "LIBRARY", work / "recurrence.so")
    monkeypatch.setattr(library, "WHY_NONE", work / "recurrence.txt")
    (work / "recurrence.txt").write_text("there is no C compiler (cc)\n")
    library._load.cache_clear()
    done = seq2attn("train", "-c", "tiny.yaml", "-s", "training.steps=1")
    library._load.cache_clear()
    assert done.code == 0
    message = " ".join(done.err.split())
    assert (
        "installed: there is no C compiler (cc); training takes longer than it would compiled. To change that"
        in message
    )
    assert "pip install --force-reinstall --no-deps" in message


def test_resuming_with_other_kernels_is_noted(work, monkeypatch):
    compiled = describe_kernels(torch.device("cpu"))
    if "were not compiled" in compiled:
        pytest.skip(compiled)
    with monkeypatch.context() as patch:
        patch.setattr(Lines, "step", lambda self, *_: os.kill(os.getpid(), signal.SIGINT))
        assert seq2attn("train", "-c", "tiny.yaml").code == 128 + signal.SIGINT
        assert seq2attn("train", "-c", "tiny.yaml").code == 128 + signal.SIGINT
    assert json.loads((work / "runs" / "tiny-002" / "environment.json").read_text())["kernels"] == compiled
    assert "kernels" not in seq2attn("train", "--resume", "tiny-003").err
    monkeypatch.setenv("SEQ2ATTN_KERNELS", "off")
    message = " ".join(seq2attn("train", "--resume", "tiny-002").err.split())
    assert (
        f"runs/tiny-002 was started with other kernels ({compiled}) than it continues with (SEQ2ATTN_KERNELS is off) "
        "its weights will not be bit-identical to those of an uninterrupted run" in message
    )


def test_resuming_a_finished_run_changes_nothing(work):
    before = {path: path.read_bytes() for path in (work / "runs" / "tiny-001").rglob("*") if path.is_file()}
    done = seq2attn("train", "--resume", "tiny-001")
    assert (done.code, done.out) == (0, "runs/tiny-001\n")
    assert "is finished: 80 of 80 steps" in done.err
    assert {path: path.read_bytes() for path in (work / "runs" / "tiny-001").rglob("*") if path.is_file()} == before


def test_divergence_exits_with_code_1(work):
    done = seq2attn("train", "-c", "tiny.yaml", "--set", "training.learning_rate=1e38", "--set", "training.steps=9")
    assert (done.code, done.out) == (1, "")
    assert "training diverged at step" in done.err
    assert "Traceback" not in done.err


# ---- eval ----


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        (["--lengths", "3", "5", "7", "10"], ["3", "5", "7", "10"]),
        (["--lengths", "3-10"], ["3", "4", "5", "6", "7", "8", "9", "10"]),
        (["--lengths", "7", "--lengths", "3", "--lengths=5"], ["3", "5", "7"]),
        (["--lengths", "3,5", "7-8"], ["3", "5", "7", "8"]),
        (["--lengths=2-3"], ["2", "3"]),
        ([], ["1", "2"]),  # the config's
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("first", [True, False])
def test_eval_measures_the_given_lengths(words, lengths, first):
    arguments = ["tiny-001", *words] if first else ["--samples", "3", *words, "--seed", "1"]
    assert [row["length"] for row in rows(succeed("eval", *arguments)) if row["metric"] == "entropy"] == lengths


def test_eval_prints_tab_separated_lines_in_a_pipe():
    found = {
        (row["length"], row["metric"]): row
        for row in rows(succeed("eval", "tiny-001", "--lengths", "1-3", "--samples", "20"))
    }
    assert len(found) == 3 * 5 and {row["family"] for row in found.values()} == {"random"}
    for length, trained in (("1", "yes"), ("2", "yes"), ("3", "no")):
        assert (found[length, "entropy"]["trained"], found[length, "entropy"]["samples"]) == (trained, "20")
    for metric in ("exact_match", "character_accuracy", "teacher_forced"):
        # Wilson's interval for 20 of 20: from n / (n + z^2) to 1
        numbers = [float(found["1", metric][name]) for name in ("value", "low", "high")]
        assert numbers == pytest.approx([1, 20 / (20 + 1.959964**2), 1], abs=1e-6)
    assert 0 <= float(found["1", "alignment"]["value"]) <= 1
    assert 0 <= float(found["1", "entropy"]["value"]) <= 0.693148  # ln 2: one character and <eos>
    assert found["1", "entropy"]["low"] == ""
    assert float(found["3", "exact_match"]["value"]) <= 1


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
    assert json.loads((folder / "best-002.json").read_text())["rows"][0]["samples"] == 2


def test_eval_notes_that_it_chose_the_newest_run():
    done = seq2attn("eval", "--samples", "1", "--json")
    assert json.loads(done.out)["run"] == "second"
    assert "run: runs/second (the newest; with seed=2, training.steps=1; choose another with " in done.err
    assert "run:" not in seq2attn("eval", "tiny-001", "--samples", "1").err


def test_eval_strings_depend_only_on_the_seed():
    arguments = ["eval", "second", "--lengths", "2", "--samples", "40"]
    assert succeed(*arguments) == succeed(*arguments) != succeed(*arguments, "--seed", "1")


def test_eval_saves_a_figure(work):
    done = seq2attn("eval", "tiny-001", "--samples", "2", "--plot", "accuracy.png")
    assert "figure: accuracy.png" in done.err
    assert (work / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert {row["length"] for row in rows(done.out)} == {"1", "2"}


def test_eval_prints_a_table_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "112")
    done = seq2attn("eval", "tiny-001", "--lengths", "2", "3", "--samples", "20", terminal=True)
    assert "exact match" in done.out
    assert "1.000 [0.839, 1.000]" in done.out  # 20 / (20 + 1.96^2) = 0.839
    assert "3*" in done.out and "2*" not in done.out
    assert "* never seen in training" in done.err
    assert "not shown" not in done.err


# ---- predict ----


def test_predict_prints_only_the_outputs():
    done = seq2attn("predict", "ab", "b", "ba", "--run", "tiny-001")
    assert (done.out, done.err) == ("ba\nb\nab\n", "")


def test_predict_notes_that_it_chose_the_newest_run():
    done = seq2attn("predict", "ab")
    assert "run: runs/second (the newest; with seed=2, training.steps=1; choose another with " in done.err
    assert "run: " not in done.out


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["aba"], "", "the string has a length never seen in training (trained: 1 to 2 characters)"),
        (["aba", "ab"], "", "1 of 2 strings have a length never seen in training (trained: 1 to 2 characters)"),
        (["-"], "aba\nb\nabab\n", "2 of 3 strings have a length never seen in training (trained: 1 to 2 characters)"),
        (["-"], "", "standard input is empty: there is nothing to predict"),
    ],
)
def test_predict_prints_notes_on_stderr(arguments, stdin, message):
    done = seq2attn("predict", *arguments, "--run", "tiny-001", stdin=stdin)
    assert done.code == 0
    assert done.err.splitlines()[-1] == message
    assert done.out.count("\n") == stdin.count("\n") or not stdin


def test_predict_names_the_line_that_the_model_cannot_read():
    done = seq2attn("predict", "-", "--run", "tiny-001", stdin="ab\nAB\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: line 2 of standard input: 'AB' has characters the model never saw: ")


@pytest.mark.parametrize(("text", "message"), [("ab", False), ("abababab", True)])
def test_predict_notes_a_terminal_too_narrow_for_the_map(monkeypatch, text, message):
    monkeypatch.setenv("COLUMNS", "20")
    done = seq2attn("predict", text, "--run", "tiny-001", terminal=True)
    assert ("the map is too wide for this terminal; --plot FILE draws it" in done.err) == message


def test_predict_prints_json():
    first, second = [
        json.loads(line) for line in succeed("predict", "ab", "a", "-r", "tiny-001", "--json").splitlines()
    ]
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


def test_predict_prints_nothing_for_empty_standard_input():
    assert succeed("predict", "-", "--run", "tiny-001", stdin="") == ""


def typed(*lines):
    """A terminal at which these lines are typed, then Ctrl-D."""
    return Terminal("".join(f"{line}\n" for line in lines))


def test_predict_asks_for_strings_on_a_terminal_and_a_mistake_does_not_end_it():
    done = seq2attn("predict", "-", "--run", "tiny-001", stdin=typed("ab", "ax", "", "a" * 4, "ba"), terminal=True)
    out, err = plain(done.out), plain(done.err)
    assert done.code == 0
    assert out.count("> ") == 6 + out.count("-> ")  # a prompt for each line and for the end
    assert [line for line in out.splitlines() if "->" in line] == [
        "> ab -> ba",
        "> > > aaaa -> aa   (expected: aaaa)",
        "> ba -> ab",
    ]
    assert err.splitlines() == [
        "Type a string and press Enter. Ctrl-D ends.",
        "error: 'ax' has characters the model never saw: 'x'; its alphabet is ab",
        "the string has a length never seen in training (trained: 1 to 2 characters)",
        "",
    ]


def test_predict_sends_only_answers_to_a_file_while_it_asks():
    done = seq2attn("predict", "-", "--run", "tiny-001", stdin=typed("ab", "ba"))
    assert (done.code, done.out) == (0, "ba\nab\n")
    assert plain(done.err).count("> ") == 3


def test_an_interrupt_at_the_prompt_ends_predict_quietly():
    class Interrupted(Terminal):
        def readline(self, size=-1):
            raise KeyboardInterrupt

    done = seq2attn("predict", "-", "--run", "tiny-001", stdin=Interrupted(), terminal=True)
    assert (done.code, done.out) == (0, "> ")
    assert plain(done.err) == "Type a string and press Enter. Ctrl-D ends.\n\n"


def test_predict_saves_a_figure(work):
    done = seq2attn("predict", "ab", "ba", "--run", "tiny-001", "--plot", "attention.svg")
    assert done.out == "ba\nab\n"
    assert "figure: attention.svg" in done.err
    assert "<svg" in (work / "attention.svg").read_text()


@pytest.mark.parametrize(("kind", "ground"), [("xterm-256color", "\x1b[48;5;"), ("xterm", None), ("dumb", None)])
def test_predict_prints_a_heat_map_on_a_terminal(monkeypatch, kind, ground):
    monkeypatch.setenv("TERM", kind)
    lines = succeed("predict", "ab", "--run", "tiny-001", terminal=True).splitlines()
    answer, head, *rows, explained = [
        line for line in lines if re.sub(r"\x1b\[[0-9;]*m", "", line)
    ]  # an old rich adds one
    assert "ab -> ba" in answer
    assert "right:" not in answer
    assert "a b $" in head
    assert len(rows) == 3
    if ground is None:
        assert all(set(row[-6:]) <= set(" .:~*+o%#@") for row in rows)
    else:
        assert [row.count(ground) for row in rows] == [3, 3, 3]
    large = "dense" if ground is None else "bright"
    assert f"rows: output, columns: source, $ <eos>, {large}: attended to" in explained


def test_predict_shows_the_expected_output_beside_a_wrong_one():
    assert "(expected: ba)" in succeed("predict", "ab", "--run", "second", terminal=True)


@pytest.mark.parametrize("answer", [None, Answer("bb")])
def test_predict_works_for_a_task_without_answer_or_alignment(work, monkeypatch, answer):
    monkeypatch.setattr(Reverse, "answer", lambda self, text: answer)
    shown = succeed("predict", "ab", "--run", "tiny-001", terminal=True)
    assert "ab -> ba" in shown
    assert ("(expected: bb)" in shown) == (answer is not None)
    assert "<svg" in (succeed("predict", "ab", "--run", "tiny-001", "--plot", "a.svg"), (work / "a.svg").read_text())[1]
    done = seq2attn("predict", "ab", "--run", "tiny-001", "--plot", "b.svg", "--ideal")
    assert (done.code, done.out) == (2, "ba\n")
    assert done.err.startswith("error: there is no ideal alignment to outline: none is known for 'ab'")
    assert not (work / "b.svg").exists()


def test_eval_of_a_task_without_alignment_shows_only_the_entropy(monkeypatch):
    solve = Reverse.solve
    monkeypatch.setattr(Reverse, "solve", lambda *arguments: replace(solve(*arguments), alignment=None))
    monkeypatch.setenv("COLUMNS", "200")
    found = {
        row["metric"]: row["value"] for row in rows(succeed("eval", "tiny-001", "--lengths", "2", "--samples", "5"))
    }
    assert "alignment" not in found and float(found["entropy"]) > 0
    _, heading, *_ = plain(succeed("eval", "tiny-001", "--lengths", "2", "--samples", "5", terminal=True)).splitlines()
    assert heading.split() == ["length", "exact", "match", "teacher-forced", "entropy", "characters"]


def test_outside_the_environment_commands_are_suggested_with_their_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [".venv/bin/seq2attn", "train"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == ".venv/bin/seq2attn"
    (tmp_path / "seq2attn").touch(mode=0o755)
    assert program() == "seq2attn"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["/home/me/seq2attn/__main__.py", "train"])
    assert program() == "seq2attn"


# ---- runs, inspect, list, check ----


def test_runs_lists_the_newest_first():
    first, second = rows(succeed("runs"))
    assert (first["run"], first["state"], first["step"], first["seed"]) == ("second", "finished", "1/1", "2")
    assert (second["run"], second["state"], second["step"], second["seed"]) == ("tiny-001", "finished", "80/80", "1")
    assert (second["task"], second["score"], second["exact_match_worst"]) == ("reverse", "scaled", "1")


def test_runs_prints_json_up_to_the_limit():
    records = json.loads(succeed("runs", "--json"))
    assert [record["run"] for record in records] == ["second", "tiny-001"]
    assert (records[1]["step"], records[1]["steps"], records[1]["exact_match_worst"]) == (80, 80, 1.0)
    assert [record["run"] for record in json.loads(succeed("runs", "--json", "-n", "1"))] == ["second"]
    assert json.loads(succeed("runs", "--json", "--runs-dir", "elsewhere")) == []


def test_runs_prints_a_table_on_a_terminal():
    out = succeed("runs", terminal=True)
    assert "tiny-001" in out and "80/80" in out


def test_inspect_prints_the_whole_config_as_loadable_yaml(work):
    printed = succeed("inspect", "tiny.yaml", "--set", "model.hidden=24", "--set", "evaluation.lengths=1-3")
    (work / "printed.yaml").write_text(printed)
    expected = load_config(work / "tiny.yaml", ["model.hidden=24", "evaluation.lengths=[1, 2, 3]"])
    assert load_config(work / "printed.yaml") == expected
    assert printed.count("#") > len(Config.model_fields)


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
    gru = {"encoder": 3 * hidden * (embedding + hidden + 2), "decoder": 3 * hidden * (embedding + 2 * hidden + 2)}
    expected = {
        "encoder embedding": vocabulary * embedding,
        "encoder cells": gru["encoder"],
        "initial state": hidden * hidden + hidden,
        "attention": 0,
        "decoder embedding": vocabulary * embedding,
        "output layer": vocabulary * (2 * hidden + 1),
        "decoder cells": gru["decoder"],
    }
    assert shown["parameters"] == {**expected, "total": sum(expected.values())}
    assert Config.model_validate(shown["config"], strict=False) == load_config(work / "tiny.yaml")
    general = json.loads(succeed("inspect", "tiny.yaml", "--json", "--set", "model.attention.score=general"))
    assert general["parameters"]["attention"] == hidden * hidden
    assert f"# parameters of total: {sum(expected.values())}" in succeed("inspect", "tiny.yaml").splitlines()


def test_inspect_prints_config_and_parameters_on_a_terminal():
    out = succeed("inspect", "tiny.yaml", terminal=True)
    assert "hidden: 16" in out and "parameters" in out


KINDS = [
    "scores",
    "tasks",
    "windows",
    "histories",
    "cells",
    "decoders",
    "initial-states",
    "architectures",
    "schedules",
    "families",
]


def test_list_names_everything_a_config_can_use():
    everything = rows(succeed("list"))
    assert list(dict.fromkeys(row["kind"] for row in everything)) == KINDS
    named = {(row["kind"], row["name"]) for row in everything}
    for name in ("dot", "scaled", "general", "scaled_general", "additive", "cosine", "key_value", "none"):
        assert ("scores", name) in named
    for name in ("reverse", "copy", "sort", "duplicate", "dates"):
        assert ("tasks", name) in named


@pytest.mark.parametrize("kind", KINDS)
def test_list_of_one_kind_is_part_of_the_whole_list(kind):
    assert rows(succeed("list", kind)) == [row for row in rows(succeed("list")) if row["kind"] == kind]


def test_list_prints_json_with_details_of_scores():
    scores = {record["name"]: record for record in json.loads(succeed("list", "scores", "--json"))}
    assert scores["scaled"]["formula"] == "s.h / sqrt(D)"
    assert "concat" in scores["additive"]["synonyms"]
    assert "width" in scores["additive"]["options"]
    assert scores["dot"]["equal_widths"] is True
    assert scores["general"]["parameters"] == "D_s*D_h"


def test_list_prints_tables_on_a_terminal():
    out = succeed("list", "scores", terminal=True)
    assert "(scaled_dot)" in out and "Vaswani" in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["list", "scores"], ["(multiplicative)", "(scaled_bilinear)", "learned_strength", "bottleneck:"]),
        (["analyze", "ledger"], ["scaled_general"]),
        (["analyze", "saturation", "--samples", "10"], ["weights by rank"]),
    ],
)
def test_no_word_is_broken_or_cut_at_80_columns(monkeypatch, command, words):
    monkeypatch.setenv("COLUMNS", "80")
    out = plain(succeed(*command, terminal=True))
    assert all(word in out for word in words)
    assert max(map(len, out.splitlines())) <= 80
    if "saturation" in command:
        numbers = [line.split() for line in out.splitlines() if line.strip().startswith(("dot", "scaled"))]
        assert [len(line) for line in numbers] == [10] * 8  # score, D, 3 numbers, 4 weights and the sign of others


def test_check_runs_the_contract_of_scores():
    found = rows(succeed("check", "dot", "additive"))
    assert {row["name"] for row in found} == {"dot", "additive"}
    assert {"shape", "padding", "gradients"} <= {row["rule"] for row in found}
    assert {row["result"] for row in found} == {"passed"}
    assert "passed" in succeed("check", "dot", terminal=True)


def test_variance_shows_both_theories_on_a_terminal():
    arguments = ("analyze", "variance", "--scores", "dot", "--widths", "16", "--query-mean", "2", "--key-mean", "1")
    table = plain(succeed(*arguments, terminal=True)).split("dot")[1].split()
    assert (table[2], table[5]) == ("32", "96")  # the mean is D ms mh, the variance D (1 + mh^2 + ms^2)


def test_forms_prints_yes_for_agreement():
    assert {row["agree"] for row in rows(succeed("analyze", "forms", "--scores", "dot"))} == {"yes"}


def test_check_finds_a_broken_score(work):
    (work / "broken.py").write_text(SCORE.replace(".square()", ".square() + keys.sum()"))
    done = seq2attn("check", "--plugin", "broken.py")
    assert done.code == 1
    assert "rules are broken" in done.err
    results = {row["rule"]: row["result"] for row in rows(done.out)}
    assert results["pairs"] != "passed"
    assert results["shape"] == "passed"


WIDE = """\
from seq2attn.model.scores import Score, register


@register("wide", formula="s.h")
class Wide(Score):
    def forward(self, query, keys):
        return query @ keys.transpose(1, 2)
"""


@pytest.mark.parametrize(
    ("broken", "advice"),
    [
        (WIDE, 'say so: @register("name", equal_widths=True)'),
        (
            WIDE.replace('"s.h"', '"s.h", equal_widths=True').replace(
                "query @ keys.transpose(1, 2)", "(query * keys).sum(2)"
            ),
            "seq2attn.model.scores.base.Score)` says what such a part takes and returns.",
        ),
    ],
)
def test_check_of_a_score_that_raises_gives_advice(work, broken, advice):
    (work / "broken.py").write_text(broken)
    done = seq2attn("check", "--plugin", "broken.py")
    assert done.code == 1
    assert "shape" in {row["rule"] for row in rows(done.out) if row["result"] != "passed"}
    assert len(rows(done.out)) == 10
    assert done.err.splitlines()[-1].endswith(advice)


def test_check_with_options(work):
    optional = WIDE.replace('"s.h"', '"s.h", equal_widths=True').replace(
        "    def forward",
        "    def __init__(self, query_width, key_width, *, sign=1.0):\n"
        "        super().__init__(query_width, key_width)\n"
        "        self.sign = sign\n\n"
        "    def forward",
    )
    optional = optional.replace("return", "assert self.sign == 1.0\n        return")
    (work / "optional.py").write_text(optional)
    assert {row["result"] for row in rows(succeed("check", "--plugin", "optional.py"))} == {"passed"}
    done = seq2attn("check", "--plugin", "optional.py", "--option", "sign=-1.0", terminal=True)
    assert done.code == 1
    assert "AssertionError" in done.out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["dot", "additive", "-o", "width=8"], "--option is for one part; there are 2: dot, additive"),
        (["additive", "-o", "width"], "--option width: expected NAME=VALUE, such as width=8"),
        (["additive", "-o", "wide=8"], "unknown key; did you mean 'width'? allowed here: width"),
    ],
)
def test_check_refuses_invalid_options(given, says):
    done = seq2attn("check", *given)
    assert done.code == 2
    assert says in done.err


def test_an_option_refused_by_a_score_is_reported_with_its_value(work):
    source = WIDE.replace(
        "    def forward",
        "    def __init__(self, query_width, key_width, *, rank=2):\n        raise ValueError(rank)\n\n    def forward",
    )
    (work / "refusing.py").write_text(source)
    done = seq2attn("check", "--plugin", "refusing.py", "--option", "rank=-4")
    assert "Wide(4, 8, rank=-4) raised ValueError: -4" in done.out


PARTS = """\
import torch
from seq2attn.data.tasks.copy import Copy
from seq2attn.model.cells import RNN
from seq2attn.model.windows import View, Window
from seq2attn.registry import register


@register("echo")
class Echo(Copy):
    '''abc -> abc'''


@register("echo")
class EchoCell(RNN):
    '''as rnn'''


@register("first")
class First(Window):
    def forward(self, query, lengths, width, first):
        assert self.radius < 5
        return View(self.inside(query[..., :1] * 0, width))
"""


def test_check_runs_the_contract_of_every_kind_that_a_plug_in_registers(work):
    (work / "parts.py").write_text(PARTS)
    plugin = ["--plugin", "parts.py"]
    found = rows(succeed("check", *plugin))
    assert {(row["kind"], row["name"]) for row in found} == {("task", "echo"), ("cell", "echo"), ("window", "first")}
    assert {row["result"] for row in found} == {"passed"}
    assert {row["kind"] for row in rows(succeed("check", *plugin, "cell/echo"))} == {"cell"}
    assert {row["kind"] for row in rows(succeed("check", *plugin, "--kind", "task", "echo"))} == {"task"}
    done = seq2attn("check", *plugin, "echo")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: 'echo' is the name of more than one part\nSay which: task/echo or cell/echo.\n"
    done = seq2attn("check", *plugin, "first", "--option", "radius=5")
    assert (done.code, "`help(seq2attn.model.windows.Window)` says what" in done.err) == (1, True)
    assert "Traceback" not in done.err
    succeed("check", "reverse", "--option", "max_length=3")


# ---- a user's own score ----


def test_a_plugin_score_works_from_training_to_prediction(work):
    (work / "mine.py").write_text(SCORE)
    mine = ["--plugin", "mine.py"]
    assert {row["result"] for row in rows(succeed("check", *mine))} == {"passed"}
    assert ("negative_distance", "-|s - h|^2") in [
        (row["name"], row["formula"]) for row in rows(succeed("list", *mine))
    ]
    (work / "mine.yaml").write_text(TINY + "seed: 3\n")
    done = seq2attn("train", "-c", "mine.yaml", "--set", "model.attention.score=negative_distance", *mine)
    run = "mine-score_negative_distance-001"
    assert (done.code, done.out) == (0, f"runs/{run}\n")
    assert done.err.splitlines()[-1] == f"Next: seq2attn eval {run} --plugin mine.py"
    found = [row["value"] for row in rows(succeed("eval", run, *mine)) if row["metric"] == "exact_match"]
    assert found == ["1.000000", "1.000000"]
    assert succeed("predict", "ab", "--run", run, *mine) == "ba\n"
    assert "negative_distance" in succeed("inspect", run, *mine)
    assert "mine.py" in json.loads((work / "runs" / run / "environment.json").read_text())["plugins"][0]
    assert rows(succeed("runs"))[0]["score"] == "negative_distance"


@pytest.mark.parametrize(
    "command",
    [["eval", "mine"], ["predict", "ab", "--run", "mine"], ["train", "--resume", "mine"], ["inspect", "mine"]],
)
def test_a_run_without_its_plugin_names_the_plugin(work, command):
    shutil.copytree(work / "runs" / "tiny-001", work / "runs" / "mine")
    config = work / "runs" / "mine" / "config.yaml"
    config.write_text(config.read_text().replace("score: scaled", "score: negative_distance"))
    (work / "runs" / "mine" / "environment.json").write_text('{"plugins": ["a/mine.py"]}')
    done = seq2attn(*command)
    assert (done.code, done.out) == (2, "")
    assert "unknown score 'negative_distance'" in done.err
    assert "made with --plugin a/mine.py" in done.err


# ---- the program itself ----


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "seq2attn", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == f"seq2attn {__version__}\n"


@pytest.mark.parametrize(("encoding", "written"), [("ascii", r'"\u00e4"'), ("utf-8", '"ä"')])
def test_json_is_valid_in_any_encoding(monkeypatch, encoding, written):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", file)
    prepare_streams()
    write_json("ä")
    file.flush()
    assert file.buffer.getvalue().decode(encoding) == f"{written}\n"


@pytest.mark.parametrize(
    "command", [[], ["train"], ["eval"], ["predict"], ["runs"], ["inspect"], ["list"], ["check"], ["report"]]
)
def test_every_command_has_help(command):
    assert "Usage: seq2attn" in succeed(*command, "--help")
    assert succeed(*command, "-h") == succeed(*command, "--help")


def complete(words, position):
    environment = {
        **os.environ,
        "_SEQ2ATTN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(position),
    }
    done = subprocess.run([CONSOLE_SCRIPT], env=environment, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split()


def test_shell_completion_is_available():
    environment = {**os.environ, "_SEQ2ATTN_COMPLETE": "source_bash"}
    done = subprocess.run([CONSOLE_SCRIPT], env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert "complete -o default -F" in done.stdout
    assert "_SEQ2ATTN_COMPLETE=complete_bash" in done.stdout
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, timeout=300, check=False).returncode == 0


def test_commands_and_runs_are_completed():
    assert complete("seq2attn pre", 1) == ["predict"]
    assert complete("seq2attn eval tin", 2) == ["tiny-001"]


@pytest.mark.parametrize(
    "path",
    sorted(set(CONFIGS.rglob("*.yaml")) - set(CONFIGS.glob("experiments/*"))),
    ids=lambda path: str(path.relative_to(CONFIGS)),
)
def test_every_shipped_config_loads(path):
    assert isinstance(load_config(path), Config)


def test_the_first_command_s_config_is_shipped():
    assert (CONFIGS / "scaled.yaml").is_file()
