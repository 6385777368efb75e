import pytest

from seq2attn.build import build_model
from seq2attn.config import check_config
from seq2attn.model.parameters import parameter_ledger


def model_with(score, **model):
    values = {"embedding": 32, "hidden": 96, "initial_state": "zeros", "attention": {"score": score}, **model}
    return build_model(check_config({"model": values}))


def gru(inputs, hidden):
    """Three gates, each with a map of the input, a map of the state, and two biases."""
    return 3 * hidden * (inputs + hidden) + 6 * hidden


# GRU: 3*96*(32+96) + 6*96 = 37440; with a context of 96: 3*96*(128+96) + 6*96 = 65088;
# with one of 192: 3*96*(224+96) + 6*96 = 92736
@pytest.mark.parametrize(
    ("score", "model", "parts"),
    [
        ("dot", {}, (928, 37440, 0, 0, 928, 65088, 192 * 29 + 29)),
        ("scaled", {}, (928, 37440, 0, 0, 928, 65088, 192 * 29 + 29)),
        ("general", {}, (928, 37440, 0, 9216, 928, 65088, 192 * 29 + 29)),
        ("scaled_general", {}, (928, 37440, 0, 9216, 928, 65088, 192 * 29 + 29)),
        ("additive", {}, (928, 37440, 0, 18528, 928, 65088, 192 * 29 + 29)),
        ("dot", {"initial_state": "last"}, (928, 37440, 0, 0, 928, 65088, 192 * 29 + 29)),
        ("none", {"initial_state": "bridge"}, (928, 37440, 9312, 0, 928, 37440, 96 * 29 + 29)),
        ("general", {"bidirectional": True}, (928, 74880, 0, 96 * 192, 928, 92736, 288 * 29 + 29)),
        (
            "additive",
            {"bidirectional": True, "initial_state": "bridge"},
            (928, 74880, 9312, 96 * (96 + 192) + 96, 928, 92736, 288 * 29 + 29),
        ),
    ],
)
def test_exact_counts(score, model, parts):
    names = (
        "encoder embedding",
        "encoder cells",
        "initial state",
        "attention",
        "decoder embedding",
        "decoder cells",
        "output layer",
    )
    built = model_with(score, **model)
    expected = {name: count for name, count in zip(names, parts, strict=True) if count or name == "attention"}
    assert parameter_ledger(built) == {**expected, "total": sum(parts)}
    assert sum(parts) == sum(parameter.numel() for parameter in built.parameters())


def test_the_sizes_above_are_the_formulas():
    assert (gru(32, 96), gru(32 + 96, 96), gru(32 + 192, 96)) == (37440, 65088, 92736)
    assert (29 * 32, 96 * 96, 2 * 96 * 96 + 96, 96 * 96 + 96) == (928, 9216, 18528, 9312)


@pytest.mark.parametrize("hidden", [64, 96])
def test_what_each_score_adds_to_dot(hidden):
    dot = parameter_ledger(model_with("dot", hidden=hidden))["total"]
    added = {
        score: parameter_ledger(model_with(score, hidden=hidden))["total"] - dot
        for score in ("scaled", "general", "scaled_general", "additive")
    }
    assert added == {
        "scaled": 0,
        "general": hidden**2,
        "scaled_general": hidden**2,
        "additive": 2 * hidden**2 + hidden,
    }


def test_additive_width_option():
    ledger = parameter_ledger(model_with("additive", attention={"score": {"name": "additive", "width": 10}}))
    assert ledger["attention"] == 10 * (96 + 96) + 10
