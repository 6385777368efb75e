import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from models import as_batch

from seq2attn.build import build_model
from seq2attn.config import check_config, load_config
from seq2attn.data.vocabulary import EOS, SOS, Vocabulary
from seq2attn.model.scores import Score
from seq2attn.parts import INITIAL_STATES, SCORES

ALPHABET = "abcde"
D = 5
VOCABULARY = Vocabulary(ALPHABET)
TEXTS = ["cab", "e", "badec"]
LONGEST_FIRST = ["badec", "cab", "e"]


def is_allowed(score, initial_state, bidirectional):
    """Keys as wide as queries where the score or the first state needs it, and some way to see the source."""
    if bidirectional and (SCORES.get(score).equal_widths or initial_state == "last" or score == "none"):
        return False
    return not (score == "none" and initial_state == "zeros")


COMBINATIONS = [
    (score, initial_state, bidirectional, source_eos)
    for score, initial_state, bidirectional, source_eos in itertools.product(
        SCORES.names(), INITIAL_STATES.names(), (False, True), (False, True)
    )
    if is_allowed(score, initial_state, bidirectional)
]
every_combination = pytest.mark.parametrize(("score", "initial_state", "bidirectional", "source_eos"), COMBINATIONS)


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


# ---- against plain NumPy ----


def parameters_under(model, *prefixes):
    """Arrays by the rest of their names."""
    return {
        name.removeprefix(prefix): parameter.detach().numpy()
        for prefix in prefixes
        for name, parameter in model.named_parameters()
        if name.startswith(prefix)
    }


def gru_weights(model, prefix):
    """weight_ih, weight_hh, bias_ih, bias_hh of the one GRU under `prefix`, stacked as torch does: r, z, n."""
    arrays = parameters_under(model, prefix)
    ends = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    found = {end: array for end in ends for name, array in arrays.items() if name.endswith(end)}
    assert len(found) == 4
    return found


def gru_step(weights, x, h):
    """The formulas of torch.nn.GRU for one vector."""

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    from_x = np.split(weights["weight_ih"] @ x + weights["bias_ih"], 3)
    from_h = np.split(weights["weight_hh"] @ h + weights["bias_hh"], 3)
    r, z = (sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2], strict=True))
    n = np.tanh(from_x[2] + r * from_h[2])
    return (1 - z) * n + z * h


def gru_loop(weights, xs):
    h, states = np.zeros(D), []
    for x in xs:
        h = gru_step(weights, x, h)
        states.append(h)
    return states


def encode_by_loop(model, tokens):
    """(n, width) states of one string."""
    embedded = [parameters_under(model, "encoder.embedding.")["weight"][token] for token in tokens]
    states = gru_loop(gru_weights(model, "encoder.layers.0.cell."), embedded)
    if model.encoder.width == D:
        return np.stack(states)
    backward = gru_loop(gru_weights(model, "encoder.layers.0.backward_cell."), embedded[::-1])[::-1]
    return np.stack([np.concatenate(pair) for pair in zip(states, backward, strict=True)])


def score_by_formula(name, parameters, s, h):
    if name == "dot":
        return s @ h
    if name == "scaled":
        return s @ h / math.sqrt(D)
    if name == "general":
        return s @ parameters["map.weight"] @ h
    assert name == "additive"
    w = np.concatenate([parameters["query_map.weight"], parameters["key_map.weight"]], axis=1)
    return parameters["v.weight"][0] @ np.tanh(w @ np.concatenate([s, h]))


def first_state_by_formula(model, name, states):
    if name == "zeros":
        return np.zeros(D)
    if name == "last":
        return states[-1]
    bridge = parameters_under(model, "initial_state.map.")
    # one direction: the state at the last token; both: the backward half at the first
    h = states[-1] if model.encoder.width == D else states[0][D:]
    return np.tanh(bridge["weight"] @ h + bridge["bias"])


def decode_by_loop(model, score, initial_state, tokens, decoder_input):
    """Logits (L, V) and weights (L, n) of one string: c_t from s_{t-1}; s_t = GRU([y; c_t]); W_o [s_t; c_t] + b."""
    states = encode_by_loop(model, tokens)
    s = first_state_by_formula(model, initial_state, states)
    embedding = parameters_under(model, "decoder.embedding.")["weight"]
    output = parameters_under(model, "decoder.output.")
    cell = gru_weights(model, "decoder.")
    logits, weights = [], []
    for token in decoder_input:
        c = np.zeros(0)
        if score != "none":
            parameters = parameters_under(model, "decoder.attention.score.")
            exponentials = np.exp([score_by_formula(score, parameters, s, h) for h in states])
            weights.append(exponentials / exponentials.sum())
            c = weights[-1] @ states
        s = gru_step(cell, np.concatenate([embedding[token], c]), s)
        logits.append(output["weight"] @ np.concatenate([s, c]) + output["bias"])
    return np.stack(logits), weights


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_encoder_is_a_gru_by_hand(bidirectional):
    model = make_model(bidirectional=bidirectional)
    memory, _ = model.encode(*read(TEXTS, padding=2))
    assert memory.values.shape == (3, 7, 2 * D if bidirectional else D)
    for row, text in enumerate(TEXTS):
        expected = encode_by_loop(model, VOCABULARY.encode(text))
        close(memory.values[row, : len(text)].detach(), torch.from_numpy(expected))


@pytest.mark.parametrize(
    ("score", "initial_state", "bidirectional"),
    [
        ("dot", "zeros", False),
        ("scaled", "last", False),
        ("general", "bridge", True),
        ("additive", "bridge", False),
        ("additive", "zeros", True),
        ("none", "last", False),
    ],
)
def test_the_whole_model_by_hand(score, initial_state, bidirectional):
    model = make_model(score, initial_state, bidirectional)
    tokens = given(3, 6)
    decoded = model(as_batch(*read(TEXTS), tokens))
    for row, text in enumerate(TEXTS):
        source = VOCABULARY.encode(text)
        logits, weights = decode_by_loop(model, score, initial_state, source, tokens[row].tolist())
        close(decoded.logits[row].detach(), torch.from_numpy(logits))
        if score != "none":
            close(decoded.weights[row, :, : len(text)].detach(), torch.from_numpy(np.stack(weights)))


# ---- padding, batches, steps ----


@every_combination
def test_nothing_depends_on_padding_or_on_the_other_strings(score, initial_state, bidirectional, source_eos):
    model = make_model(score, initial_state, bidirectional)
    tokens = given(3, 6)
    for texts in (TEXTS, LONGEST_FIRST):
        source, lengths = read(texts, source_eos, padding=2)
        together = model(as_batch(source, lengths, tokens))
        garbage = source.clone()
        for row, length in enumerate(lengths):
            garbage[row, length:] = 4
        with_garbage = model(as_batch(garbage, lengths, tokens))
        for row, text in enumerate(texts):
            alone = model(as_batch(*read([text], source_eos), tokens[row : row + 1]))
            length = int(lengths[row])
            for batch in (together, with_garbage):
                close(batch.logits[row], alone.logits[0])
                if score == "none":
                    assert batch.weights is None and alone.weights is None
                else:
                    close(batch.weights[row, :, :length], alone.weights[0])
                    assert (batch.weights[row, :, length:] == 0).all()
                    close(batch.weights[row].sum(dim=1), torch.ones(6, dtype=torch.float64))


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


@every_combination
def test_teacher_forcing_is_stepping(score, initial_state, bidirectional, source_eos):
    model = make_model(score, initial_state, bidirectional)
    source, lengths = read(TEXTS, source_eos, padding=1)
    tokens = given(3, 6)
    forced = model(as_batch(source, lengths, tokens))
    assert forced.logits.shape == (3, 6, len(VOCABULARY))
    memory, state = model.encode(source, lengths)
    for position in range(6):
        assert [part.shape for part in state.cell] == [(3, D)]
        assert state.position == position
        decoded, state = model.step(tokens[:, position], state, memory)
        close(decoded.logits, forced.logits[:, position : position + 1])
        if score == "none":
            assert decoded.weights is None and forced.weights is None
        else:
            assert forced.weights.shape == (3, 6, source.size(1))
            close(decoded.weights, forced.weights[:, position : position + 1])


@every_combination
def test_no_real_position_depends_on_the_decoders_lengths(score, initial_state, bidirectional, source_eos):
    model = make_model(score, initial_state, bidirectional)
    tokens = given(3, 6)
    for texts in (TEXTS, LONGEST_FIRST):
        source, lengths = read(texts, source_eos)
        full = model(as_batch(source, lengths, tokens))
        real = torch.tensor([len(text) + 1 for text in texts])
        garbage = tokens.clone()
        for row, length in enumerate(real):
            garbage[row, length:] = 0
        short = model(as_batch(source, lengths, garbage, real))
        assert short.logits.shape == full.logits.shape
        for row, length in enumerate(real):
            close(short.logits[row, :length], full.logits[row, :length])
            if score != "none":
                close(short.weights[row, :length], full.weights[row, :length])


def test_no_output_depends_on_later_input():
    model = make_model()
    source, lengths = read(TEXTS)
    tokens = given(3, 6)
    changed = tokens.clone()
    changed[:, 4:] = EOS
    one, other = model(as_batch(source, lengths, tokens)), model(as_batch(source, lengths, changed))
    assert torch.equal(one.logits[:, :4], other.logits[:, :4])
    assert not torch.equal(one.logits[:, 4:], other.logits[:, 4:])


@pytest.mark.parametrize("score", [name for name in SCORES.names() if name != "none"])
def test_without_the_mask_padding_is_let_in(score):
    model = make_model(score, "last", mask_padding=False)
    tokens = given(1, 4)
    alone, padded = model(as_batch(*read(["cab"]), tokens)), model(as_batch(*read(["cab"], padding=3), tokens))
    assert (padded.weights[:, :, 3:] > 0.01).all()
    close(padded.weights.sum(dim=2), torch.ones(1, 4, dtype=torch.float64))
    assert (padded.logits - alone.logits).abs().max() > 1e-3
    masked = make_model(score, "last")
    close(alone.logits, masked(as_batch(*read(["cab"]), tokens)).logits)  # unpadded, the mask changes nothing


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


# ---- parts ----


def test_without_attention_contexts_have_width_0_and_there_are_no_weights():
    model = make_model("none", "last")
    memory, state = model.encode(*read(TEXTS))
    assert memory.values.shape == (3, 5, 0)
    attended = model.decoder.attention(state.cell[0].unsqueeze(1), memory)
    assert attended.context.shape == (3, 1, 0)
    assert attended.weights is None and attended.scores is None


def test_attention_returns_scores_weights_and_their_context():
    model = make_model("dot")
    memory, _ = model.encode(*read(TEXTS))
    query = torch.randn(3, 2, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    attended = model.decoder.attention(query, memory)
    assert attended.scores.shape == attended.weights.shape == (3, 2, 5)
    for row, text in enumerate(TEXTS):
        for step in range(2):
            states = memory.values[row, : len(text)].detach().numpy()
            exponentials = np.exp(states @ query[row, step].numpy())
            context = (exponentials / exponentials.sum()) @ states
            close(attended.context[row, step].detach(), torch.from_numpy(context))


@pytest.mark.parametrize(
    ("initial_state", "bidirectional"),
    [("zeros", False), ("zeros", True), ("last", False), ("bridge", False), ("bridge", True)],
)
def test_first_states_by_formula(initial_state, bidirectional):
    model = make_model("general", initial_state, bidirectional)
    memory, state = model.encode(*read(TEXTS, padding=1))
    (hidden,) = state.cell
    assert hidden.shape == (3, D)
    for row, text in enumerate(TEXTS):
        states = memory.values[row, : len(text)].detach().numpy()
        close(hidden[row].detach(), torch.from_numpy(first_state_by_formula(model, initial_state, states)))


# ---- gradients and seeds ----


def loss_on(model, texts, source_eos, tokens, decoder_lengths):
    """A number that every real logit and weight goes into."""
    source, lengths = read(texts, source_eos)
    decoded = model(as_batch(source, lengths, tokens, decoder_lengths))
    loss = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate(decoder_lengths):
        loss = loss + decoded.logits[row, :length].logsumexp(dim=1).sum()
        loss = loss - decoded.logits[row].gather(1, tokens[row].unsqueeze(1))[:length].sum()
        if decoded.weights is not None:
            loss = loss + decoded.weights[row, :length].square().sum()
    return loss


@every_combination
def test_every_parameter_receives_its_gradient(score, initial_state, bidirectional, source_eos):
    model = make_model(score, initial_state, bidirectional)
    tokens = given(3, 6)
    parameters = list(model.parameters())
    random = torch.Generator().manual_seed(0)
    for texts in (TEXTS, LONGEST_FIRST):
        arguments = (model, texts, source_eos, tokens, torch.tensor([len(text) + 1 for text in texts]))
        gradients = torch.autograd.grad(loss_on(*arguments), parameters)
        assert all(gradient.abs().max() > 0 for gradient in gradients)
        # along a random direction: the slope by finite differences
        direction = [torch.randn(p.shape, generator=random, dtype=torch.float64) for p in parameters]
        step, ends = 1e-5, []
        for sign in (1, -2):  # one step ahead, then two back: one behind
            with torch.no_grad():
                for parameter, along in zip(parameters, direction, strict=True):
                    parameter.add_(along, alpha=sign * step)
                ends.append(float(loss_on(*arguments)))
        with torch.no_grad():
            for parameter, along in zip(parameters, direction, strict=True):
                parameter.add_(along, alpha=step)
        slope = sum(float((g * along).sum()) for g, along in zip(gradients, direction, strict=True))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@every_combination
def test_gradients_of_a_batch_are_the_sum_of_its_strings(score, initial_state, bidirectional, source_eos):
    model = make_model(score, initial_state, bidirectional)
    tokens = given(3, 6)
    parameters = list(model.parameters())
    for texts in (TEXTS, LONGEST_FIRST):
        real = torch.tensor([len(text) + 1 for text in texts])
        together = torch.autograd.grad(loss_on(model, texts, source_eos, tokens, real), parameters)
        alone = [
            torch.autograd.grad(loss_on(model, [text], source_eos, tokens[i : i + 1], real[i : i + 1]), parameters)
            for i, text in enumerate(texts)
        ]
        for gradient, *parts in zip(together, *alone, strict=True):
            close(gradient, sum(parts), 1e-11)


@pytest.mark.parametrize(("score", "initial_state"), [("additive", "bridge"), ("general", "zeros"), ("none", "last")])
def test_weights_come_from_the_seed_and_nothing_else(score, initial_state):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = make_model(score, initial_state, seed=5).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = make_model(score, initial_state, seed=5).state_dict()
    other = make_model(score, initial_state, seed=6).state_dict()
    for name, weight in one.items():
        assert torch.equal(weight, again[name])
        assert not torch.equal(weight, other[name])


@pytest.mark.usefixtures("compiled_and_not")
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
