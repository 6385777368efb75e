"""A whole model: padding, seeds, and the padding vector. `test_combinations` compares all parts with their formulas."""

from pathlib import Path

import pytest
import torch
from models import as_batch

from seq2attn.build import build_model
from seq2attn.config import check_config, load_config
from seq2attn.data.vocabulary import EOS, SOS, Vocabulary
from seq2attn.model.scores import Score

ALPHABET = "abcde"
D = 5
VOCABULARY = Vocabulary(ALPHABET)
TEXTS = ["cab", "e", "badec"]
LONGEST_FIRST = ["badec", "cab", "e"]


def make_model(score="additive", initial_state="zeros", bidirectional=False, *, mask_padding=True, seed=3):
    values = {
        "embedding": 4,
        "hidden": D,
        "initial_state": initial_state,
        "bidirectional": bidirectional,
        "attention": {"score": score, "mask_padding": mask_padding},
    }
    return build_model(check_config({"seed": seed, "task": {"alphabet": ALPHABET}, "model": values})).double().eval()


def read(texts, source_eos=False, padding=0):
    """Source (B, S) and lengths (B,), with `padding` columns more than needed."""
    rows = [VOCABULARY.encode(text) + [EOS] * source_eos for text in texts]
    width = max(map(len, rows)) + padding
    source = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return source, torch.tensor(list(map(len, rows)))


def given(count, length):
    """Decoder input (B, L): `<sos>`, then some characters."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 3 + len(ALPHABET), (count, length), generator=random)
    tokens[:, 0] = SOS
    return tokens


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# ---- padding, batches, steps ----


class Cosine(Score):
    """Not defined for a key of zeros."""

    def forward(self, query, keys):
        unit = keys / keys.norm(dim=2, keepdim=True)
        return query @ unit.mT


def test_a_score_need_not_be_defined_on_padding():
    model = make_model("dot", "last")
    model.decoder.attention.score = Cosine(D, D)
    tokens = given(3, 6)
    together = model(as_batch(*read(LONGEST_FIRST), tokens))
    for row, text in enumerate(LONGEST_FIRST):
        close(together.logits[row], model(as_batch(*read([text]), tokens[row : row + 1])).logits[0])
    together.logits.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_without_the_mask_padding_is_read_as_any_token(score):
    unmasked, masked = make_model(score, mask_padding=False), make_model(score)
    tokens = given(3, 4)
    source, lengths = read(LONGEST_FIRST, padding=1)
    found, expected = (
        unmasked(as_batch(source, lengths, tokens)),
        masked(as_batch(source, torch.full_like(lengths, 6), tokens)),
    )
    close(found.logits, expected.logits)
    close(found.weights, expected.weights)


# ---- first weights ----


def test_a_zero_padding_vector_stays_zero_and_changes_no_other_weight():
    settings = {"mask_padding": False, "score": "additive"}
    models = [
        build_model(check_config({"model": {"hidden": 8, "attention": settings, "padding_embedding": kind}}))
        for kind in ("learned", "zero")
    ]
    for (name, learned), (_, zero) in zip(models[0].named_parameters(), models[1].named_parameters(), strict=True):
        start = 1 if name.endswith("embedding.weight") else 0  # row 0 is <pad>
        assert torch.equal(learned[start:], zero[start:])
        assert not start or (learned[0].any() and not zero[0].any())
    source, tokens = torch.tensor([[5, 6, 7, 8], [9, 0, 0, 0]]), torch.tensor([[1, 8], [1, 0]])
    for model, moves in zip(models, (True, False), strict=True):
        loss = model(as_batch(source, torch.tensor([4, 1]), tokens)).logits.square().sum()
        loss.backward()
        assert bool(model.encoder.embedding.weight.grad[0].any()) is moves
        assert bool(model.decoder.embedding.weight.grad[0].any()) is moves
        assert model.encoder.embedding.weight.grad[5].any()


def test_configs_without_the_key_learn_the_padding_vector():
    assert build_model(check_config({})).encoder.embedding.padding_idx is None
    assert build_model(load_config(Path("configs/chapter/additive.yaml"))).encoder.embedding.padding_idx == 0
    learned = load_config(Path("configs/chapter/additive.yaml"), ["model.padding_embedding=learned"])
    assert build_model(learned).encoder.embedding.weight[0].any()
