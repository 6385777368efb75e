"""What tables say, against numbers worked out by hand from runs made up for the purpose."""

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path

import measured
import pytest
from rich.console import Console

from seq2attn.cli import comparison_table
from seq2attn.comparison.experiment import Experiment, Published
from seq2attn.comparison.exporting import csv_rows, to_json
from seq2attn.comparison.grid import parse_vary
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.ranking import rank
from seq2attn.comparison.results import TrialResult, _summaries, gather
from seq2attn.inference.results import Evaluation
from seq2attn.runs.create import create_run
from seq2attn.runs.files import write_json

EXACT = {  # group -> length -> values of seeds 1, 2, 3
    "dot": {3: (0.5, 0.6, 0.7), 9: (0.1, 0.1, 0.1)},
    "scaled": {3: (0.8, 0.7, 0.9), 9: (0.1, 0.2, 0.3)},
    "none": {3: (1.0, 1.0, 0.7), 9: (0.0, 0.0, 0.0)},
}
LOSSES = {"dot": (0.1, 0.2, 0.3), "scaled": (0.4, 0.4, 0.4), "none": (1.0, 2.0, 3.0)}
PUBLISHED = (Published(where={"model.attention.score": "dot"}, values={"3": 0.55}, loss=0.15),)


def records(group, length, exact, entropy=None):
    """The rows of a length, as plain values."""
    values = {"exact_match": exact, "character_accuracy": 1.0, "teacher_forced": exact / 2}
    if group != "none":
        values |= {"alignment": 0.75, "entropy": 2 * exact if entropy is None else entropy}
    return [
        asdict(measured.row(metric, length, value, samples=100, trained=length <= 8))
        for metric, value in values.items()
    ]


def finish(root, trial):
    """The files of a trial that was run."""
    run = create_run(root, trial.name, trial.config, {}, exact=True)
    write_json(run.status_file, {"state": "finished", "step": 20})
    place = trial.seed - 1
    rows = [one for n in trial.lengths for one in records(trial.group, n, EXACT[trial.group][n][place])]
    rows = [{**one, "samples": trial.samples} for one in rows]
    settings = {"checkpoint": trial.checkpoint, "seed": 0, "step": 20, "trained_steps": 20}
    run.evaluations.mkdir()
    record = {**settings, "parameters": {"attention": 0, "total": 1234}, "rows": rows}
    write_json(run.evaluations / "best-001.json", record)
    lines = [
        {"step": 10, "loss": 9.0, "tokens_per_second": 100.0 * trial.seed},
        {"step": 10, "evaluation": records("dot", 3, 0.0, 2.0 + trial.seed)},
        {"step": 20, "loss": LOSSES[trial.group][place], "tokens_per_second": 300.0 * trial.seed},
    ]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.fixture
def planned(tmp_path):
    """The plan of that experiment, and its runs directory with every trial done."""
    (tmp_path / "base.yaml").write_text(
        "model: {hidden: 8, initial_state: last}\ntask: {min_length: 3, max_length: 8}\n"
    )

    def make(**settings):
        experiment = Experiment(
            "e",
            "test",
            {"base": tmp_path / "base.yaml"},
            axes=tuple(map(parse_vary, ("model.attention.score=dot,scaled,none", "seed=1-3"))),
            lengths=(3, 9),
            published=PUBLISHED,
            **settings,
        )
        return make_plan(experiment, tmp_path / "runs")

    for trial in make().trials:
        finish(tmp_path / "runs", trial)
    return make, tmp_path / "runs"


@pytest.fixture
def comparison(planned):
    make, _ = planned
    return gather(make())


def group(comparison, label):
    (found,) = [group for group in comparison.groups if group.label == label]
    return found


def row(comparison, label, length):
    (found,) = [row for row in group(comparison, label).lengths if row.length == length]
    return found


def test_mean_deviation_and_interval_over_seeds(comparison):
    found = row(comparison, "dot", 3).spread
    assert (found.count, found.least, found.most) == (3, 0.5, 0.7)
    assert found.mean == pytest.approx(0.6)
    assert found.deviation == pytest.approx(0.1)
    half = 4.302653 * 0.1 / math.sqrt(3)  # t of 2 degrees of freedom: .2484
    assert (found.low, found.high) == pytest.approx((0.6 - half, 0.6 + half), abs=1e-6)


def test_the_interval_of_a_share_stays_between_0_and_1(comparison):
    found = row(comparison, "none", 3).spread  # 0.9 +- 0.43
    assert found.low == pytest.approx(0.9 - 4.302653 * math.sqrt(0.03) / math.sqrt(3), abs=1e-6)
    assert found.high == 1.0
    assert row(comparison, "scaled", 9).spread.low == 0.0


def trials_with(values):
    """Trials with these values of every metric at length 3, by seed."""
    found = [
        Evaluation((measured.row("exact_match", 3, value), measured.row("entropy", 3, 3 * value))) for value in values
    ]
    return [TrialResult("", seed, one, one.places, {}, (), (), None) for seed, one in enumerate(found)]


def test_the_interval_of_a_difference_of_shares_stays_between_minus_1_and_1():
    mine, others = trials_with([1.0, 1.0, 0.0]), trials_with([0.0, 0.0, 0.0])
    half = 4.302653 / 3  # t of 2 degrees of freedom, deviation sqrt(1/3), over sqrt(3): 1.43
    for first, second, sign in ((mine, others, 1), (others, mine, -1)):
        (found,) = _summaries("exact_match", first, second, ())
        assert found.difference.mean == pytest.approx(sign * 2 / 3)
        near, far = sorted((found.difference.low, found.difference.high), key=abs)
        assert far == sign * 1.0
        assert near == pytest.approx(sign * (2 / 3 - half), abs=1e-6)


def test_the_interval_of_an_entropy_is_cut_at_0_and_that_of_a_difference_is_not():
    (found,) = _summaries("entropy", trials_with([1.0, 1.0, 0.0]), trials_with([0.0, 0.0, 0.0]), ())
    assert found.spread.low == 0.0
    assert found.spread.high == pytest.approx(2 + 4.302653, abs=1e-6)
    assert found.difference.low == pytest.approx(2 - 4.302653, abs=1e-6)


def test_the_worst_and_the_best_seed(comparison):
    assert (row(comparison, "scaled", 3).worst_seed, row(comparison, "scaled", 3).best_seed) == (2, 3)
    assert (row(comparison, "none", 3).worst_seed, row(comparison, "none", 3).best_seed) == (3, 1)
    assert (row(comparison, "dot", 9).worst_seed, row(comparison, "dot", 9).best_seed) == (1, 1)


def test_differences_are_taken_seed_by_seed(comparison):
    assert row(comparison, "dot", 3).difference is None  # the baseline
    found = row(comparison, "scaled", 3).difference  # .3, .1, .2
    assert found.mean == pytest.approx(0.2)
    assert found.deviation == pytest.approx(0.1)
    assert found.low == pytest.approx(0.2 - 4.302653 * 0.1 / math.sqrt(3), abs=1e-6)
    assert group(comparison, "scaled").baseline == "dot"
    assert group(comparison, "dot").baseline is None


def test_another_baseline(planned):
    make, _ = planned
    found = gather(make(baseline={"model.attention.score": "none"}))
    assert row(found, "dot", 3).difference.mean == pytest.approx((0.5 + 0.6 + 0.7 - 1 - 1 - 0.7) / 3)
    assert group(found, "none").baseline is None


def test_a_missing_trial_is_excluded_from_both_sides(planned):
    make, root = planned
    for path in (root / "e-dot-seed_3" / "evaluations").iterdir():
        path.unlink()
    found = gather(make())
    assert (len(group(found, "dot").trials), group(found, "dot").planned) == (2, 3)
    assert row(found, "dot", 3).spread.mean == pytest.approx(0.55)
    assert row(found, "scaled", 3).spread.mean == pytest.approx(0.8)
    assert row(found, "scaled", 3).difference.mean == pytest.approx((0.3 + 0.1) / 2)


def test_no_difference_without_baseline_trials(planned):
    make, root = planned
    for number in (1, 2, 3):
        (root / f"e-dot-seed_{number}" / "status.json").unlink()
    found = gather(make())
    assert [group.label for group in found.groups] == ["scaled", "none"]
    assert row(found, "scaled", 3).difference is None


def test_other_metrics_and_missing_ones(planned):
    make, _ = planned
    assert row(gather(make(metric="teacher_forced")), "dot", 3).spread.mean == pytest.approx(0.3)
    found = gather(make(metric="entropy"))
    assert row(found, "scaled", 3).spread.mean == pytest.approx(1.6)
    assert row(found, "scaled", 3).spread.high > 1.6  # no share: not cut at 1
    assert group(found, "none").lengths == ()


def test_parameters_losses_and_speeds(comparison):
    found = group(comparison, "dot")
    assert (found.parameters, found.published_loss, found.score) == (1234, 0.15, "dot")
    assert found.loss.mean == pytest.approx(0.2)
    assert found.tokens_per_second == 400.0  # medians of the trials: 200, 400, 600
    assert (row(comparison, "dot", 3).published, row(comparison, "dot", 9).published) == (0.55, None)
    assert row(comparison, "scaled", 3).published is None
    assert (row(comparison, "dot", 3).trained, row(comparison, "dot", 9).trained) == (True, False)
    assert found.trials[1].losses == ((10, 9.0), (20, 0.2))
    assert found.trials[1].entropies == ((10, 4.0),)


def test_removed_metrics_lose_only_the_curves(planned):
    make, root = planned
    (root / "e-dot-seed_1" / "metrics.jsonl").unlink()
    (root / "e-dot-seed_2" / "metrics.jsonl").write_text('{"step": 10, "loss": 0.5}\n{"step')
    found = group(gather(make()), "dot")
    assert [trial.losses for trial in found.trials] == [(), ((10, 0.5),), ((10, 9.0), (20, 0.3))]
    assert found.loss.mean == pytest.approx(0.4)


# ---- for programs ----


def test_json_holds_groups_and_trials(comparison):
    told = json.loads(json.dumps(to_json(comparison)))
    assert (told["experiment"], told["metric"], len(told["groups"]), len(told["trials"])) == ("e", "exact_match", 3, 9)
    scaled = told["groups"][1]
    assert (scaled["group"], scaled["baseline"], scaled["trials"], scaled["planned"]) == ("scaled", "dot", 3, 3)
    assert scaled["values"] == {"model.attention.score": "scaled"}
    assert scaled["lengths"]["3"]["mean"] == pytest.approx(0.8)
    assert scaled["lengths"]["3"]["difference"]["mean"] == pytest.approx(0.2)
    assert scaled["lengths"]["9"]["trained"] is False
    assert measured.value_of(told["trials"][0], "exact_match", 3) == 0.5


def test_csv_has_a_row_for_each_trial_and_length(comparison):
    file = io.StringIO()
    csv.writer(file).writerows(csv_rows(comparison))
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert len(rows) == 9 * 2
    first, last = rows[0], rows[-1]
    assert (first["run"], first["model.attention.score"], first["seed"], first["length"]) == (
        "e-dot-seed_1",
        "dot",
        "1",
        "3",
    )
    assert (first["exact_match"], first["trained"], first["parameters"], first["last_loss"]) == (
        "0.5",
        "true",
        "1234",
        "0.1",
    )
    assert (last["group"], last["length"], last["trained"], last["entropy"]) == ("none", "9", "false", "")


def test_the_piped_table_has_a_row_for_each_group_and_length(comparison, capsys):
    comparison_table.show(comparison)
    header, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert [(row["group"], row["length"]) for row in rows] == [
        (label, length) for label in EXACT for length in ("3", "9")
    ]
    scaled = rows[2]
    assert (scaled["seeds"], scaled["mean"], scaled["sd"]) == ("3", "0.800000", "0.100000")
    assert (scaled["worst"], scaled["worst_seed"], scaled["best"], scaled["best_seed"]) == (
        "0.700000",
        "2",
        "0.900000",
        "3",
    )
    assert (scaled["baseline"], scaled["difference"], scaled["published"]) == ("dot", "0.200000", "")
    assert (rows[0]["published"], rows[0]["published_loss"], rows[1]["trained"]) == ("0.550000", "0.150000", "no")
    assert header[-1] == "tokens_per_second"  # a timing: apart from what two invocations share


def test_the_rich_table_fits_80_columns(comparison):
    file = io.StringIO()
    comparison_table._show_to_people(comparison, Console(file=file, width=80, soft_wrap=True))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in file.getvalue()
    text = " ".join(file.getvalue().split())
    assert "3 0.800 ± 0.100 0.700 0.900 0.552-1.000 +0.200 [-0.048, +0.448]" in text
    assert "9* 0.100 ± 0.000" in text
    assert "3 0.600 ± 0.100 0.550 0.500 0.700" in text
    assert "3 seeds, 1,234 parameters, loss 0.2000 (published 0.1500), 400 tokens/s" in text
    assert "scaled against dot" in text


def test_one_seed_gets_a_table_without_intervals(planned):
    make, root = planned
    experiment = make().experiment.varied([parse_vary("seed=2")])
    found = gather(make_plan(experiment, Path(root)))
    file = io.StringIO()
    comparison_table._show_to_people(found, Console(file=file, width=100))
    text = " ".join(file.getvalue().split())
    assert "3 0.700 +0.100" in text
    assert "interval" not in text.replace("95 % intervals", "")


# ---- ranking ----
# means over the two lengths, by seed: dot .3 .35 .4, scaled .45 .45 .6, none .5 .5 .35


def test_groups_are_ranked_by_their_mean_over_the_lengths(comparison):
    first, second, third = comparison.ranking
    assert [(one.rank, one.group) for one in (first, second, third)] == [(1, "scaled"), (2, "none"), (3, "dot")]
    assert [one.spread.mean for one in (first, second, third)] == pytest.approx([0.5, 0.45, 0.35])
    assert first.difference is None
    half = 4.302653 * math.sqrt(0.03) / math.sqrt(3)  # none - scaled: .05, .05, -.25
    found = second.difference
    assert (found.mean, found.low, found.high) == pytest.approx((-0.05, -0.05 - half, -0.05 + half), abs=1e-6)
    half = 4.302653 * 0.05 / math.sqrt(3)  # dot - scaled: -.15, -.1, -.2
    assert (third.difference.low, third.difference.high) == pytest.approx((-0.15 - half, -0.15 + half), abs=1e-6)
    assert [one.may_be_best for one in (first, second, third)] == [True, True, False]


def test_the_lowest_error_rate_is_the_best():
    best, worst, other = rank({"a": {1: 0.5, 2: 0.6}, "b": {1: 0.1, 2: 0.2}, "c": {1: 0.9, 2: 0.1}}, lowest_first=True)
    assert (best.group, best.rank, worst.group, worst.rank, other.rank) == ("b", 1, "c", 2, 3)
    assert other.difference.mean == pytest.approx(0.4)  # by 0.4 with both seeds
    assert (best.may_be_best, worst.may_be_best, other.may_be_best) == (True, True, False)


def test_intervals_of_the_ranking_stay_within_what_is_possible():
    best, worst = rank({"a": {1: 1.0, 2: 0.7}, "b": {1: 0.0, 2: 0.4}})
    assert (best.spread.low, best.spread.high) == (0.0, 1.0)
    assert (worst.difference.low, worst.difference.high) == (-1.0, 1.0)


def test_equal_groups_share_a_rank_and_groups_without_values_are_left_out():
    ranked = rank({"a": {1: 0.5}, "b": {1: 0.9}, "c": {2: 0.9}, "d": {}})
    assert [(one.rank, one.group) for one in ranked] == [(1, "b"), (1, "c"), (3, "a")]
    assert ranked[1].difference is None  # no seed in common


def test_one_group_and_entropy_have_no_ranking(planned):
    make, root = planned
    assert gather(make(metric="entropy")).ranking == ()
    assert [one.group for one in gather(make(metric="alignment")).ranking] == ["dot", "scaled"]
    one = make().experiment.varied([parse_vary("model.attention.score=dot")])
    assert gather(make_plan(one, Path(root))).ranking == ()


def test_the_ranking_is_shown_and_names_the_best(comparison):
    file = io.StringIO()
    comparison_table._show_to_people(comparison, Console(file=file, width=80, soft_wrap=True))
    lines = [" ".join(line.split()) for line in file.getvalue().split("ranking: ")[1].splitlines()]
    assert lines == [
        "exact match, mean over the lengths",
        "group mean behind the best",
        "1 scaled 0.500 [0.285, 0.715]",
        "2 none 0.450 [0.235, 0.665] -0.050 [-0.480, +0.380]",
        "3 dot 0.350 [0.226, 0.474] -0.150 [-0.274, -0.026]",
        "Best: scaled. These seeds do not show that it is better than none.",
    ]


def test_the_ranking_of_one_seed_is_said_to_be_uncertain(planned):
    make, root = planned
    experiment = make().experiment.varied([parse_vary("seed=2")])
    file = io.StringIO()
    comparison_table._show_to_people(gather(make_plan(experiment, Path(root))), Console(file=file, width=80))
    assert "Best: none. With one seed each, the order may be chance" in file.getvalue()


def test_the_ranking_is_in_json_csv_and_the_piped_table(comparison, capsys):
    ranking = to_json(comparison)["ranking"]
    assert [(one["rank"], one["group"]) for one in ranking] == [(1, "scaled"), (2, "none"), (3, "dot")]
    assert ranking[1]["difference"]["mean"] == pytest.approx(-0.05)
    header, *lines = csv_rows(comparison)
    assert {(line[1], line[header.index("rank")]) for line in lines} == {("scaled", 1), ("none", 2), ("dot", 3)}
    comparison_table.show(comparison)
    header, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    row = dict(zip(header, lines[0], strict=True))
    assert (row["group"], row["rank"], row["overall"], row["overall_low"][:5]) == ("dot", "3", "0.350000", "0.225")
