"""Usage errors: one message that names the command, exit code 2."""

import pytest

from seq2attn.cli.help import paragraphs

MISTAKES = [
    (
        "evl",
        "seq2attn: unknown command 'evl'; did you mean 'eval'? allowed: train, eval, predict, compare, runs, inspect, "
        "list, check, report, page, export, analyze, plot",
        "seq2attn",
    ),
    (
        "plot los",
        "seq2attn plot: unknown command 'los'; did you mean 'loss'? allowed: loss, accuracy, ",
        "seq2attn plot",
    ),
    ("eval --samples 0", "--samples: must be at least 1, found '0'", "seq2attn eval"),
    ("eval --seed abc", "--seed: expected a whole number, found 'abc'", "seq2attn eval"),
    ("train --threads 300", "--threads: must be at most 256, found '300'", "seq2attn train"),
    ("compare -w 0", "--workers: must be at least 1, found '0'", "seq2attn compare"),
    ("analyze variance --query-sd -1", "--query-sd: must be at least 0, found '-1'", "seq2attn analyze variance"),
    (
        "eval --smaples 5",
        "seq2attn eval: unknown option '--smaples'; did you mean '--samples'? allowed: --run, --lengths, ",
        "seq2attn eval",
    ),
    ("train -q", "seq2attn train: unknown option '-q'; allowed: --config, --set, ", "seq2attn train"),
    (
        "plot --run X",
        "seq2attn plot: unknown option '--run'; a command comes first: loss, accuracy, attention",
        "seq2attn plot",
    ),
    ("--versio", "seq2attn: unknown option '--versio'; did you mean '--version'? allowed: --version, ", "seq2attn"),
    ("predict", "seq2attn predict: TEXT... is missing: input strings; - reads them from standard ", "seq2attn predict"),
    ("plot loss", "seq2attn plot loss: --plot FILE is missing: the figure: .png, .svg or .pdf", "seq2attn plot loss"),
    ("predict ab --run", "--run needs a value: a run's name. ", "seq2attn predict"),
    ("eval --json=3", "--json takes no value", "seq2attn eval"),
    ("inspect one two", "seq2attn inspect: unexpected argument 'two'; it takes ", "seq2attn inspect"),
    (
        "train a.yaml",
        "seq2attn train: unexpected argument 'a.yaml'; it takes no argument; did you mean --config a.yaml?",
        "seq2attn train",
    ),
]


@pytest.mark.parametrize(("line", "message", "command"), MISTAKES, ids=[line for line, *_ in MISTAKES])
def test_usage_errors(cli, tmp_path, line, message, command):
    done = cli(*line.split())
    assert (done.code, done.out) == (2, "")
    message_line, hint = done.err.splitlines()
    assert message_line.startswith(f"error: {message}")
    assert hint == f"See: {command} --help"
    assert list(tmp_path.iterdir()) == []


def test_help_paragraphs_are_joined_into_lines():
    text = """What it does,
    in two lines.

    exact match: whole
    strings.
    entropy: in nats.

      seq2attn eval

    Errors
    errors: not a list.
    """
    assert "\n\n".join(paragraphs(text)) == (
        "What it does, in two lines.\n\nexact match: whole strings.\nentropy: in nats.\n\n  seq2attn eval\n\n"
        "Errors errors: not a list."
    )


def test_no_command_shows_the_help(cli):
    for words in ((), ("plot",)):
        done = cli(*words)
        assert done.code == 2
        assert "Usage: seq2attn" in done.out
        assert done.err == ""
