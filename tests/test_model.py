"""A whole model: padding, first weights, dropout and resets. `test_combinations` compares all parts
with their formulas.
"""

import math
from unittest import mock

import pytest
import torch
from models import (
    CPU,
    SIX_STEPS,
    as_batch,
    close,
    each_arrangement,
    first_batch,
    make_batch,
    make_config,
    make_model,
    make_score,
    seeded,
)
from tables import table
from torch import nn

import seq2attn
from seq2attn.build import build_model
from seq2attn.config import load_config
from seq2attn.data.batches import generator
from seq2attn.model.cells import draw_resets
from seq2attn.model.interface import Decoded
from seq2attn.training import step as training_step
from seq2attn.training.step import TrainingStep


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
        alone = model(as_batch(source[part, :length], lengths[part], tokens[part]))
        close(together.logits[row], alone.logits[0])
    together.logits.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@table(
    "score",
    """
dot
additive
""",
)
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


def test_the_padding_vector_of_the_chapter_is_zero():
    model = build_model(load_config("configs/chapter/dot.yaml"))
    assert model.encoder.embedding.padding_idx == 0


def test_rows_of_nested_states_are_selected_and_numbers_stay():
    table = torch.arange(6).view(3, 2)
    state = (Decoded(table, None), {"past": [table.float()]}, 7)
    (decoded, past, number) = make_model().select(state, torch.tensor([2, 0, 2]))
    expected = [[4, 5], [0, 1], [4, 5]]
    assert isinstance(decoded, Decoded)
    assert (decoded.logits.tolist(), decoded.weights) == (expected, None)
    assert past["past"][0].tolist() == expected
    assert number == 7


# ---- names and first weights ----


@each_arrangement
@pytest.mark.parametrize("bidirectional", [False, True])
def test_first_weights_are_drawn_as_torch_draws_them_in_this_order_bit_by_bit(
    bidirectional, arrangement
):
    vocabulary, embedding, hidden = 8, 6, 24
    decoder = "luong model.decoder.input_feeding=true" if arrangement == "feeding" else arrangement
    config = make_config(
        f"seed=9 task.alphabet=abcde model.hidden={hidden} model.embedding={embedding} "
        f"model.bidirectional={bidirectional} model.initial_state=bridge model.decoder={decoder} "
        "model.attention.score=additive"
    )
    before = torch.get_rng_state()
    found = build_model(config).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    width = 2 * hidden if bidirectional else hidden
    torch.manual_seed(9)
    parts = {
        "encoder.embedding": nn.Embedding(vocabulary, embedding),
        "encoder.layers.0.cell": nn.GRUCell(embedding, hidden),
        **(
            {"encoder.layers.0.backward_cell": nn.GRUCell(embedding, hidden)}
            if bidirectional
            else {}
        ),
        "decoder.attention.score.query_map": nn.Linear(hidden, hidden, bias=False),
        "decoder.attention.score.key_map": nn.Linear(width, hidden, bias=False),
        "decoder.attention.score.v": nn.Linear(hidden, 1, bias=False),
        "decoder.embedding": nn.Embedding(vocabulary, embedding),
    }
    if arrangement == "bahdanau":
        parts["decoder.output"] = nn.Linear(hidden + width, vocabulary)
        parts["decoder.cell"] = nn.GRUCell(embedding + width, hidden)
    else:
        parts["decoder.output"] = nn.Linear(hidden, vocabulary)
        parts["decoder.cell"] = nn.GRUCell(embedding + hidden * (arrangement == "feeding"), hidden)
        parts["decoder.combine"] = nn.Linear(width + hidden, hidden, bias=False)
    parts["initial_state.map"] = nn.Linear(hidden, hidden)
    expected = {
        f"{part}.{name}": one
        for part, made in parts.items()
        for name, one in made.state_dict().items()
    }
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


# ---- dropout ----


@each_arrangement
def test_dropout_acts_in_training_only(arrangement):
    options = {"layers": 2, "arrangement": arrangement, "initial_state": "last"}
    model, without = (make_model("dot", dropout=dropout, **options) for dropout in (0.5, 0.0))
    batch = as_batch(*make_batch())
    torch.manual_seed(0)
    first = model(batch).logits
    assert not torch.equal(model(batch).logits, first)
    torch.manual_seed(0)
    assert torch.equal(model(batch).logits, first)  # drawn from torch's default generator
    model.eval()
    close(model(batch).logits, without(batch).logits)


def test_dropout_at_embeddings_between_layers_and_before_the_output():
    model = make_model("dot", dropout=0.5, layers=2, initial_state="last", hidden=16, embedding=16)
    torch.manual_seed(0)
    layers = [layer.cell for layer in model.encoder.layers] + list(model.decoder.cell.cells)
    for reader in (*layers, model.decoder.output):
        read = []
        with reader.register_forward_pre_hook(lambda _, inputs, read=read: read.append(inputs[0])):
            model(as_batch(*make_batch()))
        dropped = torch.cat([one[..., :16].flatten() for one in read]) == 0
        assert 0.3 < dropped.double().mean() < 0.7


# ---- first weights of scores ----


@table(
    "name",
    """
general
scaled_general
""",
)
def test_initial_std_is_the_deviation_of_the_first_weights(name):
    torch.manual_seed(0)
    weight = make_score(name, 64, 64, initial_std=0.1).map.weight.detach()
    # of 4096 draws: the mean is within 4 * .1/64 of 0, the deviation within 4 * .1/sqrt(2 * 4096)
    # of .1
    assert abs(float(weight.mean())) < 4 * 0.1 / 64
    assert float(weight.std()) == pytest.approx(0.1, abs=4 * 0.1 / math.sqrt(8192))
    default = make_score(name, 64, 64).map.weight.detach()
    assert float(default.abs().max()) <= 1 / 8  # torch.nn.Linear: uniform within 1 / sqrt(64)


def test_cosine_begins_with_scores_of_variance_1():
    query, keys = torch.randn(2, 1, 400, 96, generator=seeded(0))
    score = make_score("cosine", 96, 96)
    # the cosine of two random vectors has variance 1/D; of 160,000 dependent ones at least 400 are
    # independent
    found = score(query, score.project(keys)).detach().var()
    assert float(found) == pytest.approx(1, abs=4 * math.sqrt(2 / 400))


# ---- resets in training: which states, by what, and that nothing else changes ----


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
    # 12,000 draws: 4 standard errors
    assert 1 - reset.kept.float().mean() == pytest.approx(0.3, abs=0.017)
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
    layer = model.encoder.layers[0]
    cells = (layer.cell, layer.backward_cell, model.decoder.cell)
    found = []

    def draw(*inputs, **shares):
        drawn = draw_resets(*inputs, **shares)
        found.append([drawn.get(cell.state_points[0]) for cell in cells])
        return drawn

    with mock.patch.object(training_step, "draw_resets", draw):
        TrainingStep(model, config, CPU).forward(batch, step)
    return found


@table(
    "share",
    """
encoder_reset
decoder_reset
""",
)
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
    assert set(resets) == {*model.encoder.layers[0].cell.state_points}  # in one direction
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
