import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seq2attn import __version__
from seq2attn.cli.usage import repeat_flag
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.making import run_name as default_name
from seq2attn.runs.run import check_name

NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a cuda device")


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def mistake(cli, tmp_path):
    """`mistake("eval", "--lengths", "0")` -> the message, after the checks common to all mistakes."""

    def call(*arguments):
        before = contents(tmp_path)
        done = cli(*arguments)
        assert done.code == 2
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert done.err.count("error: ") == 1
        assert "Traceback" not in done.err
        assert contents(tmp_path) == before
        return done.err.removeprefix("error: ").rstrip("\n")

    return call


# ---- configs ----

CONFIGS = [
    ("model: {hiden: 8}", "model.hiden (bad.yaml:1): unknown key; did you mean 'hidden'? allowed here: architecture, "),
    (
        "seed: 1\nmodel:\n  attention: {score: scald}",
        "model.attention.score (bad.yaml:3): unknown score 'scald'; did you mean 'scaled'? allowed: dot, scaled, ",
    ),
    ("model: {hidden: wide}", "model.hidden (bad.yaml:1): expected a whole number, found 'wide'"),
    ("model: {hidden: '64'}", "model.hidden (bad.yaml:1): expected a whole number, found '64'"),
    ("model: {hidden: 0}", "model.hidden (bad.yaml:1): must be at least 1, found 0"),
    ("model: [8]", "model (bad.yaml:1): expected keys and values (a mapping), found a list"),
    (
        "task:\n  min_length: 9\n  max_length: 3",
        "task.min_length (bad.yaml:2): 9 is above task.max_length, 3; swap or change them",
    ),
    (
        "model:\n  hidden: 8\n  bidirectional: true\n  attention:\n    score: dot",
        "model.attention.score (bad.yaml:5): 'dot' needs queries and keys of equal width, but a bidirectional "
        "encoder's keys are 2 x 8 wide and the decoder's queries 8; use general, scaled_general, additive or key_value, "
        "or set model.bidirectional to false",
    ),
]


@pytest.mark.parametrize(("text", "message"), CONFIGS)
def test_invalid_config_values(mistake, text, message):
    Path("bad.yaml").write_text(text)
    first, second, last = mistake("train", "--config", "bad.yaml").split("\n")
    assert first == "bad.yaml: 1 problem"
    assert second.startswith(f"  {message}")
    assert last.startswith("`seq2attn inspect CONFIG` shows every key with its value.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.yaml: empty\nEvery key has a default, so one line is enough: seed: 1"),
        ("- seed: 1", "bad.yaml: expected keys and values (a mapping), found a list"),
        ("model:\n\thidden: 8\n", "bad.yaml:2: a tab in the indentation; YAML requires spaces"),
        ("seed: [1\n", "bad.yaml:1: not YAML: this '[' is not closed"),
        (
            "seed: 1\nmodel: {hidden: 8\ntask: {}\n",
            "bad.yaml:2: not YAML: this '{' is not closed, or a comma is missing, by line 3",
        ),
    ],
)
@pytest.mark.parametrize("command", [("train", "--config"), ("inspect",)])
def test_an_invalid_config_file(mistake, command, text, message):
    Path("bad.yaml").write_text(text)
    assert mistake(*command, "bad.yaml") == message


def test_a_missing_config(mistake):
    Path("scaled.yaml").write_text("seed: 1")
    assert (
        mistake("train", "--config", "scale.yaml")
        == "scale.yaml: no such file\nDid you mean scaled.yaml? There are: scaled.yaml"
    )
    assert (
        mistake("inspect", "scale.yaml") == "scale.yaml: no such file\nDid you mean scaled.yaml? There are: scaled.yaml"
    )


def test_problems_of_file_and_overrides_are_reported_together(mistake):
    Path("bad.yaml").write_text("model: {hiden: 8}\n")
    message = mistake("train", "-c", "bad.yaml", "--set", "seed=x", "--set", "model.embedding=0", "--set", "steps")
    assert message.split("\n") == [
        "bad.yaml: 4 problems",
        "  expected KEY=VALUE with a dotted key, such as model.hidden=64 (--set 'steps')",
        "  seed (--set 'seed=x'): expected a whole number, found 'x'",
        "  model.embedding (--set 'model.embedding=0'): must be at least 1, found 0",
        "  model.hiden (bad.yaml:1): unknown key; did you mean 'hidden'? allowed here: architecture, attention, "
        "bidirectional, cell, decoder, dropout, embedding, hidden, initial_state, layers, padding_embedding, source_eos",
        "`seq2attn inspect CONFIG` shows every key with its value.",
    ]


def test_control_characters_are_escaped(mistake):
    Path("bad.yaml").write_text('"\\e[31mred": 1\n"[bold]": 2\n')
    message = mistake("train", "-c", "bad.yaml")
    assert "\x1b" not in message
    assert "\\x1b[31mred" in message
    assert "[bold]" in message


# ---- train ----


def good_config():
    Path("good.yaml").write_text("model: {hidden: 8, embedding: 4}\ntraining: {steps: 1}\n")
    return ("train", "--config", "good.yaml")


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "/x", "", "a b", ".hidden", "-x", "x" * 101])
def test_a_run_name_with_a_path(mistake, name):
    message = mistake(*good_config(), f"--name={name}")
    shown = repr(name) if len(name) < 60 else "'xxx"
    assert message.startswith(shown)
    assert message.endswith(
        " is not a valid run name; allowed: letters, digits, '.', '_' and '-', starting with a letter or digit, at most 100"
    )


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("my config.yaml", "my-config"),
        ("../.hidden.yaml", "hidden"),
        ("configs/chapter/dot.yaml", "chapter-dot"),
        ("é.yaml", "run"),
        ("x" * 200, "x" * 80),
    ],
)
def test_run_names_made_from_config_names_are_valid(config, name):
    assert default_name(Path(config)) == name
    check_name(name)


def test_a_run_name_that_is_taken(mistake, runs_copy):
    assert mistake(*good_config(), "--name", "tiny") == (
        "run 'tiny' already exists in runs\nChoose another --name, or continue it: seq2attn train --resume tiny"
    )


def test_both_or_neither_of_config_and_resume(mistake, runs_copy):
    assert mistake("train") == "give either --config FILE or --resume RUN\nSee: seq2attn train --help"
    assert mistake(*good_config(), "--resume", "tiny") == (
        "both --config and --resume are given: one starts a new run, the other continues one\n"
        "Leave one of them out. See: seq2attn train --help"
    )


@pytest.mark.parametrize("extra", [("--set", "seed=2"), ("--name", "other")])
def test_a_resumed_run_cannot_be_changed(mistake, runs_copy, extra):
    assert mistake("train", "--resume", "tiny", *extra) == (
        "--resume continues a run unchanged; --set and --name are for new runs\n"
        "For a new run: seq2attn train --config runs/tiny/config.yaml --set ..."
    )


def test_an_unknown_device(mistake):
    message = mistake(*good_config(), "--device", "gpu")
    assert "unknown device 'gpu'" in message
    assert "allowed: auto, cpu, cuda, mps" in message


@NO_CUDA
@pytest.mark.parametrize("command", [("train", "--config", "good.yaml"), ("eval",), ("predict", "abc")])
def test_an_unavailable_device(mistake, runs_copy, command):
    good_config()
    message = mistake(*command, "--device", "cuda")
    assert message.startswith("device 'cuda' is not available to torch ")
    assert "available: cpu" in message


BROKEN_SCORE = """\
from seq2attn.model.scores import Score, register


@register("mine", formula="?")
class Mine(Score):
    def __init__(self, query_width, key_width):
        raise ValueError("boom")

    def forward(self, query, keys): ...
"""


def test_a_failing_constructor_creates_no_run(mistake, own_scores):
    Path("plugin.py").write_text(BROKEN_SCORE)
    message = mistake(*good_config(), "--plugin", "plugin.py", "--set", "model.attention.score=mine")
    assert message.startswith("score 'mine' cannot be made: Mine(8, 8) raised ValueError: boom\n")


@pytest.mark.parametrize(
    "command", [("train", "-c", "good.yaml"), ("eval",), ("predict", "abc"), ("list",), ("check",)]
)
def test_a_plugin_that_raises(mistake, command):
    good_config()
    Path("plugin.py").write_text("x = 1\n1 / 0\n")
    assert mistake(*command, "--plugin", "plugin.py") == "plugin plugin.py:2: ZeroDivisionError: division by zero"


# ---- eval and predict ----

ALLOWED = "allowed: whole numbers from 1 to 100,000 and ranges of them such as 3-10"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lengths"], "--lengths needs at least one length, such as --lengths 3 5 7 10 or --lengths 3-10"),
        (["--lengths", "--json"], "--lengths needs at least one length, such as "),
        (["--lengths="], f"--lengths: '' is not a length; {ALLOWED}"),
        (["--lengths", "0"], f"--lengths: '0' is out of range; {ALLOWED}"),
        (["--lengths", "-3"], f"--lengths: '-3' is not a length; {ALLOWED}"),
        (["--lengths", "abc"], f"--lengths: 'abc' is not a length; {ALLOWED}"),
        (["--lengths", "3", "100001"], f"--lengths: '100001' is out of range; {ALLOWED}"),
        (["--lengths", "7-3"], "--lengths: '7-3' counts down; write 3-7"),
        (["--lengths", "3", "tiny2"], "no run 'tiny2' in runs; did you mean 'tiny'? existing: tiny"),
    ],
)
def test_wrong_lengths(mistake, runs_copy, words, message):
    assert mistake("eval", *words).startswith(message)


RUN_COMMANDS = [("eval",), ("predict", "abc", "--run"), ("train", "--resume")]


@pytest.mark.parametrize("command", RUN_COMMANDS)
@pytest.mark.parametrize("name", ["../tiny", "../runs/tiny/..", "/tiny", "elsewhere/tiny", "runs/../../tiny"])
def test_a_run_outside_the_runs_directory(mistake, runs_copy, command, name):
    message = mistake(*command, name)
    assert message.startswith((f"{name!r} is not in the runs directory, runs\n", "'..' is not a valid run name; "))


@pytest.mark.parametrize("command", RUN_COMMANDS)
def test_an_unknown_run(mistake, runs_copy, command):
    assert mistake(*command, "tyny") == "no run 'tyny' in runs; did you mean 'tiny'? existing: tiny"


@pytest.mark.parametrize("command", RUN_COMMANDS)
def test_an_unknown_run_in_an_empty_folder(mistake, command):
    assert mistake(*command, "tiny") == (
        "no run 'tiny' in runs: there are no runs yet\nMake one: seq2attn train --config configs/scaled.yaml"
    )


@pytest.mark.parametrize("command", [("eval",), ("predict", "abc")])
def test_no_run_yet(mistake, command):
    assert mistake(*command) == "no run in runs yet\nMake one: seq2attn train --config configs/scaled.yaml"


def test_a_directory_that_is_not_a_run(mistake):
    Path("runs/notes").mkdir(parents=True)
    assert mistake("eval", "notes").startswith("runs/notes is not a run: it has no config.yaml")


@pytest.mark.parametrize("run", [[], ["tiny"]])
def test_a_run_without_a_checkpoint(mistake, runs_copy, run):
    for file in (runs_copy / "tiny" / "checkpoints").iterdir():
        file.unlink()
    message = (
        "run 'tiny' has no checkpoint any more (runs/tiny/checkpoints is empty)\n"
        "Train it again, from the start: seq2attn train --resume tiny"
    )
    assert mistake("eval", *run) == message
    assert mistake("predict", "abc", *(["--run", *run] if run else [])) == message


@pytest.mark.parametrize(
    ("command", "which"), [(("eval",), "best"), (("predict", "abc"), "best"), (("train", "--resume", "tiny"), "last")]
)
def test_a_checkpoint_cut_in_half(mistake, runs_copy, command, which):
    file = runs_copy / "tiny" / "checkpoints" / f"{which}.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    message = mistake(*command)
    other = {"best": "last", "last": "best"}[which]
    assert message.startswith(f"runs/tiny/checkpoints/{which}.safetensors: damaged: ")
    assert message.endswith(f"\nThe run's other checkpoint may be intact: eval and predict take --checkpoint {other}.")


def test_a_checkpoint_of_another_config(mistake, runs_copy):
    config = runs_copy / "tiny" / "config.yaml"
    config.write_text(config.read_text().replace("hidden: 8", "hidden: 9"))
    assert mistake("eval").startswith("runs/tiny/checkpoints/best.safetensors: does not belong to this config: it ")


def test_a_run_with_a_damaged_config(mistake, runs_copy):
    (runs_copy / "tiny" / "config.yaml").write_text("model: {hiden: 8}")
    assert "model.hiden (runs/tiny/config.yaml:1): unknown key" in mistake("predict", "abc")


@pytest.mark.parametrize("command", [("eval",), ("predict", "abc")])
def test_an_unknown_checkpoint(mistake, runs_copy, command):
    assert mistake(*command, "--checkpoint", "newest") == "unknown checkpoint 'newest'; allowed: best, last"


@pytest.mark.parametrize("command", [("eval",), ("predict", "abc")])
@pytest.mark.parametrize("file", ["map.gif", "map", "map.png.txt"])
def test_an_unknown_figure_format(mistake, runs_copy, command, file):
    assert mistake(*command, "--plot", file) == f"{file}: a figure's file name ends with one of .png, .svg, .pdf"


@pytest.mark.parametrize("command", [("eval",), ("predict", "abc")])
def test_a_figure_in_a_missing_directory(mistake, runs_copy, command):
    assert "nowhere" in mistake(*command, "--plot", "nowhere/map.png")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["Hello!"], "'Hello!' has characters the model never saw: '!', 'H'; its alphabet is a-z"),
        (["abc", "héllo"], "'héllo' has characters the model never saw: 'é' (U+00E9); its alphabet is a-z"),
        (["a b"], "'a b' has characters the model never saw: ' '; its alphabet is a-z"),
        ([""], "the string is empty\nGive at least one character."),
        (["abc", ""], "the string is empty\nGive at least one character."),
    ],
)
def test_a_text_that_cannot_be_predicted(mistake, runs_copy, texts, message):
    assert mistake("predict", *texts, "--run", "tiny") == message


def test_unknown_names(mistake):
    assert mistake("list", "score").startswith("unknown kind 'score'; did you mean 'scores'? allowed: scores, tasks, ")
    assert mistake("check", "dto").startswith("unknown part 'dto'; did you mean 'dot'? allowed: dot, ")
    assert mistake("check", "score/dto").startswith("unknown score 'dto'; did you mean 'dot'? allowed: dot, ")
    assert mistake("check", "scor/dot").startswith(
        "scor/dot: unknown kind 'scor'; did you mean 'score'? allowed: score, "
    )
    assert mistake("check", "--kind", "scores").startswith(
        "unknown kind 'scores'; did you mean 'score'? allowed: score, "
    )
    assert mistake("check", "none") == "score and history 'none': there is nothing to check, it leaves the part out"
    assert mistake("inspect", "tiny").startswith("'tiny' is not a config file, and no run 'tiny' in runs: ")


@pytest.mark.parametrize(
    "line",
    ["runs", "eval", "predict ab", "train -c tiny.yaml", "compare -c tiny.yaml --vary seed=1", "report", "inspect x"],
)
def test_a_runs_directory_that_is_a_file(mistake, tmp_path, line):
    (tmp_path / "tiny.yaml").write_text("seed: 1")
    message = mistake(*line.split(), "--runs-dir", "tiny.yaml")
    assert message == "--runs-dir tiny.yaml: not a directory\nName the directory that holds the runs."


def test_an_unknown_score_gives_a_hint_about_plugins(mistake, tmp_path):
    (tmp_path / "tiny.yaml").write_text("seed: 1")
    message = mistake("train", "-c", "tiny.yaml", "--set", "model.attention.score=mine")
    assert message.endswith(" A score of your own needs --plugin FILE.")


# ---- in a subprocess ----


def process(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if name not in ("SEQ2ATTN_RUNS", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "-c", "bad.yaml"], "error: bad.yaml: 1 problem\n  seed (bad.yaml:1): expected a whole number, "),
        (
            ["predict", "Abc"],
            "run: runs/tiny (the newest; choose another with --run RUN)\nerror: 'Abc' has characters the model never saw: ",
        ),
        (["evla"], "error: seq2attn: unknown command 'evla'; did you mean 'eval'? "),
    ],
)
def test_errors_in_a_subprocess(tmp_path, runs_copy, arguments, message):
    (tmp_path / "bad.yaml").write_text("seed: x")
    before = contents(tmp_path)
    done = process(tmp_path, "-m", "seq2attn", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.lstrip().startswith(message)
    assert "Traceback" not in done.stderr
    assert contents(tmp_path) == before


LIGHT = [
    ("--help", 0),
    ("train --help", 0),
    ("list", 0),
    ("runs", 0),
    ("train -c bad.yaml", 2),
    ("inspect bad.yaml", 2),
    ("eval --lengths 0 --plot map.png", 2),
    ("predict abc", 2),
]
WATCH = """\
import sys
from seq2attn.cli import main
for words in sys.argv[1:]:
    sys.argv = ["seq2attn", *words.split()]
    try:
        main()
    except SystemExit as stop:
        heavy = [name for name in ("torch", "numpy", "matplotlib", "tensorboard") if name in sys.modules]
        print("#", words, stop.code, *heavy)
"""


def test_light_commands_do_not_import_torch(tmp_path):
    (tmp_path / "bad.yaml").write_text("seed: x")
    done = process(tmp_path, "-c", WATCH, *(words for words, _ in LIGHT))
    found = [line.removeprefix("# ") for line in done.stdout.splitlines() if line.startswith("# ")]
    assert found == [f"{words} {code}" for words, code in LIGHT]


def test_the_version(cli):
    assert cli("--version") == (0, f"seq2attn {__version__}\n", "")


# ---- `--lengths 3 5 7` ----


@pytest.mark.parametrize(
    ("words", "rewritten"),
    [
        ("--lengths 3 5 7", "--lengths=3 --lengths=5 --lengths=7"),
        ("--lengths 3-10", "--lengths=3-10"),
        ("--lengths 3,5 7", "--lengths=3,5 --lengths=7"),
        ("--lengths 3, 5", "--lengths=3, --lengths=5"),
        ("--lengths 3 --lengths 5 7", "--lengths=3 --lengths=5 --lengths=7"),
        ("--lengths=3 5", "--lengths=3 --lengths=5"),
        ("--lengths=3 --lengths=5", "--lengths=3 --lengths=5"),
        ("--lengths= 5", "--lengths= --lengths=5"),
        ("--lengths 3 5 --json", "--lengths=3 --lengths=5 --json"),
        ("--lengths 3 --samples 50 9", "--lengths=3 --samples 50 9"),
        ("--lengths 3 5 tiny-001", "--lengths=3 --lengths=5 tiny-001"),
        ("tiny-001 --lengths 3 5", "tiny-001 --lengths=3 --lengths=5"),
        ("--lengths 3 5 -- 7", "--lengths=3 --lengths=5 -- 7"),
        ("-- --lengths 3 5", "-- --lengths 3 5"),
        ("--lengths abc 5", "--lengths=abc --lengths=5"),
        ("--lengths -3", "--lengths=-3"),
        ("--lengthy 3 5", "--lengthy 3 5"),
        ("3 5", "3 5"),
        ("", ""),
    ],
)
def test_lengths_takes_several_values(words, rewritten):
    arguments = words.split()
    assert repeat_flag(arguments) == rewritten.split()
    assert arguments == words.split()


@pytest.mark.parametrize("words", ["--lengths", "--lengths --json", "--lengths -- 3", "--lengths 3 --lengths"])
def test_lengths_needs_a_value(words):
    with pytest.raises(Seq2AttnError, match=r"^--lengths needs at least one length"):
        repeat_flag(words.split())


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        ("tiny --lengths 3 1", ["1", "3"]),
        ("--lengths 1-3 tiny", ["1", "2", "3"]),
        ("--lengths 1 --samples 2 --lengths 3 -- tiny", ["1", "3"]),
    ],
)
def test_lengths_reach_the_command(cli, runs_copy, words, lengths):
    done = cli("eval", *words.split())
    assert done.code == 0
    header, *rows = done.out.splitlines()
    assert header.split("\t")[0] == "length"
    assert [row.split("\t")[0] for row in rows] == lengths
