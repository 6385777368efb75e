import re

import pytest
from inline import call_main

from seq2attn.analysis.ledger import parameter_ledger
from seq2attn.build import build_model
from seq2attn.config import check_config


def model_with(score, **model):
    values = {
        "embedding": 32,
        "hidden": 96,
        "initial_state": "zeros",
        "attention": {"score": score},
        **model,
    }
    return build_model(check_config({"model": values}))


# GRU: 3*96*(32+96) + 6*96 = 37440; with a context of 96: 3*96*(128+96) + 6*96 = 65088;
# with one of 192: 3*96*(224+96) + 6*96 = 92736
@pytest.mark.parametrize(
    ("score", "model", "parts"),
    [
        ("dot", {}, (37440, 0, 0, 65088, 192 * 29 + 29)),
        ("general", {"initial_state": "last"}, (37440, 0, 9216, 65088, 192 * 29 + 29)),
        ("additive", {}, (37440, 0, 18528, 65088, 192 * 29 + 29)),
        ("additive", {"attention": {"score": {"name": "additive", "width": 10}}},
         (37440, 0, 10 * 192 + 10, 65088, 192 * 29 + 29)),
        ("none", {"initial_state": "bridge"}, (37440, 9312, 0, 37440, 96 * 29 + 29)),
        ("additive", {"bidirectional": True, "initial_state": "bridge"},
         (74880, 9312, 96 * (96 + 192) + 96, 92736, 288 * 29 + 29)),
    ],
)  # fmt: skip
def test_exact_counts(score, model, parts):
    names = (*(f"encoder {name}" for name in ("embedding", "cells")), "initial state", "attention")
    names += (*(f"decoder {name}" for name in ("embedding", "cells")), "output layer")
    built, embedding = model_with(score, **model), 29 * 32
    parts = (embedding, *parts[:3], embedding, *parts[3:])
    expected = {
        name: count
        for name, count in zip(names, parts, strict=True)
        if count or name == "attention"
    }
    assert parameter_ledger(built) == {**expected, "total": sum(parts)}
    assert sum(parts) == sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize(("columns", "parts"), [("60", 2), ("45", 3), ("80", 1)])
def test_numbers_are_whole_where_the_table_is_wider_than_the_terminal(monkeypatch, columns, parts):
    monkeypatch.setenv("COLUMNS", columns)
    shown = call_main(
        ["analyze", "ledger", "--source=800", "--target=801", "--width=256"], terminal=True
    ).out
    shown = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert shown.count("key_value") == parts and max(map(len, shown.splitlines())) <= int(columns)
    assert "42,375,987,200" in shown and "432,947,200" in shown
