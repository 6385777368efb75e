"""Hand-ins are examined each in a process of its own, whatever they do."""

import json

import pytest
from hostile import HOSTILE, RIGHT, hand_in
from inline import read, write
from tables import table

from seq2attn.doctor import processes

QUICK = "exits asks leaves orphan prints greedy softmax unspeakable".split()
QUICK += ["own_helper", "judges", "blinded", "forges"]


def graded(cli, folder, names, rights, timeout=20):
    """The exit code, and the result of each hand-in: nothing of theirs is printed."""
    hand_in(folder / "handed-in", names, rights)
    words = f"check --attention handed-in/*/mine.py:scaled --timeout {timeout} --json"
    done = cli(words)
    assert "shouted" not in done.out + done.err
    assert "xxxxx" not in done.out + done.err
    results = {}
    for row in json.loads(done.out):
        findings = (row["report"] or {"findings": []})["findings"]
        faults = [f"{one['code']}: {one['text']}" for one in findings if one["level"] == "fault"]
        result = f"{row['status']}: {row['text']}" if row["report"] is None else "passed"
        results[row["place"].split("/")[1]] = faults[0] if faults else result
    assert len(results) == len([*names, *rights])
    return done.code, results


def check_rows(results, names):
    for name in names:
        assert results[name].startswith(HOSTILE[name][1]), (name, results[name])
    rights = {name: result for name, result in results.items() if name.startswith("right_")}
    assert {*rights.values()} == {"passed"}, rights


def test_a_hand_in_harms_no_other(cli, tmp_path):
    code, results = graded(cli, tmp_path, QUICK, ["first", "next"])
    check_rows(results, QUICK)
    assert code == 1


def test_one_file_goes_the_same_way(cli, tmp_path):
    hand_in(tmp_path, ["prints", "leaves"])
    done = cli("check --attention prints/mine.py:scaled --json --verbose")
    (row,) = done.json
    assert row["status"] == "examined"
    assert row["printed"].startswith('[{"attention": "prints.py:scaled"')
    done = cli("check --attention leaves/mine.py:scaled")
    assert "leaves/mine.py:scaled: silent: its process ended with exit code 0" in done.refusal
    cell = {"cell_type": "code", "source": ["import torch\n", "def scaled(:\n"]}
    write("notes.ipynb", json.dumps({"cells": [cell]}))
    done = cli("check --attention notes.ipynb:scaled")
    assert "error: cell 1 line 2: SyntaxError" in done.refusal
    done = cli("check --attention leaves/m*.py:scaled --json")
    assert (done.code, json.loads(done.out)[0]["status"]) == (2, "silent")


COSINE = """
def cosine(query, keys, valid):
    norms = query.norm(dim=1, keepdim=True) * keys.norm(dim=2)
    scores = (keys @ query.unsqueeze(2)).squeeze(2) / norms
    scores.masked_fill(valid, -torch.inf)
    weights = scores.softmax(dim=1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights
"""


PROJECT = {
    "decoder-1.0/code/models/decoder.py": "from .layers import attend",
    "decoder-1.0/code/models/layers.py": "from ..products import times\nfrom share import softmax\n"
    "def attend(query, keys): return times(softmax(times(query, keys.mT)), keys)",
    "decoder-1.0/code/products.py": "def times(left, right): return left @ right",
    "share.py": "def softmax(scores): return scores.softmax(-1)",
    "named/__init__.py": "",
    "named/scores.py": "def dot(query, keys): return query @ keys.mT / 4.0",
    "named/named.py": "from named.scores import dot\n"
    "def attend(query, keys): return dot(query, keys).softmax(-1) @ keys",
}


@pytest.mark.parametrize("file", ["decoder-1.0/code/models/decoder.py", "named/named.py"])
def test_a_file_of_a_project_may_import_its_neighbours(cli, tmp_path, file):
    for name, text in PROJECT.items():
        write(tmp_path / name, text)
    done = cli(f"check --attention {file}:attend --json")
    assert done.json[0]["status"] == "examined", done.json


SIZED = """
import torch
class Attention(torch.nn.Module):
    def __init__(self, a, b, kind):
        super().__init__()
        assert kind == "dot", kind
        self.layer = torch.nn.Linear(a, b)

    def forward(self, query, keys):
        return (self.layer(query) @ keys.mT / 4.0).softmax(-1) @ keys
"""


def test_sizes_and_widths_are_given(cli):
    write("sized.py", SIZED)
    sizes = "--sizes 16,24,dot --widths 16,24 --jobs 1"
    done = cli(f"check --attention sized.py:Attention {sizes} --json").check()
    assert done.json[0]["report"]["adapter"].startswith("attention = Attention(16, 24, 'dot')")


GRADES = """\
file points scaled cosine
handed-in/anna.py 2 passed passed
handed-in/ben/ben.py 0 wrong-score mask-ignored
handed-in/carl.ipynb 2 passed passed
handed-in/carl.py 2 passed passed
"""


def test_a_class_is_graded_in_one_table(cli, tmp_path):
    folder = tmp_path / "handed-in"
    right = RIGHT + COSINE.replace("    scores.masked_fill(", "    scores = scores.masked_fill(~")
    write(folder / "anna.py", right)
    write(folder / "ben" / "ben.py", RIGHT.replace("query.shape[1] ** 0.5", "4.0") + COSINE)
    cells = [{"cell_type": "markdown", "source": "# me"}]
    for text in (
        "%%bash\necho a b",
        "%%time\n%matplotlib inline\nimport torch\nHALF: float = 0.5",
        'try:\n    import nowhere\nexcept ImportError:\n    ONE = int("""\\\n%d""" % 1)',
        "1 / 0\nprint(open('/nowhere'))",
        right.replace("** 0.5", "** HALF ** ONE"),
    ):
        cells.append({"cell_type": "code", "source": text.splitlines(keepends=True)})
    write(folder / "carl.ipynb", json.dumps({"cells": cells}))
    write(folder / "carl.py", "print('mine')\n" + right)
    write(folder / "note.txt", "what I did")
    expect = ["--expect", "scaled=scaled", "--expect", "cosine=dot(s, h) / (norm(s) * norm(h))"]
    words = ["check", "--attention", "handed-in:scaled,cosine", "--feedback", "texts", *expect]
    graded = cli("", *words)
    assert (graded.code, graded.out.replace("\t", " ")) == (1, GRADES)
    assert "left out, as neither .py nor .ipynb: handed-in/note.txt" in graded.err
    texts = tmp_path / "texts"
    written = {f"{path.relative_to(texts)}" for path in texts.rglob("*.txt")}
    assert written == {"anna.py.txt", "ben/ben.py.txt", "carl.ipynb.txt", "carl.py.txt"}
    text = read(texts / "ben" / "ben.py.txt")
    assert "it is 1.732 times the expected score" in text
    better = "scores = scores.masked_fill(~valid, -torch.inf)"
    assert f"line 12: write {better}; there is scores.masked_fill" in text
    assert text.count("It was called as follows.") == 2
    text = read(texts / "anna.py.txt")
    first = "handed-in/anna.py: 2 of 2 points\n\nscaled: passed\ncare: empty-row: "
    assert text.startswith(first)
    done = cli("check --attention handed-in/carl.py:scaled --verbose --json").check()
    assert (done.json[0]["printed"], done.json[0]["passed"]) == ("mine\n", True)


@pytest.mark.parametrize(
    "asked",
    [
        "--attention mine.py:scaled --attention yours.py:cosine --attention mine.py:scaled",
        "--attention mine.py:scaled yours.py:cosine",
    ],
)
def test_several_attentions_are_all_examined(cli, asked):
    write("mine.py", RIGHT)
    write("yours.py", RIGHT + COSINE)  # of which the mask has no effect
    done = cli(f"check {asked}")
    rows = ["file points scaled cosine", "mine.py 1 passed ", "yours.py 0  mask-ignored"]
    assert (done.code, done.out.replace("\t", " ").splitlines()) == (1, rows)
    done = cli(f"check {asked} nonsense")
    assert done.code == 2
    assert "--attention nonsense: which attention of the file?" in done.err


def test_a_line_of_another_attention_is_no_hint(cli):
    write("mine.py", RIGHT.replace(".masked_fill(~valid, -torch.inf)", "") + COSINE)
    found = json.loads(cli("check --attention mine.py:scaled,cosine --json").out)
    lines = {row["place"]: row["report"]["findings"][0]["lines"] for row in found}
    assert lines["mine.py:scaled"] == []
    assert len(lines["mine.py:cosine"]) == 1


@pytest.mark.slow
@table(
    "method",
    """
forkserver
spawn
""",
)
def test_hand_ins_of_a_class(cli, tmp_path, monkeypatch, method):
    monkeypatch.setattr(processes.examine_places, "__kwdefaults__", {"method": method})
    code, results = graded(cli, tmp_path, HOSTILE, HOSTILE, timeout=10)
    check_rows(results, HOSTILE)
    assert code == 1
