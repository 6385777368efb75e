"""Resets in training: which states, by what, and that nothing else changes."""

import pytest
import torch
from models import CPU, SIX_STEPS, first_batch, make_config

from seq2attn.build import build_model
from seq2attn.data.batches import generator
from seq2attn.model.cells import draw_resets
from seq2attn.training import step as training_step
from seq2attn.training.step import TrainingStep

SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 3, 2, 0, 0]])


def test_a_share_of_the_states_is_reset_to_noise_between_minus_1_and_1():
    model = build_model(make_config("model.hidden=8 model.layers=2"))
    bottom, top = (layer.cell for layer in model.encoder.layers)
    tokens = torch.zeros(2000, 6)
    resets = draw_resets(model, generator(CPU, "test"), tokens, tokens, encoder=0.3, decoder=0.0)
    reset, above = (resets[cell.state_points[0]] for cell in (bottom, top))
    assert above.kept is reset.kept
    assert not torch.equal(above.noise, reset.noise)
    assert reset.kept.shape == (2000, 6)
    assert reset.noise.shape == (2000, 6, 8)
    assert 1 - reset.kept.float().mean() == pytest.approx(
        0.3, abs=0.017
    )  # 12,000 draws: 4 standard errors
    assert reset.noise.abs().max() <= 1
    assert reset.noise.mean() == pytest.approx(0, abs=0.01)
    assert reset.noise.var() == pytest.approx(1 / 3, abs=0.01)  # of a uniform one in [-1, 1]


TINY = (
    "task.alphabet=abcd task.max_length=3 model.hidden=8 model.embedding=4 "
    f"model.bidirectional=true model.attention.score=general {SIX_STEPS}"
)
RESETS = "training.encoder_reset=0.5 training.decoder_reset=0.5"


def configured(changes=""):
    return make_config(f"{TINY} {changes}")


def drawn_in_training(config, batch, step):
    """What a step of training draws for its batch: of the encoder, its backward cell and the
    decoder, None where nothing.
    """
    model = build_model(config)
    found = []

    def draw(*inputs, **shares):
        found.append(draw_resets(*inputs, **shares))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_step, "draw_resets", draw)
        TrainingStep(model, config, CPU).forward(batch, step)
    layer = model.encoder.layers[0]
    cells = (layer.cell, layer.backward_cell, model.decoder.cell)
    return [[drawn.get(cell.state_points[0]) for cell in cells] for drawn in found]


@pytest.mark.parametrize("share", ["encoder_reset", "decoder_reset"])
def test_reset_shares_change_the_states_but_not_the_data(share):
    config = configured(f"training.{share}=0.5")
    batch = first_batch(config)
    assert torch.equal(batch.source, first_batch(configured()).source)
    (drawn,) = drawn_in_training(config, batch, 0)
    reset = [one is not None and not one.kept.all() for one in drawn]
    assert reset == [share == "encoder_reset"] * 2 + [share == "decoder_reset"]
    resetting, plain = (
        TrainingStep(build_model(one), one, CPU).forward(batch, 0) for one in (config, configured())
    )
    assert not torch.equal(resetting.logits, plain.logits)


def test_nothing_is_drawn_for_states_that_are_never_reset():
    random = generator(CPU, "test")
    (rows, steps) = SOURCE.shape
    model = build_model(make_config("model.hidden=6"))
    resets = draw_resets(model, random, SOURCE, SOURCE, encoder=0.5, decoder=0.0)
    assert set(resets) == set(
        model.encoder.layers[0].cell.state_points
    )  # the encoder reads in one direction
    expected = generator(CPU, "test")
    torch.rand(rows, steps, generator=expected)
    torch.rand(rows, steps, 6, generator=expected)
    assert torch.equal(random.get_state(), expected.get_state())


def test_resets_are_a_function_of_seed_and_step():
    config = configured(RESETS)
    batch = first_batch(config)
    ((first,), (again,), (next_step,)) = (
        drawn_in_training(config, batch, step) for step in (0, 0, 1)
    )
    assert torch.equal(first[2].noise, again[2].noise)
    assert not torch.equal(first[2].noise, next_step[2].noise)
    assert not torch.equal(first[0].noise, first[1].noise)
    (spared,) = drawn_in_training(configured(f"{RESETS} training.reset_first=false"), batch, 0)
    firsts = [one.kept[:, 0] for drawn in (first, spared) for one in drawn]
    assert [bool(one.all()) for one in firsts] == [False] * 3 + [True, True, False]
    assert drawn_in_training(configured(), batch, 0) == []
