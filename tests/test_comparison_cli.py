"""`seq2attn compare` from the command line: refused, run, stopped, resumed, and read again."""

import inspect
import json
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest
from inline import ROOT, Inline, read, write

from seq2attn.cli.evaluate import compare as compare_command
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.results import gather

TINY = """\
model: {hidden: 8, embedding: 4, initial_state: last, attention: {score: none}}
task: {alphabet: ab, max_length: 2}
training: {steps: 6, batch_size: 4, log_every: 1, evaluate_every: 6,
  validation_samples: 2, snapshots: 0}
evaluation: {samples: 4}
"""


@pytest.fixture(autouse=True)
def work(cli, tmp_path, trials_here):
    """tiny.yaml in the working directory, and a pool that is this process."""
    write("tiny.yaml", TINY)
    return tmp_path


def compare(cli, line="", *words):
    return cli(f"compare -c tiny.yaml --device cpu {line}", *words)


def runs(folder="runs"):
    return sorted(path.name for path in Path(folder).iterdir() if path.is_dir())


# ---- run ----

ASKED = "--vary model.attention.score=none,dot --vary seed=1-2"


def test_each_trial_becomes_a_run_and_two_invocations_give_the_same_table(cli, blank_figures):
    done = compare(cli, ASKED)
    rows = done.rows()
    shown = [" ".join((row["group"], row["length"], row["baseline"])) for row in rows]
    assert shown == ["none 1 ", "none 2 ", "dot 1 none", "dot 2 none"]
    assert runs() == [
        f"compare-tiny-{score}-seed_{seed}" for score in ("dot", "none") for seed in (1, 2)
    ]
    assert [path.name for path in Path("runs").glob(".*")] == [".compare-tiny.comparison.json"]
    again = compare(cli, ASKED)
    assert again.out == done.out
    assert "all 4 trials are done" in again.err
    more = compare(cli, ASKED.replace("1-2", "1-3"))  # more seeds later train only those
    assert "6 trials, 4 done, 2 to run" in more.err
    assert more.rows()[0]["seeds"] == "3"
    told = compare(cli, f"{ASKED} --json --plot deep/figures --metric teacher_forced").json
    assert (told["metric"], told["failed"], told["busy"]) == ("teacher_forced", {}, [])
    names = set(os.listdir("deep/figures"))
    assert names == {"compare-tiny-loss.png", "compare-tiny-results.png"}
    compare(cli, f"{ASKED} --plot deep/wide.svg").check()
    assert read("deep/wide-results.svg").startswith("<?xml")


def test_a_changed_config_is_one_message_for_all_trials(cli, blank_figures):
    write("mine.yaml", "configs: tiny.yaml\nvary: {seed: 1-2}\n")
    cli("compare mine.yaml --device cpu").check()
    write("tiny.yaml", TINY.replace("steps: 6", "steps: 7"))
    said = cli("compare mine.yaml").refusal
    assert len(said.splitlines()) == 3
    changed = "another config: training.steps is 7, and 6 in the run"
    runs = ", ".join(f"runs/mine-seed_{seed}" for seed in (1, 2))
    assert f"\n  {runs}: {changed}; choose another --name, or remove that\n" in said
    cli("report mine").check()


def test_a_failing_trial_is_reported_and_the_others_continue(cli):
    done = compare(cli, "--vary training.learning_rate=1e38,0.01")
    assert "1 of 2 trials failed" in done.err
    assert done.err.count("training diverged at step") == 2  # as it happens, and at the end
    assert {row["group"] for row in done.rows(code=1)} == {"learning_rate=0.01"}
    again = compare(cli, "--vary training.learning_rate=1e38,0.01 --json")
    assert again.code == 1
    assert len(json.loads(again.out)["failed"]) == 1
    assert "2 trials, 1 done, 1 to run" in again.err


MINE = """
description: a try
configs: tiny.yaml
vary: {model.hidden: [4, 8], seed: 1-9}
baseline: {model.hidden: 8}
metric: teacher_forced
lengths: [1, 3]
"""


def test_options_override_an_experiment_file(cli):
    write("mine.yaml", MINE)

    def shown(*arguments):
        rows = cli("compare mine.yaml --device cpu --vary seed=2", *arguments).rows()
        keys = "group length trained metric baseline".split()
        return [" ".join(row[key] for key in keys) for row in rows]

    assert shown() == [
        "hidden=4 1 yes teacher_forced hidden=8",
        "hidden=4 3 no teacher_forced hidden=8",
        "hidden=8 1 yes teacher_forced ",
        "hidden=8 3 no teacher_forced ",
    ]
    assert runs() == ["mine-hidden_4-seed_2", "mine-hidden_8-seed_2"]
    assert shown("--metric", "exact_match", "--lengths", "2", "--baseline", "model.hidden=4") == [
        "hidden=4 2 yes exact_match ",
        "hidden=8 2 yes exact_match hidden=4",
    ]


def test_a_table_for_a_paper_tells_families_apart(cli):
    compare(cli, "--vary seed=1-2 --families random unary --lengths 2 --latex t.tex").check()
    rows = [line for line in read("t.tex").splitlines() if line.startswith("tiny & ")]
    assert [row.split(" & ")[1:3] for row in rows] == [["random", "2"], ["unary", "2"]]
    compare(cli, "--vary seed=1-2 --lengths 2 --latex u.tex").check()
    assert "random" not in read("u.tex")


def test_a_stopped_comparison_prints_how_to_continue(cli, monkeypatch):
    class Stopping(Inline):
        def submit(self, call, /, *arguments, **keywords):
            future = super().submit(call, *arguments, **keywords)
            signal.raise_signal(signal.SIGINT)
            return future

    with monkeypatch.context() as patch:
        patch.setattr("seq2attn.comparison.run.process_pool", lambda *_: Stopping())
        done = compare(cli, "--vary seed=1-2 --workers 1")
    assert done.code == 130
    assert done.out == ""
    assert "stopped by SIGINT after 1 of 2 trials; running ones are saved." in done.err
    assert "Continue with: seq2attn compare -c tiny.yaml --device cpu --vary seed=1-2" in done.err
    assert "2 trials, 1 done, 1 to run" in compare(cli, "--vary seed=1-2").err


# ---- what is written about it ----

TEXT = read(ROOT / "docs/comparing.md")
HELP = inspect.getdoc(compare_command)
COMMANDS = re.findall(r"(?:^ +|`)(seq2attn compare [^`\n]*)", f"{TEXT}\n{HELP}", re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_documented_commands_name_valid_experiments(cli, work, monkeypatch, command):
    (work / "configs").symlink_to(ROOT / "configs")
    shutil.copy(work / "tiny.yaml", work / "my.yaml")
    monkeypatch.setattr(
        "seq2attn.comparison.run.compare", lambda chosen, root, **_: gather(make_plan(chosen, root))
    )
    assert cli(*shlex.split(command)[1:]).check().out.strip() == ""
