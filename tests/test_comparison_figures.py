"""Figures of a comparison: what is drawn, and in which colour."""

import measured
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose

import seq2attn
from seq2attn.comparison.figures import figures_of
from seq2attn.comparison.results import Group, TrialResult
from seq2attn.display.signs import score_colour
from seq2attn.results.statistics import Ranked, mean_over_seeds
from seq2attn.runs.records import Metrics

SCORE, HIDDEN = "model.attention.score", "model.hidden"


def trial(seed, level):
    losses = [(10, level), (20, level / (1 + seed))]
    evaluations = [
        (step, seq2attn.Evaluation((measured.row("entropy", 3, 0.1 * step),))) for step in (10, 20)
    ]
    evaluation = seq2attn.Evaluation((measured.row("exact_match", 3, 0.5),))
    return TrialResult(f"r-{seed}", seed, 9, evaluation, Metrics(losses, evaluations))


def group(values, score, level, *, seeds=(1, 2, 3)):
    by_seed = {seed: level + 0.1 * seed for seed in seeds}
    numbers = {
        "mean": mean_over_seeds(list(by_seed.values()), 0, 1),
        "worst": min(by_seed.values()),
        "best": max(by_seed.values()),
    }
    rows = [
        {"family": "random", "label": length, "trained": length < 9, **numbers}
        for length in (3, 10)
    ]
    trials = tuple(trial(seed, level) for seed in seeds)
    label = ", ".join(map(str, values.values()))
    return Group(label, values, score, None, 3, trials, values, rows, Ranked())


def figures(*groups):
    return figures_of(seq2attn.Comparison("e", "exact_match", groups))


TWO_BY_TWO = [
    group({SCORE: score, HIDDEN: hidden}, score, level)
    for score, level in (("dot", 0.2), ("scaled", 0.5))
    for hidden in (8, 16)
]


def panels(figure):
    return [panel for panel in figure.axes if panel.axison]


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def colours(panel):
    return {
        line.get_label(): to_hex(line.get_color())
        for line in panel.lines
        if not line.get_label().startswith("_")
    }


def test_scores_set_colours_and_other_keys_make_panels():
    made = figures(*TWO_BY_TWO)
    for name in ("loss", "results", "entropy"):
        narrow, wide = panels(made[name])
        assert narrow.get_title(loc="left") == "hidden=8"
        assert wide.get_title(loc="left") == "hidden=16"
        expected = {"dot": score_colour("dot"), "scaled": score_colour("scaled")}
        assert colours(narrow) == colours(wide) == expected
        assert legend(made[name]) == ["dot", "scaled"]


def test_curves_and_bands_match_the_seeds():
    (panel,) = panels(figures(group({SCORE: "dot"}, "dot", 1.2))["loss"])
    (line,) = panel.lines
    assert_allclose(line.get_xydata(), [(10, 1.2), (20, 0.4)])  # 1.2 / (2, 3, 4): the median is .4
    (band,) = panel.collections
    corners = band.get_paths()[0].vertices
    heights = corners[corners[:, 0] == 20][:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.3, 0.6))
    assert panel.get_yscale() == "log"


def test_results_have_their_interval_and_the_band_of_the_seeds():
    found = group({SCORE: "dot"}, "dot", 0.2)
    (panel,) = panels(figures(found)["results"])
    (line,) = panel.lines
    assert_allclose(line.get_xydata(), [(0, 0.4), (1, 0.4)])
    band, *intervals = panel.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.3, 0.5))
    for interval in intervals:
        ends = sorted(interval.get_paths()[0].vertices[:, 1])
        assert ends == pytest.approx([found.rows[0]["mean"].low, found.rows[0]["mean"].high])


def test_untrained_lengths_are_grey():
    made = figures(group({SCORE: "dot"}, "dot", 0.2))
    (panel,) = panels(made["results"])
    assert legend(made["results"]) == legend(made["loss"]) == ["dot"]
    (ground,) = panel.patches
    assert ground.get_x() == 0.5
    assert ground.get_x() + ground.get_width() == 1.5
    assert "grey: never seen in training" in made["results"].get_suptitle().replace("\n", " ")


def test_only_figures_with_data_are_drawn():
    assert sorted(figures(*TWO_BY_TWO)) == ["entropy", "loss", "results"]
    bare = group({SCORE: "none"}, "none", 0.2, seeds=(1,))
    bare = bare._replace(trials=(bare.trials[0]._replace(metrics=Metrics([], [])),))
    assert list(figures(bare)) == ["results"]
    assert figures() == {}
    assert "results" in figures(TWO_BY_TWO[0], TWO_BY_TWO[1]._replace(rows=[]))


def test_a_figure_names_what_it_draws_and_no_text_lies_on_another():
    without = group({SCORE: "none"}, "none", 0.3)
    trials = [one._replace(metrics=Metrics(one.metrics.losses, [])) for one in without.trials]
    drawn = figures(group({SCORE: "dot"}, "dot", 0.2), without._replace(trials=tuple(trials)))
    assert legend(drawn["entropy"]) == ["dot"]
    for figure in drawn.values():
        figure.canvas.draw()
        title, label = (text.get_window_extent() for text in figure.texts)
        assert label.y0 >= 0
        assert not label.overlaps(title)
