"""The faster form of a model in training: its numbers are the formulas', and it steps aside where
it might not be.
"""

import copy
import functools
import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import (
    as_batch,
    each_arrangement,
    is_real,
    make_batch,
    make_cell_free_model,
    make_model,
    seeded,
)
from tables import table
from torch import nn
from torch.nn.utils import parametrizations, prune

import seq2attn
from seq2attn.kernels import faster, faster_form, function, prefers_cpu
from seq2attn.kernels.function import gru
from seq2attn.kernels.fused import FUSED
from seq2attn.model.attention import Attention
from seq2attn.model.cells import GRU, draw_resets
from seq2attn.model.decoder import LuongDecoder
from seq2attn.model.histories import Coverage, Location
from seq2attn.model.normalisers import Softmax
from seq2attn.model.points import Rank, hooked_places
from seq2attn.model.scores import Additive, General

needs_the_library = pytest.mark.skipif(
    isinstance(function.load(torch.float64), str), reason="there is no compiled library"
)
pytestmark = needs_the_library
KNOWN = "dot scaled general scaled_general additive key_value".split()


def batch_for(lengths=(4, 2, 1), targets=(3, 3, 2)):
    return as_batch(*make_batch(lengths, max(targets)), torch.tensor(targets))


def loss_and_gradients(model, forward, batch, resets):
    """A loss that uses every real logit and weight, and each parameter's gradient; dropout is drawn
    anew.
    """
    torch.manual_seed(0)
    if forward is model:
        with hooked_places(resets.items(), Rank.RESET):
            decoded = model(batch)
    else:
        decoded = forward(batch, resets)
    real = is_real(batch.decoder_lengths, batch.decoder_input.size(1))
    loss = decoded.logits[real].square().sum() + decoded.logits[real][:, 0].sum()
    if decoded.weights is not None:
        loss = loss + decoded.weights[real].square().sum()
    gradients = torch.autograd.grad(
        loss, list(model.parameters()), allow_unused=True, materialize_grads=True
    )
    return loss.detach(), gradients


def assert_faster_form_agrees(
    model, batch=None, resets=(), *, reads=True, decodes=True, rounding=0.0
):
    """rounding: by how much gradients of the formulas may be off themselves."""
    batch = batch or batch_for()
    resets = dict(resets)
    faster = faster_form(model)
    assert faster is not None
    assert faster.reads == reads
    assert faster.decodes == decodes
    tolerance = 1e-4 if next(model.parameters()).dtype == torch.float32 else 1e-10
    loss, gradients = loss_and_gradients(model, faster, batch, resets)
    expected_loss, expected = loss_and_gradients(model, model, batch, resets)
    assert abs(loss - expected_loss) <= tolerance * abs(expected_loss)
    largest = max(gradient.abs().max() for gradient in expected)
    for (name, _), one, other in zip(model.named_parameters(), gradients, expected, strict=True):
        assert (one - other).abs().max() <= tolerance * largest + rounding, name


@table(
    "options, reads, decodes",
    """
{bidirectional: true} | true | true
{scalable_softmax: true} | true | true
{scalable_softmax: true, mask_padding: false} | true | true
{mask_padding: false, bidirectional: true} | true | true
{score: none, initial_state: last} | true | true
{score: none, initial_state: bridge, arrangement: luong, bidirectional: true} | true | true
{initial_state: last} | true | true
{dropout: 0.4, bidirectional: true} | true | true
{window: local_m} | true | false
{score: cosine, arrangement: luong} | true | false
{layers: 2, dropout: 0.3, bidirectional: true} | true | false
{layers: 3, dropout: 0.3} | true | false  # whose masks are drawn in the same order
{score: none, arrangement: feeding, initial_state: last} | true | false
{arrangement: pointer} | true | false
{arrangement: hard_monotonic} | true | false
{cell: lstm, initial_state: last} | false | false
""",
    "options reads decodes",
)
def test_what_it_computes_is_the_formulas_and_the_rest_is_left_to_them(options, reads, decodes):
    model = make_model(**{"score": "general", **options})
    assert_faster_form_agrees(model, reads=reads, decodes=decodes)


def resets_of(model, batch, encoder=0.5):
    random = seeded(1)
    tokens = batch.source, batch.decoder_input
    return draw_resets(model, random, *tokens, encoder=encoder, decoder=0.5)


@each_arrangement
def test_resets_of_states(arrangement):
    model = make_model(arrangement=arrangement, bidirectional=True)
    batch = batch_for()
    assert_faster_form_agrees(model, batch, resets_of(model, batch))


def test_an_encoder_without_recurrent_layers_is_left_to_its_formula():
    model = make_cell_free_model()
    batch = batch_for()
    assert_faster_form_agrees(model, batch, resets_of(model, batch, encoder=0.0), reads=False)


@table(
    "cell",
    """
gru
lstm
""",
)
@table(
    "options",
    """
{arrangement: luong}
{layers: 2, window: local_m}
""",
    "options",
)
def test_fused_operations(cell, options, monkeypatch):
    monkeypatch.setattr(faster, "load", lambda _: "there is no compiler")
    model = make_model(cell=cell, initial_state="last", **options)
    batch = batch_for()
    assert_faster_form_agrees(model, batch, reads=False, decodes=False)
    assert_faster_form_agrees(model, batch, resets_of(model, batch), reads=False, decodes=False)
    assert not any(type(part) in FUSED.values() for part in model.modules())


def test_small_batches_of_a_compiled_model_prefer_the_cpu():
    model = make_model(hidden=10)
    assert prefers_cpu(model, faster.SMALL // 100)
    assert not prefers_cpu(model, faster.SMALL // 100 + 1)
    assert not prefers_cpu(make_model(cell="lstm"), 1)
    assert not prefers_cpu(make_model(window="local_m"), 1)


def test_rows_in_any_order_and_a_fixed_padding_vector():
    model = make_model()
    for embedding in (model.encoder.embedding, model.decoder.embedding):
        embedding.padding_idx = 4
    assert_faster_form_agrees(model, batch_for((2, 4, 1), (1, 3, 2)))


sizes = st.integers(1, 40)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=9),
    hidden=sizes,
    embedding=sizes,
    score=st.sampled_from(KNOWN),
    arrangement=st.sampled_from("bahdanau feeding luong".split()),
    history=st.sampled_from("none location coverage location_coverage shift shift_by_key".split()),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 99),
)
def test_every_shape_score_arrangement_and_history(lengths, dtype, **options):
    model, batch = make_model(**options).to(dtype), batch_for(lengths, lengths)
    exact = copy.deepcopy(model).double()
    _, gradients = loss_and_gradients(model, model, batch, {})
    _, expected = loss_and_gradients(exact, exact, batch, {})
    off = max((one - other).abs().max() for one, other in zip(gradients, expected, strict=True))
    assert_faster_form_agrees(model, batch, rounding=4 * float(off))


# ---- it steps aside ----


def doubled(function):
    @functools.wraps(function)
    def mine(*arguments):
        result = function(*arguments)
        return result * 2 if isinstance(result, torch.Tensor) else result

    return mine


@pytest.mark.parametrize(
    "kind, method",
    [
        (GRU, "step"),
        (General, "project"),
        (Additive, "with_features"),  # which it inherits
        (Location, "combine"),
        (Softmax, "normalise"),
        (Attention, "prepare"),
        (LuongDecoder, "advance"),
        (seq2attn.Encoder, "forward"),
        (nn.Linear, "forward"),
    ],
)
def test_a_method_replaced_on_a_class(kind, method, monkeypatch):
    """Whether the model has such a part or not."""
    model = make_model()
    assert faster_form(model) is not None
    monkeypatch.setattr(kind, method, doubled(getattr(kind, method)), raising=False)
    assert faster_form(model) is None


@table(
    "part, method",
    """
decoder.attention.score | with_features
decoder.attention | forward
decoder.cell | step
decoder | advance
decoder.output | forward
""",
)
def test_a_method_replaced_on_an_object_of_the_decoder(part, method):
    model = make_model(history="coverage")
    owner = model.get_submodule(part)
    setattr(owner, method, doubled(getattr(owner, method)))
    assert_faster_form_agrees(model, decodes=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: cell.register_forward_hook(lambda *_: None),
        lambda cell: cell.register_full_backward_hook(lambda *_: None),
        lambda cell: parametrizations.weight_norm(cell, "weight_hh"),
        lambda cell: prune.l1_unstructured(cell, "weight_hh", amount=0.5),
    ],
)
def test_hooks_and_parametrizations(change):
    model = make_model()
    change(model.decoder.cell)
    assert_faster_form_agrees(model, decodes=False)


def test_what_python_caches_on_a_class_is_no_change():
    model = copy.deepcopy(make_model())
    assert inspect.get_annotations(Additive) == {}
    assert faster_form(model) is not None


def test_other_classes_types_and_hooks_on_the_whole_model():
    model = make_model(history="coverage")
    model.encoder.layers[0].cell.step = lambda read, state: state
    assert_faster_form_agrees(model, reads=False)
    model.decoder.attention.history.__class__ = type("Mine", (Coverage,), {})
    assert_faster_form_agrees(model, reads=False, decodes=False)
    for change in (
        lambda model: model.register_forward_hook(lambda *_: None),
        lambda model: model.decoder.float(),
    ):
        model = make_model()
        change(model)
        assert faster_form(model) is None


def test_large_products_on_several_threads_are_left_to_torch(monkeypatch):
    calls = []
    model = make_model()
    batch = batch_for()
    monkeypatch.setattr(faster, "gru", lambda *inputs: calls.append(1) or gru(*inputs))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    fast = faster_form(model)
    for largest, used in ((3 * 5**2, False), (3 * 5**2 + 1, True)):  # 3 rows of width 5
        monkeypatch.setattr(faster, "LARGE", largest)
        calls.clear()
        fast(batch, {})
        assert bool(calls) is used
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(faster, "LARGE", 0)
    fast(batch, {})
    assert calls
