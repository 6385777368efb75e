"""What a part may ask for by a parameter's name: a score the step of attention, a loss the step of
training and the decoder's states; and what it may declare.
"""

import pytest
import torch
from models import CPU, first_batch, is_real, make_config
from numpy.testing import assert_allclose
from refusal import refused
from tables import table

import seq2attn
from seq2attn.build import build_model
from seq2attn.training.step import TrainingStep

pytestmark = pytest.mark.usefixtures("own_scores")


@table(
    "decoder, steps",
    """
bahdanau | 1
luong | 4
""",
    "steps",
)
def test_a_score_sees_mask_and_position_and_the_kernels_step_aside(decoder, steps):
    seen = []

    @seq2attn.register("seeing", equal_widths=True)
    class Seeing(seq2attn.Score):
        def forward(self, query, keys, now):
            seen.append(now)
            return (query @ keys.mT).masked_fill(now.allowed, 0.0)

    config = make_config(f"model.attention.score=seeing model.decoder={decoder} task.max_length=3")
    model = build_model(config)
    batch = first_batch(config).select(slice(0, 2))
    weights = TrainingStep(model, config, CPU).forward(batch, 0).weights
    real = is_real(batch.source_lengths, batch.source.size(1))
    length = batch.decoder_input.size(1)
    assert [int(now.first) for now in seen] == list(range(0, length, min(steps, length)))
    for now in seen:
        assert torch.equal(now.allowed[:, 0], real)
        assert torch.equal(now.valid[:, 0], real)
    expected = (real / real.sum(dim=1, keepdim=True)).unsqueeze(1)
    assert_allclose(weights.detach(), expected.expand(-1, length, -1))


@table(
    "cell, layers",
    """
gru | 1
lstm | 2
""",
    "layers",
)
def test_a_loss_gets_the_step_of_training_and_the_decoders_states(cell, layers):
    seen = []

    @seq2attn.register("seeing")
    class Seeing(seq2attn.Loss):
        def forward(self, decoded, batch, step, states):
            seen.append((step, states))
            return decoded.logits[batch.decoder_output != 0].mean()

    settings = f"model.cell={cell} model.layers={layers} training.losses=seeing model.hidden=8"
    model = seq2attn.new_model({}, [*settings.split(), "task.max_length=3"], device="cpu")
    batch = next(model.batches())
    model.loss(batch, step=7)
    number, states = seen[-1]
    assert number == 7
    rows = []
    hooks = {"decoder.state": lambda value, at: rows.append((at.layer, at.tensor, value))}
    with seq2attn.hooked(model, hooks), torch.no_grad():
        model.module(batch)
    top = [value for layer, tensor, value in rows if (layer, tensor) == (layers - 1, 0)]
    assert_allclose(states.detach(), torch.stack(top, dim=1), atol=1e-6)
    transformer = ["model.architecture=transformer", "training.losses=seeing"]
    other = seq2attn.new_model({}, transformer, device="cpu")
    with refused("'seeing' reads the decoder's states, which this model does not have"):
        other.loss(next(other.batches()))
