"""A whole model: padding, and the padding vector. `test_combinations` compares all parts with their
formulas.
"""

from pathlib import Path

import pytest
import torch
from models import as_batch, close, make_batch, make_config, make_model

import seq2attn
from seq2attn.build import build_model
from seq2attn.config import check_config, load_config
from seq2attn.model.interface import Decoded


def test_a_score_need_not_be_defined_on_padding(own_scores):
    @seq2attn.register("undefined", equal_widths=True)
    class Undefined(seq2attn.Score):
        """For a key of zeros."""

        def forward(self, query, keys):
            return query @ (keys / keys.norm(dim=2, keepdim=True)).mT

    model = make_model("undefined", initial_state="last")
    source, lengths, tokens = make_batch((5, 3, 1), garbage=0)
    together = model(as_batch(source, lengths, tokens))
    for row, length in enumerate(lengths.tolist()):
        part = slice(row, row + 1)
        close(
            together.logits[row],
            model(as_batch(source[part, :length], lengths[part], tokens[part])).logits[0],
        )
    together.logits.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_without_the_mask_padding_is_read_as_any_token(score):
    unmasked, masked = (make_model(score, mask_padding=mask) for mask in (False, True))
    source, lengths, tokens = make_batch((5, 3, 1), padding=1, garbage=0)
    found = unmasked(as_batch(source, lengths, tokens))
    expected = masked(as_batch(source, torch.full_like(lengths, 6), tokens))
    close(found.logits, expected.logits)
    close(found.weights, expected.weights)


def test_a_zero_padding_vector_stays_zero_and_changes_no_other_weight():
    attention = "model.attention.mask_padding=false model.attention.score=additive"
    changes = f"model.hidden=8 {attention} model.padding_embedding="
    models = [build_model(make_config(changes + kind)) for kind in ("learned", "zero")]
    for (name, learned), (_, zero) in zip(
        models[0].named_parameters(), models[1].named_parameters(), strict=True
    ):
        start = 1 if name.endswith("embedding.weight") else 0  # row 0 is <pad>
        assert torch.equal(learned[start:], zero[start:])
        assert not start or (learned[0].any() and not zero[0].any())
    source = torch.tensor([[5, 6, 7, 8], [9, 0, 0, 0]])
    tokens = torch.tensor([[1, 8], [1, 0]])
    for model, moves in zip(models, (True, False), strict=True):
        loss = model(as_batch(source, torch.tensor([4, 1]), tokens)).logits.square().sum()
        loss.backward()
        assert bool(model.encoder.embedding.weight.grad[0].any()) is moves
        assert bool(model.decoder.embedding.weight.grad[0].any()) is moves
        assert model.encoder.embedding.weight.grad[5].any()


def test_configs_without_the_key_learn_the_padding_vector():
    assert build_model(check_config({})).encoder.embedding.padding_idx is None
    assert (
        build_model(
            load_config(Path("configs/chapter/additive.yaml"))
        ).encoder.embedding.padding_idx
        == 0
    )


def test_rows_of_nested_states_are_selected_and_numbers_stay():
    table = torch.arange(6).view(3, 2)
    state = (Decoded(table, None), {"past": [table.float()]}, 7)
    (decoded, past, number) = make_model().select(state, torch.tensor([2, 0, 2]))
    expected = [[4, 5], [0, 1], [4, 5]]
    assert isinstance(decoded, Decoded)
    assert (decoded.logits.tolist(), decoded.weights) == (expected, None)
    assert past["past"][0].tolist() == expected
    assert number == 7
