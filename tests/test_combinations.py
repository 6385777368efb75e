"""Parts of a recurrent model in combination keep what the plain ones keep.

Any two choices meet in some model. `faults/test_differential.py` draws many more configs at random.
"""

import itertools
import random

import pytest
import torch
from models import (
    ARRANGEMENTS,
    ATTENDING,
    CELLS,
    HISTORIES,
    INITIAL_STATES,
    WINDOWS,
    as_batch,
    close,
    config_of,
    make_batch,
    seeded,
)
from tables import slow
from textbook import Textbook

from seq2attn import parts
from seq2attn.build import build_model
from seq2attn.data.vocabulary import PAD
from seq2attn.model.cells import draw_resets
from seq2attn.model.points import Rank, hooked_places
from seq2attn.parts import SCORES

FACTORS = {
    "score": ATTENDING,
    "window": WINDOWS,
    "history": HISTORIES,
    "normaliser": parts.NORMALISERS.names(),
    "arrangement": ARRANGEMENTS,
    "cell": CELLS,
    "layers": [1, 2],
    "initial_state": INITIAL_STATES,
    "bidirectional": [False, True],
    "source_eos": [False, True],
    "scalable_softmax": [False, True],
    "mask_padding": [True, False],
}
LENGTHS = (4, 2, 1)


def is_allowed(choices):
    """Both directions only where the score, and the decoder's first state, may be wider than the
    decoder; other weights than the softmax's only where a history does not make them itself.
    """
    history = parts.HISTORIES.get(choices.get("history", "none"))
    if history.makes_weights and choices.get("normaliser", "softmax") != "softmax":
        return False
    equal_widths = SCORES.get(choices.get("score", "additive")).equal_widths
    return not (
        choices.get("bidirectional") and (equal_widths or choices.get("initial_state") == "last")
    )


def pairwise():
    """Few combinations in which any two choices that are allowed together meet: again and again, of
    many random ones that with the most new pairs.
    """
    draw = random.Random(1)
    combinations = []
    missing = {
        pair
        for one, other in itertools.combinations(FACTORS, 2)
        for pair in itertools.product(
            [(one, a) for a in FACTORS[one]], [(other, b) for b in FACTORS[other]]
        )
        if is_allowed(dict(pair))
    }
    while missing:
        drawn = (
            {factor: draw.choice(values) for factor, values in FACTORS.items()} for _ in range(100)
        )
        new = [
            (missing.intersection(itertools.combinations(one.items(), 2)), one)
            for one in filter(is_allowed, drawn)
        ]
        found, chosen = max(new, key=lambda pair: len(pair[0]))
        missing -= found
        combinations.append(chosen)
    return combinations


def label(choices):
    return "-".join(
        str(value) if isinstance(value, str) else f"{key}={value}" for key, value in choices.items()
    )


COMBINATIONS = pairwise()


def make(choices):
    """With other weights, as a power, and the distances that a history moves, begin at 0; and
    without a history's noise.
    """
    model = build_model(config_with_widths(choices)).double()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=seeded(0))
    return model.eval()


def config_with_widths(choices):
    """The choices in a config, with widths of their own where a score has any."""
    widths = {"additive": {"width": 4}}
    options = {"score": {"name": choices["score"], **widths.get(choices["score"], {})}}
    if choices["history"] == "shift":
        options["history"] = {"name": "shift", "rereading": False, "evaluation_power": 2.5}
    return config_of(**choices | options, hidden=3, embedding=2)


@pytest.mark.parametrize("choices", COMBINATIONS, ids=label)
@pytest.mark.parametrize("share", [slow(0), 0.3])
def test_every_formula_is_the_textbooks_whatever_the_padding_and_the_other_strings(choices, share):
    config, model = config_with_widths(choices), make(choices)
    book = Textbook(config, model.state_dict())
    masked = choices["mask_padding"]
    steps = 5 if choices["history"] == "shift_by_key" else 3  # its past goes back two steps
    source, lengths, tokens = make_batch(LENGTHS, steps, padding=2 if masked else 0)
    tokens[:2, 1] = PAD  # as word dropout leaves them
    random = seeded(2)
    resets = draw_resets(model, random, source, tokens, encoder=share, decoder=share)
    with hooked_places(resets.items(), Rank.RESET):
        decoded = model(as_batch(source, lengths, tokens))
    layers = model.encoder.layers
    cells = {"": [one.cell for one in layers], "backward_": [one.backward_cell for one in layers]}
    cells["decoder"] = [model.decoder.cell]
    drawn = {
        which: [
            resets[point]
            for cell in some
            if cell is not None
            for point in cell.state_points
            if point in resets
        ]
        for which, some in cells.items()
    }
    for row, size in enumerate(
        LENGTHS if masked else LENGTHS[:1]
    ):  # without the mask, padding changes the others
        of_row = {
            which: (layers[0].kept[row], torch.cat([one.noise[row] for one in layers], dim=1))
            for which, layers in drawn.items()
            if layers
        }
        logits, weights = book.teacher_forced(
            source[row, :size].tolist(), tokens[row].tolist(), of_row
        )
        close(decoded.logits[row], torch.stack(logits))
        close(decoded.weights[row, :, :size], torch.tensor(weights, dtype=torch.float64))
        assert (decoded.weights[row, :, size:] == 0).all()


@pytest.mark.parametrize("choices", COMBINATIONS[:30], ids=label)  # most pairs are in these
def test_teacher_forcing_is_stepping_from_any_rows(choices):
    model = make(choices)
    rows = torch.tensor([2, 0, 0, 1])
    source, lengths, tokens = make_batch(LENGTHS, padding=1)
    tokens[:2, 1] = PAD
    forced = model(as_batch(source, lengths, tokens))
    memory, state = model.encode(source, lengths)
    for position in range(3):
        assert state.position == position
        selected, _ = model.step(
            tokens[rows, position], model.select(state, rows), model.select(memory, rows)
        )
        decoded, state = model.step(tokens[:, position], state, memory)
        for found, of in ((decoded, slice(None)), (selected, rows)):
            close(found.logits, forced.logits[of, position : position + 1])
            close(found.weights, forced.weights[of, position : position + 1])
