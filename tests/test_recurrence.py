"""The fast path of training against the formulas, step by step."""

import pytest
import torch
from seq2attn.model.recurrence import GRUWeights, gru_recurrence
from seq2attn.model.scores.stepwise import StepwiseScore
from torch.nn import GRU

from seq2attn.catalogue import SCORES
from seq2attn.config import check_config
from seq2attn.kernels.packing import pack, pack_all, pack_lengths
from seq2attn.model.build import build_model, build_training_data
from seq2attn.model.encoder import Encoder
from seq2attn.training.objective import token_cross_entropy

CPU = torch.device("cpu")
ATTENDING = [name for name in SCORES.names() if name != "none"]


pytestmark = pytest.mark.usefixtures("compiled_and_not")


def read_by_torch(encoder, gru, source, lengths, reset):
    assert reset is None
    states = gru(encoder.embedding(source))[0]
    return states, states[torch.arange(len(source)), lengths - 1]


def by_the_formulas(model, batch, monkeypatch):
    """torch's own GRU for the encoder, one step after another for the decoder, all by autograd."""
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "_read", read_by_torch)
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


@pytest.mark.parametrize(
    ("score", "mask_padding"), [*((name, True) for name in SCORES.names()), *((name, False) for name in ATTENDING)]
)
def test_losses_and_gradients_equal_the_formulas(score, mask_padding, monkeypatch):
    model, batch = make(score, mask_padding=mask_padding)
    assert len(batch.source_lengths.unique()) > 1
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@pytest.mark.parametrize("score", ["general", "scaled_general", "additive"])
def test_the_same_with_a_bidirectional_encoder(score, monkeypatch):
    assert_equal_to_the_formulas(*make(score, bidirectional=True), monkeypatch, 1e-10)


@pytest.mark.parametrize("score", SCORES.names())
def test_the_same_in_single_precision(score, monkeypatch):
    assert_equal_to_the_formulas(*make(score, dtype=torch.float32), monkeypatch, 1e-5)


@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_the_same_by_the_gradient_that_serves_any_score(score, monkeypatch):
    model, batch = make(score)
    monkeypatch.setattr(type(model.decoder.attention.score), "stepwise", lambda score, keys: StepwiseScore(score, keys))  # noqa: PLW0108
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@pytest.mark.parametrize("mask_padding", [True, False])
@pytest.mark.parametrize("score", ["scaled", "additive", "cosine"])
def test_the_same_with_the_scalable_softmax(score, mask_padding, monkeypatch):
    model, batch = make(score, scalable_softmax=True, mask_padding=mask_padding)
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


def test_the_same_for_rows_in_any_order(monkeypatch):
    model, batch = make("additive", "reverse")
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = type(batch)(*(getattr(batch, name)[order] for name in batch.__dataclass_fields__))
    assert not torch.equal(shuffled.source_lengths, shuffled.source_lengths.sort(descending=True).values)
    assert_equal_to_the_formulas(model, shuffled, monkeypatch, 1e-10)


def test_the_same_for_a_vocabulary_larger_than_the_batch(monkeypatch):
    model, batch = make("dot", "reverse", batch_size=1)
    assert batch.decoder_input.numel() < model.decoder.embedding.num_embeddings
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
@pytest.mark.parametrize(
    ("score", "initial_state"), [("none", "last"), ("none", "bridge"), ("dot", "zeros"), ("dot", "last")]
)
def test_the_same_from_any_first_state(score, decoder, initial_state, monkeypatch):
    model, batch = make(score, decoder=decoder, initial_state=initial_state)
    assert_equal_to_the_formulas(model, batch, monkeypatch, 1e-10)


def gru_and_inputs():
    torch.manual_seed(0)
    gru, inputs = GRU(3, 4, batch_first=True).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    weights = GRUWeights.of(torch.nn.Embedding.from_pretrained(inputs.flatten(0, 1)), gru)
    return gru, inputs, weights, torch.arange(10).view(2, 5)


@pytest.mark.parametrize("first", [torch.zeros(2, 4), torch.tensor([[0.3, -0.2, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])])
def test_a_gru_equals_torchs_own(first):
    gru, inputs, weights, tokens = gru_and_inputs()
    states, last = gru_recurrence(tokens, weights, first.double(), pack_all(2, 5))
    expected, final = gru(inputs, first.double().unsqueeze(0))
    torch.testing.assert_close(states, expected)
    torch.testing.assert_close(last, final.squeeze(0))


def test_past_a_rows_end_stands_its_last_state():
    gru, inputs, weights, tokens = gru_and_inputs()
    states, last = gru_recurrence(tokens, weights, torch.zeros(2, 4).double(), pack_lengths(torch.tensor([5, 2]), 5))
    expected = gru(inputs)[0]
    torch.testing.assert_close(states[0], expected[0])
    torch.testing.assert_close(states[1], expected[1, [0, 1, 1, 1, 1]])
    torch.testing.assert_close(last, states[:, 4])


@pytest.mark.parametrize("vocabulary", [3, 9])  # fewer tokens than positions, and more
def test_gradients_of_a_gru_against_finite_differences(vocabulary):
    torch.manual_seed(0)
    packing, tokens = pack_lengths(torch.tensor([3, 1]), 3), torch.tensor([[0, 2, 0], [1, 0, 0]])
    shapes = [(vocabulary, 2), (6, 2), (6, 2), (6,), (6,), (2, 2)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def real_states_and_last(*tensors):
        states, last = gru_recurrence(tokens, GRUWeights(*tensors[:5]), tensors[5], packing)
        return states[0], states[1, :1], last  # gradients do not pass where a last state is repeated

    assert torch.autograd.gradcheck(real_states_and_last, inputs)


def test_packing_by_hand():
    packing = pack_lengths(torch.tensor([3, 1]), 4)
    assert packing.sizes == [2, 1, 1, 0]
    padded = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23]])
    packed = packing.pack(padded)
    assert packed.tolist() == [10, 20, 11, 12]
    assert packing.unpack(packed).tolist() == [[10, 11, 12, 0], [20, 0, 0, 0]]
    spread = packing.spread(packed)
    assert spread[0, :3].tolist() == [10, 11, 12] and spread[1, 0] == 20
    assert set(spread.flatten().tolist()) == {10, 20, 11, 12}


def test_unpacked_numbers_pass_their_gradients_on():
    packing = pack_lengths(torch.tensor([3, 1]), 3)
    packed = torch.zeros(4, requires_grad=True)
    (packing.unpack(packed) * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert packed.grad.tolist() == [1, 4, 2, 3]


def test_packing_takes_all_positions_of_rows_that_do_not_come_longest_first():
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert pack_lengths(torch.tensor([1, 3]), 3) is None
    assert pack(tokens, torch.tensor([1, 3])).sizes == [2, 2, 2]
    assert pack(tokens, torch.tensor([1, 3])).pack(tokens).tolist() == [1, 4, 2, 5, 3, 6]
    assert pack(tokens, torch.tensor([3, 1])).sizes == [2, 1, 1]
