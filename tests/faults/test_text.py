"""Whatever text comes in, and whatever console it goes out to."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from seq2attn.parts import LONGEST
from seq2attn.runs.run import Run

ROOT = Path(__file__).parent.parent.parent


def seq2attn(folder, *arguments, stdin=b"", limit=None, **environment):
    """The command as a process of its own -> exit status, standard output and error as bytes."""

    def bound():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    steering = ("PYTHONIOENCODING", "PYTHONUTF8", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "SEQ2ATTN_RUNS")
    kept = {name: value for name, value in os.environ.items() if name not in steering}
    done = subprocess.run(
        [sys.executable, "-m", "seq2attn", *arguments],
        cwd=folder,
        input=stdin,
        env={**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        preexec_fn=bound if limit else None,
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


# ---- strings ----

UNSEEN = "has characters the model never saw"
TEXTS = [
    ("", "the string is empty"),
    ("\0", UNSEEN),
    ("é", UNSEEN),
    ("e\u0301", UNSEEN),
    ("\U0001f469\u200d\U0001f680", UNSEEN),
    ("\u202eabc", UNSEEN),
    ("\udcff", UNSEEN),
    ("\U0010ffff", UNSEEN),
    ("\x1b[31mabc", UNSEEN),
    ("a\nb", UNSEEN),
    ("a" * 10**6, "a string of 1,000,000 characters is too long; at most 100,000 are allowed"),
    ("é" * 10**5, UNSEEN),
]


@pytest.mark.parametrize(("text", "words"), TEXTS, ids=range(len(TEXTS)))
def test_an_invalid_string_is_refused(run_copy, cli, text, words):
    done = cli("predict", "ab", text)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "\x1b" not in done.err
    assert len(done.err) < 400


def test_any_unicode_string_is_answered_or_refused(run_copy, cli):
    choose = random.Random(5)
    for _ in range(40):
        pool = choose.choice(["abc", "abc\0\n\r", [chr(choose.randrange(0x110000)) for _ in range(5)]])
        done = cli("predict", "--", "".join(choose.choices(pool, k=choose.randrange(8))))
        assert done.code in (0, 2)
        assert (done.code == 2) == ("error: " in done.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stdin", "status", "words"),
    [
        (b"ab\ncba\r\nb", 0, b""),
        (b"", 0, b""),
        (b"ab\n\nab\n", 2, b"line 2 of standard input is empty"),
        (b"ab\n\xff\n", 2, b""),  # no text, or a character that was never seen: as the locale has it
        (b"a\0b\n", 2, UNSEEN.encode()),
        (b"a" * (LONGEST + 1), 2, b"line 1 of standard input is longer than 100,000 characters"),
    ],
    ids=range(6),
)
def test_standard_input(run_copy, work, stdin, status, words):
    code, out, err = seq2attn(work, "predict", "-", "--run", "tiny", stdin=stdin)
    assert code == status, err
    assert words in err
    assert status or len(out.splitlines()) == len(stdin.splitlines())


@pytest.mark.slow
def test_a_closed_standard_input(run_copy, work):
    script = f"{sys.executable} -m seq2attn predict - --run tiny <&-"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: standard input is closed\nGive the strings as arguments, or one per line.\n"


@pytest.mark.slow
def test_an_endless_line_needs_bounded_memory(run_copy, work):
    script = f"yes a | tr -d '\\n' | {sys.executable} -m seq2attn predict - --run tiny"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", f"ulimit -d 4000000; {script}; exit ${{PIPESTATUS[2]}}"],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: line 1 of standard input is longer than 100,000 characters\n"


def test_long_strings_are_predicted_without_weights(run_copy, cli):
    done = cli("predict", "ab" * 600, "ab", "--json")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert '"weights"' not in first
    assert '"weights"' in second


# ---- consoles ----

CONSOLES = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "cp1252"},
    {"NO_COLOR": "1"},
    {"TERM": "dumb"},
    {"COLUMNS": "40"},
    {"COLUMNS": "1"},
]
COMMANDS = [
    ("list",),
    ("runs",),
    ("eval", "tiny", "--samples", "1"),
    ("predict", "ä本a"),
    ("inspect", "tiny"),
    ("train", "-h"),
]


@pytest.fixture
def umlauts(run_copy):
    """A run whose alphabet no legacy console can write."""
    text = run_copy.config_file.read_text()
    assert "alphabet: abc" in text
    run_copy.config_file.write_text(text.replace("alphabet: abc", 'alphabet: "ä本a"'))
    return Run(run_copy.path)


@pytest.mark.slow
@pytest.mark.parametrize("console", CONSOLES, ids=str)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_legacy_console(server, umlauts, work, console, command):
    for extra in ({}, {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}):
        server.start(work, *command, environment={**console, **extra})
        assert server.wait() == 0, (work / "err").read_text()
        (work / "out").read_bytes().decode(console.get("PYTHONIOENCODING", "utf-8"))


@pytest.mark.slow
def test_an_ascii_locale(umlauts, work):
    code, out, err = seq2attn(work, "predict", "ä本a", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (code, out) == (2, b"")  # there the bytes of an argument are no letters
    assert UNSEEN in err.decode("ascii")
    assert seq2attn(work, "predict", "a", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")[0] == 0


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_legacy_encoding(server, umlauts, work, encoding):
    server.start(work, "predict", "ä本a", environment={"PYTHONIOENCODING": encoding})
    assert server.wait() == 0
    (work / "out").read_bytes().decode(encoding)


@pytest.mark.parametrize("columns", [1, 40])
@pytest.mark.parametrize("name", ["xterm-256color", "dumb"])
def test_a_narrow_terminal(server, run_copy, work, columns, name, monkeypatch):
    import pty
    import termios

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
