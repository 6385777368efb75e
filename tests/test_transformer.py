"""The Transformer against PyTorch's own forward passes, and against its formulas."""

import math

import pytest
import torch
from models import TRANSFORMER, as_batch, close, is_real, make_batch, make_config
from torch import nn

from seq2attn.analysis.costs import parameter_ledger
from seq2attn.build import build_model
from seq2attn.model.transformer import attend, project, sinusoids

D, HEADS = 8, 2


def make():
    changes = f"{TRANSFORMER} model.layers=2 model.feedforward=12 model.dropout=0"
    return build_model(make_config(f"task.alphabet=abcd {changes}")).double()


def test_it_computes_what_pytorchs_decoder_computes():
    model = make()
    source, lengths, tokens = make_batch((5, 3, 1), steps=4, vocabulary=7)
    found = model(as_batch(source, lengths, tokens))
    valid = is_real(lengths, 5)
    states = model.source_embedding(source) * math.sqrt(D) + sinusoids(0, 5, D)
    for layer in model.encoder:
        states = layer(states, src_key_padding_mask=~valid)
    states = model.encoder_norm(states)
    future = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    decoded = model.target_embedding(tokens) * math.sqrt(D) + sinusoids(0, 4, D)
    for layer in model.decoder:
        decoded = layer(
            decoded, states, tgt_mask=future, memory_key_padding_mask=~valid, tgt_is_causal=True
        )
    close(found.logits, model.output(model.decoder_norm(decoded)))


def test_attention_is_pytorchs_own():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(D, HEADS, dropout=0.5, batch_first=True).double()
    query, states = torch.randn(2, 3, 4, D, dtype=torch.float64)
    valid = is_real(torch.tensor([4, 2, 1]), 4)
    torch.manual_seed(1)
    found, weights, *_ = attend(attention, query, project(attention, states), valid.unsqueeze(1))
    given = {"key_padding_mask": ~valid, "average_attn_weights": False}
    torch.manual_seed(1)
    close(found, attention(query, states, states, **given)[0])
    close(weights, attention.eval()(query, states, states, **given)[1])


def test_sinusoids_by_formula():
    table = sinusoids(3, 2, 5)
    for row, position in enumerate((3, 4)):
        for i in range(5):
            angle = position / 10_000 ** ((i - i % 2) / 5)
            assert float(table[row, i]) == pytest.approx(
                math.cos(angle) if i % 2 else math.sin(angle)
            )


def test_every_parameter_is_in_one_part_of_the_ledger():
    model = make()
    ledger = parameter_ledger(model)
    assert ledger["total"] == sum(parameter.numel() for parameter in model.parameters())
    # of each attention: three maps in, one out, D x D with biases; one in the encoder's layers, two
    # in the decoder's
    assert ledger["attention"] == 2 * 3 * 4 * (D * D + D)
    assert ledger["encoder embedding"] == ledger["decoder embedding"] == 7 * D
