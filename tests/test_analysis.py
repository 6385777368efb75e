"""Analyses before training, and what models cost."""

import json
import math

import numpy as np
import pytest
import torch
from inline import call_main, plain
from models import ATTENDING, make_config, make_score
from tables import table
from torch.overrides import TorchFunctionMode

from seq2attn.analysis import figures
from seq2attn.analysis.before_training import (
    entropy_by_width,
    expected_entropy,
    gradient_by_scale,
    score_variance,
    weight_saturation,
    window_masks,
)
from seq2attn.analysis.costs import formulas, parameter_ledger, score_costs
from seq2attn.build import build_model
from seq2attn.config import check_config
from seq2attn.display.signs import score_colour

# ---- variance ----


def test_measured_variance_lies_within_its_sampling_error():
    result = score_variance(
        ["additive", "dot", "scaled", "general"],
        [4, 32, 256],
        samples=20_000,
        seed=1,
        query_mean=0.5,
        key_mean=-1.0,
    )
    without, with_formula = result.rows[:3], result.rows[3:]
    assert len(with_formula) == 9
    for row in without:
        assert row.variance > 0
        assert row.variance_theory is row.deviation is None
    for row in with_formula:
        assert abs(row.deviation) < 4
        assert abs(row.variance - row.variance_theory) < 4 * row.variance_error
        # of nearly normal values it is variance * sqrt(2 / n); of heavier tails (small D) somewhat
        # more
        assert 0.95 < row.variance_error / (row.variance * math.sqrt(2 / 20_000)) < 2.1


# ---- saturation, entropy ----


def test_scaled_weights_stay_and_raw_weights_saturate():
    result = weight_saturation(["dot", "scaled"], [16, 1024], keys=8, samples=1000, seed=0)
    by_name = {(row.score, row.width): row for row in result.rows}
    assert by_name["dot", 16].largest < by_name["dot", 1024].largest > 0.95
    assert abs(by_name["scaled", 16].largest - by_name["scaled", 1024].largest) < 0.03
    assert by_name["dot", 1024].saturated > 0.7
    for row in result.rows:
        assert len(row.weights) == 8
        assert sum(row.weights) == pytest.approx(1)
        assert list(row.weights) == sorted(row.weights, reverse=True)


def test_expected_entropy_at_its_ends():
    assert expected_entropy(16, 1e-3) == pytest.approx(math.log(16), abs=1e-5)
    assert expected_entropy(1, 1.0) == pytest.approx(0, abs=1e-6)
    assert 0 < expected_entropy(16, 300.0) < 0.015


def test_entropy_of_scaled_scores_is_at_its_plateau_and_that_of_raw_ones_falls():
    rows = entropy_by_width(["dot", "scaled"], [64, 1024], keys=[16], samples=500, seed=3).rows
    expected = [(score, width) for score in ("dot", "scaled") for width in (64, 1024)]
    assert [(row.score, row.width) for row in rows] == expected
    for row in rows:
        assert abs(row.entropy - row.limit) < 4 * row.entropy_error + 0.3 / row.width * 16
    limit = expected_entropy(16, 1.0)
    assert rows[2].limit == rows[3].limit == limit < rows[0].uniform == math.log(16)
    assert rows[1].entropy < rows[0].entropy / 3


# ---- gradient ----


def test_the_gradient_peaks_near_one_and_collapses():
    result = gradient_by_scale([0.01, 0.1, 0.5, 1, 1.5, 2, 5, 10, 50], keys=8, samples=5000, seed=0)
    by_scale = {row.scale: row for row in result.rows}
    assert 1 <= max(result.rows, key=lambda row: row.mean).scale <= 2
    # at c = 0 all weights are 1/8: (1/8) sqrt((7/8)^2 + 7/64)
    assert by_scale[0.01].mean == pytest.approx(math.sqrt(49 + 7) / 64, rel=0.02)
    assert by_scale[10].median < 0.1 * by_scale[1].median
    for row in result.rows:
        assert row.mean == pytest.approx(row.formula, rel=1e-6)


# ---- masks ----


def test_windows_by_hand():
    rows = window_masks(4, 3, 1).rows
    masks = "global monotonic reversed local_p".split()
    assert [(row.mask, row.t) for row in rows] == [(mask, t) for mask in masks for t in range(3)]
    assert [row.centre for row in rows] == [None, None, None, 0, 1, 2, 3, 2, 1, 3, 1.5, 0]
    near = math.exp(-2 * 0.5**2)  # exp(-(1/2)^2 / (2 sigma^2)) with sigma = 1/2
    assert {row.factors for row in rows[:3]} == {(1, 1, 1, 1)}
    for row in rows[3:9]:
        assert row.factors == tuple(abs(j - row.centre) <= 1 for j in range(4))
    assert rows[10].factors == pytest.approx((0, near, near, 0))
    assert rows[9].factors == pytest.approx((0, 0, math.exp(-2), 1))
    assert rows[3].picture == "████    "
    assert rows[9].picture[4:] == "░░██"


def test_a_terminal_shows_windows_where_they_are(cli):
    lines = cli("analyze masks -S 3 -L 1 -R 1", terminal=True).check().out.splitlines()
    (row,) = [line for line in lines if "monotonic" in line]  # of keys 0 and 1
    (whole,) = [line for line in lines if "global" in line]
    assert row.index("█") == whole.index("█")


# ---- costs ----

SIZES = {"batch": 2, "source": 5, "target": 3, "hidden": 8}


@pytest.mark.parametrize("name", ATTENDING)
@pytest.mark.parametrize("hidden", [96, 64])
def test_parameters_are_those_of_the_model(name, hidden):
    settings = {"model": {"hidden": hidden, "initial_state": "last", "attention": {"score": name}}}
    (row,) = score_costs([name], 1, 1, 1, hidden).rows
    assert (
        row.attention_parameters
        == parameter_ledger(build_model(check_config(settings)))["attention"]
    )


class Products(TorchFunctionMode):
    """Counts the operations of products of matrices. torch's own counter imports its compiler."""

    operations = 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        found = function(*arguments, **keywords or {})
        if function.__name__ in ("bmm", "matmul", "linear"):
            self.operations += 2 * found.numel() * arguments[0].size(-1)
        return found


@pytest.mark.parametrize("name", ATTENDING)
def test_operations_are_those_of_the_score_s_products(name):
    """Products of matrices are counted; what else the formulas count is spelt out here."""
    score = make_score(name, 8, 8)
    query = torch.rand(1, 1, 8)
    keys = torch.rand(1, 5, 8)
    with Products() as projecting:
        projected = score.project(keys)
        score.values(keys)
    # a division of each component; of a cosine also a square and a sum, and a root of each key
    elsewhere = {
        **dict.fromkeys(("scaled", "scaled_general", "key_value"), 5 * 8),
        "cosine": 5 * (3 * 8 + 1),
    }.get(name, 0)
    assert formulas(5, 8)[name].projecting == projecting.operations + elsewhere
    with Products() as scoring:
        score(query, projected)
    # an addition and a tanh of each component; the query's length, exp(b), and each score times
    # that
    elsewhere = {"additive": 2 * 5 * 8, "cosine": 3 * 8 + 1 + 1 + 5}.get(name, 0)
    assert formulas(5, 8)[name].scoring == scoring.operations + elsewhere


def test_bytes_and_operations_by_hand():
    rows = {row.score: row for row in score_costs(["dot", "general", "additive"], **SIZES).rows}
    # float32; B = 2 times: scores and weights 2*3*5; projected keys 5*8; hidden layer 5*8 for each
    # of 3 queries, or once
    for name, at_once, by_step in (
        ("dot", 30, 30),
        ("general", 70, 70),
        ("additive", 70 + 120, 70 + 40),
    ):
        assert rows[name].bytes_at_once == 2 * 4 * at_once
        assert rows[name].bytes_by_step == 2 * 4 * by_step
    # scoring, projecting for one of 3 queries, softmax and context
    assert rows["general"].flops_query == 2 * 5 * 8 + round(2 * 5 * 64 / 3) + (4 * 5 + 2 * 5 * 8)


# ---- all of them ----

CALLS = {
    "variance": lambda seed: score_variance(
        ["dot", "additive"], [4, 8], samples=50, seed=seed, query_mean=0.0, key_mean=0.0
    ),
    "saturation": lambda seed: weight_saturation(
        ["dot", "general"], [4, 8], keys=3, samples=50, seed=seed
    ),
    "entropy": lambda seed: entropy_by_width(["dot"], [4], keys=[2], samples=50, seed=seed),
    "gradient": lambda seed: gradient_by_scale([0.1, 1.0, 10.0], keys=4, samples=50, seed=seed),
    "ledger": lambda _: score_costs(["dot", "additive"], **SIZES),
    "masks": lambda _: window_masks(6, 5, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_seed_decides_the_generator_of_everyone_is_left_alone_and_values_are_plain(name):
    before = torch.get_rng_state()
    result = CALLS[name](1)
    assert torch.get_rng_state().equal(before)
    assert CALLS[name](1) == result
    assert (CALLS[name](2).rows == result.rows) == (name in ("ledger", "masks"))
    assert all(json.dumps(vars(row), allow_nan=False) for row in result.rows)


def test_a_figure_shows_what_was_measured():
    result = CALLS["variance"](1)
    (axes,) = figures.variance_figure(result).axes
    dot = next(container for container in axes.containers if container.get_label() == "dot")
    expected = [[row.width, row.variance] for row in result.rows if row.score == "dot"]
    np.testing.assert_allclose(dot.lines[0].get_xydata(), expected)
    assert dot.lines[0].get_color() == score_colour("dot")


def test_the_picture_of_a_mask_is_its_factors():
    result = CALLS["masks"](1)
    drawn = [
        row
        for panel in figures.masks_figure(result).axes[:4]
        for row in panel.images[0].get_array()
    ]
    np.testing.assert_array_equal(drawn, [row.factors for row in result.rows])


# ---- the command line ----


@table(
    "words",
    """
variance --widths 4 8 --samples 50
saturation --widths 4 8 --samples 50 --scores dot bilinear
gradient --scales 0.1 1 --samples 50
entropy --widths 4 --keys 2 --samples 50 --scores dot additive
ledger -D 8 --scores dot additive
masks -S 4 -L 3 -R 1
""",
)
def test_a_pipe_gets_a_table_and_a_program_json(cli, blank_figures, words):
    line = f"analyze {words}"
    done = cli(f"{line} --plot figure.svg")
    assert done.rows()
    assert "figure: figure.svg" in done.err
    assert cli(f"{line} --json").json


# ---- the ledger of parameters ----


# GRU: 3*96*(32+96) + 6*96 = 37440; with a context of 96: 3*96*(128+96) + 6*96 = 65088;
# with one of 192: 3*96*(224+96) + 6*96 = 92736
@table(
    "score, encoder, bridge, attention, decoder, read",
    """
general model.initial_state=last | 37440 | 0 | 9216 | 65088 | 192
additive model.attention.score.width=10 | 37440 | 0 | 1930 | 65088 | 192  # 10 * 192 + 10
none model.initial_state=bridge | 37440 | 9312 | 0 | 37440 | 96
additive model.bidirectional=true model.initial_state=bridge
  | 74880 | 9312 | 27744 | 92736 | 288  # 96 * (96 + 192) + 96
""",
    "encoder bridge attention decoder read",
)
def test_exact_counts(score, encoder, bridge, attention, decoder, read):
    changes = "model.embedding=32 model.hidden=96 model.initial_state=zeros"
    built = build_model(make_config(f"{changes} model.attention.score={score}"))
    expected = {
        "encoder embedding": 29 * 32,
        "encoder cells": encoder,
        "attention": attention,
        "decoder embedding": 29 * 32,
        "decoder cells": decoder,
        "output layer": 29 * (read + 1),
    }
    expected |= {"initial state": bridge} if bridge else {}
    total = sum(expected.values())
    assert parameter_ledger(built) == {**expected, "total": total}
    assert total == sum(parameter.numel() for parameter in built.parameters())


@table(
    "columns, parts",
    """
60 | 2
45 | 3
80 | 1
""",
    "parts",
)
def test_numbers_are_whole_where_the_table_is_wider_than_the_terminal(monkeypatch, columns, parts):
    monkeypatch.setenv("COLUMNS", columns)
    done = call_main("analyze ledger --source=800 --target=801 --width=256", terminal=True)
    shown = plain(done.out)
    assert shown.count("key_value") == parts
    assert max(map(len, shown.splitlines())) <= int(columns)
    assert "42,375,987,200" in shown
    assert "432,947,200" in shown
