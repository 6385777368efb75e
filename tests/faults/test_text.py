"""Whatever text comes in, and whatever console it goes out to."""

import json
import os
import pty
import termios

import pytest
from tables import slow, table


def test_long_strings_are_predicted_without_weights(run_copy, cli):
    first, second = map(json.loads, cli("predict", "ab" * 600, "ab", "--json").out.splitlines())
    assert "weights" not in first
    assert "weights" in second


COMMANDS = """
list
runs
eval tiny --samples 1
predict ä本a --json
inspect tiny
train -h
""".strip().split("\n")


@table(
    "console",
    """
{PYTHONIOENCODING: ascii}
{PYTHONIOENCODING: cp1252, COLUMNS: "40"}
{NO_COLOR: "1", FORCE_COLOR: "1"}
{TERM: dumb, COLUMNS: "1"}
""",
    "console",
)
@pytest.mark.parametrize(
    "command",
    [word if "predict" in word else slow(word) for word in COMMANDS],
)
def test_a_legacy_console(server, run_copy, work, console, command):
    text = run_copy.config_file.read_text()
    assert "alphabet: abc" in text
    run_copy.config_file.write_text(
        text.replace("alphabet: abc", 'alphabet: "ä本a"')
    )  # which none of them can write
    server.start(work, command, environment=console)
    assert server.wait() == 0, (work / "err").read_text()
    printed = (work / "out").read_bytes().decode(console.get("PYTHONIOENCODING", "utf-8"))
    assert "--json" not in command or json.loads(printed)["source"] == "ä本a"


@table(
    "columns, name",
    """
1 | xterm-256color
40 | dumb
""",
    "columns",
)
def test_a_narrow_terminal(server, run_copy, work, columns, name):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    server.start(
        work,
        "predict ab --run tiny",
        terminal=os.ttyname(theirs),
        environment={"TERM": name},
    )
    status = server.wait()
    text = os.read(ours, 100_000).decode()
    os.close(theirs)
    os.close(ours)
    assert status == 0
    assert "ab -> " in text
    assert ("\x1b[" in text) == (name != "dumb")
