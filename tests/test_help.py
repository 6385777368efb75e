"""`--help` names what a person would write, and the shell completes it."""

import contextlib
import subprocess
import sys

import pytest
import typer

from seq2attn.cli import completion
from seq2attn.cli.app import app, main
from seq2attn.cli.help import label
from seq2attn.parts import SCORES

COMMAND = typer.main.get_command(app)


def commands(group, path=()):
    """Every command below `group`, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(COMMAND))


def completed(monkeypatch, capsys, *words, shell="bash"):
    """What a shell shows for `seq2attn WORDS` with the cursor at the end of the last word."""
    monkeypatch.setenv("_SEQ2ATTN_COMPLETE", f"complete_{shell}")
    if shell == "bash":
        monkeypatch.setenv("COMP_WORDS", "\n".join(["seq2attn", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
    else:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["seq2attn", *words]))
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["seq2attn"])
    with contextlib.suppress(SystemExit):
        main()
    return capsys.readouterr().out.split("\n")[:-1]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_value_has_a_name_of_ours(words):
    for parameter in COMMANDS[words].params:
        name = label(parameter)
        assert (
            getattr(parameter, "is_flag", False)
            or name.strip("|.").isupper()
            or name in ("best|last", "best|last|step-N", "dev|test|train")
        ), parameter
        assert parameter.help


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_no_types_of_python_and_keeps_examples_in_one_piece(cli, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "50")
    done = cli(*words, "--help")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert not any(word in done.out for word in ("<bool>", "<str>", "list[", "INTEGER", "TEXT...}", "[x>="))
    assert lines[0].startswith(f"Usage: seq2attn {' '.join(words)} [OPTIONS]"[:50])
    assert all(len(line) <= 50 for line in lines[1:] if not line.startswith("  seq2attn "))
    examples = [line.strip() for line in COMMANDS[words].help.splitlines() if line.strip().startswith("seq2attn ")]
    assert examples and set(examples) <= {line.strip() for line in lines}


def test_help_of_options_arguments_limits_and_defaults(cli):
    lines = [line.strip() for line in cli("train", "--help").out.splitlines()]
    assert "-c, --config FILE      The YAML config to train." in lines
    assert "--device NAME      auto, cpu, cuda or mps. (default: auto)" in lines
    assert "and batches. (1 to 256)" in lines
    assert cli("predict", "--help").out.startswith("Usage: seq2attn predict [OPTIONS] TEXT...\n")
    assert cli("eval", "--help").out.startswith("Usage: seq2attn eval [OPTIONS] [RUN...]\n")


OFFERED = [
    (["tr"], ["train"]),
    (["list", "w"], ["windows"]),
    (["train", "--set", "model.hid"], ["model.hidden=", "model.hidden=96"]),
    (["train", "--set", "model.attention.score", "=", "sc"], ["scaled", "scaled_general"]),
    (["train", "--set", "model.attention.score", "="], SCORES.names()),
    (["train", "--set", "model.bidirectional", "=", ""], ["true", "false"]),
    (["train", "--set", "model.architecture", "=", "t"], ["transformer"]),
    (["train", "--set", "model.attention.history.fil"], [f"model.attention.history.filters={end}" for end in ("", 8)]),
    (["train", "--set", "seed", "=", "3", "--set", "model.decoder", "=", "l"], ["luong"]),
    (["compare", "--vary", "model.decoder", "=", "bahdanau,"], ["bahdanau,luong"]),
    (["compare", "--metric", "e"], ["exact_match", "entropy"]),
    (["train", "--config", "configs/sca"], ["configs/scaled.yaml"]),
    (["eval", "--lengths", "3", "--checkpoint", ""], ["best", "last"]),
    (["eval", "--lengths", ""], []),
]  # fmt: skip


@pytest.mark.parametrize(("words", "offered"), OFFERED, ids=[" ".join(words) for words, _ in OFFERED])
def test_bash_which_splits_words_at_equals_signs_is_offered(monkeypatch, capsys, tmp_path, words, offered):
    monkeypatch.chdir(tmp_path)
    assert completed(monkeypatch, capsys, *words) == offered


def test_other_shells_are_offered_whole_words(monkeypatch, capsys):
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    found = completed(monkeypatch, capsys, "train", "--set", "model.attention.score=sc", shell="fish")
    assert [line.split("\t")[0] for line in found] == [
        "model.attention.score=scaled",
        "model.attention.score=scaled_general",
    ]


def test_files_and_folders_here_are_offered_beside_the_shipped_configs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.yaml").touch()
    (tmp_path / "notes.txt").touch()
    assert completion.configs("") == sorted(["mine/", *completion.configs("configs/")])
    assert "configs/experiments/width.yaml" in completion.configs("configs/e")
    assert completion.configs("mine/") == ["mine/own.yaml"]
    assert completion.configs("missing/") == []


def test_runs_are_offered_from_the_directory_that_is_named(monkeypatch, capsys, tiny_run, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert completed(monkeypatch, capsys, "eval", "--runs-dir", str(tiny_run.runs), "t") == [tiny_run.name]
    assert completed(monkeypatch, capsys, "eval", "t") == []


def test_completion_imports_no_torch():
    code = "import sys; from seq2attn.cli import completion; completion.overrides('model.'); completion.configs('');"
    code += "completion.parts(''); completion.metrics(''); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
