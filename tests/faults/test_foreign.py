"""Any value in any field of a run's JSON files, for every command that reads runs: an answer or one sentence."""

import contextlib
import copy
import io
import json
import random
import shutil
from pathlib import Path
from unittest import mock

import pytest
from inline import Inline

from seq2attn.cli import main
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.evaluations import newest_evaluation
from seq2attn.runs.records import read_attention, read_metrics
from seq2attn.runs.run import Run

KINDS = {  # as JSON, or what Python reads as JSON
    "null": "null",
    "true": "true",
    "text": '"x"',
    "empty text": '""',
    "markup": '"<b>$&{{title}}"',
    "escapes": '"\\u001b[31m\\u0000\\n"',
    "lone surrogate": '"\\ud800"',
    "long text": f'"{"x" * 20_000}"',
    "list": "[]",
    "list of lists": "[[1]]",
    "mapping": "{}",
    "mapping of mappings": '{"name": {"name": NaN}}',
    "NaN": "NaN",
    "infinity": "-Infinity",
    "1e999": "1e999",
    "1e308": "1e308",
    "below zero": "-1",
    "a fraction": "1.5",
    "2^63": str(2**63),
    "400 digits": str(10**400),
    "5,000 digits": "9" * 5_000,
    "deep": "[" * 3_000 + "]" * 3_000,
}
MISSING = "missing"
TINY = """\
model: {hidden: 8, embedding: 4}
task: {min_length: 1, max_length: 3}
training: {steps: 2, batch_size: 4, validation_samples: 2}
evaluation: {samples: 2}
"""
RECORDS = ("status.json", "environment.json", "metrics.jsonl", "attention.jsonl", "evaluations/best-001.json")
COMMANDS = [
    "runs",
    "runs --json",
    "report RUN --to x.html",
    "report e --to x.html",
    "plot loss RUN --plot x.svg",
    "plot accuracy RUN --plot x.svg",
    "plot accuracy RUN --by-length --plot x.svg",
    "plot attention RUN --plot x.svg",
    "plot attention RUN --ideal --plot x.gif",
    "eval RUN --samples 1 --lengths 1 --json",
    "predict ab --json",
    "inspect RUN --json",
    "compare -c tiny.yaml --vary seed=1 --name e --json",
    "train --resume RUN",
]


def call_main(words):
    """`seq2attn WORDS` in this process -> its exit code."""
    with mock.patch("sys.argv", ["seq2attn", *words]):
        try:
            main()
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


@pytest.fixture(autouse=True)
def in_this_process():
    with mock.patch("seq2attn.comparison.run.process_pool", return_value=Inline()):
        yield


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A directory with tiny.yaml and one run, a trial of the comparison `e`, which is trained and measured."""
    folder = tmp_path_factory.mktemp("trial")
    (folder / "tiny.yaml").write_text(TINY)
    with contextlib.chdir(folder), mock.patch("seq2attn.comparison.run.process_pool", return_value=Inline()):
        assert call_main(COMMANDS[12].split()) == 0
    return folder


@pytest.fixture
def work(trial, tmp_path, monkeypatch):
    """A copy of that directory, in which every damage is done to a new copy of the run."""
    shutil.copytree(trial, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("SEQ2ATTN_RUNS", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_of(folder):
    (run,) = (folder / "runs").iterdir()
    return run


def lines_of(folder, name):
    """The JSON values of a file, one for each kind of line that it has."""
    text = (run_of(folder) / name).read_text()
    return list(map(json.loads, text.splitlines())) if name.endswith("l") else [json.loads(text)]


def places(value, path=()):
    """The path of every field below `value`; of a list, only that of the first item."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def every_damage(folder):
    """(file, number of its line, path of the field) of every field of every record."""
    for name in RECORDS:
        for number, line in enumerate(lines_of(folder, name)):
            for path in ((), *places(line)):
                yield name, number, path


def damage(folder, name, number, path, kind):
    """Set one field of one record to a value of this kind."""
    lines = lines_of(folder, name)
    whole = {"": copy.deepcopy(lines[number])}
    parent = whole
    for key in ("", *path)[:-1]:
        parent = parent[key]
    last = ("", *path)[-1]
    if kind == MISSING:
        del parent[last]
    else:
        parent[last] = "@@"
    texts = [json.dumps(line) for line in lines]
    texts[number] = json.dumps(whole.get("")).replace('"@@"', KINDS.get(kind, "")) if whole else ""
    (run_of(folder) / name).write_text("".join(f"{text}\n" for text in texts))


def refuse_constant(text):
    raise AssertionError(f"{text} is not JSON")


def check(command, name):
    """The command answers, or it is refused in words that name the file; what it prints as JSON is JSON."""
    out, err = io.StringIO(), io.StringIO()
    words = command.replace("RUN", run_of(Path()).name).split()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call_main(words)
    said = err.getvalue()
    assert code in (0, 1, 2), said
    assert "Traceback" not in said
    if code == 0 and "--json" in words:
        found = json.loads(out.getvalue(), parse_constant=refuse_constant)
        json.dumps(found, ensure_ascii=False).encode()  # has no lone surrogate
    if code:
        (first,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert name in first or "trial" in first or "has no " in first or "comparison" in first, said
    assert "\x1b" not in out.getvalue() + said


def is_accepted(run):
    """Whether all records of the run can be read; a `Seq2AttnError` is the only way to refuse one."""
    try:
        read_metrics(run), read_attention(run), newest_evaluation(run)
    except Seq2AttnError as error:
        if "\n" in error.message:
            raise AssertionError(error.message) from error
        return False
    return run.status().problem is run.environment().problem is None


def attack(work, trial, chosen, commands):
    """Every damage by itself: the reader's answer, and the `commands` for one that was accepted or was not."""
    for name, number, path, kind in chosen:
        shutil.rmtree(work / "runs")
        shutil.copytree(trial / "runs", work / "runs")
        damage(work, name, number, path, kind)
        try:
            for command in commands(is_accepted(Run(run_of(work)))):
                check(command, name)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{name}, line {number}, {path} is {kind}") from error


def every_kind(trial, *names):
    return [(*place, kind) for place in every_damage(trial) if place[0] in names for kind in (*KINDS, MISSING)]


def test_some_values_in_some_fields(work, trial):
    choose = random.Random(18)
    chosen = choose.sample(every_kind(trial, *RECORDS), 150)
    attack(work, trial, chosen[:20], lambda accepted: choose.sample(COMMANDS, 2 if accepted else 1))
    attack(work, trial, chosen[20:], lambda accepted: ())


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_every_value_in_every_field(work, trial, record_figure, name):
    choose, chosen = random.Random(name), every_kind(trial, name)
    accepted = []

    def commands(is_read):
        accepted.append(is_read)
        return COMMANDS if is_read else choose.sample(COMMANDS, 1)

    attack(work, trial, chosen, commands)
    record_figure(damaged_fields=len(chosen), of_which_accepted=sum(accepted))


def test_the_undamaged_run_is_read_by_every_command(work):
    for command in COMMANDS:
        words = command.replace("RUN", run_of(work).name).split()
        assert call_main(words) == 0, command
