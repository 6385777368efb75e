"""What tables say, against numbers worked out by hand from runs made up for the purpose."""

import json
import math
import operator
import shutil
import statistics
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import measured
import pytest
import yaml
from inline import read_json, write_lines

from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.results import gather
from seq2attn.files import write_json
from seq2attn.runs.create import NewRun, create_run

EXACT = yaml.safe_load("""
dot: {3: [0.5, 0.6, 0.7], 9: [0.1, 0.1, 0.1]}
scaled: {3: [0.8, 0.7, 0.9], 9: [0.1, 0.2, 0.3]}
none: {3: [1.0, 1.0, 0.7], 9: [0.0, 0.0, 0.0]}
""")  # group -> length -> values of seeds 1, 2, 3
LOSSES = yaml.safe_load("{dot: [0.1, 0.2, 0.3], scaled: [0.4, 0.4, 0.4], none: [1.0, 2.0, 3.0]}")


def records(group, length, exact, entropy=None, samples=100):
    """The rows of a length, as plain values."""
    values = {"exact_match": exact, "character_accuracy": 1.0, "teacher_forced": exact / 2}
    if group != "none":
        values |= {"alignment": 0.75, "entropy": 2 * exact if entropy is None else entropy}
    made = [
        measured.row(metric, length, value, samples=samples, trained=length <= 8)
        for metric, value in values.items()
    ]
    return list(map(asdict, made))


def finish(root, trial):
    """The files of a trial that was run."""
    run = create_run(NewRun(root, trial.name), trial.config, {})
    write_json(run.status_file, {"state": "finished", "step": 20})
    place = trial.config.seed - 1
    rows = []
    for n in trial.lengths:
        rows += records(trial.group, n, EXACT[trial.group][n][place], samples=trial.samples)
    settings = {"checkpoint": trial.checkpoint, "seed": 0, "step": 20, "trained_steps": 20}
    run.evaluations.mkdir()
    record = {**settings, "parameters": {"attention": 0, "total": 1234}, "rows": rows}
    write_json(run.evaluations / "best-001.json", record)
    lines = [
        {"step": 10, "loss": 9.0},
        {"step": 10, "evaluation": records("dot", 3, 0.0, 2.0 + trial.config.seed)},
        {"step": 20, "loss": LOSSES[trial.group][place]},
    ]
    write_lines(run.metrics_file, lines)
    return run


def plan_in(folder, vary=("model.attention.score=dot,scaled,none", "seed=1-3"), **settings):
    base = [folder / "base.yaml"]
    made = compose_experiment(None, base, vary, name="e", lengths=(3, 9), **settings)
    return make_plan(made, folder / "runs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the runs of that experiment, every trial of which is done. Do not change it."""
    folder = tmp_path_factory.mktemp("planned")
    base = "model: {hidden: 8, initial_state: last}\ntask: {min_length: 3, max_length: 8}\n"
    (folder / "base.yaml").write_text(base)
    for trial in plan_in(folder).trials:
        finish(folder / "runs", trial)
    return folder


@pytest.fixture(scope="module")
def make(folder):
    """`make(...)`: the plan of that experiment."""
    return partial(plan_in, folder)


@pytest.fixture
def planned(folder, tmp_path):
    """The plan, and its runs directory, which may be changed."""
    shutil.copytree(folder, tmp_path / "copy")
    return partial(plan_in, tmp_path / "copy"), tmp_path / "copy/runs"


@pytest.fixture(scope="module")
def comparison(make):
    return gather(make())


def group(comparison, label):
    (found,) = [group for group in comparison.groups if group.label == label]
    return found


def row(comparison, label, length):
    (found,) = [row for row in group(comparison, label).rows if row["length"] == length]
    return SimpleNamespace(**found)


T = 4.302653 / math.sqrt(3)  # Student's t of 2 degrees of freedom, over the root of three seeds


def spread_of(values):
    """Mean, standard deviation, and the ends of the interval."""
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    return mean, deviation, mean - deviation * T, mean + deviation * T


def test_statistics_over_seeds(comparison):
    for label, lengths in EXACT.items():
        assert group(comparison, label).baseline == (None if label == "dot" else "dot")
        for length, values in lengths.items():
            found = row(comparison, label, length)
            *middle, low, high = spread_of(values)
            expected = (*middle, max(0, low), min(1, high))
            numbers = (found.mean.value, found.sd, found.mean.low, found.mean.high)
            assert numbers == pytest.approx(expected, abs=1e-6)
            assert (found.seeds, found.trained) == (3, length == 3)
            assert (found.worst, found.best) == (min(values), max(values))
            assert found.worst_seed == 1 + values.index(found.worst)  # the first on a tie
            assert found.best_seed == 1 + values.index(found.best)
            change = found.difference
            assert (change is None) == (label == "dot")
            if change:
                apart = spread_of(list(map(operator.sub, values, EXACT["dot"][length])))
                numbers = (change.value, change.deviation, change.low, change.high)
                assert numbers == pytest.approx(apart, abs=1e-6)


def test_records_have_what_was_set_the_effect_and_its_p_value(make):
    plan = make(overrides="training.log_every=10")
    made = gather(plan).records()
    assert {record["training.log_every"] for record in made} == {10}
    (found,) = [one for one in made if (one["group"], one["length"]) == ("scaled", 3)]
    t = 2 * math.sqrt(3)  # of three differences with the mean 2 sd
    assert found["effect_size"] == pytest.approx(2)
    assert found["p_value"] == pytest.approx(1 - t / math.sqrt(2 + t**2))
    assert made[0]["effect_size"] is made[0]["p_value"] is None  # the baseline


def test_intervals_of_differences_stay_within_what_is_possible(planned):
    make, root = planned
    values = {"dot": [0.0] * 3, "scaled": [1.0, 1.0, 0.0]}
    for trial in make().trials:
        if trial.group in values:
            value = values[trial.group][trial.config.seed - 1]
            path = root / trial.name / "evaluations/best-001.json"
            record = read_json(path)
            for one in record["rows"]:
                factor = 3 if one["metric"] == "entropy" else 1
                one |= {"value": factor * value, "low": None, "high": None}
            write_json(path, record)
    found = row(gather(make()), "scaled", 3).difference
    # t of 2 degrees of freedom, deviation sqrt(1/3), over sqrt(3)
    ends = (2 / 3, 2 / 3 - 4.302653 / 3, 1.0)
    assert (found.value, found.low, found.high) == pytest.approx(ends, abs=1e-6)
    swapped = gather(make(baseline=["model.attention.score=scaled"]))
    assert row(swapped, "dot", 3).difference.low == -1.0
    assert group(swapped, "scaled").baseline is None
    found = row(gather(make(metric="entropy")), "scaled", 3)
    # no share: not cut at 1, and differences below 0 are possible
    ends = (found.mean.low, found.mean.high, found.difference.low)
    assert ends == pytest.approx((0, 2 + 4.302653, 2 - 4.302653), abs=1e-6)


def test_a_missing_trial_is_excluded_from_both_sides(planned):
    make, root = planned
    (root / "e-dot-seed_3/status.json").unlink()
    found = gather(make())
    assert len(group(found, "dot").trials) == 2
    assert group(found, "dot").planned == 3
    means = [row(found, label, 3).mean.value for label in ("dot", "scaled")]
    assert means == pytest.approx([0.55, 0.8])
    assert row(found, "scaled", 3).difference.value == pytest.approx((0.3 + 0.1) / 2)
    for number in (1, 2):
        (root / f"e-dot-seed_{number}/status.json").unlink()
    found = gather(make())
    assert [group.label for group in found.groups] == ["scaled", "none"]
    assert row(found, "scaled", 3).difference is None


# ---- ranking ----
# means over the two lengths, by seed: dot .3 .35 .4, scaled .45 .45 .6, none .5 .5 .35


def test_groups_are_ranked_by_their_mean_over_the_lengths(comparison):
    dot, scaled, none = (group.ranked for group in comparison.groups)
    ordered = scaled, none, dot
    assert [one.rank for one in ordered] == [1, 2, 3]
    assert [one.overall.value for one in ordered] == pytest.approx([0.5, 0.45, 0.35])
    assert [one.may_be_best for one in ordered] == [True, True, False]
    assert scaled.behind is None
    # none - scaled: .05, .05, -.25; dot - scaled: -.15, -.1, -.2
    for found, mean, deviation in ((none, -0.05, math.sqrt(0.03)), (dot, -0.15, 0.05)):
        ends = (mean, mean - deviation * T, mean + deviation * T)
        behind = found.behind
        assert (behind.value, behind.low, behind.high) == pytest.approx(ends, abs=1e-6)


def test_one_group_and_entropy_have_no_ranking_and_a_group_without_a_value_is_last(make):
    aligned = gather(make(metric="alignment"))  # which a model without attention has not
    comparisons = [
        gather(make(["model.attention.score=dot", "seed=1-3"])),
        gather(make(metric="entropy")),
        aligned,
        replace(aligned, groups=(group(aligned, "none"),) * 2),
    ]
    tables = [one.ranking() for one in comparisons]
    ranks = [[row["rank"] for row in table.records()] for table in tables]
    assert ranks == [[None], [None] * 3, [1, 1, None], [None] * 2]
    few, entropy, _, without = (table.notes[0] for table in tables)
    assert few == "Nothing is ranked: fewer than two groups are done."
    assert entropy.startswith("These numbers have no")
    assert without == "Nothing is ranked: no group has a value at every length."


# ---- tables and records ----


def lines(table):
    return [" ".join(line.split()) for line in str(table).splitlines() if line.strip("─ ")]


RANKING = """
e: exact match
rank group trials overall behind the best parameters
1 scaled 3 of 3 0.500 [0.285, 0.715] - 1,234
2 none 3 of 3 0.450 [0.235, 0.665] -0.050 [-0.480, +0.380] 1,234
3 dot 3 of 3 0.350 [0.226, 0.474] -0.150 [-0.274, -0.026] 1,234
Best: scaled. These seeds do not show that it is better than none.
overall: mean over the lengths; means over seeds with 95 % intervals (Student's);
differences seed by seed
* never seen in training
"""


def test_a_comparison_prints_as_tables(comparison):
    assert repr(comparison) == "\n\n".join(map(str, comparison.tables()))
    dot, scaled, _, ranking = comparison.tables()
    assert lines(dot) == lines("""
dot: exact match, the baseline
length mean sd worst worst seed best
3 0.600 [0.352, 0.848] 0.100 0.500 1 0.700
9* 0.100 [0.100, 0.100] 0.000 0.100 1 0.100
""")
    assert lines(scaled)[0] == "scaled: exact match, against dot"
    assert lines(scaled)[2] == "3 0.800 [0.552, 1.000] 0.100 0.700 2 0.900 +0.200 [-0.048, +0.448]"
    assert " ".join(lines(ranking)) == " ".join(lines(RANKING))
    assert comparison._repr_html_().count("<table>") == 4


def test_one_seed_has_no_intervals_and_its_order_may_be_chance(make):
    found = gather(make(["model.attention.score=dot,scaled,none", "seed=2"]))
    assert lines(found.tables()[1])[-2:] == [
        "3 0.700 0.700 2 0.700 +0.100",
        "9* 0.200 0.200 2 0.200 +0.100",
    ]
    assert "Best: none. With one seed each, the order may be chance" in repr(found)


RECORD = """
{mean: 0.8, mean_high: 1.0, sd: 0.1, seeds: 3, worst: 0.7, best: 0.9, worst_seed: 2, rank: 1,
difference: 0.2, baseline: dot, overall: 0.5, metric: exact_match, family: random,
parameters: 1234, model.attention.score: scaled}
"""  # of scaled at length 3


def test_records_are_flat_and_the_same_in_every_output(comparison):
    records = comparison.records()
    assert [(one["group"], one["length"], one["trained"]) for one in records] == [
        (label, n, n == 3) for label in EXACT for n in (3, 9)
    ]
    expected = yaml.safe_load(RECORD)
    assert {key: records[2][key] for key in expected} == pytest.approx(expected)
    header, *rows = [line.split("\t") for line in comparison.table().tsv()]
    assert header == list(records[2])
    assert rows[2][header.index("worst")] == "0.7"
    told = json.loads(json.dumps(comparison.to_json()))
    assert (told["groups"], told["experiment"], told["metric"]) == (records, "e", "exact_match")
    assert len(told["trials"]) == 2 * 3 * (5 + 5 + 3)  # without attention there are three metrics
    first = {"run": "e-dot-seed_1", "model.attention.score": "dot", "length": 3, "value": 0.5}
    assert first.items() <= told["trials"][0].items()
