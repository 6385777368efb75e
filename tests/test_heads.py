"""Heads: several attentions at once, each of projections of its own."""

import pytest
import torch
from models import assert_close, make_config, new_model
from tables import table
from torch import nn

from seq2attn.build import build_model, build_task
from seq2attn.contract.models import RULES
from seq2attn.contract.subject import make_subject
from seq2attn.findings.engine import first


def config_with(changes):
    return make_config(f"task.alphabet=abc model.hidden=6 model.attention.heads=2 {changes}")


def test_scaled_heads_are_multi_head_attention():
    attention = (
        build_model(config_with("model.attention.heads=3 model.hidden=12"))
        .double()
        .decoder.attention
    )
    whole = nn.MultiheadAttention(12, 3, bias=False, batch_first=True, dtype=torch.float64)
    maps = (attention.query_map, attention.key_map, attention.value_map)
    whole.in_proj_weight.data = torch.cat([one.weight.data for one in maps])
    whole.out_proj.weight.data = torch.eye(12).double()
    states = torch.randn(2, 5, 12).double()
    query = torch.randn(2, 4, 12).double()
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = attention(query, attention.prepare(states, valid))
    context, weights = whole(query, states, states, key_padding_mask=~valid)
    assert_close(found.context, context)
    assert_close(found.weights, weights)  # the mean over heads


@table(
    "changes",
    """
model.decoder=luong model.attention.score=additive model.attention.score.width=2
  model.attention.history=location_coverage
model.bidirectional=true model.attention.score=key_value model.attention.window=local_p
  model.attention.history=shift_by_key model.attention.scalable_softmax=true
""",
)
def test_every_score_window_and_history_has_heads(changes):
    config = config_with(changes)
    task = build_task(config)
    for rule in RULES.values():
        subject = make_subject(config, task, [], torch.float64, torch.device("cpu"))
        assert first(rule, subject) is None


def test_heads_move_apart():
    model = build_model(config_with("model.source_eos=false model.attention.history=shift"))
    first, second = model.decoder.attention.heads
    for head, distance in ((first, 3), (second, 1)):  # of -2 to 2: one forwards, one backwards
        head.history.logits.data[distance] = 10.0
    source = torch.tensor([[3, 4, 5, 3, 4]])
    memory, state = model.encode(source, torch.tensor([5]))
    state = state._replace(past=torch.eye(5)[2].repeat(1, 4, 1))  # both heads at position 2
    weights = model.step(torch.tensor([1]), state, memory)[0].weights.squeeze()
    assert_close(weights, torch.tensor([0, 0.5, 0, 0.5, 0]))


def test_each_head_is_changed_by_an_intervention():
    model = new_model("model.attention.heads=2")
    weights = model.predict("hello", ban=[0], force={(0, 1): 1.0}).weights
    assert not weights[:, 0].any()
    assert weights[0].tolist() == pytest.approx([0, 1, 0, 0, 0, 0])
    assert (weights[1, 1:] > 0).all()
