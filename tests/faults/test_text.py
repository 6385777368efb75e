"""Whatever text comes in, and whatever console it goes out to."""

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from seq2attn.parts import LONGEST
from seq2attn.runs.run import Run

ROOT = Path(__file__).parent.parent.parent
UNSEEN = "has characters the model never saw"
TEXTS = [
    ("", "the string is empty"),
    ("\0", UNSEEN),
    ("é", UNSEEN),
    ("e\u0301", UNSEEN),
    ("\U0001f469\u200d\U0001f680", UNSEEN),
    ("\u202eabc", UNSEEN),
    ("\udcff", UNSEEN),
    ("\x1b[31mabc", UNSEEN),
    ("a\nb", UNSEEN),
    ("a" * 10**6, "the string is longer than 100,000 characters"),
    ("é" * 10**5, UNSEEN),
]


@pytest.mark.parametrize(("text", "words"), TEXTS, ids=range(len(TEXTS)))
def test_an_invalid_string_is_refused(run_copy, cli, text, words):
    done = cli("predict", "ab", text)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "\x1b" not in done.err
    assert len(done.err) < 400


def test_long_strings_are_predicted_without_weights(run_copy, cli):
    done = cli("predict", "ab" * 600, "ab", "--json")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert '"weights"' not in first and '"weights"' in second


def shell(folder, script, **options):
    """A line of bash in which $SEQ2ATTN is the command -> its exit code, standard output and error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SEQ2ATTN": f"{sys.executable} -m seq2attn"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, check=False, **options
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stdin", "status", "words"),
    [
        (b"ab\ncba\r\nb", 0, b""),
        (b"", 0, b""),
        (b"ab\n\nab\n", 2, b"line 2 of standard input: the string is empty"),
        (b"ab\n\xff\n", 2, b""),  # no text, or a character that was never seen: as the locale has it
        (b"a\0b\n", 2, UNSEEN.encode()),
        (b"a" * (LONGEST + 1), 2, b"line 1 of standard input: the string is longer than 100,000 characters"),
    ],
    ids=range(6),
)
def test_standard_input(run_copy, work, stdin, status, words):
    code, out, err = shell(work, "$SEQ2ATTN predict - --run tiny", input=stdin)
    assert code == status, err
    assert words in err
    assert status or len(out.splitlines()) == len(stdin.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("$SEQ2ATTN predict - --run tiny <&-", b"standard input is closed\nGive the strings as arguments, "),
        (
            "ulimit -d 4000000; yes a | tr -d '\\n' | $SEQ2ATTN predict - --run tiny; exit ${PIPESTATUS[2]}",
            b"line 1 of standard input: the string is longer than 100,000 characters\n",
        ),
    ],
)
def test_standard_input_that_is_closed_or_endless(run_copy, work, script, message):
    code, _, err = shell(work, script)
    assert code == 2
    assert err.startswith(b"error: " + message)


# ---- consoles ----


@pytest.fixture
def umlauts(run_copy):
    """A run whose alphabet no legacy console can write."""
    text = run_copy.config_file.read_text()
    assert "alphabet: abc" in text
    run_copy.config_file.write_text(text.replace("alphabet: abc", 'alphabet: "ä本a"'))
    return Run(run_copy.path)


CONSOLES = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "cp1252", "COLUMNS": "40"},
    {"NO_COLOR": "1", "FORCE_COLOR": "1"},
    {"TERM": "dumb", "COLUMNS": "1"},
]
COMMANDS = ["list", "runs", "eval tiny --samples 1", "predict ä本a", "inspect tiny", "train -h"]


@pytest.mark.parametrize("console", CONSOLES, ids=str)
@pytest.mark.parametrize(
    "command", [word if "predict" in word else pytest.param(word, marks=pytest.mark.slow) for word in COMMANDS]
)
def test_a_legacy_console(server, umlauts, work, console, command):
    server.start(work, *command.split(), environment=console)
    assert server.wait() == 0, (work / "err").read_text()
    (work / "out").read_bytes().decode(console.get("PYTHONIOENCODING", "utf-8"))


@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("name", ["xterm-256color", "dumb"])
def test_a_narrow_terminal(server, run_copy, work, columns, name):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    server.start(work, "predict", "ab", "--run", "tiny", terminal=os.ttyname(theirs), environment={"TERM": name})
    status = server.wait()
    text = os.read(ours, 100_000).decode()
    os.close(theirs)
    os.close(ours)
    assert status == 0, text
    assert "ab -> " in text
    assert ("\x1b[" in text) == (name != "dumb")
