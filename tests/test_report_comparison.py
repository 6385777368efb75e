"""The report of a comparison: found by its name or file, and shown by group in a real browser."""

import json
import shutil
from pathlib import Path

import pytest
from test_comparison_results import finish
from test_report import HOVER, one_map

from seq2attn.comparison.experiment import read_experiment
from seq2attn.comparison.exporting import to_json
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.results import gather
from seq2attn.comparison.saved import experiments, saved_plan
from seq2attn.pages.report_comparison import bands, collect_experiment, merged
from seq2attn.runs.files import write_json
from seq2attn.runs.making import create_run
from seq2attn.runs.run import Run

BASE = "model: {hidden: 8, initial_state: last}\ntask: {min_length: 3, max_length: 8}\n"
EXPERIMENT = """\
configs: base.yaml
vary: {model.attention.score: [dot, scaled, none], seed: 1-3}
lengths: [3, 9]
"""
NASTY = "</script><b>"


def make_comparison(folder):
    """experiment.yaml in `folder`, and its nine trials in `runs` as `compare` leaves them, with numbers made up."""
    (folder / "base.yaml").write_text(BASE)
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    plan = make_plan(read_experiment(folder / "experiment.yaml"), folder / "runs")
    for trial in plan.trials:
        run = finish(folder / "runs", trial)
        belongs = {"name": trial.experiment, "group": trial.group, "values": dict(trial.values)}
        write_json(run.environment_file, {"command": [NASTY], "seed": trial.seed, "experiment": belongs})
        if trial.group != "none":
            maps = [one_map("ab", "ba", trial.seed / 4).to_json(), one_map("xyz", "z", 0.25).to_json()]
            run.attention_file.write_text(json.dumps({"step": 10, "maps": maps}) + "\n")
    return plan


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    return folder, make_comparison(folder)


@pytest.fixture
def work(made, cli, tmp_path):
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


# ---- found again ----


def test_a_comparison_found_by_its_name_equals_its_plan(made):
    folder, plan = made
    runs = folder / "runs"
    found = experiments(runs)
    assert list(found) == ["experiment"]
    assert [run.name for run in found["experiment"]] == [
        trial.name for trial in plan.trials
    ]  # in the order of creation
    again = saved_plan("experiment", found["experiment"])
    assert to_json(gather(again)) == to_json(gather(plan))


def test_the_most_common_measuring_settings_are_used(work):
    runs = experiments(work / "runs")["experiment"]
    record = json.loads((runs[0].evaluations / "best-001.json").read_text())
    seven = {**record, "checkpoint": "last", "rows": [{**row, "samples": 7} for row in record["rows"]]}
    for run in runs[1:]:
        run.save_evaluation("last", seven)
    assert {trial.checkpoint for trial in saved_plan("experiment", runs).trials} == {"best"}  # nine against eight
    runs[0].save_evaluation("last", seven)
    asked = {(trial.checkpoint, trial.samples) for trial in saved_plan("experiment", runs).trials}
    assert asked == {("last", 7)}


@pytest.mark.parametrize(
    "experiment", [3, {"name": 3}, {"name": "x", "group": "y"}, {"name": "x", "group": 1, "values": {}}]
)
def test_an_invalid_experiment_record_is_ignored(work, experiment):
    write_json(Run(work / "runs" / "experiment-dot-seed_1").environment_file, {"experiment": experiment})
    assert len(experiments(work / "runs")["experiment"]) == 8


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": [{}]},
        {"rows": [None]},
        {"parameters": {}},
        {"parameters": {"total": "x"}},
    ],
)
def test_a_trial_whose_record_is_damaged_is_not_measured(cli, work, damage):
    file = work / "runs" / "experiment-dot-seed_1" / "evaluations" / "best-001.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    done = cli("report", "experiment.yaml")
    assert (done.code, done.err) == (0, "1 of 9 trials are not measured yet and are left out\n")


@pytest.mark.parametrize(
    "line", ["3", '{"step": "x", "loss": 1}', '{"step": 1, "loss": []}', '{"step": 1, "evaluation": 3, "summary": 3}']
)
def test_a_damaged_line_of_metrics_is_an_error(cli, work, line):
    file = work / "runs" / "experiment-dot-seed_1" / "metrics.jsonl"
    file.write_text(line + "\n")
    done = cli("report", "experiment")
    assert done.code == 2
    assert "metrics.jsonl" in done.err and "not a valid record" in done.err


# ---- what is shown ----


def test_bands_range_from_the_lowest_to_the_highest_run():
    curves = [{"loss": [[10, 1.0], [20, None]], "entropy": [[10, 1.0]]}] + [
        {"loss": [[10, loss], [20, 5.0]], "entropy": [[10, entropy]]} for loss, entropy in ((2.0, 2.0), (9.0, 6.0))
    ]
    assert bands(curves) == {
        "loss": [[10, 2.0, 1.0, 9.0], [20, 5.0, 5.0, 5.0]],  # the median
        "entropy": [[10, 3.0, 1.0, 6.0]],  # the mean
    }


def test_different_values_within_a_group_are_joined():
    assert merged([{"a": 1, "seed": 1, "b": None}, {"a": 1, "seed": 2}]) == {"a": 1, "seed": "1, 2", "b": None}


# ---- the command ----


def test_the_order_in_which_seeds_were_trained_does_not_matter(work):
    found = experiments(work / "runs")["experiment"]
    plan = saved_plan("experiment", found[:3] + found[3:6][::-1] + found[6:])
    comparison = gather(plan)
    data = collect_experiment({"exact_match": comparison}, "exact_match", work / "runs", [])
    assert [group["config"]["seed"] for group in data["runs"]] == ["1, 2, 3"] * 3
    assert [[trial["seed"] for trial in group["trials"]] for group in data["runs"]] == [[1, 2, 3]] * 3
    runs = [trial["run"] for group in data["runs"] for trial in group["trials"]]
    assert all(run.endswith(f"-seed_{1 + place % 3}") for place, run in enumerate(runs))


@pytest.mark.parametrize("name", ["experiment", "experiment.yaml"])
def test_a_comparison_is_reported_by_its_name_or_its_file(cli, work, name):
    done = cli("report", name)
    assert (done.code, done.out, done.err) == (0, "report.html\n", "")
    assert "<title>seq2attn: experiment</title>" in Path("report.html").read_text()


def test_missing_trials_are_named(cli, work):
    (work / "runs" / "experiment-dot-seed_2" / "status.json").unlink()
    done = cli("report", "experiment")
    assert done.code == 0
    assert done.err == "1 of 9 trials are not measured yet and are left out\n"
    assert '"missing":["experiment-dot-seed_2"]' in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["experimnt"],
            "'experimnt' is neither a run nor a comparison in runs; did you mean 'experiment'? comparisons: ",
        ),
        (["experiment", "experiment-dot-seed_1"], "'experiment' is a comparison, which needs its own page"),
        (["experiment.yaml", "experiment"], "'experiment.yaml' is a comparison, which needs its own page"),
        (["base.yaml"], "base.yaml: this is a model's config, not an experiment"),
        (["other.yaml"], "no trial of 'other' in runs is trained and measured"),
        (["missing.yaml"], "missing.yaml: no such file"),
    ],
)
def test_names_that_are_not_a_comparison(cli, work, words, message):
    (work / "other.yaml").write_text(EXPERIMENT)
    done = cli("report", *words)
    assert done.code == 2
    assert done.err.startswith(f"error: {message}")
    assert not Path("report.html").exists()


def test_a_changed_experiment_file_gives_a_hint(cli, work):
    (work / "experiment.yaml").write_text(EXPERIMENT + "set: {model.hidden: 16}\n")
    done = cli("report", "experiment.yaml")
    assert done.code == 2
    assert done.err.startswith("error: experiment.yaml: 9 problems\n")
    assert done.err.count("has another config") == 3
    assert "\n  and 6 more\n" in done.err
    assert done.err.endswith("For the trials in runs as they were run: seq2attn report experiment\n")


def test_a_run_takes_precedence_over_a_comparison_of_its_name(cli, work, made):
    create_run(work / "runs", "experiment", made[1].trials[0].config, {}, exact=True)
    assert cli("report", "experiment").code == 0
    assert '"experiment":{' not in Path("report.html").read_text()


# ---- in a browser ----


@pytest.fixture
def page(browser, cli, work):
    assert cli("report", "experiment").code == 0
    browser.resize(1200, 900)
    browser.open(work / "report.html")
    yield browser
    assert browser.console() == []  # no error, no network request


def cells(page, place):
    return page.run(
        f"return [...document.querySelectorAll('{place} tbody tr')].map(row => [...row.cells].map(one => one.textContent))"
    )


def choose(page, place, value):
    page.run(
        f"const box = document.querySelector('{place}'); box.value = '{value}'; box.dispatchEvent(new Event('change'))"
    )


def test_the_summary_is_the_table_of_compare(page):
    found = cells(page, "#summary")
    assert [row[0].strip() for row in found if len(row) == 1] == [
        "dotthe baseline, 3 seeds, 1,234 parameters, loss 0.2000, 400 tokens/s",
        "scaledagainst dot, 3 seeds, 1,234 parameters, loss 0.4000, 400 tokens/s",
        "noneagainst dot, 3 seeds, 1,234 parameters, loss 2.0000, 400 tokens/s",
    ]
    # scaled at 3: 0.8, 0.7, 0.9, which is 0.3, 0.1, 0.2 more than dot; 4.3027 x 0.1 / sqrt(3) = 0.248
    assert found[4] == [
        "3",
        "0.800",
        "0.100",
        "0.552 \u2013 1.000",
        "0.700 (2)",
        "0.900 (3)",
        "+0.200 [\u22120.048, +0.448]",
    ]
    assert [row[0] for row in found[1:3]] == ["3", "9 *"]


def test_another_measure_changes_summary_and_chart(page):
    choose(page, "#summary select", "teacher_forced")
    assert cells(page, "#summary")[4][1] == "0.400"  # half of exact match in these made-up runs
    assert page.run("return document.querySelector('#lengths select').value") == "teacher_forced"
    choose(page, "#lengths select", "entropy")
    assert page.run("return document.querySelector('#summary thead').textContent").count("least (seed)") == 1
    assert len(cells(page, "#summary")) == 3 + 2 * 2  # `none` has no attention: a heading without rows


def test_a_curve_is_a_group_s_line_and_band(page):
    assert page.run("return document.querySelectorAll('#curves .chart')[0].querySelectorAll('path.line').length") == 3
    assert page.run("return document.querySelectorAll('#curves .chart')[0].querySelectorAll('path').length") == 6
    text = page.run(HOVER % ("#curves svg", 0.999, 0.5))
    assert text.split("\n")[0] == "step 20"
    assert "dot\n0.2 [0.1, 0.3]" in text
    colours = page.run(
        "return [...document.querySelectorAll('#curves svg')[0].querySelectorAll('path.line')].map(one => "
        "one.getAttribute('stroke'))"
    )
    assert colours == ["#d55e00", "#0072b2", "#7f7f7f"]


def test_the_maps_belong_to_the_chosen_seed(page):
    names = "return [...document.querySelectorAll('#attention .map p.run')].map(one => one.textContent)"
    fill = "return document.querySelector('#attention rect.cell').getAttribute('fill')"
    assert page.run(names) == ["experiment-dot-seed_1", "experiment-scaled-seed_1"]
    first = page.run(fill)
    choose(page, "#attention select", "3")
    assert page.run(names) == ["experiment-dot-seed_3", "experiment-scaled-seed_3"]
    assert page.run(fill) != first


def test_varied_keys_are_marked_and_equal_values_shown_once(page):
    assert cells(page, "#config") == [["model.attention.score", "dot", "scaled", "none"]]
    assert page.run("return document.querySelector('#config tbody tr').className") == "differs"
    assert cells(page, "#environment") == [["command", NASTY]]
    assert cells(page, "#parameters")[-1] == ["total", "1,234", "1,234", "1,234"]


def test_a_group_can_be_hidden(page):
    page.run("document.querySelectorAll('nav button')[0].click()")
    assert len(cells(page, "#summary")) == 2 * 3
    assert page.run("return document.querySelectorAll('#curves .chart')[0].querySelectorAll('path.line').length") == 2


def test_a_scrolling_table_has_a_shadow_at_its_edge(page):
    page.resize(390, 844)
    box = "const box = document.querySelector('#summary .scroll'); return "
    assert page.run(f"{box}box.scrollWidth > box.clientWidth")
    assert page.run(f"{box}getComputedStyle(box).backgroundAttachment") == "local, local, scroll, scroll"


@pytest.mark.parametrize("width", [390, 1100, 1400])
def test_nothing_is_wider_than_the_window(page, width):
    page.resize(width, 844)
    assert page.run("return document.documentElement.scrollWidth") <= width
    if width > 1000:  # no table is cut either
        hidden = (
            "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
        )
        assert page.run(hidden) == 0
