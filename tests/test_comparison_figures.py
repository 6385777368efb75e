"""Figures of a comparison: what is drawn, in which colour, and that nothing overlaps."""

from dataclasses import replace

import measured
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from seq2attn.comparison import figures as drawing
from seq2attn.comparison.groups import GroupResult, LengthSummary, TrialResult
from seq2attn.comparison.results import Comparison
from seq2attn.inference.results import Evaluation
from seq2attn.inference.statistics import spread
from seq2attn.plotting.style import score_colour


def trial(seed, level):
    return TrialResult(
        run=f"r-{seed}",
        seed=seed,
        evaluation=Evaluation((measured.row("exact_match", 3, 0.5),)),
        places=[],
        parameters={"total": 1},
        losses=((10, level), (20, level / (1 + seed))),
        entropies=((10, level * seed), (20, 0.5)),
        tokens_per_second=1.0,
    )


def group(values, score, level, *, published=None, seeds=(1, 2, 3)):
    words = {
        key: value if isinstance(value, str) else f"{key.rpartition('.')[2]}={value}" for key, value in values.items()
    }
    rows = []
    for length in (3, 10):
        by_seed = {seed: level + 0.1 * seed for seed in seeds}
        rows.append(
            LengthSummary(
                "exact_match", "random", length, length < 9, by_seed, spread(list(by_seed.values())), None, published
            )
        )
    return GroupResult(
        label=", ".join(words.values()),
        values=values,
        words=words,
        score=score,
        baseline=None,
        planned=3,
        trials=tuple(trial(seed, level) for seed in seeds),
        lengths=tuple(rows),
        published_loss=None,
    )


def comparison(*groups):
    return Comparison("e", "exact_match", groups)


SCORE, HIDDEN = "model.attention.score", "model.hidden"
TWO_BY_TWO = comparison(
    *(
        group({SCORE: score, HIDDEN: hidden}, score, level)
        for score, level in (("dot", 0.2), ("scaled", 0.5))
        for hidden in (8, 16)
    )
)


def panels(figure):
    return [panel for panel in figure.axes if panel.axison]


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def colours(panel):
    return {line.get_label(): to_hex(line.get_color()) for line in panel.lines if not line.get_label().startswith("_")}


def test_scores_set_colours_and_other_keys_make_panels():
    for draw in (drawing.loss_figure, drawing.length_figure, drawing.entropy_figure):
        figure = draw(TWO_BY_TWO)
        assert [panel.get_title(loc="left") for panel in panels(figure)] == ["hidden=8", "hidden=16"]
        for panel in panels(figure):
            assert colours(panel) == {"dot": score_colour("dot"), "scaled": score_colour("scaled")}
        assert legend(figure) == ["dot", "scaled"]


def test_scores_set_the_colours_of_bars():
    for panel in panels(drawing.bar_figure(TWO_BY_TWO)):
        bars = [container for container in panel.containers if container.get_label() in ("dot", "scaled")]
        assert [to_hex(bar[0].get_facecolor()) for bar in bars] == [score_colour("dot"), score_colour("scaled")]


def test_base_configs_that_only_name_the_score_make_no_panels():
    groups = [
        group({"config": f"{score}-file", "model.attention.mask_padding": mask}, score, 0.2)
        for score in ("dot", "scaled")
        for mask in (False, True)
    ]
    facets = drawing.facets_of(groups)
    assert list(facets) == ["mask_padding=False", "mask_padding=True"]
    assert [series.label for series in facets["mask_padding=True"]] == ["dot-file", "scaled-file"]


def test_variants_of_one_score_share_a_panel_and_differ_in_style():
    groups = [group({HIDDEN: hidden}, "dot", 0.2) for hidden in (8, 16, 32)]
    (series,) = drawing.facets_of(groups).values()
    assert [item.label for item in series] == ["hidden=8", "hidden=16", "hidden=32"]
    assert to_hex(series[0].look.colour) == score_colour("dot")
    assert len({(item.look.colour, item.look.dash, item.look.marker) for item in series}) == 3


def test_curves_and_bands_match_the_seeds():
    figure = drawing.loss_figure(comparison(group({SCORE: "dot"}, "dot", 1.2)))
    (panel,) = panels(figure)
    (line,) = panel.lines
    np.testing.assert_allclose(line.get_xydata(), [(10, 1.2), (20, 0.4)])  # 1.2 / (2, 3, 4): the median is .4
    (band,) = panel.collections
    corners = band.get_paths()[0].vertices
    assert corners[corners[:, 0] == 20][:, 1].min() == pytest.approx(0.3)
    assert corners[corners[:, 0] == 20][:, 1].max() == pytest.approx(0.6)
    assert panel.get_yscale() == "log"


def test_bars_have_their_interval_and_a_dot_for_each_seed():
    found = group({SCORE: "dot"}, "dot", 0.2)
    (panel,) = panels(drawing.bar_figure(comparison(found)))
    bars = [bar for container in panel.containers if container.get_label() == "dot" for bar in container]
    assert [bar.get_height() for bar in bars] == [pytest.approx(0.4)]
    (interval, *_) = [item for item in panel.collections if len(item.get_paths()) == 1]
    ends = interval.get_paths()[0].vertices[:, 1]
    assert sorted(ends) == pytest.approx([found.lengths[0].spread.low, found.lengths[0].spread.high])
    dots = [line for line in panel.lines if line.get_marker() == "o"]
    assert [sorted(line.get_ydata()) for line in dots] == [pytest.approx([0.3, 0.4, 0.5])] * 2


def test_published_figures_are_diamonds_with_an_entry_in_the_legend():
    figure = drawing.length_figure(comparison(group({SCORE: "dot"}, "dot", 0.2, published=0.7)))
    (panel,) = panels(figure)
    (diamonds,) = [line for line in panel.lines if line.get_marker() == "D"]
    assert diamonds.get_xydata().tolist() == [[3, 0.7], [10, 0.7]]
    assert legend(figure) == ["dot", "published"]
    assert "published" in legend(drawing.bar_figure(comparison(group({SCORE: "dot"}, "dot", 0.2, published=0.7))))
    assert "published" not in legend(drawing.loss_figure(comparison(group({SCORE: "dot"}, "dot", 0.2, published=0.7))))


def test_untrained_lengths_have_a_grey_background_and_the_title_says_so():
    figure = drawing.length_figure(TWO_BY_TWO)
    for panel in panels(figure):
        (ground,) = panel.patches
        assert (ground.get_x(), ground.get_x() + ground.get_width()) == (9.5, 10.5)
    assert "grey: never seen in training" in figure.get_suptitle()


def test_the_title_of_a_narrow_figure_is_not_cut():
    two = comparison(group({SCORE: "dot"}, "dot", 0.2), group({SCORE: "none"}, "none", 0.2))
    figure = drawing.length_figure(replace(two, name="compare-a-config-of-some-name"))
    FigureCanvasAgg(figure).draw()
    assert "grey: never" in figure.get_suptitle()
    assert figure._suptitle.get_window_extent().x1 <= figure.bbox.x1


def test_only_figures_with_data_are_written(tmp_path):
    paths = drawing.save_figures(TWO_BY_TWO, tmp_path)
    assert [path.name for path in paths] == ["e-loss.png", "e-lengths.png", "e-bars.png", "e-entropy.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    bare = group({SCORE: "none"}, "none", 0.2, seeds=(1,))
    object.__setattr__(bare.trials[0], "entropies", ())
    object.__setattr__(bare.trials[0], "losses", ())
    assert [path.name for path in drawing.save_figures(comparison(bare), tmp_path)] == ["e-lengths.png", "e-bars.png"]


@pytest.mark.parametrize("scores", [pytest.param(2, marks=pytest.mark.slow), 7])
def test_no_texts_overlap(scores):
    names = ["dot", "scaled", "general", "additive", "cosine", "key_value", "scaled_general"][:scores]
    groups = [group({SCORE: name, HIDDEN: hidden}, name, 0.3) for hidden in (64, 96, 256, 512) for name in names]
    for draw in (drawing.loss_figure, drawing.length_figure, drawing.bar_figure, drawing.entropy_figure):
        figure = draw(comparison(*groups))
        assert len(panels(figure)) == 4  # of 6 places: the others are left empty
        boxes = [text.get_window_extent() for text in visible_texts(figure)]
        for number, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[number + 1 :])
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0


def visible_texts(figure):
    FigureCanvasAgg(figure).draw()
    found = [figure._supylabel, figure._suptitle, *figure.legends[0].get_texts()]
    for panel in panels(figure):
        found += [panel._left_title, panel.xaxis.label]
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text() and text.get_window_extent().height > 1]
