"""Windows, history and the scalable softmax against their formulas, written out for single numbers."""

import math

import pytest
import torch
from models import is_real, make_score

from seq2attn.model.attention import Attention
from seq2attn.model.histories import Coverage, Location, LocationCoverage, Shift
from seq2attn.model.windows import LocalM, LocalP

B, S, D = 2, 7, 4
LENGTHS = torch.tensor([7, 4])
SOURCE = torch.zeros(B, S, dtype=torch.int64)  # of no matter


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_attention(score="dot", **parts):
    torch.manual_seed(0)
    return Attention(make_score(score, D, D), **parts).double()


def attend(attention, query, past=None, first=0, lengths=LENGTHS):
    states = randn(B, S, D, seed=1)
    memory = attention.prepare(states, is_real(lengths, S), SOURCE)
    return attention(query, memory, attention.begin(memory) if past is None else past, first), states


def where(view, row, step):
    return view.allowed[row, step].nonzero().flatten().tolist()


# ---- local_m ----


def test_a_monotonic_window_moves_one_position_a_step_and_is_cut_at_the_edges():
    view = LocalM(D, False, radius=2)(randn(B, 3, D), LENGTHS, S, 0)
    assert [where(view, 0, t) for t in range(3)] == [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    later = LocalM(D, False, radius=1)(randn(B, 2, D), LENGTHS, S, 6)
    assert [where(later, 1, t) for t in range(2)] == [[5, 6], [6]]


@pytest.mark.parametrize(("source_eos", "centres"), [(False, {0: 6, 1: 3}), (True, {0: 5, 1: 2})])
def test_a_reversed_window_counts_from_each_sources_own_last_character(source_eos, centres):
    view = LocalM(D, source_eos, radius=1, centre="reversed")(randn(B, 2, D), LENGTHS, S, 0)
    for row, centre in centres.items():
        for t in range(2):
            assert where(view, row, t) == [j for j in range(S) if abs(j - (centre - t)) <= 1]


def test_a_window_past_the_source_gives_a_context_of_zeros():
    attended, _ = attend(make_attention(window=LocalM(D, False, radius=1)), randn(B, 1, D), first=20)
    assert (attended.weights == 0).all() and (attended.context == 0).all()


# ---- local_p ----


def test_gradients_reach_the_learned_centre():
    torch.manual_seed(1)
    attention = make_attention(window=LocalP(D, False, radius=2))
    attended, _ = attend(attention, randn(B, 3, D))
    attended.context.square().sum().backward()
    assert all((parameter.grad != 0).any() for parameter in attention.window.parameters())


# ---- history ----


def test_what_each_history_keeps():
    first, second = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.0, 1.0, 0.0]])
    total = torch.tensor([[0.5, 1.25, 0.25]])
    for kind, expected in ((Location, [second]), (Coverage, [total]), (LocationCoverage, [second, total])):
        history = kind(1, D)
        past = torch.zeros(1, kind.channels, 3)
        past = history.update(history.update(past, first), second)
        assert torch.equal(past, torch.stack(expected, dim=1))


def shift(p, power=2.0):
    """A `Shift` with these probabilities of moving from left to right, and this power."""
    history = Shift(1, D, reach=len(p) // 2).double()
    with torch.no_grad():
        history.logits.copy_(torch.tensor(p).clamp(min=1e-30).log() / history.speed)
        history.power.fill_(math.log(math.exp(power - 1) - 1))  # the power is 1 + ln(1 + exp(power))
    return history


def with_past(rows):
    """Previous weights, read once each."""
    weights = torch.tensor(rows).double().unsqueeze(1)
    return torch.cat([weights, weights], dim=1)  # (B, 2, S)


def test_a_shift_moves_the_weights_around_the_source():
    history = shift([0.8, 0.1, 0.1])  # one place left, none, right
    past = with_past([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 0, 0]])
    content = torch.tensor([0.25, 0.25, 0.5, 0.0]).double().expand(3, 1, 4)
    valid = torch.tensor([True, True, True, False]).expand(3, 1, 4)
    found = history.combine(content, past, None, valid, valid).squeeze(1)
    # row 0 has .1, .1 and at its other end .8; row 1 .8, .1, .1; both squared: .64, .01, .01.
    # row 2 has nothing to move: content, squared: 1/16, 1/16, 4/16
    expected = [[1 / 66, 1 / 66, 64 / 66, 0.0], [64 / 66, 1 / 66, 1 / 66, 0.0], [1 / 6, 1 / 6, 4 / 6, 0.0]]
    torch.testing.assert_close(found, torch.tensor(expected).double())


def test_a_shift_goes_around_a_source_shorter_than_its_reach():
    history = shift([0.4, 0.3, 0.1, 0.15, 0.05], power=1.0001)  # -2 to 2
    for length, expected in ((1, [1.0]), (2, [0.4 + 0.1 + 0.05, 0.3 + 0.15]), (3, [0.1, 0.4 + 0.15, 0.3 + 0.05])):
        past = with_past([[1.0, *[0.0] * 4]])
        valid = (torch.arange(5) < length).expand(1, 1, 5)
        found = history.combine(torch.zeros(1, 1, 5).double(), past, None, valid, valid)[0, 0]
        torch.testing.assert_close(found, torch.tensor([*expected, *[0.0] * (5 - length)]).double(), atol=1e-3, rtol=0)


def test_in_a_window_that_the_weights_have_left_content_decides_again():
    history = shift([0.0, 0.0, 1.0])
    allowed = torch.tensor([True, True, False, False]).expand(1, 1, 4)
    content = torch.tensor([[[0.75, 0.25, 0.0, 0.0]]]).double()
    for place, expected in ((0, [0.0, 1.0, 0.0, 0.0]), (1, [0.9, 0.1, 0.0, 0.0])):  # .75 and .25, squared: 9 to 1
        past = with_past([[float(place == j) for j in range(4)]])
        torch.testing.assert_close(
            history.combine(content, past, None, None, allowed)[0, 0], torch.tensor(expected).double()
        )


def test_a_shift_tells_how_often_it_has_read_what_it_reads():
    history, read = shift([0.0, 0.0, 1.0]), []
    past, weights = torch.zeros(1, 2, 3).double(), torch.tensor([[[1.0, 0.0, 0.0]]]).double()
    for _ in range(7):  # three letters, read more than twice
        weights = history.combine(weights, past, None, None, None)
        read.append(float(history.read(weights, past).detach()))
        past = history.update(past, weights.squeeze(1))
    assert read == pytest.approx([0, 0, 0, 1, 1, 1, 2])
    widths = [make_attention("dot", history=Shift(1, D, rereading=kind)).context_width for kind in (True, False)]
    assert widths == [D + 1, D]


@torch.no_grad()
def test_a_shift_stays_sharp_over_many_steps():
    history = shift([0.0, 0.9, 0.04, 0.03, 0.03], power=1.7)
    past = torch.zeros(1, 2, 300).double()
    past[0, :, 299] = 1.0
    for step in range(1, 1000):
        weights = history.combine(torch.full((1, 1, 300), 1 / 300).double(), past, None, None, None)
        past = history.update(past, weights.squeeze(1))
        assert int(weights.argmax()) == (299 - step) % 300
    assert float(weights.max()) > 0.9


def test_history_begins_with_nothing_looked_at_and_is_never_changed_in_place():
    attention = make_attention(history=LocationCoverage(1, D))
    memory = attention.prepare(randn(B, S, D), is_real(LENGTHS, S), SOURCE)
    past = attention.begin(memory)
    assert past.shape == (B, 2, S) and (past == 0).all()
    attention(randn(B, 1, D), memory, past)
    assert (past == 0).all()


# ---- scalable softmax ----


def test_attention_stays_as_sharp_on_longer_sources():
    # one key scores e more than all others: its weight is n^e / (n^e + n - 1), which grows with n if e > 1
    plain, scaled = make_attention(), make_attention(scalable_softmax=True)
    weights = {}
    for n in (8, 800):
        states = torch.zeros(1, n, D, dtype=torch.float64)
        states[0, 3, 0] = 2.0
        query = torch.eye(D, dtype=torch.float64)[:1].unsqueeze(0)
        for name, attention in (("plain", plain), ("scaled", scaled)):
            memory = attention.prepare(states, torch.ones(1, n, dtype=torch.bool), torch.zeros(1, n, dtype=torch.int64))
            weights[name, n] = float(attention(query, memory).weights[0, 0, 3])
    assert weights["plain", 800] == pytest.approx(math.exp(2) / (math.exp(2) + 799))
    assert weights["scaled", 8] == pytest.approx(64 / 71)
    assert weights["scaled", 800] == pytest.approx(640_000 / 640_799)


def test_a_history_without_the_past_weights_is_an_error():
    attention = make_attention("additive", history=Coverage(D, D))
    memory = attention.prepare(randn(B, S, D), is_real(LENGTHS, S))
    with pytest.raises(ValueError, match="needs the past weights"):
        attention(randn(B, 1, D), memory)
