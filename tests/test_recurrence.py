"""A whole model, with the compiled recurrence and without, against torch's own GRU and one step after another."""

import pytest
import torch
from models import ATTENDING

from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.kernels.binding import LEARNED, Kernels
from seq2attn.kernels.function import gru
from seq2attn.kernels.library import load
from seq2attn.model.encoder import Encoder
from seq2attn.parts import SCORES
from seq2attn.training.losses import token_cross_entropy

CPU = torch.device("cpu")

compiled_and_not = pytest.mark.usefixtures("compiled_and_not")


def torchs_gru(inputs, weights, first):
    """torch's own GRU: inputs (B, L, E), first (B, D) -> outputs (B, L, D), last (B, D)."""
    outputs, last = torch.gru(inputs, first.unsqueeze(0), list(weights), True, 1, 0.0, False, False, True)
    return outputs, last.squeeze(0)


def read_by_torch(encoder, cell, source, lengths, reset):
    assert reset is None
    states, _ = torchs_gru(encoder.embedding(source), cell.parameters(), *cell.initial(len(source)))
    return states, (states[torch.arange(len(source)), lengths - 1],)


def by_the_formulas(model, batch, monkeypatch):
    """torch's own GRU for the encoder, one step after another for the decoder, all by autograd."""
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "_read_tokens", read_by_torch)
        memory, state = model.encode(batch.source, batch.source_lengths)
        return model.decoder.forward_by_steps(batch.decoder_input, state, memory)


def at_once(model, batch, monkeypatch):
    return model(batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths)


def loss_and_gradients(forward, model, batch, monkeypatch):
    """A loss that uses logits and weights, and the gradient of every parameter."""
    model.zero_grad()
    decoded = forward(model, batch, monkeypatch)
    loss = token_cross_entropy(decoded.logits, batch)
    if decoded.weights is not None:
        real = torch.arange(decoded.weights.size(1)) < batch.decoder_lengths.unsqueeze(1)
        loss = loss + (decoded.weights.square().sum(dim=2) * real).sum()
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def make(
    score,
    task="duplicate",
    *,
    bidirectional=False,
    decoder="bahdanau",
    initial_state="bridge",
    dtype=torch.float64,
    batch_size=5,
    **attention,
):
    config = check_config(
        {
            "task": {"name": task, "alphabet": "abcdef", "max_length": 4},
            "model": {
                "hidden": 5,
                "embedding": 3,
                "bidirectional": bidirectional,
                "decoder": decoder,
                "initial_state": initial_state,
                "attention": {"score": score, **attention},
            },
            "training": {"batch_size": batch_size},
        }
    )
    return build_model(config).to(dtype), build_training_data(config, CPU).batch(0)


def assert_equal_to_the_formulas(model, batch, monkeypatch, tolerance):
    """Each gradient within `tolerance` of the formulas', relative to the largest."""
    loss, gradients = loss_and_gradients(at_once, model, batch, monkeypatch)
    expected_loss, expected = loss_and_gradients(by_the_formulas, model, batch, monkeypatch)
    assert abs(loss - expected_loss) <= tolerance * abs(expected_loss)
    largest = max(gradient.norm() for gradient in expected.values())
    for name, gradient in expected.items():
        assert (gradients[name] - gradient).norm() <= tolerance * largest, name
        assert gradient.norm() > 0, name


@compiled_and_not
@pytest.mark.parametrize(
    ("score", "mask_padding"), [*((name, True) for name in SCORES.names()), *((name, False) for name in ATTENDING)]
)
def test_losses_and_gradients_equal_the_formulas(score, mask_padding, monkeypatch):
    model, batch = make(score, mask_padding=mask_padding)
    assert len(batch.source_lengths.unique()) > 1
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@compiled_and_not
@pytest.mark.parametrize("score", ["general", "scaled_general", "additive"])
def test_the_same_with_a_bidirectional_encoder(score, monkeypatch):
    assert_equal_to_the_formulas(*make(score, bidirectional=True), monkeypatch, 1e-10)


@compiled_and_not
@pytest.mark.parametrize("score", SCORES.names())
def test_the_same_in_single_precision(score, monkeypatch):
    assert_equal_to_the_formulas(*make(score, dtype=torch.float32), monkeypatch, 1e-5)


@compiled_and_not
@pytest.mark.parametrize("mask_padding", [True, False])
@pytest.mark.parametrize("score", ["scaled", "additive", "cosine"])
def test_the_same_with_the_scalable_softmax(score, mask_padding, monkeypatch):
    model, batch = make(score, scalable_softmax=True, mask_padding=mask_padding)
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@compiled_and_not
def test_the_same_for_rows_in_any_order(monkeypatch):
    model, batch = make("additive", "reverse")
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = type(batch)(*(getattr(batch, name)[order] for name in batch.__dataclass_fields__))
    assert not torch.equal(shuffled.source_lengths, shuffled.source_lengths.sort(descending=True).values)
    assert_equal_to_the_formulas(model, shuffled, monkeypatch, 1e-10)


@compiled_and_not
def test_the_same_for_a_vocabulary_larger_than_the_batch(monkeypatch):
    model, batch = make("dot", "reverse", batch_size=1)
    assert batch.decoder_input.numel() < model.decoder.embedding.num_embeddings
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@compiled_and_not
@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
@pytest.mark.parametrize(
    ("score", "initial_state"), [("none", "last"), ("none", "bridge"), ("dot", "zeros"), ("dot", "last")]
)
def test_the_same_from_any_first_state(score, decoder, initial_state, monkeypatch):
    model, batch = make(score, decoder=decoder, initial_state=initial_state)
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


# ---- the compiled recurrence alone ----


@pytest.fixture
def kernels():
    found = load(torch.float64)
    if not isinstance(found, Kernels):
        pytest.skip(str(found))
    return found


def run(kernels, tokens, lengths, weights, first):
    """All steps of a GRU without attention."""
    return gru(kernels, {"tokens": tokens, "lengths": lengths, **dict(zip(LEARNED, [*weights, first], strict=False))})


def gru_inputs():
    """Weights with an embedding, tokens (2, 5), and what the tokens are embedded as."""
    random = torch.Generator().manual_seed(0)
    shapes = [(10, 3), (12, 3), (12, 4), (12,), (12,)]
    weights = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    tokens = torch.arange(10).view(2, 5)
    return weights, tokens, weights[0][tokens]


@pytest.mark.parametrize("first", [torch.zeros(2, 4), torch.tensor([[0.3, -0.2, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])])
def test_a_gru_equals_torchs_own(kernels, first):
    weights, tokens, inputs = gru_inputs()
    found = run(kernels, tokens, None, weights, first.double())
    for one, other in zip(found, torchs_gru(inputs, weights[1:], first.double()), strict=True):
        torch.testing.assert_close(one, other)


def test_past_a_rows_end_its_last_output_is_repeated(kernels):
    weights, tokens, inputs = gru_inputs()
    first = torch.zeros(2, 4, dtype=torch.float64)
    states, last = run(kernels, tokens, torch.tensor([5, 2]), weights, first)
    expected, _ = torchs_gru(inputs, weights[1:], first)
    torch.testing.assert_close(states[0], expected[0])
    torch.testing.assert_close(states[1], expected[1, [0, 1, 1, 1, 1]])
    torch.testing.assert_close(last, states[:, 4])


@pytest.mark.parametrize("vocabulary", [3, 9])  # fewer tokens than positions, and more
def test_gradients_of_a_gru_against_finite_differences(kernels, vocabulary):
    tokens = torch.tensor([[0, 2, 0], [1, 0, 0]])
    lengths, random = torch.tensor([3, 1]), torch.Generator().manual_seed(0)
    shapes = [(vocabulary, 2), (6, 2), (6, 2), (6,), (6,), (2, 2)]
    inputs = [torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]

    def real_states_and_last(*tensors):
        return run(kernels, tokens, lengths, tensors[:5], tensors[5])

    assert torch.autograd.gradcheck(real_states_and_last, inputs)
