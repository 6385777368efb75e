"""Changes of attention: weights that are set, banned keys, temperature and padding, in every
arrangement and history.
"""

import math
from dataclasses import replace

import pytest
import torch
from models import (
    ARRANGEMENTS,
    HISTORIES,
    WINDOWS,
    as_batch,
    assert_close,
    close,
    make_batch,
    make_model,
    make_task,
    predictor_of,
    stepped,
)
from refusal import refused, refused_with
from tables import table

from seq2attn.data.vocabulary import EOS
from seq2attn.inference.changes import Changes, set_weights, valid_hook
from seq2attn.inference.decoding import BeamSearch, Ensemble
from seq2attn.model.points import Rank, hooked, hooked_places
from seq2attn.model.transformer import Transformer

SOURCE, LENGTHS, TOKENS = make_batch((4, 4), steps=3)
EVERY = [("bahdanau", window, "none") for window in WINDOWS]
EVERY += [("luong", "global", history) for history in HISTORIES if history != "none"]
EVERY += [("feeding", "reversed", "shift"), ("bahdanau", "local_p", "coverage")]


def make(kind):
    if kind == "transformer":
        torch.manual_seed(2)
        return Transformer(8, 8, 8, layers=2, heads=2, feedforward=16).double().eval()
    arrangement, window, history = kind
    return make_model(
        "dot", arrangement=arrangement, window=window, history=history, initial_state="last"
    ).eval()


@torch.no_grad()
def outputs(model, changes=None, source=SOURCE, edit=None):
    """Logits (B, L, V) and weights (B, L, S) under teacher forcing, step by step, with changes."""
    hooks = (changes or Changes()).hooks(model, source, LENGTHS)
    with hooked_places(hooks, Rank.CHANGE):
        memory, state = model.encode(source, LENGTHS)
        return stepped(model, TOKENS, state, edit(memory) if edit else memory)


def every_step(weights):
    """position -> weight, the same at each of the three steps."""
    return {(step, position): weight for step in range(3) for position, weight in weights.items()}


# rows that were worked out by hand: others' weights, set weights, result
@table(
    "weights, forced, expected",
    """
[0.5, 0.3, 0.2] | {} | [0.5, 0.3, 0.2]
[0.5, 0.3, 0.2] | {2: 0.6} | [0.25, 0.15, 0.6]
[0.5, 0.1, 0.1] | {0: 0.5} | [0.5, 0.25, 0.25]  # the others sum to what is left of 1
[0.5, 0.3, 0.2] | {0: 0.25, 1: 0.25} | [0.25, 0.25, 0.5]
[1.0, 0.0, 0.0] | {0: 0.25} | [0.25, 0.0, 0.0]  # nothing to scale
[0.5, 0.3, 0.2] | {0: 0.8, 1: 0.8} | [0.8, 0.8, 0.0]  # nothing is left
""",
    "weights forced expected",
)
def test_set_weights(weights, forced, expected):
    values = torch.full((1, 1, 3), torch.nan).double()
    for position, weight in forced.items():
        values[..., position] = weight
    found = set_weights(torch.tensor([[weights]]).double(), ~values.isnan(), values.nan_to_num())
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    "kind", [*(kind for kind in EVERY if not kind[2].startswith("shift")), "transformer"], ids=str
)
def test_a_banned_key_is_masked_as_padding_is(kind):
    model = make(kind)
    kept = torch.tensor([True, False, True, True])

    def without(memory):
        return memory._replace(valid=memory.valid & kept)

    banned = outputs(model, Changes(ban=[1]))
    masked = outputs(model, edit=without)
    assert banned[1][..., 1].count_nonzero() == 0
    assert outputs(model)[1][..., 1].count_nonzero() > 0 or kind[1] == "reversed"
    for found, expected in zip(banned, masked, strict=True):
        close(found, expected, 0)


@pytest.mark.parametrize("kind", [*EVERY, "transformer"], ids=str)
def test_a_set_weight_is_attended_with(kind):
    model = make(kind)
    weights = outputs(model, Changes(force=every_step({2: 0.75}), ban=[2]))[1]
    assert_close(weights[..., 2], torch.full_like(weights[..., 2], 0.75))
    others = weights[..., [0, 1, 3]].sum(dim=2)
    outside = others == 0  # all others may lie outside the window
    close(others, torch.full_like(others, 0.25).masked_fill(outside, 0))
    changed = outputs(model, Changes(force=every_step({2: 0.75})))[0]
    assert not torch.allclose(changed, outputs(model)[0])


@pytest.mark.parametrize(
    "arrangement", [name for name in ARRANGEMENTS if name not in ("hard_monotonic", "order 0")]
)
def test_context_and_history_follow_from_set_weights(arrangement):
    model = make_model("dot", arrangement=arrangement, history="coverage").eval()
    attended = []
    model.decoder.attention.register_forward_hook(
        lambda module, inputs, output: attended.append((inputs[1], output))
    )
    outputs(model, Changes(force=every_step({0: 0.5, 3: 0.5})))
    for memory, one in attended:
        assert_close(one.context.squeeze(1), memory.values[:, [0, 3]].mean(1))
    expected = torch.tensor([[[1.5, 0.0, 0.0, 1.5]]] * 2, dtype=torch.float64)  # three steps
    assert_close(attended[-1][1].past, expected)


def test_the_temperature_divides_the_scores():
    model = make_model("scaled", scalable_softmax=True).eval()
    names = [f"attention.{name}" for name in ("scores", "weights", "normalised")]
    kept = {name: [] for name in names}
    with hooked(model, dict.fromkeys(names, lambda value, at: kept[at.name].append(value))):
        outputs(model, Changes(temperature=0.5, ban=[0]))
    for scores, weights, normalised in zip(*kept.values(), strict=True):
        expected = torch.softmax(
            scores[..., 1:] / 0.5 * math.log(3), dim=2
        )  # three keys may be attended to
        assert_close(weights[..., 1:], expected)
        assert_close(normalised, weights)


@pytest.mark.parametrize("scalable", [False, True])
def test_a_mask_that_is_switched_off_or_on_is_that_of_the_config(scalable):
    source = torch.nn.functional.pad(SOURCE, (0, 2))
    masked, unmasked = (
        make_model("general", scalable_softmax=scalable, mask_padding=mask).eval()
        for mask in (True, False)
    )
    for model, other, mask in ((masked, unmasked, False), (unmasked, masked, True)):
        found = outputs(model, Changes(mask_padding=mask), source)
        expected = outputs(other, None, source)
        assert_close(found[0], expected[0])
        assert_close(found[1], expected[1])
        assert not torch.allclose(found[0], outputs(model, None, source)[0])
    valid = torch.eye(2) > 0
    beam = valid_hook(valid)(torch.zeros(4, 1, 2) > 0, 0)  # each row twice
    assert torch.equal(beam.squeeze(1), valid[[0, 0, 1, 1]])


@pytest.mark.parametrize("kind", [*EVERY, "transformer"], ids=str)
def test_teacher_forcing_at_once_is_changed_as_single_steps_are(kind):
    model = make(kind)
    change = Changes(
        force={(1, 2): 0.75, (2, 0): 0.5, (2, 1): 0.5}, ban=[3, (0, 1)], temperature=2.0
    )
    with hooked_places(change.hooks(model, SOURCE, LENGTHS), Rank.CHANGE):
        decoded = model(as_batch(SOURCE, LENGTHS, TOKENS))
    logits, weights = outputs(model, change)
    assert_close(decoded.logits, logits)
    assert_close(decoded.weights, weights)


def test_every_model_of_an_ensemble_is_changed():
    models = [make(("luong", "global", "none")), make("transformer")]
    change = Changes(force=every_step({1: 0.5}))
    first, second = (outputs(model, change)[1] for model in models)
    assert_close(outputs(Ensemble(models), change)[1], (first + second) / 2)


# ---- Changes: what a person asks for ----


def make_predictor(score="dot", **options):
    model = make_model(score, initial_state="last", seed=5, **options).float()
    with torch.no_grad():
        model.decoder.output.bias[: EOS + 1] = -10  # it never ends its output
    return predictor_of(model, make_task(alphabet="abcde"))


def changed(predictor, text="abc", **changes):
    return next(replace(predictor, changes=Changes(**changes)).predict([text], keep_weights=True))


def test_weights_are_set_and_banned_at_their_steps_only():
    predictor = make_predictor()
    before = changed(predictor)
    assert before.to_json() == next(predictor.predict(["abc"], keep_weights=True)).to_json()
    after = changed(predictor, force={(1, 2): 1.0}).weights
    assert after[0].tolist() == before.weights[0].tolist()
    assert after[1].tolist() == [0.0, 0.0, 1.0]
    assert after[2][2] < 1
    assert {row[1] for row in changed(predictor, ban=[1]).weights} == {0.0}
    weights = changed(predictor, ban=[(2, 1)]).weights
    assert [t for t, row in enumerate(weights) if row[1] == 0] == [2]
    with refused("unknown position 5"):
        changed(predictor, ban=[(0, 5)])


def test_what_is_written_is_read_by_the_next_step():
    predictor = make_predictor()
    free = changed(predictor)
    assert not free.output.startswith("d")
    written = changed(predictor, write={0: "d", 3: "<eos>"})
    assert (len(written.output), written.output[0], written.finished) == (3, "d", True)
    # step 1 attends before it reads what step 0 wrote
    assert written.weights[:2].tolist() == free.weights[:2].tolist()
    assert written.weights[2].tolist() != free.weights[2].tolist()


def test_padding_changes_the_answer_only_where_it_is_not_masked():
    predictor = make_predictor()
    plain = changed(predictor)
    padded = changed(predictor, padding=3)
    assert padded.source_symbols == (*"abc", "<pad>", "<pad>", "<pad>")
    assert padded.output == plain.output
    assert_close(torch.tensor(padded.weights)[:, :3], torch.tensor(plain.weights))
    assert all(min(row) > 0 for row in changed(predictor, padding=3, mask_padding=False).weights)


@table(
    "key, value, message",
    """
ban | 2 | ban must be positions, or (step, position), such as
ban | "2" | ban must be positions, or (step, position), such as
ban | [-1] | ban must be positions, or (step, position), such as
write | {0: x} | step 0 cannot write 'x', which is not a symbol of the model's outputs
write | {0: [x]} | write must be step -> symbol, or its id, such as {0: "x"}; found {0: ['x']}
mask_padding | "no" | mask_padding must be True, False or None; found 'no'
temperature | 0.0 | temperature must be a number from 0.001 to 1000;
temperature | hot | temperature must be a number from 0.001 to 1000;
padding | -1 | padding must be a whole number from 0 to 1000;
padding | 0.5 | padding must be a whole number from 0 to 1000;
padding | 1001 | padding must be a whole number from 0 to 1000;
ban | [5] | unknown position 5; allowed: 0 to 2
force | {0: 1.0}
  | force must be (step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}; found
force | [[0, 3, 0.5]] | unknown position 3; allowed: 0 to 2
force | [[0, 0, 0.7], [0, 1, 0.7], [0, 2, 0.2]]
  | the weights set at step 0 sum to 1.6; at most 1 is allowed
force | [[-1, 0, 0.5]]
  | force must be (step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}; found
force | [[0, 0, 1.5]]
  | force must be (step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}; found
force | [[0, 0, x]]
  | force must be (step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}; found
""",
    "value",
)  # weights to set as lists of step, position and weight
def test_changes_that_do_not_fit_are_refused(key, value, message):
    if key == "force" and isinstance(value, list):
        value = {(step, at): weight for step, at, weight in value}
    with refused_with(message):
        changed(make_predictor(), **{key: value})


def test_changes_need_attention_and_greedy_decoding():
    predictor = make_predictor("none")
    assert changed(predictor, write={0: "<eos>"}).output_symbols == ("<eos>",)
    for change in ({"temperature": 2.0}, {"ban": [0]}, {"force": {(0, 0): 1.0}}):
        with refused("no attention to change"):
            changed(predictor, **change)
    with refused("write needs greedy decoding"):
        changed(replace(predictor, search=BeamSearch(2)), write={0: "a"})


def test_a_beam_of_one_is_changed_as_greedy_decoding_is():
    predictor = make_predictor()
    changes = {"force": {(0, 2): 1.0, (2, 0): 0.5}, "ban": [1], "padding": 2, "mask_padding": False}
    greedy = changed(predictor, **changes)
    beam = changed(replace(predictor, search=BeamSearch(1)), **changes)
    assert beam.output == greedy.output
    assert_close(torch.tensor(beam.weights), torch.tensor(greedy.weights))
    wider = replace(predictor, search=BeamSearch(3))
    assert changed(wider, **changes).weights[0].tolist() == pytest.approx([0, 0, 1, 0, 0])
