"""Every score x window x history x arrangement that is allowed keeps what the plain ones keep."""

import itertools

import pytest
import torch

from seq2attn.catalogue import HISTORIES, SCORES, WINDOWS
from seq2attn.config import check_config
from seq2attn.data.padding import valid_mask
from seq2attn.model.build import build_model

ARRANGEMENTS = {"bahdanau": {}, "luong": {"decoder": "luong"}, "feeding": {"decoder": "luong", "input_feeding": True}}
WINDOW_KINDS = [
    *({"window": name} for name in WINDOWS.names() if name != "local_m"),
    {"window": "local_m", "radius": 1},
    {"window": "local_m", "centre": "reversed", "radius": 1},
]
LENGTHS = torch.tensor([4, 2, 1])
ALPHABET = "abc"
D = 3


def label(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else value


def keys_of(score):
    """Both directions where the score takes keys wider than queries."""
    return {"bidirectional": not SCORES.get(score).equal_widths}


def make(score, window, history, arrangement, **attention):
    values = {"hidden": D, "embedding": 2, **ARRANGEMENTS[arrangement], **keys_of(score)}
    attention = {"score": score, "history": history, "scalable_softmax": history == "location", **window, **attention}
    config = {"task": {"alphabet": ALPHABET}, "model": {**values, "attention": attention}}
    return build_model(check_config(config)).double()


def batch(padding=0, rows=slice(None)):
    random = torch.Generator().manual_seed(0)
    source = torch.randint(3, 6, (3, 4), generator=random)
    tokens = torch.randint(3, 6, (3, 3), generator=random)
    lengths = LENGTHS[rows]
    source = source[rows].masked_fill(~valid_mask(lengths, 4), 5)  # garbage in the padding
    source = torch.cat([source, torch.full((len(lengths), padding), 4)], dim=1)
    return source[:, : int(lengths.max()) + padding], lengths, tokens[rows]


COMBINATIONS = [
    (score, window, history, arrangement)
    for score, window, history, arrangement in itertools.product(
        (name for name in SCORES.names() if name != "none"), WINDOW_KINDS, HISTORIES.names(), ARRANGEMENTS
    )
]
every_combination = pytest.mark.parametrize(("score", "window", "history", "arrangement"), COMBINATIONS, ids=label)
some_combinations = pytest.mark.parametrize(
    ("score", "window", "history", "arrangement"),
    [c for c in COMBINATIONS if c[0] in ("additive", "cosine")] + [c for c in COMBINATIONS if c[3] == "feeding"],
    ids=label,
)


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


@every_combination
def test_a_string_is_answered_the_same_alone_padded_and_among_others(score, window, history, arrangement):
    model = make(score, window, history, arrangement)
    together = model(*batch(padding=2))
    assert together.logits.isfinite().all()
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(*batch(rows=slice(row, row + 1)))
        assert_close(together.logits[row], alone.logits[0])
        assert_close(together.weights[row, :, :length], alone.weights[0])
        assert (together.weights[row, :, length:] == 0).all()


@every_combination
def test_teacher_forcing_is_stepping(score, window, history, arrangement):
    model = make(score, window, history, arrangement)
    source, lengths, tokens = batch(padding=1)
    forced = model(source, lengths, tokens)
    memory, state = model.encode(source, lengths)
    for position in range(3):
        decoded, state = model.step(tokens[:, position], state, memory)
        assert_close(decoded.logits, forced.logits[:, position : position + 1])
        assert_close(decoded.weights, forced.weights[:, position : position + 1])


@some_combinations
def test_gradients_against_finite_differences(score, window, history, arrangement):
    model = make(score, window, history, arrangement)
    source, lengths, tokens = batch(rows=slice(0, 2))
    parameters = dict(model.named_parameters())
    direction = [
        torch.randn(p.shape, generator=torch.Generator().manual_seed(1), dtype=p.dtype) for p in model.parameters()
    ]

    def loss():
        decoded = model(source, lengths, tokens)
        return decoded.logits.square().sum() + decoded.weights.square().sum()

    gradients = torch.autograd.grad(loss(), list(parameters.values()))
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
    step = 1e-6

    def moved(sign):
        with torch.no_grad():
            for parameter, d in zip(parameters.values(), direction, strict=True):
                parameter += sign * step * d
            value = float(loss())
            for parameter, d in zip(parameters.values(), direction, strict=True):
                parameter -= sign * step * d
        return value

    assert slope == pytest.approx((moved(1) - moved(-1)) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("score", "window", "history", "arrangement"),
    [combination for combination in COMBINATIONS if combination[1]["window"] == "local_m"],
    ids=label,
)
def test_outside_its_window_nothing_is_attended_to(score, window, history, arrangement):
    model = make(score, window, history, arrangement)
    source, lengths, tokens = batch(padding=1)
    decoded = model(source, lengths, tokens)
    for row, length in enumerate(lengths.tolist()):
        for t in range(3):
            # with the default source_eos the last of a source's tokens is no character
            centre = length - 1 - 1 - t if window.get("centre") == "reversed" else t
            inside = {j for j in range(length) if abs(j - centre) <= 1}
            assert set(decoded.weights[row, t].nonzero().flatten().tolist()) == inside


@pytest.mark.parametrize("history", [name for name in HISTORIES.names() if name != "none"])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_each_step_is_told_the_weights_of_those_before(history, arrangement):
    model = make("additive", {"window": "global"}, history, arrangement)
    source, lengths, tokens = batch()
    memory, state = model.encode(source, lengths)
    given = []
    for position in range(3):
        decoded, state = model.step(tokens[:, position], state, memory)
        given.append(decoded.weights.squeeze(1))
        expected = {"location": [given[-1]], "coverage": [sum(given)], "location_coverage": [given[-1], sum(given)]}
        assert_close(state.past, torch.stack(expected[history], dim=1))
    at_once = model(source, lengths, tokens)
    assert_close(at_once.weights, torch.stack(given, dim=1))
