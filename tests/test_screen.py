"""What a stranger's text can do to a terminal: nothing. Through every way to print, and from every
command.
"""

import contextlib
import json
import os
import pty
import random
import re
import shutil
import sys
import termios
import threading
import traceback

import pytest
from inline import Terminal, call_main, change_json, exit_code, read_json, write
from rich.text import Text
from tables import slow

from seq2attn.display import console
from seq2attn.display.console import Bars, Display
from seq2attn.display.table import Column, Table

CONTROLS = "\x00-\t\x0b-\x1f\x7f-\x9f"  # all but the line feed
DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
KINDS = f"[{CONTROLS}{DIRECTIONS}\u2028\u2029\ud800-\udfff]"
RAW = re.findall(KINDS, "".join(map(chr, range(0x10000))))
# colours, and the cursor of bars: all that may be raw
RICH = r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|1A)|[\r\n]"
FORGED = "\x1b[31;5mred\x1b[2K\x1b[1A\r\x1b]0;pwn\x07\x9b2J\x7f\u202e\u2066\u061c\u2028"
ORDINARY = (
    "مبشرשָׁלַחְתֶּe\u0301\u0302日本語\u3000文नि\u200dह\u200cन👩\u200d👧🏴\U000e0067\U000e007f❤\ufe0f\\"
)


def printed_everywhere(text, monkeypatch):
    """What a terminal gets when each of our ways to print shows the text."""
    out = Terminal()
    err = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", console.Screen(out))
    monkeypatch.setattr("sys.stderr", console.Screen(err))
    print(text, text, file=sys.stdout)
    sys.stderr.writelines([text])
    traceback.print_exception(ValueError(text))
    print(text)
    console.write_json({text: [text]})
    console.say(text)
    console.stdout().print(Text(text), text)
    Display(console.stderr()).say(text)
    (
        table := Table(
            [Column(text), Column("n", right=True)], [(text, 1), ([text], 2)], text, [text]
        )
    ).show()
    with Bars(console.stderr()) as bars:
        bars.begin(text, 3, text)
        bars.step(text, 1, text)
        bars.end(text, text)
    return out.getvalue() + err.getvalue() + str(table)


def raw_in(text):
    return re.findall(KINDS, re.sub(RICH, "", text))


def test_hostile_text_is_escaped_everywhere_and_ordinary_text_nowhere(monkeypatch):
    assert console.printable(ORDINARY) == ORDINARY
    assert printed_everywhere(ORDINARY, monkeypatch).count(ORDINARY) >= 10
    draw = random.Random(28)
    texts = [
        "".join(one + draw.choice("a[0;m") for one in RAW[first : first + 4])
        for first in range(0, len(RAW), 4)
    ]
    assert not raw_in(printed_everywhere(" ".join(texts[:100]), monkeypatch))
    for text in texts:
        assert not re.findall(KINDS, console.printable(text))
        _, field = Table([Column("a")], [(text,)]).tsv()
        for escaped in (console.json_text(text, ensure_ascii=False), f'"{field}"'):
            assert json.loads(escaped) == text
            assert not raw_in(escaped)


SYMBOLS = "ab\x1b]0\x07\x9b\x7f\u202e\u2066"
PLUGIN = (
    f"import seq2attn\nprint({FORGED!r})\nclass Own(seq2attn.Score):\n    '.'\n    "
    f"def forward(self, *_): ...\n"
)
SMALL = """
--set=training.warmup=0 --set=training.validation_samples=1 --set=model.hidden=4
--set=training.batch_size=2 --runs-dir=runs
""".split()
STRINGS = [
    "--name=h",
    "--config=scaled",
    "--set=training.steps=1",
    f"--set=task.alphabet={json.dumps(SYMBOLS)}",
]
PAIRS = ["--name=p", "--config=pairs/small", "--set=training.epochs=1"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with plug-ins, and with runs whose strings, pairs, records and names hold what could
    control a terminal.
    """
    folder = tmp_path_factory.mktemp("hostile")
    with contextlib.chdir(folder):
        write(folder / "pairs.tsv", "".join(f"a{symbol}\t{symbol}b\n" for symbol in SYMBOLS))
        pairs = [f"--set=task.{part}={folder / 'pairs.tsv'}" for part in ("train", "dev")]
        assert [
            call_main("train", *chosen, *SMALL).code for chosen in (STRINGS, PAIRS + pairs)
        ] == [0, 0]
    for path in (folder / "runs/h/status.json", folder / "runs/h/environment.json"):
        values = read_json(path)
        texts = {
            name: FORGED
            for name in "state task score device platform commit".split()
            if name in values
        }
        change_json(path, **texts, experiment=FORGED, plugins=[FORGED], command=[FORGED])
    shutil.copytree(folder / "runs/p", folder / f"runs/x{FORGED}")
    write(folder / f"own{FORGED}.py", f"{PLUGIN}seq2attn.register({FORGED!r})(Own)\n")
    write(folder / "broken.py", f"{PLUGIN}raise ValueError({FORGED!r})\n")
    write(folder / f"{FORGED}.yaml", json.dumps({FORGED: FORGED, "task": {"name": FORGED}}))
    return folder


# a word after @ stands for a text
COMMANDS = """
predict @SYMBOLS -r h --map digits
predict @SYMBOLS -r h --n-best 2 --map none
predict @SYMBOLS a -r h --json
predict a\x1b -r p
predict c@FORGED -r h
runs
runs --json
inspect h
inspect p
inspect h --json
eval h --samples 1 --lengths 3
eval h --samples 1 --families unary --lengths 2 --json
eval p --data pairs.tsv
eval p --data @FORGED
eval @FORGED
eval h --lengths @FORGED
list --plugin own@FORGED.py
list @FORGED
check score/@FORGED --plugin own@FORGED.py
check --plugin broken.py
inspect @FORGED.yaml
train -c @FORGED
train -c scaled --set @FORGED=1
train -c scaled --set task.alphabet=\x1b\x1b
train --resume @FORGED
train --resume h --set training.steps=2
compare @FORGED.yaml
compare -c scaled --vary @FORGED=@FORGED
train -c runs/h/config.yaml --name t
report @FORGED
page h --to @FORGED
export h --to runs
plot attention h --string @FORGED --plot a.png
plot accuracy h p --plot @FORGED.png
analyze ledger --scores @FORGED
plot accuracy x@FORGED --plot a.png
analyze ledger
@FORGED
runs @FORGED
""".strip().split("\n")
LONGER = ["compare -c runs/h/config.yaml --vary seed=1"]
LONGER += ["report h p", "page h --to a.html", "page p --to b.html", "export h"]


@pytest.mark.parametrize("command", [*COMMANDS, *map(slow, LONGER)])
def test_nothing_raw_comes_from_any_command(hostile, monkeypatch, own_scores, trials_here, command):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("TERM", "xterm-256color")
    arguments = [
        word.replace("@FORGED", FORGED).replace("@SYMBOLS", SYMBOLS) for word in command.split(" ")
    ]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 80))
    reader = threading.Thread(target=lambda: chunks.extend(read_all(ours)))
    chunks = []
    reader.start()
    with open(theirs, "w", encoding="utf-8") as screen:
        code = exit_code(["", *arguments], "", screen, screen)
    reader.join()
    os.close(ours)
    text = b"".join(chunks).decode()
    assert text
    assert not raw_in(text)
    assert "\x1b[31;5m" not in text
    assert code in (0, 1, 2)
    assert "Traceback" not in text


def read_all(descriptor):
    """What a terminal gets until its last writer is gone."""
    with contextlib.suppress(OSError):
        while chunk := os.read(descriptor, 65536):
            yield chunk
