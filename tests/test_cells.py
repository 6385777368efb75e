"""First weights as torch draws them, and dropout. `test_combinations` compares cells and layers
with their formulas.
"""

import pytest
import torch
from models import as_batch, close, each_arrangement, make_batch, make_config, make_model
from torch import nn

from seq2attn.build import build_model

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
