"""The report of runs and of comparisons: the numbers of its tables, what it is made of, and how it
looks in a browser.
"""

import html
import re
import shutil
from dataclasses import asdict

import measured
import pytest
from inline import change_json, read, write, write_lines
from tables import slow
from test_comparison_results import finish

from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import load_plan, make_plan, save_plan
from seq2attn.config import check_config
from seq2attn.files import write_json
from seq2attn.pages.report import render, report_of_comparison, report_of_runs
from seq2attn.results.answers import AttentionMap
from seq2attn.runs.create import NewRun, create_run

NASTY = "</script><!--\"'&{{style}}<img src=x onerror=alert(1)>"
ALPHABET = "</script>&\"'"
BASE = "model: {hidden: 8, initial_state: last}\ntask: {min_length: 3, max_length: 8}\n"
EXPERIMENT = """\
configs: base.yaml
vary: {model.attention.score: [dot, scaled, none], seed: 1-3}
lengths: [3, 9]
"""


def length(number, exact, *, trained=True, attends=True):
    shares = {"exact_match": exact, "character_accuracy": 0.9, "teacher_forced": 0.95}
    shares |= {"alignment": 0.75} if attends else {}
    rows = [
        measured.row(name, number, one, one / 2, (1 + one) / 2, trained=trained)
        for name, one in shares.items()
    ]
    rows += [measured.row("entropy", number, 0.5, trained=trained)] if attends else []
    return list(map(asdict, rows))


def one_map(source, output, weight):
    rows = tuple(
        tuple(weight if i == j else 1 - weight for j in range(len(source)))
        for i in range(len(output) + 1)
    )
    return AttentionMap(
        source, output, tuple(source), (*output, "<eos>"), rows, tuple(range(len(source)))[::-1]
    )


def make_run(root, name, *overrides, alphabet="ab<>/one tw", attends=True):
    """A run as training leaves it, without a model."""
    config = check_config(
        {"model": {"hidden": 4, "embedding": 2}, "task": {"alphabet": alphabet}}, overrides
    )
    environment = {"created": "2030-01-01T12:00:00+00:00", "command": ["train", NASTY]}
    run = create_run(NewRun(root, name), config, environment)
    lines = [{"step": step, "loss": 4 / step, "tokens_per_second": 1000.0} for step in range(1, 21)]
    lines[3]["loss"] = float("nan")
    results = [*length(1, 1.0), *length(2, 0.25), *length(3, 0.0, trained=False)]
    lines.append({"step": 20, "evaluation": results if attends else length(1, 1.0, attends=False)})
    write_lines(run.metrics_file, lines)
    if attends:
        snapshots = []
        for step in (10, 20):
            maps = [one_map("ab", "ba", 0.5 + step / 100), one_map(f"</{name[0]}>", "x", 0.25)]
            snapshots.append({"step": step, "maps": [one.to_json() for one in maps]})
        write_lines(run.attention_file, snapshots)
    write_json(run.status_file, {"state": "finished", "step": 20, "exact_match_worst": 0.25})
    return run


@pytest.fixture
def two_runs(tmp_path):
    root = tmp_path / "runs"
    return [
        make_run(root, "one"),
        make_run(root, "two", "model.attention.score=dot", alphabet=ALPHABET),
    ]


def cells(text):
    """The rows of the tables in a section."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.S)
    return [
        [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)]
        for row in rows
    ]


def weights(text):
    """The weights of a section's maps, in order."""
    return [float(one) for one in re.findall(r'title="[^"]*: ([0-9.]+)"', text)]


# ---- runs ----


def test_the_report_of_two_runs(two_runs, blank_figures):
    change_json(two_runs[1].status_file, wer=0.125)
    title, sections = report_of_runs(two_runs)
    assert title == "Report: one, two"
    header, first, second = cells(sections["Summary"])
    row = dict(zip(header, first, strict=True))
    assert row["run"] == "one"
    assert row["exact match, worst"] == "0.250"
    assert row["made"] == "2030-01-01 12:00"
    assert row["steps"] == "20 of 1,500"
    assert row["WER"] == "-"
    assert second[header.index("WER")] == "0.125"
    assert "SER" not in header  # nothing measured it
    assert (
        sections["Through training"].count("<svg") == 5
    )  # exact match, loss, teacher-forced, alignment, entropy
    lengths = cells(sections["Accuracy by string length"])
    assert lengths[:3] == [
        "length one two".split(),
        ["1", *["1.000 [0.500, 1.000]"] * 2],
        ["2", *["0.250 [0.125, 0.625]"] * 2],
    ]
    assert cells(sections["Config"])[:3] == [
        ["key", "one", "two"],
        ["task.alphabet", "ab<>/one tw", ALPHABET],
        ["model.attention.score", "scaled", "dot"],
    ]
    assert ["task", "reverse", "reverse"] in cells(sections["Config"])[3:]  # the same in both
    command = f"train {NASTY}"
    assert ["command", command, command] in cells(sections["Environment"])
    # the last maps: 0.5 + 20 / 100 on the diagonal, in 3 rows of 2
    assert weights(sections["Attention"])[:6] == [0.7, 0.3, 0.3, 0.7, 0.3, 0.3]


def test_a_run_may_have_the_name_of_the_column_of_keys(tmp_path, blank_figures):
    _, sections = report_of_runs([make_run(tmp_path, "key")])
    assert ["task", "reverse"] in cells(sections["Config"])


def test_one_run_is_shown_through_training_and_its_last_eval_takes_precedence(
    two_runs, blank_figures
):
    run = two_runs[0]
    _, sections = report_of_runs([run])
    assert re.findall(r"<h3>(.*?)</h3>", sections["Attention"]) == ["step 10", "step 20"] * 2
    assert weights(sections["Attention"])[:12:6] == [0.6, 0.7]
    assert "one: training, after step 20" in sections["Accuracy by string length"]
    record = {
        "run": "one",
        "checkpoint": "best",
        "seed": 0,
        "rows": [*length(2, 1.0), *length(10, 1.0)],
    }
    run.evaluations.mkdir()
    evaluations = [
        {"checkpoint": "last", "rows": length(12, 1.0)},  # of other weights
        {},
        {"rows": length(11, 1.0), "data": {"name": "other.tsv"}},
        {"rows": [*length(2, 0.5), *length(4, 0.25)]},
    ]
    for number, changes in enumerate(evaluations):
        saved = {**record, **changes, "created": f"2030-01-0{number + 1}T12:00:00+00:00"}
        write_json(run.evaluations / f"{saved['checkpoint']}-00{number}.json", saved)
    (run.evaluations / "best-004.json").touch()  # an `eval` that is still running
    _, sections = report_of_runs([run])
    assert "one: eval of best" in sections["Accuracy by string length"]
    _, *shown = cells(sections["Accuracy by string length"])
    assert [f"{row[0]} {row[1][:5]}" for row in shown] == ["2 0.500", "4 0.250", "10 1.000"]


def test_runs_without_attention_or_without_training_are_reported(tmp_path, blank_figures):
    plain = make_run(tmp_path, "plain", "model.attention.score=none", attends=False)
    new = create_run(NewRun(tmp_path, "new"), check_config({}), {})
    assert report_of_runs([plain])[1]["Attention"] == ""
    _, sections = report_of_runs([new])
    for empty in ("Through training", "Accuracy by string length", "Attention"):
        assert sections[empty] == ""


# ---- comparisons ----


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """experiment.yaml, and its nine trials in `runs` as `compare` leaves them, with numbers made
    up.
    """
    folder = tmp_path_factory.mktemp("comparison")
    write(folder / "base.yaml", BASE)
    write(folder / "experiment.yaml", EXPERIMENT)
    plan = make_plan(compose_experiment(folder / "experiment.yaml"), folder / "runs")
    for trial in plan.trials:
        run = finish(folder / "runs", trial)
        write_json(
            run.environment_file, {"format": 1, "command": [NASTY], "experiment": trial.experiment}
        )
        if trial.group != "none":
            maps = [
                one_map("ab", "ba", trial.config.seed / 4).to_json(),
                one_map("xyz", "z", 0.25).to_json(),
            ]
            write_lines(run.attention_file, [{"step": 10, "maps": maps}])
    save_plan(plan, folder / "runs")
    return folder


@pytest.fixture
def work(made, cli, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_the_report_of_a_comparison(work, blank_figures):
    title, sections = report_of_comparison(load_plan("experiment", work / "runs"), work / "runs")
    assert title == "Comparison: experiment"
    assert list(sections)[:3] == ["Result", "Each group", "Through training"]
    best = "<strong>Best: scaled. These seeds do not show that it is better than "
    assert sections["Result"].startswith(f"<p>{best}")
    assert sections["Result"].count("<svg") == 1
    # scaled at 3: 0.8, 0.7, 0.9, which is 0.3, 0.1, 0.2 more than dot; 4.3027 x 0.1 / sqrt(3) =
    # 0.248
    row = ["3", "0.800 [0.552, 1.000]", "0.100", "0.700", "2", "0.900", "+0.200 [-0.048, +0.448]"]
    assert row in cells(sections["Each group"])
    assert "<details><summary>scaled: exact match, against dot" in sections["Each group"]
    assert sections["Through training"].count("<svg") == 1  # the loss
    names = ["dot", "scaled", "none"]
    assert cells(sections["Config"])[:2] == [["key", *names], ["model.attention.score", *names]]
    assert ["seed", *["1, 2, 3"] * 3] in cells(sections["Config"])
    assert re.findall(r"<h3>(.*?)</h3>", sections["Attention"])[:2] == [
        "dot: experiment-dot-seed_1", "scaled: experiment-scaled-seed_1",
    ]  # fmt: skip


def test_a_comparison_is_found_by_its_name_or_its_file_and_missing_trials_are_named(
    cli, work, blank_figures
):
    assert cli("report experiment") == (0, "report.html\n", "")
    assert "<title>Comparison: experiment (seq2attn)</title>" in read("report.html")
    (work / "runs/experiment-dot-seed_2/status.json").unlink()
    assert cli("report experiment --to missing.html") == (0, "missing.html\n", "")
    assert "Not measured yet and left out: experiment-dot-seed_2." in read("missing.html")


# ---- the file ----


@pytest.mark.parametrize("count", [1, slow(2)])
def test_the_page_runs_nothing_refers_to_nothing_and_fits_the_window(
    quiet, two_runs, tmp_path, count
):
    path = tmp_path / "page.html"
    write(path, render(f"report {NASTY}", report_of_runs(two_runs[:count])[1]))
    text = read(path)
    assert "<script" not in text
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text.replace(html.escape(NASTY), ""))
    for width in (390, 1400):
        quiet.resize(width, 844)
        quiet.open(path)
        assert quiet.run("return document.documentElement.scrollWidth") <= width
    title = f"report {NASTY} (seq2attn)"
    assert quiet.run("return [document.title, document.images.length]") == [title, 0]
    assert NASTY in quiet.run("return document.body.textContent")
    headings = "[...document.querySelectorAll('h2')].map(one => one.textContent).join()"
    wanted = "Summary,Accuracy by string length,Through training,Attention,Config,Environment"
    assert quiet.run(f"return {headings}") == wanted
