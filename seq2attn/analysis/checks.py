"""The checks of the parts of a model; `contract.py` says which kind has which.

A part is checked alone and in a tiny model in which everything else is the default, all in float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from seq2attn import parts
from seq2attn.build import build_model
from seq2attn.config import check_config
from seq2attn.config.schema import PARTS
from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Attention
from seq2attn.model.reverser import Reverser
from seq2attn.model.scores.dot import Dot
from seq2attn.registry import Registry

B, S, L, D = 3, 5, 3, 4
LENGTHS = torch.tensor([S, 3, 1])
VALID = valid_mask(LENGTHS, S)  # (B, S) True = real token
GARBAGE = 7.0
REGISTRIES: dict[str, Registry] = {registry.kind: registry for registry in parts.EXTENSIBLE}
KEYS = {registry.kind: key for key, registry in PARTS.items()}
"""kind -> the key of a config that names a part of this kind"""
MODELS: dict[str, tuple[dict[str, Any], ...]] = {
    "cell": ({"layers": 2}, {"decoder": "luong"}),
    "decoder": ({}, {"cell": "lstm", "attention": {"window": "local_m", "history": "location"}}),
    "initial state": ({}, {"cell": "lstm", "layers": 2}),
}
"""kind -> the settings of the models in which a part is checked; of other kinds the default model alone"""


class CheckFailed(Exception):
    """What was found instead of what the contract says."""


@dataclass(frozen=True)
class Part:
    """A registered part with the options to check it with."""

    kind: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    key_width: int | None = None
    """of a score; None: wider than the query where the score allows it"""

    def make(self) -> Any:
        """The part alone."""
        registry = REGISTRIES[self.kind]
        equal = registry.get(self.name).equal_widths
        widths = {"score": (D, self.key_width or (D if equal else D + 3)), "window": (D, False), "history": (D,)}
        made = registry.make(
            registry.choose(self.name, **self.options), *{**widths, "cell": (D + 1, D)}.get(self.kind, ())
        )
        return made if self.kind == "task" else made.double().eval()

    def models(self) -> Iterator[Reverser]:
        """Tiny models with this part."""
        for settings in MODELS.get(self.kind, ({},)):
            values: dict[str, Any] = {"model": {"hidden": D, "embedding": 3, **settings}, "task": {"alphabet": "abc"}}
            part = json.dumps({"name": self.name, **self.options})
            model = build_model(check_config(values, [f"{KEYS[self.kind]}={part}"])).double().eval()
            assert isinstance(model, Reverser)
            yield model


def expect(condition: Any, message: str) -> None:
    """Raise `CheckFailed` unless `condition` is true."""
    if not condition:
        raise CheckFailed(message)


def expect_tensor(what: str, found: Any, *shape: int, dtype: torch.dtype = torch.float64) -> None:
    """A tensor of this shape, all of whose numbers are finite."""
    expect(isinstance(found, Tensor), f"{what}: {type(found).__name__}, expected a tensor")
    expect(found.shape == shape, f"{what}: shape {tuple(found.shape)}, expected {shape}")
    expect(found.dtype == dtype, f"{what}: type {found.dtype}, expected {dtype}")
    expect(torch.isfinite(found).all(), f"{what}: numbers that are not finite")


def expect_state(what: str, state: Any, parts: int) -> None:
    """A tuple of `parts` tensors (B, D)."""
    expect(isinstance(state, tuple), f"{what}: {type(state).__name__}, expected a tuple of tensors")
    expect(len(state) == parts, f"{what}: {len(state)} tensors, expected {parts}")
    for index, one in enumerate(state):
        expect_tensor(f"{what}, tensor {index}", one, B, D)


def expect_close(found: Tensor, expected: Tensor, message: str) -> None:
    """Equal up to the rounding of float64."""
    expect(torch.allclose(found, expected, rtol=1e-10, atol=1e-12), message)


def _draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def _draw_weights() -> Tensor:
    """Attention weights (B, S) over real tokens."""
    return torch.softmax(_draw(B, S).masked_fill(~VALID, -torch.inf), dim=1)


def _draw_tokens() -> tuple[Tensor, Tensor]:
    """Sources (B, S) of LENGTHS, right-padded, and decoder input (B, L), of the alphabet's ids 3, 4 and 5."""
    return torch.randint(3, 6, (B, S)) * VALID, torch.randint(3, 6, (B, L))


@dataclass(frozen=True)
class Probe:
    """A part as a function of tensors whose first dimension is B."""

    module: Any
    inputs: tuple[Tensor, ...]
    call: Callable[..., Tensor]
    """inputs -> (B, ...)"""
    padded: Callable[..., Tensor]
    """the same with other padding, or more of it: the results that must not change"""


def _probe_score(score: Any) -> Probe:
    def call(query: Tensor, keys: Tensor) -> Tensor:
        scores: Tensor = score(query, score.project(keys))
        return scores

    inputs = (_draw(B, 2, D), _draw(B, S, score.key_width))
    return Probe(score, inputs, call, lambda query, keys: call(query, pad(keys, (0, 0, 0, 2), value=GARBAGE))[:, :, :S])


def _probe_window(window: Any) -> Probe:
    def call(query: Tensor, lengths: Tensor, width: int = S) -> Tensor:
        """The factor of each weight, 0 outside the window and on padding."""
        view = window(query, lengths, width, 0)
        inside = (view.allowed & valid_mask(lengths, width).unsqueeze(1)).double()
        factor: Tensor = inside if view.factor is None else inside * view.factor
        return factor

    inputs = (_draw(B, L, D), LENGTHS)
    return Probe(window, inputs, call, lambda query, lengths: call(query, lengths, S + 2)[:, :, :S])


def _probe_history(history: Any) -> Probe:
    def call(past: Tensor, weights: Tensor) -> Tensor:
        return _effect(history, history.update(past, weights), weights)

    inputs = (history.update(_draw(B, history.channels, S) * 0, _draw_weights()), _draw_weights())
    return Probe(history, inputs, call, lambda past, weights: call(pad(past, (0, 2)), pad(weights, (0, 2)))[:, :, :S])


def _effect(history: Any, past: Tensor, weights: Tensor) -> Tensor:
    """Features (B, 1, S, feature_width), weights (B, 1, S, 1) and what is added to the context, made of a past."""
    features = history(past)
    allowed = (torch.arange(weights.size(1)) < S).expand(len(weights), 1, -1)
    combined: Tensor = history.combine(weights.unsqueeze(1), past, allowed, allowed)
    read = history.read(combined, past).unsqueeze(2).expand(-1, 1, combined.size(2), -1)  # (B, 1, S, read_width)
    combined = torch.cat([combined.unsqueeze(3), read], dim=3)
    return combined if features is None else torch.cat([features, combined], dim=3)


def _probe_cell(cell: Any) -> Probe:
    def call(inputs: Tensor, lengths: Tensor, *state: Tensor) -> Tensor:
        """The outputs of real tokens, then the final states."""
        outputs, final = cell(inputs, state, lengths)
        real = outputs.masked_fill(~valid_mask(lengths, S).unsqueeze(2), 0)
        return torch.cat([real, *(one.unsqueeze(1) for one in final)], dim=1)

    def padded(inputs: Tensor, *others: Tensor) -> Tensor:
        return call(inputs.masked_fill(~VALID.unsqueeze(2), GARBAGE), *others)

    states = (torch.tanh(_draw(B, D)) for _ in range(cell.parts))
    return Probe(cell, (_draw(B, S, D + 1), LENGTHS, *states), call, padded)


def _probe_model(model: Reverser) -> Probe:
    def call(source: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        """Logits beside attention weights (B, L, V + S)."""
        decoded = model(source, lengths, tokens)
        weights = [] if decoded.weights is None else [decoded.weights[:, :, :S]]
        return torch.cat([decoded.logits, *weights], dim=2)

    def padded(source: Tensor, *others: Tensor) -> Tensor:
        return call(pad(source, (0, 2)).masked_fill(~valid_mask(LENGTHS, S + 2), 4), *others)

    source, tokens = _draw_tokens()
    return Probe(model, (source, LENGTHS, tokens), call, padded)


PROBES = {"score": _probe_score, "window": _probe_window, "history": _probe_history, "cell": _probe_cell}


def _probes(part: Part) -> Iterator[Probe]:
    if part.kind in PROBES:
        yield PROBES[part.kind](part.make())
    else:
        yield from map(_probe_model, part.models())


def check_padding_invariance(part: Part) -> None:
    """Results depend neither on what padding holds nor on how much of it there is."""
    for probe in _probes(part):
        expect_close(probe.padded(*probe.inputs), probe.call(*probe.inputs), "the result depends on padding")


def check_batch_invariance(part: Part) -> None:
    """A row has the same result alone as in a batch."""
    for probe in _probes(part):
        alone = torch.cat([probe.call(*(one[i : i + 1] for one in probe.inputs)) for i in range(B)])
        expect_close(alone, probe.call(*probe.inputs), "a row's result depends on the other rows")


def check_gradients(part: Part) -> None:
    """Gradients of inputs and parameters agree with finite differences."""
    for probe in _probes(part):
        inputs = [one[:1].clone().requires_grad_(one.is_floating_point()) for one in probe.inputs]

        def call(*arguments: Tensor, probe: Probe = probe, count: int = len(inputs)) -> Tensor:
            return probe.call(*arguments[:count])  # gradcheck changes the parameters, which follow, in place

        try:
            torch.autograd.gradcheck(call, (*inputs, *probe.module.parameters()))
        except RuntimeError as error:  # how gradcheck reports a difference
            raise CheckFailed(" ".join(str(error).split())[:200]) from None


def check_parameters(part: Part) -> None:
    """In a model every parameter of the part receives a finite gradient."""
    cls = REGISTRIES[part.kind].load(part.name)
    for model in part.models():
        source, tokens = _draw_tokens()
        loss = cross_entropy(model(source, LENGTHS, tokens).logits.flatten(0, 1), tokens.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        for module in model.modules():
            for name, parameter in module.named_parameters() if type(module) is cls else ():
                if not parameter.requires_grad:  # frozen
                    continue
                expect(parameter.grad is not None, f"parameter {name} receives no gradient")
                expect_tensor(f"gradient of {name}", parameter.grad, *parameter.shape)


def check_teacher_forcing(part: Part) -> None:
    """Teacher forcing gives what single steps give."""
    for model in part.models():
        source, tokens = _draw_tokens()
        decoded = model(source, LENGTHS, tokens)
        memory, state = model.encode(source, LENGTHS)
        for t in range(L):
            step, state = model.step(tokens[:, t], state, memory)
            for found, expected in zip(step, decoded, strict=True):
                if found is not None and expected is not None:
                    message = f"position {t} differs between teacher forcing and single steps"
                    expect_close(found, expected[:, t : t + 1], message)


def check_score_shape(part: Part) -> None:
    """Scores (B, L, S) of one query and of several; values as wide as the score says."""
    score = part.make()
    keys = _draw(B, S, score.key_width)
    for length in (1, L):
        expect_tensor("scores", score(_draw(B, length, D), score.project(keys)), B, length, S)
    expect_tensor("values", score.values(keys), B, S, score.value_width)


def check_score_padding(part: Part) -> None:
    """Weights are exactly 0 on padding and rows sum to 1; a row without keys is all zeros, and so are its gradients."""
    score = part.make()
    keys = _draw(B, S, score.key_width).requires_grad_()
    attention = Attention(score)
    valid = valid_mask(torch.tensor([S, 2, 0]), S)
    attended = attention(_draw(B, 2, D), attention.prepare(keys, valid))
    expect((attended.weights.masked_select(~valid.unsqueeze(1)) == 0).all(), "weight on padding")
    sums = attended.weights.sum(dim=2)
    wanted = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64).unsqueeze(1).expand(-1, 2)
    expect_close(sums, wanted, f"weights sum to {sums.tolist()}")
    (gradient,) = torch.autograd.grad(attended.context.square().sum(), keys)
    expect_tensor("gradient of the keys", gradient, *keys.shape)
    expect((gradient[~valid] == 0).all(), "gradient on padding")


def check_score_loop_form(part: Part) -> None:
    """One call for all queries and keys gives what one call for each pair gives."""
    score = part.make()
    query, keys = _draw(B, L, D), _draw(B, S, score.key_width)
    matrix = score(query, score.project(keys))
    for t in range(L):
        for j in range(S):
            one = score(query[:, t : t + 1], score.project(keys[:, j : j + 1]))[:, 0, 0]
            expect_close(matrix[:, t, j], one, f"query {t} and key {j} have another score when scored alone")


def check_window_shape(part: Part) -> None:
    """`allowed` (B, L, S) is bool; `factor` is None or as large, and nowhere below 0."""
    window = part.make()
    for length, first in ((1, 0), (L, 0), (L, torch.tensor(2))):
        allowed, factor = window(_draw(B, length, D), LENGTHS, S, first)
        expect_tensor("allowed", allowed, B, length, S, dtype=torch.bool)
        if factor is not None:
            expect_tensor("factor", factor, B, length, S)
            expect((factor >= 0).all(), "factor: numbers below 0")


def check_window_weights(part: Part) -> None:
    """Attention weights are exactly 0 outside the window and on padding; those of a step are the same alone."""
    window, query, keys = part.make(), _draw(B, L, D), _draw(B, S, D)
    attention = Attention(Dot(D, D), window=window)
    memory = attention.prepare(keys, VALID)
    weights = attention(query, memory).weights
    expect_tensor("weights", weights, B, L, S)
    outside = ~window(query, LENGTHS, S, 0).allowed | ~VALID.unsqueeze(1)
    expect((weights[outside] == 0).all(), "weight outside the window")
    for t in range(L):
        alone = attention(query[:, t : t + 1], memory, first=torch.tensor(t)).weights
        expect_close(alone, weights[:, t : t + 1], f"step {t} alone has another window than among all steps")


def check_history_shape(part: Part) -> None:
    """The shapes of what `update`, `forward`, `combine` and `read` return, from the first step on."""
    history = part.make()
    past = torch.zeros(B, history.channels, S, dtype=torch.float64)
    for step in range(2):
        features = history(past)
        if features is not None:
            expect_tensor(f"features at step {step}", features, B, 1, S, D)
        weights, allowed = _draw_weights().unsqueeze(1), VALID.unsqueeze(1)
        combined = history.combine(weights * allowed, past, allowed, allowed)
        expect_tensor(f"weights at step {step}", combined, B, 1, S)
        expect((combined[~allowed] == 0).all(), f"weights at step {step} are not 0 where no key may be attended to")
        expect_tensor(f"addition to the context at step {step}", history.read(combined, past), B, 1, history.read_width)
        past = history.update(past, _draw_weights())
        expect_tensor(f"past after step {step}", past, B, history.channels, S)


def check_history_in_place(part: Part) -> None:
    """`forward`, `update`, `combine` and `read` do not change their arguments."""
    history = part.make()
    weights = _draw_weights()
    past = history.update(torch.zeros(B, history.channels, S, dtype=torch.float64), _draw_weights()).clone()
    before = past.clone(), weights.clone()
    history(past)
    history.update(past, weights)
    history.combine(weights.unsqueeze(1), past, None, None)
    history.read(weights.unsqueeze(1), past)
    expect(torch.equal(past, before[0]) and torch.equal(weights, before[1]), "past or weights are changed in place")


def check_cell_shape(part: Part) -> None:
    """A state is a tuple of `parts` tensors (B, D), at first and after a step; the output is (B, D)."""
    cell = part.make()
    expect_state("initial state", cell.initial(B), cell.parts)
    output, state = cell(_draw(B, D + 1), cell.initial(B))
    expect_state("state after a step", state, cell.parts)
    expect_tensor("output", output, B, D)


def check_cell_scan(part: Part) -> None:
    """`scan` gives the outputs of single steps, and the state after each row's last token."""
    cell = part.make()
    inputs, lengths, *first = _probe_cell(cell).inputs
    state = tuple(first)
    outputs, final = cell(inputs, state, lengths)
    expect_tensor("outputs", outputs, B, S, D)
    expect_state("final state", final, cell.parts)
    for t in range(S):
        output, state = cell(inputs[:, t], state)
        real, ends = VALID[:, t], lengths - 1 == t
        expect_close(outputs[real, t], output[real], f"the output of step {t} differs between scan and step")
        for one, other in zip(final, state, strict=True):
            expect_close(one[ends], other[ends], f"the state after step {t} differs between scan and step")


def check_decoder_shape(part: Part) -> None:
    """Logits (B, L, V) and weights (B, L, S) of all positions; a step gives one position."""
    for model in part.models():
        source, tokens = _draw_tokens()
        memory, state = model.encode(source, LENGTHS)
        step, _ = model.step(tokens[:, 0], state, memory)
        for what, (logits, weights), length in (("", model(source, LENGTHS, tokens), L), ("step: ", step, 1)):
            expect_tensor(f"{what}logits", logits, B, length, 6)
            expect_tensor(f"{what}weights", weights, B, length, S)


def check_initial_state_shape(part: Part) -> None:
    """One tensor (B, D) for each that the decoder's cell keeps, of all layers."""
    for model in part.models():
        state = model.initial_state(model.encoder(_draw_tokens()[0], LENGTHS))
        expect_state("first state", state, model.decoder.recurrent.parts)
