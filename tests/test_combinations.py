"""Parts of a recurrent model in combination keep what the plain ones keep.

Any two choices meet in some model. `faults/test_differential.py` draws many more configs at random.
"""

import itertools

import pytest
import torch
from models import ARRANGEMENTS, ATTENDING, CELLS, HISTORIES, WINDOWS, as_batch, is_real, make_batch, make_model
from textbook import Textbook

from seq2attn import parts
from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.parts import SCORES

FACTORS = {
    "score": ATTENDING,
    "window": list(WINDOWS),
    "history": list(HISTORIES),
    "arrangement": list(ARRANGEMENTS),
    "cell": list(CELLS),
    "layers": [1, 2],
    "bidirectional": [False, True],
    "source_eos": [False, True],
    "scalable_softmax": [False, True],
    "mask_padding": [True, False],
}
LENGTHS = (4, 2, 1)


def is_allowed(choices):
    """Both directions only where the score takes keys wider than queries; an unfinished choice is allowed."""
    return not (choices.get("bidirectional") and SCORES.get(choices.get("score", "additive")).equal_widths)


def pairwise(factors, is_allowed):
    """Few combinations in which any two choices that are allowed together meet: each is begun with a pair that none before
    has, then takes, factor after factor, the choice that brings the most new pairs.
    """
    pairs = [
        ((one, a), (other, b))
        for one, other in itertools.combinations(factors, 2)
        for a, b in itertools.product(factors[one], factors[other])
        if is_allowed({one: a, other: b})
    ]
    missing = dict.fromkeys(pairs)
    combinations = []
    while missing:
        chosen = dict(next(iter(missing)))
        for factor in factors:
            if factor not in chosen:
                allowed = [value for value in factors[factor] if is_allowed({**chosen, factor: value})]
                chosen[factor] = max(
                    allowed,
                    key=lambda value: sum(
                        pair in missing for pair in met({**chosen, factor: value}, factors) if (factor, value) in pair
                    ),
                )
        for pair in met(chosen, factors):
            missing.pop(pair, None)
        combinations.append({factor: chosen[factor] for factor in factors})
    return combinations


def met(chosen, factors):
    """The pairs of choices that meet in `chosen`."""
    return itertools.combinations([(factor, chosen[factor]) for factor in factors if factor in chosen], 2)


def label(choices):
    return "-".join(str(value) if isinstance(value, str) else f"{key}={value}" for key, value in choices.items())


PAIRS = pairwise(FACTORS, is_allowed)
pairs = pytest.mark.parametrize("choices", PAIRS, ids=label)


def make(choices):
    return make_model(**choices, hidden=3, embedding=2)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def test_every_part_that_a_config_can_name_takes_part():
    assert set(FACTORS["score"]) == set(parts.SCORES.names()) - {"none"}
    assert {"local_m" if name == "reversed" else name for name in WINDOWS} == set(parts.WINDOWS.names())
    assert set(HISTORIES) == set(parts.HISTORIES.names())
    assert {"luong" if name == "feeding" else name for name in ARRANGEMENTS} == set(parts.DECODERS.names())


def test_any_two_choices_meet():
    seen = {pair for choices in PAIRS for pair in met(choices, FACTORS)}
    for one, other in itertools.combinations(FACTORS, 2):
        for a, b in itertools.product(FACTORS[one], FACTORS[other]):
            assert (((one, a), (other, b)) in seen) == is_allowed({one: a, other: b})
    assert all(map(is_allowed, PAIRS))
    assert len(PAIRS) < 50


def test_pairs_by_hand():
    found = pairwise({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, lambda choices: choices.get("a") != choices.get("b", 0))
    # a is never b: of the pairs (a, b) two are left, each with c at 1 and at 2
    assert sorted(tuple(choices.values()) for choices in found) == [(1, 2, 1), (1, 2, 2), (2, 1, 1), (2, 1, 2)]


def check_padding_and_other_strings(choices):
    model = make(choices)
    source, lengths, tokens = make_batch(LENGTHS, padding=2 if choices["mask_padding"] else 0)
    together = model(as_batch(source, lengths, tokens))
    assert together.logits.isfinite().all()
    for row, length in enumerate(LENGTHS):
        width = length if choices["mask_padding"] else source.size(1)
        rows = slice(row, row + 1)
        alone = model(as_batch(source[rows, :width], lengths[rows], tokens[rows]))
        close(together.logits[row], alone.logits[0])
        close(together.weights[row, :, :width], alone.weights[0])
        assert (together.weights[row, :, width:] == 0).all()


def check_stepping(choices):
    model = make(choices)
    source, lengths, tokens = make_batch(LENGTHS, padding=1)
    forced = model(as_batch(source, lengths, tokens))
    memory, state = model.encode(source, lengths)
    for position in range(3):
        decoded, state = model.step(tokens[:, position], state, memory)
        close(decoded.logits, forced.logits[:, position : position + 1])
        close(decoded.weights, forced.weights[:, position : position + 1])


def check_gradients(choices):
    """Of every parameter, along a random direction, against finite differences."""
    model = make(choices)
    batch = make_batch((4, 2))
    parameters = dict(model.named_parameters())
    random = torch.Generator().manual_seed(1)
    along = {name: torch.randn(p.shape, generator=random, dtype=p.dtype) for name, p in parameters.items()}

    def loss(moved):
        decoded = torch.func.functional_call(model, moved, as_batch(*batch))
        return decoded.logits.square().sum() + decoded.weights.square().sum()

    gradients = torch.autograd.grad(
        loss(parameters), list(parameters.values()), allow_unused=True, materialize_grads=True
    )
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, along.values(), strict=True))
    step = 1e-6
    with torch.no_grad():
        ahead, behind = (
            float(loss({name: p + sign * step * along[name] for name, p in parameters.items()})) for sign in (1, -1)
        )
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6)


def check_selected_rows(choices):
    """Decoding goes on from selected rows as if there had been no others."""
    model = make(choices)
    source, lengths, tokens = make_batch(LENGTHS)
    memory, state = model.encode(source, lengths)
    _, state = model.step(tokens[:, 0], state, memory)
    rows = torch.tensor([2, 0, 0, 1])
    expected, _ = model.step(tokens[:, 1], state, memory)
    found, after = model.step(tokens[rows, 1], model.select(state, rows), model.select(memory, rows))
    close(found.logits, expected.logits[rows])
    close(found.weights, expected.weights[rows])
    assert int(after.position) == 2


def config_of(choices, **training):
    """The same choices in a config; both directions need a bridge."""
    window = {
        "reversed": {"name": "local_m", "radius": 1, "centre": "reversed"},
        "local_m": {"name": "local_m", "radius": 1},
    }
    feeding = {"feeding": {"name": "luong", "input_feeding": True}}
    model = {key: choices[key] for key in ("cell", "layers", "bidirectional", "source_eos")}
    attention = {key: choices[key] for key in ("score", "history", "scalable_softmax", "mask_padding")}
    attention["window"] = window.get(choices["window"], choices["window"])
    decoder = feeding.get(choices["arrangement"], choices["arrangement"])
    model |= {"decoder": decoder, "initial_state": "bridge", "attention": attention, "hidden": 3, "embedding": 2}
    return check_config({"task": {"alphabet": "abcde", "max_length": 4}, "model": model, "training": training})


@pairs
def test_every_formula_is_the_textbooks(choices):
    config = config_of(choices, batch_size=4)
    model = build_model(config).double()
    for parameter in model.parameters():  # a power, and the distances that a history moves, begin at 0
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    book = Textbook(config, model.state_dict())
    batch = build_training_data(config, torch.device("cpu")).batch(0)
    decoded = model(batch)
    for row, (size, steps) in enumerate(zip(batch.source_lengths, batch.decoder_lengths, strict=True)):
        size = size if choices["mask_padding"] else batch.source.size(1)  # otherwise padding is read as a symbol
        logits, weights = book.teacher_forced(
            batch.source[row, :size].tolist(), batch.decoder_input[row, :steps].tolist()
        )
        if choices["mask_padding"] or size == batch.source_lengths[row]:
            close(decoded.logits[row, :steps], torch.stack(logits))
            close(decoded.weights[row, :steps, :size], torch.tensor(weights, dtype=torch.float64))


@pairs
def test_a_string_is_answered_the_same_alone_padded_and_among_others(choices):
    check_padding_and_other_strings(choices)


@pairs
def test_teacher_forcing_is_stepping(choices):
    check_stepping(choices)


@pairs
def test_gradients_against_finite_differences(choices):
    check_gradients(choices)


@pairs
def test_decoding_goes_on_from_selected_rows(choices):
    check_selected_rows(choices)


def test_real_tokens_of_the_batches():
    source, lengths, _ = make_batch(LENGTHS, padding=1)
    assert is_real(lengths, 5).sum(dim=1).tolist() == [4, 2, 1]
    assert (source[~is_real(lengths, 5)] == 5).all()
