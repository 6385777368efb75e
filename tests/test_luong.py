"""The arrangement `luong` against its formulas, and its two ways of teacher forcing against each other."""

import pytest
import torch
from models import as_batch

from seq2attn.build import build_model
from seq2attn.config import check_config
from seq2attn.data.vocabulary import SOS

D = 4
LENGTHS = torch.tensor([5, 3])


def make(score="general", **model):
    attention = {"score": score, **model.pop("attention", {})}
    values = {"hidden": D, "embedding": 3, "decoder": "luong", "initial_state": "last", "attention": attention, **model}
    return build_model(check_config({"task": {"alphabet": "abcd"}, "model": values})).double()


def batch():
    random = torch.Generator().manual_seed(3)
    source = torch.randint(3, 7, (2, 5), generator=random)
    tokens = torch.randint(3, 7, (2, 4), generator=random)
    tokens[:, 0] = SOS
    return source, tokens


def sigma(x):
    return 1 / (1 + torch.exp(-x))


def gru_step(gru, x, s):
    weight_ih, weight_hh, bias_ih, bias_hh = gru.parameters()
    x_r, x_z, x_n = (weight_ih @ x + bias_ih).split(D)
    s_r, s_z, s_n = (weight_hh @ s + bias_hh).split(D)
    r, z = sigma(x_r + s_r), sigma(x_z + s_z)
    return (1 - z) * torch.tanh(x_n + r * s_n) + z * s


@pytest.mark.parametrize("input_feeding", [False, True])
def test_the_arrangement_by_hand(input_feeding):
    model = make(input_feeding=input_feeding)
    source, tokens = batch()
    found = model(as_batch(source, LENGTHS, tokens))
    decoder = model.decoder
    for row, length in enumerate(LENGTHS.tolist()):
        states, s = [], torch.zeros(D, dtype=torch.float64)
        for token in source[row, :length]:
            s = gru_step(model.encoder.layers[0].cell, model.encoder.embedding.weight[token], s)
            states.append(s)
        keys = torch.stack(states)
        a = torch.zeros(D, dtype=torch.float64)
        for t, token in enumerate(tokens[row]):
            embedded = decoder.embedding.weight[token]
            s = gru_step(decoder.cell, torch.cat([embedded, a]) if input_feeding else embedded, s)
            scores = keys @ decoder.attention.score.map.weight.t() @ s  # s W h for each h
            weights = torch.exp(scores) / torch.exp(scores).sum()
            a = torch.tanh(decoder.combine.weight @ torch.cat([weights @ keys, s]))
            logits = decoder.output.weight @ a + decoder.output.bias
            torch.testing.assert_close(found.logits[row, t], logits)
            torch.testing.assert_close(found.weights[row, t, :length], weights)


@pytest.mark.usefixtures("compiled_and_not")
@pytest.mark.parametrize(
    "attention", [{}, {"history": "location"}, {"window": "local_p"}, {"window": "local_m", "history": "coverage"}]
)
def test_all_positions_at_once_are_the_positions_one_by_one(attention):
    model = make("additive", attention=attention)
    source, tokens = batch()
    memory, state = model.encode(source, LENGTHS)
    at_once = model.decoder(tokens, None, state, memory)
    by_steps = model.decoder.forward_by_steps(tokens, state, memory)
    torch.testing.assert_close(at_once.logits, by_steps.logits, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(at_once.weights, by_steps.weights, rtol=1e-12, atol=1e-13)
    parameters = list(model.parameters())
    gradients = [
        torch.autograd.grad(result.logits.square().sum(), parameters, retain_graph=True)
        for result in (at_once, by_steps)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


def test_without_input_feeding_attention_is_asked_once_for_all_positions(monkeypatch):
    monkeypatch.setenv("SEQ2ATTN_KERNELS", "off")
    model, asked = make(), []
    forward = type(model.decoder.attention).forward
    monkeypatch.setattr(
        type(model.decoder.attention),
        "forward",
        lambda self, query, *others: asked.append(query.shape) or forward(self, query, *others),
    )
    source, tokens = batch()
    model(as_batch(source, LENGTHS, tokens))
    assert asked == [(2, 4, D)]


def test_the_real_positions_do_not_depend_on_the_decoders_lengths():
    model = make()
    source, tokens = batch()
    everything = model(as_batch(source, LENGTHS, tokens))
    shortened = model(as_batch(source, LENGTHS, tokens, torch.tensor([4, 2])))
    torch.testing.assert_close(shortened.logits[0], everything.logits[0])
    torch.testing.assert_close(shortened.logits[1, :2], everything.logits[1, :2])


def test_without_attention_only_the_first_state_carries_the_source():
    model = make("none")
    source, tokens = batch()
    decoded = model(as_batch(source, LENGTHS, tokens))
    assert decoded.weights is None
    assert model.decoder.combine.weight.shape == (D, D)
