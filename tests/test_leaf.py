"""The compiled recurrence is taken in the plain case, and steps aside by itself in every other.

Results and gradients are then those of the formulas, because the formulas compute them.
"""

import copy
import itertools
import os
import subprocess
import sys

import pytest
import torch
from models import ARRANGEMENTS, HISTORIES, make_batch, make_model
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules import module as global_hooks
from torch.nn.utils import parametrize, prune
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from seq2attn import kernels
from seq2attn.kernels.binding import Kernels
from seq2attn.kernels.library import load
from seq2attn.model.attention import Attention
from seq2attn.model.bahdanau import BahdanauDecoder
from seq2attn.model.cells import GRU
from seq2attn.model.encoder import Encoder
from seq2attn.model.histories import Coverage, Location, LocationCoverage, Shift
from seq2attn.model.luong import LuongDecoder
from seq2attn.model.scores.additive import Additive
from seq2attn.model.scores.dot import Dot

BATCH = make_batch((4, 2, 1))
ALL = ["gru", "attentive_gru"]  # what the compiled recurrence is called for by a model of `bahdanau`: encoder, decoder
SUMS = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """The calls of the compiled recurrence: their names."""
    monkeypatch.setenv("SEQ2ATTN_KERNELS", "on")
    if not isinstance(load(torch.float64), Kernels):
        pytest.skip("there is no compiled recurrence")
    made = []

    def counted(name, call):
        return lambda *inputs: made.append(name) or call(*inputs)

    for name in ALL:
        monkeypatch.setattr(kernels, name, counted(name, getattr(kernels, name)))
    return made


def loss_of(decoded):
    return decoded.logits.square().sum() + (0 if decoded.weights is None else decoded.weights.square().sum())


def losses_and_gradients(model, batch=BATCH):
    """The loss of real positions, and each parameter's gradient."""
    model.zero_grad()
    loss = loss_of(model(*batch))
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def by_the_formulas(model, batch=BATCH):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQ2ATTN_KERNELS", "off")
        return losses_and_gradients(model, batch)


def assert_equal_to_the_formulas(model, batch=BATCH, tolerance=1e-10):
    loss, gradients = losses_and_gradients(model, batch)
    expected_loss, expected = by_the_formulas(model, batch)
    torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=tolerance)
    assert [name for name, gradient in gradients.items() if gradient is None] == [
        name for name, gradient in expected.items() if gradient is None
    ]
    for name, gradient in gradients.items():
        if gradient is not None:
            torch.testing.assert_close(gradient, expected[name], rtol=tolerance, atol=tolerance)


def assert_steps_aside(calls, model, taken=(), batch=BATCH, tolerance=1e-10):
    """Only `taken` of the compiled recurrence is called, and nothing differs from the formulas."""
    calls.clear()
    assert_equal_to_the_formulas(model, batch, tolerance)
    assert calls == list(taken)


# ---- the plain case ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("score", ["dot", "scaled", "general", "scaled_general", "additive", "key_value"])
def test_it_is_called_in_the_plain_case(calls, score, dtype):
    model = make_model(score, dtype=dtype)
    assert_steps_aside(calls, model, ALL, tolerance=1e-4 if dtype == torch.float32 else 1e-10)
    calls.clear()
    model.eval()(*BATCH)
    assert calls == ALL


def test_it_is_called_in_every_arrangement_that_it_knows(calls):
    for options, taken in [
        ({"arrangement": "luong"}, ALL),
        ({"score": "none", "initial_state": "last"}, ["gru", "gru"]),
        ({"bidirectional": True}, ["gru", "gru", "attentive_gru"]),
        ({"scalable_softmax": True}, ALL),
        ({"mask_padding": False}, ALL),
        *(({"arrangement": one, "history": history}, ALL) for one in ARRANGEMENTS for history in HISTORIES),
    ]:
        assert_steps_aside(calls, make_model(**{"score": "general", **options}), taken)


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"window": "local_m"}, ["gru"]),
        ({"window": "local_p"}, ["gru"]),
        ({"window": "local_p", "history": "coverage", "arrangement": "feeding"}, ["gru"]),
        ({"arrangement": "luong", "window": "local_m"}, ["gru", "gru"]),
        ({"arrangement": "feeding", "score": "none", "initial_state": "last"}, ["gru"]),
        ({"score": "cosine"}, ["gru"]),
        ({"cell": "lstm"}, []),
        ({"cell": "rnn"}, []),
        ({"layers": 2}, ["gru"]),  # the encoder's lower layer
    ],
)
def test_it_is_not_called_for_what_it_does_not_know(calls, options, taken):
    make_model(**{"score": "dot", **options})(*BATCH)
    assert calls == taken


def test_without_gradients_there_is_nothing_that_it_could_do_better(calls):
    model = make_model()
    with torch.no_grad():
        model(*BATCH)
    with torch.inference_mode():
        model(*BATCH)
    memory, state = model.encode(*BATCH[:2])
    calls.clear()
    model.step(BATCH[2][:, 0], state, memory)
    assert calls == []


# ---- hooks ----

FORWARD = ["register_forward_hook", "register_forward_pre_hook"]
BACKWARD = ["register_full_backward_hook", "register_full_backward_pre_hook"]
PARTS = {
    "bahdanau": [
        "encoder.embedding",
        "encoder.dropout",
        "encoder.gru",
        "encoder.backward_gru",
        "decoder.embedding",
        "decoder.dropout",
        "decoder.cell",
        "decoder.attention",
        "decoder.attention.score",
        "decoder.attention.score.query_map",
        "decoder.attention.score.v",
    ],
    "luong": ["encoder.gru", "decoder.embedding", "decoder.gru", "decoder.attention", "decoder.attention.score"],
    "feeding": [
        "decoder.gru",
        "decoder.combine",
        "decoder.attention.history",
        "decoder.attention.history.convolution",
        "decoder.attention.history.map",
    ],
}
HOOKED = [(arrangement, part) for arrangement, parts in PARTS.items() for part in parts]


def hooked(arrangement):
    history = "location" if arrangement == "feeding" else "none"
    return make_model("additive", arrangement=arrangement, history=history, bidirectional=True, initial_state="bridge")


@pytest.mark.parametrize("register", FORWARD)
@pytest.mark.parametrize(("arrangement", "part"), HOOKED)
def test_forward_hooks_fire_in_training_and_in_prediction(arrangement, part, register):
    model, fired = hooked(arrangement), []
    getattr(model.get_submodule(part), register)(lambda *call: fired.append(call))
    model(*BATCH)
    assert fired
    fired.clear()
    model.eval()(*BATCH)
    assert fired
    fired.clear()
    with torch.no_grad():
        model(*BATCH)
        assert fired
        fired.clear()
        memory, state = model.encode(*BATCH[:2])
        model.step(BATCH[2][:, 0], state, memory)
        assert fired


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # of embeddings: tokens have no gradients
@pytest.mark.parametrize("register", BACKWARD)
@pytest.mark.parametrize(("arrangement", "part"), HOOKED)
def test_backward_hooks_fire(arrangement, part, register):
    model, fired = hooked(arrangement), []
    getattr(model.get_submodule(part), register)(lambda *call: fired.append(call))
    loss_of(model(*BATCH)).backward()
    assert fired


@pytest.mark.parametrize("part", ["encoder.gru", "decoder.cell", "decoder.attention.score"])
def test_a_forward_hook_may_change_what_is_computed(part):
    model = make_model("dot")
    plain, _ = losses_and_gradients(model)

    def changed(module, inputs, output):
        return (0.5 * output[0], output[1]) if isinstance(output, tuple) else 0.5 * output

    handle = model.get_submodule(part).register_forward_hook(changed)
    assert losses_and_gradients(model)[0] != pytest.approx(float(plain), abs=1e-6)
    handle.remove()
    assert losses_and_gradients(model)[0] == plain


def test_only_what_a_hook_would_miss_is_left_to_the_formulas(calls):
    for part, taken in [("decoder.cell", ["gru"]), ("encoder.gru", ["attentive_gru"]), ("decoder.output", ALL)]:
        model = make_model()
        model.get_submodule(part).register_forward_hook(lambda *call: None)
        assert_steps_aside(calls, model, taken)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    "register",
    [
        "register_module_forward_hook",
        "register_module_forward_pre_hook",
        "register_module_full_backward_hook",
        "register_module_full_backward_pre_hook",
    ],
)
def test_hooks_on_all_modules_fire(calls, register):
    model, fired = make_model(), set()
    handle = getattr(global_hooks, register)(lambda module, *call: fired.add(module) and None)
    try:
        loss_of(model(*BATCH)).backward()
    finally:
        handle.remove()
    assert calls == []
    assert {model.encoder.gru, model.decoder.cell, model.decoder.attention, model.decoder.attention.score} <= fired


def test_hooks_on_parameters_fire(calls):
    model, fired = make_model(), []
    model.decoder.cell.weight_hh.register_hook(fired.append)
    model.encoder.embedding.weight.register_post_accumulate_grad_hook(fired.append)
    loss_of(model(*BATCH)).backward()
    assert len(fired) == 2 and calls == ALL


# ---- modules of one's own ----


class Tempered(Dot):
    """e^b s.h"""

    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        self.temperature = nn.Parameter(torch.tensor(0.7))

    def forward(self, query, keys):
        return super().forward(query, keys) * self.temperature.exp()


def test_a_score_derived_from_dot_learns_its_own_parameter(calls):
    model = make_model(Tempered)
    assert_steps_aside(calls, model, ["gru"])
    assert model.decoder.attention.score.temperature.grad != 0
    plain = make_model("dot")
    plain.load_state_dict(model.state_dict(), strict=False)
    assert losses_and_gradients(plain)[0] != pytest.approx(float(losses_and_gradients(model)[0]), abs=1e-6)


def test_methods_replaced_on_one_object(calls):
    for part, method, taken in [
        ("decoder.attention.score", "forward", ["gru"]),
        ("decoder.attention", "forward", ["gru"]),
        ("decoder.cell", "step", ["gru"]),
        ("decoder.cell", "read", ["gru"]),
        ("encoder.gru", "recall", ["attentive_gru"]),
        ("encoder.gru", "forward", ["attentive_gru"]),
        ("encoder.embedding", "forward", ["attentive_gru"]),
        ("decoder", "advance", ["gru"]),
        ("decoder", "embed", ["gru"]),
        ("decoder.attention.score.query_map", "forward", ["gru"]),
        ("decoder.attention.history", "forward", ["gru"]),
        ("decoder.attention.history", "update", ["gru"]),
        ("decoder.attention.history", "combine", ["gru"]),
        ("decoder.attention.history.map", "forward", ["gru"]),
    ]:
        model, asked = make_model("additive", history="location"), []
        owner = model.get_submodule(part)
        own = getattr(owner, method)
        setattr(owner, method, lambda *inputs, own=own, asked=asked: asked.append(inputs) or own(*inputs))
        assert_steps_aside(calls, model, taken)
        assert asked


def derived(base, method):
    """A subclass whose `method` returns three quarters of each tensor."""

    def reduced(found):
        if isinstance(found, tuple):
            parts = map(reduced, found)
            return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
        return found * 0.75 if isinstance(found, torch.Tensor) and found.is_floating_point() else found

    return type("Own", (base,), {method: lambda self, *inputs: reduced(getattr(base, method)(self, *inputs))})


@pytest.mark.parametrize(
    ("part", "base", "method", "taken"),
    [
        ("encoder.gru", GRU, "step", ["attentive_gru"]),
        ("decoder.cell", GRU, "read", ["gru"]),
        ("decoder.attention", Attention, "forward", ["gru"]),
        ("decoder.attention.score", Additive, "forward", ["gru"]),
        ("decoder.attention.score.query_map", nn.Linear, "forward", ["gru"]),
        ("decoder.attention.score.v", nn.Linear, "forward", ["gru"]),
        ("encoder.embedding", nn.Embedding, "forward", ["attentive_gru"]),
        ("decoder.embedding", nn.Embedding, "forward", ["gru"]),
        ("encoder.dropout", nn.Dropout, "forward", ["attentive_gru"]),
        ("encoder", Encoder, "_read", ["attentive_gru"]),
        ("decoder", BahdanauDecoder, "advance", ["gru"]),
        ("decoder", BahdanauDecoder, "embed", ["gru"]),
    ],
)
def test_classes_derived_from_ours_do_what_they_say(calls, part, base, method, taken):
    model = make_model("additive")
    plain, _ = by_the_formulas(model)
    model.get_submodule(part).__class__ = derived(base, method)
    assert_steps_aside(calls, model, taken)
    assert losses_and_gradients(model)[0] != pytest.approx(float(plain), abs=1e-9)


@pytest.mark.parametrize("arrangement", ["luong", "feeding"])
@pytest.mark.parametrize("method", ["embed", "_combine"])
def test_a_decoder_derived_from_luong_does_what_it_says(calls, arrangement, method):
    model = make_model("dot", arrangement=arrangement)
    plain, _ = by_the_formulas(model)
    model.decoder.__class__ = derived(LuongDecoder, method)
    assert_steps_aside(calls, model, ["gru"])
    assert losses_and_gradients(model)[0] != pytest.approx(float(plain), abs=1e-9)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(
    ("history", "base", "method"),
    [
        ("location", Location, "forward"),
        ("coverage", Coverage, "update"),
        ("location_coverage", LocationCoverage, "forward"),
        ("shift", Shift, "combine"),
        ("shift", Shift, "read"),
    ],
)
def test_a_history_derived_from_ours_does_what_it_says(calls, arrangement, history, base, method):
    model = make_model("dot", arrangement=arrangement, history=history)
    plain, _ = by_the_formulas(model)
    model.decoder.attention.history.__class__ = derived(base, method)
    # `luong` without input feeding has its states computed before it attends
    assert_steps_aside(calls, model, ["gru", "gru"] if arrangement == "luong" else ["gru"])
    assert losses_and_gradients(model)[0] != pytest.approx(float(plain), abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"dilation": 2, "padding": 4}, {"padding_mode": "circular"}, {"bias": True}, {"kernel_size": 1, "padding": 0}],
)
def test_another_convolution_in_a_history(calls, options):
    model = make_model("additive", history="location")
    torch.manual_seed(0)
    settings = {"kernel_size": 5, "padding": 2, "bias": False, **options}
    model.decoder.attention.history.convolution = nn.Conv1d(1, 8, dtype=torch.float64, **settings)
    known = options.get("kernel_size") == 1
    assert_steps_aside(calls, model, ALL if known else ["gru"])


@pytest.mark.parametrize("options", [{"history": "shift"}, {"arrangement": "feeding"}])
def test_teacher_forcing_that_goes_on_from_a_later_position(calls, options):
    model = make_model("additive", **options)
    source, lengths, tokens = BATCH
    memory, state = model.encode(source, lengths)
    whole = model.decoder(tokens, None, state, memory)
    with torch.no_grad():
        _, state = model.decoder.step(tokens[:, 0], state, memory)
    calls.clear()
    rest = model.decoder(tokens[:, 1:], None, state, memory)
    assert calls == []
    torch.testing.assert_close(rest.logits, whole.logits[:, 1:])
    torch.testing.assert_close(rest.weights, whole.weights[:, 1:])


@pytest.mark.parametrize(
    "options",
    [{"max_norm": 0.5}, {"scale_grad_by_freq": True}, {"sparse": True}],
)
def test_embeddings_with_settings_of_their_own(calls, options):
    model = make_model()
    torch.manual_seed(0)
    model.decoder.embedding = nn.Embedding(8, 4, dtype=torch.float64, **options)
    if "max_norm" in options:  # it changes the weights in place, at each forward pass
        model(*BATCH)
        calls.clear()
    assert_steps_aside(calls, model, ["gru"])


def test_a_padding_vector_has_no_gradient_in_the_compiled_recurrence_either(calls):
    model = make_model("additive", mask_padding=False)
    for embedding, row in ((model.encoder.embedding, 0), (model.decoder.embedding, 3)):
        embedding.padding_idx = row
    assert_steps_aside(calls, model, ALL)
    _, gradients = losses_and_gradients(model)
    for name, row in (("encoder.embedding.weight", 0), ("decoder.embedding.weight", 3)):
        assert not gradients[name][row].any()
        assert gradients[name].any()


def test_dropout_that_is_switched_on_by_itself(calls):
    """Monte Carlo dropout (Gal & Ghahramani 2016): the model in evaluation mode, its dropout in training mode."""
    model = make_model("dot", dropout=0.5).eval()
    model(*BATCH)
    assert calls == ALL
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    calls.clear()
    assert not torch.equal(model.encoder(*BATCH[:2]).states, model.encoder(*BATCH[:2]).states)
    assert calls == ["gru", "gru"]


@pytest.mark.parametrize(
    "options",
    [
        {"bidirectional": True},
        {"arrangement": "luong"},
        {"arrangement": "feeding", "history": "shift"},
        {"history": "location"},
        {"score": "none"},
    ],
)
def test_dropout_drops_the_same_numbers_as_in_the_formulas(calls, options):
    model = make_model(**{"score": "additive", "dropout": 0.5, **options})
    torch.manual_seed(1)
    loss, gradients = losses_and_gradients(model)
    assert len(calls) == 2 + model.encoder.bidirectional
    torch.manual_seed(1)
    expected_loss, expected = by_the_formulas(model)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradients, expected, rtol=1e-10, atol=1e-10)
    torch.manual_seed(2)
    assert losses_and_gradients(model)[0] != loss


def test_a_module_in_dropouts_place(calls):
    class Halved(nn.Module):
        def forward(self, numbers):
            return numbers * 0.5

    model = make_model()
    model.encoder.dropout = model.decoder.dropout = Halved()
    assert_steps_aside(calls, model)


# ---- weights ----


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


@pytest.mark.parametrize(
    ("part", "name", "taken"),
    [
        ("encoder.gru", "weight_hh_l0", ["attentive_gru"]),
        ("decoder.cell", "bias_ih", ["gru"]),
        ("decoder.embedding", "weight", ["gru"]),
        ("decoder.attention.score.query_map", "weight", ["gru"]),
        ("decoder.attention.score.key_map", "weight", ["gru"]),
        ("decoder.attention.history.convolution", "weight", ["gru"]),
        ("decoder.attention.history.map", "weight", ["gru"]),
        ("decoder.combine", "weight", ["gru"]),
    ],
)
def test_parametrized_weights(calls, part, name, taken):
    model = make_model(arrangement="feeding" if "combine" in part else "bahdanau", history="location")
    plain, _ = by_the_formulas(model)
    parametrize.register_parametrization(model.get_submodule(part), name, Doubled())
    assert_steps_aside(calls, model, taken)
    assert by_the_formulas(model)[0] != pytest.approx(float(plain), abs=1e-9)


def test_pruned_and_normed_weights(calls):
    for change in (
        lambda cell: prune.l1_unstructured(cell, "weight_hh", amount=0.5),
        lambda cell: nn.utils.parametrizations.weight_norm(cell, "weight_hh"),
        lambda cell: nn.utils.parametrizations.spectral_norm(cell, "weight_hh"),
    ):
        model = make_model().eval()  # spectral_norm changes its vectors in training
        change(model.decoder.cell)
        assert_steps_aside(calls, model, ["gru"])


@pytest.mark.parametrize(
    "part", ["encoder.embedding", "decoder.embedding", "decoder.attention.score.v", "decoder.cell"]
)
def test_one_weight_of_another_dtype_is_an_error_as_by_the_formulas(part):
    model = make_model(dtype=torch.float32)
    next(model.get_submodule(part).parameters()).data = next(model.get_submodule(part).parameters()).data.double()
    with pytest.raises(RuntimeError, match=r"dtype|same type|data type"):
        model(*BATCH)


def test_one_embedding_of_another_dtype_cannot_reach_the_kernels(calls):
    model = make_model(dtype=torch.float32)
    model.encoder.gru.double()
    with pytest.raises(RuntimeError):
        model(*BATCH)
    assert calls == []


def test_a_whole_model_of_another_dtype(calls):
    model = make_model(dtype=torch.bfloat16)
    decoded = model(*BATCH)
    assert decoded.logits.dtype == torch.bfloat16 and calls == []


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_tokens_of_another_integer_type(calls, dtype):
    source, lengths, tokens = BATCH
    model = make_model()
    expected = model(*BATCH)
    calls.clear()
    if dtype == torch.int16:  # torch's embedding does not take these
        with pytest.raises(RuntimeError):
            model(source.to(dtype), lengths, tokens.to(dtype))
    else:
        found = model(source.to(dtype), lengths, tokens.to(dtype))
        torch.testing.assert_close(found.logits, expected.logits)
    assert calls == []


def test_frozen_parameters_get_no_gradient(calls):
    for part in ("encoder", "decoder.cell", "decoder.attention", "decoder.embedding"):
        model = make_model()
        model.get_submodule(part).requires_grad_(False)
        assert_steps_aside(calls, model, ALL)
    model = make_model().requires_grad_(False)
    assert not model(*BATCH).logits.requires_grad


@pytest.mark.parametrize("name", ["encoder.gru.weight_hh_l0", "decoder.cell.weight_ih", "decoder.embedding.weight"])
def test_a_parameter_changed_in_place_between_forward_and_backward_is_an_error(name):
    """As by the formulas, except that these do not need an embedding's table for its gradient."""
    model = make_model()
    loss = loss_of(model(*BATCH))
    with torch.no_grad():
        model.get_parameter(name).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_changed_before_the_forward_pass_are_seen(calls):
    model = make_model()
    before, _ = losses_and_gradients(model)
    with torch.no_grad():
        model.decoder.cell.weight_hh.mul_(2)
        model.encoder.gru.bias_hh_l0.data.add_(1)
    assert losses_and_gradients(model)[0] != pytest.approx(float(before), abs=1e-9)
    assert_steps_aside(calls, model, ALL)
    cell = model.decoder.cell
    cell.weight_hh.data = cell.weight_hh.data.t().contiguous().t()  # the same numbers in another order of memory
    assert not cell.weight_hh.is_contiguous()
    assert_steps_aside(calls, model, ALL)
    cell.weight_hh.data = torch.ones(15, 4, dtype=torch.float64)  # of the wrong shape
    calls.clear()
    with pytest.raises(RuntimeError, match=r"shape|size"):
        model(*BATCH)
    assert calls == ["gru"]
    model.decoder.embedding.weight.data = torch.zeros(2, 4, dtype=torch.float64)  # a smaller vocabulary
    cell.weight_hh.data = torch.ones(15, 5, dtype=torch.float64)
    with pytest.raises(IndexError):
        model(*BATCH)


def test_a_weight_without_memory_cannot_end_the_process(calls):
    model = make_model()
    model.decoder.cell.weight_hh.data = torch._efficientzerotensor(15, 5, dtype=torch.float64)
    with torch.no_grad():
        expected = model(*BATCH).logits
    calls.clear()
    torch.testing.assert_close(model(*BATCH).logits, expected)
    assert calls == ["gru"]


# ---- lengths and masks ----


@pytest.mark.parametrize("lengths", [(4, 0), (4, -1), (0, 0), (5, 4), (9, 1)])
def test_lengths_that_do_not_fit_the_source_are_an_error_as_by_the_formulas(lengths):
    source, tokens = torch.full((2, 4), 3), torch.full((2, 2), 3)
    for switch in ("on", "off"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SEQ2ATTN_KERNELS", switch)
            with pytest.raises(RuntimeError, match="out of bounds"):
                make_model()(source, torch.tensor(lengths), tokens)


@pytest.mark.parametrize("lengths", [(3, 2, 0), (0, 0, 0), (4, 3, 1)])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_rows_without_output_positions(arrangement, lengths):
    assert_equal_to_the_formulas(make_model(arrangement=arrangement), (*BATCH, torch.tensor(lengths)))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_states_are_reset_as_in_the_formulas(calls, arrangement, history):
    model = make_model(arrangement=arrangement, history=history, bidirectional=True)
    random, (source, _, tokens) = torch.Generator().manual_seed(0), BATCH
    resets = model.draw_resets(random, source, tokens, encoder=0.4, decoder=0.4)
    assert not resets.decoder.kept[:, 1:].all()
    assert_steps_aside(calls, model, ["gru", *ALL], (*BATCH, None, resets))


def test_a_row_with_nothing_to_attend_to_has_weights_of_zero():
    model = make_model("dot")
    memory, state = model.encode(*BATCH[:2])
    valid = memory.valid.clone()
    valid[1] = False
    weights = model.decoder(BATCH[2], None, state, memory._replace(valid=valid)).weights
    assert (weights[1] == 0).all() and (weights[0].sum(dim=1) - 1).abs().max() < 1e-12


# ---- tracing, export, transforms, modes ----

MODELS = {
    "bahdanau": {"score": "additive"},
    "luong": {"score": "general", "arrangement": "luong", "bidirectional": True, "initial_state": "bridge"},
    "feeding": {
        "score": "dot",
        "cell": "lstm",
        "layers": 2,
        "arrangement": "feeding",
        "initial_state": "last",
        "window": "local_m",
        "history": "location",
        "scalable_softmax": True,
    },
}
every_model = pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
quick = pytest.mark.parametrize(  # of what takes seconds, one model; the others are slow
    "options",
    [
        pytest.param(options, id=name, marks=() if name == "bahdanau" else pytest.mark.slow)
        for name, options in MODELS.items()
    ],
)


def close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def loss_by(model, parameters, batch=BATCH):
    return loss_of(torch.func.functional_call(model, parameters, batch))


def detached(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


TRACE = """
import sys; sys.path.insert(0, "tests")
import torch
from models import make_batch, make_model
model, batch = make_model(**{options}), make_batch((4, 2, 1))
traced = torch.jit.trace(model, batch, check_trace=False)
other = make_batch((3, 4, 2))
torch.testing.assert_close(traced(*other)[0], model(*other).logits)
torch.testing.assert_close(traced(*other)[1], model(*other).weights)
traced(*batch)[0].sum().backward()
print("traced")
"""


@quick
def test_a_model_can_be_traced(options):
    """In a process of its own: it once ended in a segmentation fault."""
    program = TRACE.replace("{options}", repr(options))
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=os.path.dirname(os.path.dirname(__file__))
    )
    assert (done.returncode, done.stdout) == (0, "traced\n"), done.stderr


def test_a_model_cannot_be_scripted_and_says_so():
    with pytest.raises(RuntimeError):
        torch.jit.script(make_model())


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
@quick
def test_a_model_can_be_exported(calls, options, strict):
    model = make_model(**options)
    exported = torch.export.export(model, BATCH, strict=strict).module()
    assert calls == []
    for batch in (BATCH, make_batch((3, 4, 2))):
        close(exported(*batch).logits, model(*batch).logits)
        close(exported(*batch).weights, model(*batch).weights)


class Step(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, state, memory):
        return self.model.step(tokens, state, memory)


@quick
def test_a_step_can_be_exported_for_sources_of_any_length(options):
    model = make_model(**options).requires_grad_(False)
    source, lengths, tokens = BATCH
    memory, state = model.encode(source, lengths)
    width = torch.export.Dim("width", min=2, max=4096)
    free = type(memory)(
        *(
            None if part is None else {axis: width for axis, size in enumerate(part.shape) if size == source.size(1)}
            for part in memory
        )
    )
    fixed = type(state)(
        cell=tuple({} for _ in state.cell),
        position={},
        past=None if state.past is None else {2: width},
        attentional=None if state.attentional is None else {},
    )
    exported = torch.export.export(
        Step(model), (tokens[:, 0], state, memory), dynamic_shapes=({}, fixed, free), strict=False
    ).module()
    memory, state = model.encode(*make_batch((9, 4, 7))[:2])
    for position in range(3):
        found, after = exported(tokens[:, position], state, memory)
        expected, state = model.step(tokens[:, position], state, memory)
        close(found.logits, expected.logits)
        close(found.weights, expected.weights)
        assert int(after.position) == int(state.position) == position + 1


def test_a_batch_may_have_any_number_of_rows_in_an_exported_model():
    model, rows = make_model(), torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(model, BATCH, dynamic_shapes=({0: rows},) * 3, strict=False).module()
    batch = make_batch((2, 4, 3, 1, 4))
    close(exported(*batch).logits, model(*batch).logits)


@quick
def test_a_model_can_be_compiled_in_one_graph(calls, options):
    model = make_model(**options)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    found = compiled(*BATCH)
    assert calls == []
    close(found.logits, model(*BATCH).logits)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_model_has_the_same_gradients(calls, backend):
    model = make_model()
    _, expected = by_the_formulas(model)
    model.zero_grad()
    calls.clear()
    loss_of(torch.compile(model, backend=backend)(*BATCH)).backward()
    assert calls == []
    for name, parameter in model.named_parameters():
        close(parameter.grad, expected[name], 1e-9)


@every_model
def test_fake_tensors_have_shapes_and_no_numbers(calls, options):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode() as mode:
        model = make_model(**options, dtype=torch.float32)
        logits = model(*map(mode.from_tensor, BATCH)).logits
        logits.sum().backward()
    assert isinstance(next(model.parameters()), FakeTensor) and isinstance(logits, FakeTensor)
    assert logits.shape == (3, 3, 8) and calls == []


@every_model
def test_the_meta_device(calls, options):
    model = make_model(**options).to("meta")
    decoded = model(*(part.to("meta") for part in BATCH))
    assert decoded.logits.shape == (3, 3, 8) and decoded.logits.is_meta and calls == []


@every_model
def test_vmap_over_the_strings_of_a_batch(calls, options):
    model = make_model(**options)

    def alone(source, length, tokens):
        return model(source[None], length[None], tokens[None]).logits[0]

    found = torch.func.vmap(alone)(*BATCH)
    assert calls == []
    close(found, model(*BATCH).logits)


@every_model
def test_vmap_over_models(calls, options):
    models = [make_model(**options, seed=seed) for seed in (3, 4)]
    parameters, _ = torch.func.stack_module_state(models)
    template = copy.deepcopy(models[0]).to("meta")
    found = torch.func.vmap(lambda one: torch.func.functional_call(template, one, BATCH).logits)(parameters)
    assert calls == []
    for one, model in zip(found, models, strict=True):
        close(one, model(*BATCH).logits)


@every_model
def test_torch_func_grad(calls, options):
    model = make_model(**options)
    gradients = torch.func.grad(lambda parameters: loss_by(model, parameters))(detached(model))
    assert calls == []
    for name, expected in by_the_formulas(model)[1].items():
        close(gradients[name], expected, 1e-10)


@every_model
def test_forward_mode_differentiation(calls, options):
    model = make_model(**options)
    parameters = detached(model)
    along = {name: torch.ones_like(parameter) for name, parameter in parameters.items()}
    _, slope = torch.func.jvp(lambda parameters: loss_by(model, parameters), (parameters,), (along,))
    with forward_ad.dual_level():
        dual = {name: forward_ad.make_dual(parameter, along[name]) for name, parameter in parameters.items()}
        again = forward_ad.unpack_dual(loss_by(model, dual)).tangent
    assert calls == []
    expected = sum(gradient.sum() for gradient in by_the_formulas(model)[1].values())
    close(slope, expected, 1e-9)
    close(again, expected, 1e-9)


def test_second_derivatives_by_torch_func():
    model = make_model()
    parameters = detached(model)
    name = "decoder.cell.bias_hh"

    def loss(bias):
        return loss_by(model, {**parameters, name: bias})

    hessian = torch.func.hessian(loss)(parameters[name])
    step = 1e-5 * torch.eye(15, dtype=torch.float64)[3]
    slope = (torch.func.grad(loss)(parameters[name] + step) - torch.func.grad(loss)(parameters[name] - step)) / 2e-5
    close(hessian[3], slope, 1e-7)


def test_second_derivatives_through_the_compiled_recurrence_are_an_error_and_never_missing():
    model = make_model()
    weight = model.decoder.embedding.weight
    with pytest.raises(RuntimeError, match="SEQ2ATTN_KERNELS=off"):
        torch.autograd.grad(loss_of(model(*BATCH)), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="SEQ2ATTN_KERNELS=off"):
        torch.autograd.functional.hvp(
            lambda weight: loss_by(model, {"decoder.embedding.weight": weight}),
            weight.detach(),
            torch.ones_like(weight),
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQ2ATTN_KERNELS", "off")
        (gradient,) = torch.autograd.grad(loss_of(model(*BATCH)), weight, create_graph=True)
        gradient.square().sum().backward()
    assert (weight.grad != 0).any()


def test_several_gradients_at_once_are_an_error_or_right():
    model = make_model()
    for result in model(*BATCH):
        with pytest.raises(RuntimeError):
            torch.autograd.grad(
                result, model.decoder.cell.weight_hh, torch.ones(2, *result.shape).double(), is_grads_batched=True
            )


@every_model
def test_autocast(calls, options):
    model = make_model(**options, dtype=torch.float32)
    expected = model(*BATCH).logits
    calls.clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        decoded = model(*BATCH)
    assert decoded.logits.dtype == torch.bfloat16 and calls == []
    close(decoded.logits.float(), expected, 0.05)
    loss_of(decoded).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Functions, Operations])
def test_modes_see_every_operation(calls, mode):
    model = make_model()
    with mode() as active:
        decoded = model(*BATCH)
    assert calls == []
    assert (
        sum(function in (torch.tanh, torch.ops.aten.tanh.default) for function in active.seen) == 4 + 2 * 3
    )  # n; scores
    close(decoded.logits, model(*BATCH).logits)


class Watched(torch.Tensor):
    """A tensor that writes down what is done with it."""

    seen = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("index", [0, 2])
def test_tokens_that_are_tensors_of_a_class_of_their_own(calls, index):
    Watched.seen = []
    batch = list(BATCH)
    batch[index] = batch[index].as_subclass(Watched)
    model = make_model()
    expected = model(*BATCH).logits
    calls.clear()
    found = model(*batch).logits
    assert Watched.seen
    assert ("gru" if index == 0 else "attentive_gru") not in calls
    close(found.as_subclass(torch.Tensor), expected)


def test_weights_that_are_tensors_of_a_class_of_their_own(calls):
    Watched.seen = []
    model = make_model()
    expected = model(*BATCH).logits
    weight = model.decoder.cell.weight_hh.detach()
    del model.decoder.cell.weight_hh
    model.decoder.cell.weight_hh = weight.as_subclass(Watched)
    calls.clear()
    found = model(*BATCH).logits
    assert Watched.seen and "attentive_gru" not in calls
    close(found.as_subclass(torch.Tensor), expected)


def test_saved_tensors_that_are_kept_by_others(calls):
    model, kept = make_model(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        loss = loss_of(model(*BATCH))
    assert calls == [] and kept
    loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    for name, expected in by_the_formulas(model)[1].items():
        close(gradients[name], expected, 1e-10)


def test_checkpointing_computes_the_forward_pass_again():
    from torch.utils.checkpoint import checkpoint

    model = make_model()
    _, expected = by_the_formulas(model)
    model.zero_grad()
    checkpoint(lambda: loss_of(model(*BATCH)), use_reentrant=False).backward()
    for name, parameter in model.named_parameters():
        close(parameter.grad, expected[name], 1e-10)


def test_make_fx_records_the_formulas(calls):
    from torch.fx.experimental.proxy_tensor import make_fx

    model = make_model()
    graph = make_fx(lambda *batch: model(*batch).logits)(*BATCH)
    assert calls == []
    close(graph(*BATCH), model(*BATCH).logits)


def test_a_copied_and_a_pickled_model_are_plain(calls, tmp_path):
    model = make_model()
    torch.save(model, tmp_path / "model.pt")
    for other in (copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)):
        calls.clear()
        close(other(*BATCH).logits, model(*BATCH).logits)
        assert calls == ALL * 2


def test_every_combination_of_plain_and_not_plain_halves_gives_the_same_numbers():
    models = {}
    for encoder, decoder in itertools.product((False, True), repeat=2):
        model = make_model()
        for part, is_hooked in (("encoder.gru", encoder), ("decoder.cell", decoder)):
            if is_hooked:
                model.get_submodule(part).register_forward_hook(lambda *call: None)
        models[encoder, decoder] = losses_and_gradients(model)
    expected_loss, expected = models[True, True]
    for loss, gradients in models.values():
        close(loss, expected_loss)
        for name, gradient in gradients.items():
            close(gradient, expected[name], 1e-11)
