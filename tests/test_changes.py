"""Whatever is changed in a model trains, predicts, is evaluated and is exported; and a faster form
that is wrong is caught.
"""

import types
from math import inf
from unittest import mock

import pytest
import torch
from models import CPU, SIX_STEPS, assert_close, first_batch, is_real, predictor_of, stepped
from outcomes import same_tensors, step_of
from refusal import refused
from tables import slow, table
from torch import nn

import seq2attn
from seq2attn.build import build_model, build_task
from seq2attn.config import check_config
from seq2attn.display.console import Display
from seq2attn.inference.evaluation import evaluate
from seq2attn.model.attention import NoAttention
from seq2attn.model.scores import Additive
from seq2attn.pages.functions import functions
from seq2attn.parts import KINDS, register
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.run import find_run
from seq2attn.training import step as training_step
from seq2attn.training.proof import is_due, largest_error, restoring_buffers
from seq2attn.training.recorder import Recorder
from seq2attn.training.session import NewRun, train
from seq2attn.training.step import TrainingStep

pytestmark = pytest.mark.usefixtures("own_scores")


SETTINGS = f"""
model.hidden=6 model.embedding=4 task.alphabet=abcd task.max_length=3 {SIX_STEPS}
training.steps=12 training.warmup=0 training.evaluate_every=4 training.watched=a
training.snapshots=4 training.snapshot_weights=true
"""


def configured(
    score="additive", *, decoder="bahdanau", history="none", window="global", cell="gru", **model
):
    attention = {"score": score, "history": history, "window": window}
    values = {"decoder": decoder, "cell": cell, "attention": attention, **model}
    return check_config({"model": values}, SETTINGS.split())


def trained_loss(model, config):
    """Of the first step of training."""
    step = TrainingStep(model, config, CPU)
    batch = first_batch(config)
    return float(step.losses(step.forward(batch, 0), batch)["loss"].detach())


def exported(model, source, inputs):
    """Logits (1, L, V) of the exported functions, for one source (S,) and the decoder's inputs
    (L,).
    """
    encoder, prepare, step = functions(model, source.unsqueeze(0), 1)
    states = []
    state = {name: one for name, one in encoder.inputs.items() if name.startswith("state")}
    for position, token in enumerate(source):
        first = torch.tensor(position == 0)
        result = encoder.call({"input": token.view(1), "first": first, **state})
        states.append(result.pop("output"))
        state = result
    final = {name.replace("state", "final"): tensor for name, tensor in state.items()}
    known = {"source": source.unsqueeze(0), "states": torch.stack(states, dim=1)}
    kept = prepare.call({**known, **final, "valid": torch.ones(1, len(source)) > 0})
    logits = []
    for token in inputs:
        result = step.call({**step.inputs, **kept, "token": token.view(1)})
        logits.append(result["logits"])
        kept |= {name: tensor for name, tensor in result.items() if name.startswith("state")}
    return torch.cat(logits, dim=1)


def assert_trained_is_used(model, config, plain):
    """What the first step trains, with another loss than `plain`, is what predicts, is evaluated
    and is exported.
    """
    assert trained_loss(model, config) != pytest.approx(plain, abs=1e-6)
    batch = first_batch(config)
    logits = TrainingStep(model, config, CPU).forward(batch, 0).logits
    model.eval()
    memory, state = model.encode(batch.source, batch.source_lengths)
    predicted, weights = stepped(model, batch.decoder_input, state, memory)
    real = is_real(batch.decoder_lengths, batch.decoder_input.size(1))
    assert_close(logits[real], predicted[real])
    assert_close(model(batch).logits, predicted)
    if weights is not None:
        assert_close(model(batch).weights, weights)
    length = int(batch.source_lengths[0])
    alone = exported(model, batch.source[0, :length], batch.decoder_input[0])
    assert_close(alone[0], predicted[0])
    predictor = predictor_of(model, build_task(config), config.model.source_eos)
    assert 0 <= evaluate(predictor, [3], samples=5, seed=1).get("exact_match", 3).value <= 1


# ---- the matrix form, and hooks ----


def changed(function, factor=1.5):
    """The function, its first result times a factor."""

    def mine(*arguments, **options):
        result = function(*arguments, **options)
        if isinstance(result, torch.Tensor):
            return factor * result
        if hasattr(result, "_fields"):
            return type(result)(factor * result[0], *result[1:])
        return (factor * result[0],)

    return mine


def position_and_features(function):
    def mine(*arguments):
        state, features, weights = function(*arguments)
        return state, 1.5 * features, weights

    return mine


def test_each_weight_follows_its_own_gradient():
    mine = {"project": lambda self, keys: keys @ self.key_map.weight.T.contiguous()}
    register("turned")(type("Turned", (Additive,), mine))
    config = configured("turned")
    model = build_model(config)
    batch = first_batch(config)
    step = TrainingStep(model, config, CPU)
    weight = model.decoder.attention.score.key_map.weight
    loss = step.losses(step.forward(batch, 0), batch)["loss"]
    before = weight.detach().clone()
    (slope,) = torch.autograd.grad(loss, [weight], retain_graph=True)
    assert not slope.is_contiguous()  # its numbers lie in memory in another order than the weight's
    step.gradients(loss)
    step.update(0.1)
    assert_close(before - weight, 0.1 * slope.sign(), rtol=0, atol=0.01)  # Adam's first step


def test_a_hook_on_no_attention():
    config = configured("none", initial_state="bridge")
    model = build_model(config)
    assert isinstance(model.decoder.attention, NoAttention)
    model.decoder.attention.register_forward_hook(hook := mock.Mock(return_value=None))
    trained_loss(model, config)
    assert hook.called


# ---- a plug-in that overrides one method of a base class ----


def view(function):
    def mine(*arguments):
        allowed, factor = function(*arguments)
        return seq2attn.View(allowed, 0.5 * factor)

    return mine


def begun(function):
    return lambda self, first, memory: function(self, tuple(part + 0.3 for part in first), memory)


def threes(function):
    return lambda self, tokens, *others: function(self, tokens * 0 + 3, *others)


def parts_of(function):
    return lambda self, given: tuple(1.5 * part + 0.2 for part in function(self, given))


CHANGES = {  # in other ways than by a factor
    "window forward": view,
    "cell initial": parts_of,
    "decoder advance": position_and_features,
    "decoder begin": begun,
    "decoder forward": threes,
    "initial_state forward": parts_of,
}


@table(
    "kinds, name, method, history",
    """
scores | additive | forward | none
scores | additive | project | none
scores | additive | values | none
scores | additive | with_features | location
windows | local_p | forward | none
histories | location | forward | none
histories | location | update | none
histories | location | combine | none
histories | shift | extra_context | none
cells | gru | step | none
cells | gru | project_input | none
cells | gru | output | none
cells | gru | initial | none
decoders | bahdanau | advance | none
decoders | luong | advance | none
decoders | luong | begin | none
decoders | luong | features | none
decoders | luong | decode | none
decoders | bahdanau | forward | none
initial-states | bridge | forward | none
""",
)
def test_a_plug_in_that_overrides_one_method(kinds, name, method, history):
    registry = KINDS[kinds]
    kind = registry.get(name).load()
    key = registry.config_key.rpartition(".")[2]
    change = CHANGES.get(f"{key} {method}", changed)
    register("mine")(type("Mine", (kind,), {method: change(getattr(kind, method))}))
    register("plain")(type("Plain", (kind,), {}))
    config, plain = (
        configured(**{"initial_state": "bridge", "history": history, key: name})
        for name in ("mine", "plain")
    )
    assert_trained_is_used(build_model(config), config, trained_loss(build_model(plain), config))


# ---- a faster form that is wrong ----


def run_with(faster, folder, settings=SETTINGS):
    """A training whose faster form is `faster(model)`: its run, the checkpoint at its end, and what
    was said of the formulas.
    """
    display = mock.create_autospec(Display, instance=True)
    attention = {"attention": {"score": "dot"}, "decoder": "luong", "initial_state": "bridge"}
    config = check_config({"model": {**attention, "dropout": 0.2}}, settings.split())
    no_maps = mock.patch.object(Recorder, "attention")
    with no_maps, mock.patch.object(training_step, "faster_form", faster):
        run = train(config, NewRun(folder, "run"), device="cpu", display=display).run
    return (
        run,
        load_checkpoint(run.checkpoint("last")),
        [call.args[0] for call in display.say.call_args_list if "without them" in call.args[0]],
    )


@pytest.fixture(scope="module")
def with_formulas(tmp_path_factory):
    return run_with(lambda model: None, tmp_path_factory.mktemp("formulas"))


def wrong_logits(logits):
    return 1.01 * logits


def wrong_gradients(logits):
    return logits.detach() / 2 + logits / 2


def wrong_after(calls, wrong):
    def faster(model):
        count = []

        def forward(batch, resets):
            count.append(1)
            decoded = model(batch)
            return decoded._replace(logits=wrong(decoded.logits)) if len(count) > calls else decoded

        return forward

    return faster


@pytest.mark.parametrize(
    "calls, wrong",
    [
        (0, wrong_logits),
        (5, wrong_gradients),  # from step 2 on, after its proof and before the snapshot of step 3
        slow(15, wrong_logits),
        (99, wrong_logits),
    ],
)
def test_a_faster_form_that_becomes_wrong_is_caught(calls, wrong, tmp_path, with_formulas):
    formulas, expected, nothing = with_formulas
    assert nothing == []
    assert expected.state["formulas"] is False
    run, found, said = run_with(wrong_after(calls, wrong), tmp_path)
    assert run.kept_steps() == [0, 1, 2, 3, 6, 9, 12]
    assert all(same_tensors(run, formulas, f"step-{step}") for step in run.kept_steps())
    last = "Continuing from the last checkpoint without them."
    assert [text.endswith(last) for text in said] == [True] * (calls < 99)
    assert found.state["formulas"] is (calls < 99)
    assert found.state["step"] == 12
    same_tensors(run, formulas)
    assert run.metrics_file.read_text().count('"learning_rate"') == 12


@table(
    "own, error, everywhere, trusted",
    """
0 | 0.0005 | false | true
0 | 0.0005 | true | false
0 | 0.005 | false | false
0.004 | 0.008 | false | true
""",
    "own error everywhere trusted",
)
def test_a_difference_is_judged_in_float64(own, error, everywhere, trusted, tmp_path):
    """Errors of the formulas and of the faster form, in float32 or everywhere."""

    def off(decoded, share):
        share *= everywhere or decoded.logits.dtype == torch.float32
        return decoded._replace(logits=decoded.logits * (1 + share))

    def faster(model):
        plain = type(model).forward
        model.forward = types.MethodType(lambda self, *given: off(plain(self, *given), own), model)
        return lambda batch, resets: off(plain(model, batch), error)

    short = f"{SETTINGS} training.steps=2 training.evaluate_every=2 training.snapshots=1"
    _, found, said = run_with(faster, tmp_path, short)
    assert found.state["formulas"] == (not trusted)
    assert bool(said) == (not trusted)


def test_what_is_trained_without_the_kernels_stays_when_training_fails(tmp_path, monkeypatch):
    # the first call precedes the proof, the second its repetition
    should_stop = mock.Mock(side_effect=[False] * 7 + [seq2attn.Seq2AttnError("the disk is full")])

    config = check_config({}, SETTINGS.split())
    monkeypatch.setattr(training_step, "faster_form", wrong_after(0, wrong_logits))
    with refused("the disk is full"):
        train(config, NewRun(tmp_path, "run"), device="cpu", should_stop=should_stop)
    assert step_of(find_run(tmp_path, "run")) == 4


# ---- the proof ----


def test_when_it_is_due_and_what_agrees():
    """An error of 1e-4 of a parameter's largest gradient, or of 1e-6 of the largest of all, or of
    1.
    """
    assert [step for step in range(40) if is_due(step)] == [0, 1, 2, 4, 8, 16, 32]
    large = torch.tensor([1.0, -2.0])
    small = torch.tensor([0.004, 0.0])
    for wrong in ([large + 2e-4, small], [large, small + 2e-6], [large + 2e-4, small - 2e-6]):
        assert largest_error(wrong, [large, small]) == pytest.approx(1, rel=1e-2)
    assert largest_error([large.double() + 1e-8], [large.double()]) == pytest.approx(5)
    nan = torch.tensor([1.0, float("nan")])
    none = torch.zeros(0)
    pairs = ((nan, nan), (nan, large), (large, nan), (none, none), (large, large))
    assert [largest_error([one], [other]) for one, other in pairs] == [0, inf, inf, 0, 0]


def test_a_proof_leaves_buffers_as_they_were():
    model = nn.BatchNorm1d(2)
    before = model.running_mean.clone()
    with restoring_buffers(model):
        model(torch.rand(3, 2))
    assert torch.equal(model.running_mean, before)
