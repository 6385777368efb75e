"""The model's own functions, one call each, with their inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves_with_path, tree_map_with_path

from seq2attn.data.tasks import StringTask
from seq2attn.data.vocabulary import SOS, SPECIAL
from seq2attn.inference.changes import set_weights
from seq2attn.model.cells import Cell, State
from seq2attn.model.decoder import DecoderState, Reverser
from seq2attn.model.encoder import Encoded, Layer
from seq2attn.model.interface import Model
from seq2attn.model.points import Hook, hooked, points
from seq2attn.model.transformer import Transformer

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Function:
    """A function of named tensors. `state.*` returned are the next call's, `memory.*` every step's."""

    name: str
    call: Callable[[Tensors], Tensors]
    inputs: Tensors
    """examples"""
    first: Tensors = field(default_factory=dict)
    """the first values of inputs `state.*` that `prepare` does not return"""


@torch.no_grad()
def functions(model: Model, source: Tensor, steps: int) -> list[Function]:
    """The functions of a model, with examples from decoding `steps` positions of source (1, S)."""
    encoder = (
        _encoder_functions(model, source)
        if isinstance(model, Reverser)
        else [_encode_whole(model, source)]
    )
    return [*encoder, _step(model, source, steps)]


def right_answer(task: StringTask, length: int) -> Function:
    """The rule of a task: a source without `<eos>` -> its target, right-padded, and the target's
    length.
    """

    def answer(tensors: Tensors) -> Tensors:
        solved = task.solve(tensors["source"], tensors["lengths"])
        return {"target": solved.target, "target_lengths": solved.target_lengths}

    source = (torch.arange(length) ** 2 // 3).unsqueeze(0) % len(
        task.source_vocabulary.symbols
    ) + len(SPECIAL)
    return Function("answer", answer, {"source": source, "lengths": torch.tensor([length])})


def named(prefix: str, value: Any) -> Tensors:
    """The tensors of a nested tuple: `memory.keys`, `state.cell.0`."""
    return {
        _name(prefix, path): one
        for path, one in tree_leaves_with_path(value)
        if isinstance(one, Tensor)
    }


def rebuilt(prefix: str, like: Any, tensors: Tensors) -> Any:
    """The nested tuple that `like` is, with the tensors that have its names."""
    return tree_map_with_path(
        lambda path, one: tensors[_name(prefix, path)] if isinstance(one, Tensor) else one, like
    )


def _name(prefix: str, path: Any) -> str:
    return ".".join([prefix, *(str(key).strip(".[]'") for key in path)])


def _encoder_functions(model: Reverser, source: Tensor) -> Iterator[Function]:
    """One token into each cell of the encoder, without dropout, and the preparation of what the
    decoder attends to.
    """
    encoder = model.encoder
    inputs = source[:, 0]  # (1,)
    final: State = ()
    for number, layer in enumerate(cast(list[Layer], list(encoder.layers))):
        for direction, cell in (("forward", layer.cell), ("backward", layer.backward_cell)):
            if cell is not None:
                first = cell.initial(1)
                last = first
                yield Function(
                    f"encoder_{number}_{direction}",
                    partial(_read, nn.Identity() if number else encoder.embedding, cell, first),
                    {"input": inputs, **named("state", first)},
                    named("state", first),
                )
        final += last
        inputs = torch.zeros(1, encoder.width)
    states = torch.zeros(1, source.size(1), encoder.width)
    valid = torch.ones_like(source, dtype=torch.bool)

    def prepare(tensors: Tensors) -> Tensors:
        memory = model.decoder.attention.prepare(
            tensors["states"], tensors["valid"], tensors["source"]
        )
        encoded = Encoded(tensors["states"], rebuilt("final", final, tensors))
        state = model.decoder.begin(model.initial_state(encoded), memory)
        return named("memory", memory) | named("state", _with_tensors(state))

    yield Function(
        "prepare",
        prepare,
        {"source": source, "states": states, "valid": valid, **named("final", final)},
    )


def _read(embed: nn.Module, cell: Cell, like: State, tensors: Tensors) -> Tensors:
    inputs = embed(tensors["input"]).unsqueeze(1)  # (1, 1, E)
    output, state = cell(inputs, rebuilt("state", like, tensors))
    return {"output": output.squeeze(1), **named("state", state)}


def _encode_whole(model: Model, source: Tensor) -> Function:
    """A Transformer's encoder."""

    def encode(tensors: Tensors) -> Tensors:
        memory, _ = model.encode(tensors["source"], tensors["valid"].sum(dim=1))
        return named("memory", memory)

    return Function(
        "prepare", encode, {"source": source, "valid": torch.ones_like(source, dtype=torch.bool)}
    )


SHOWN = {
    "query": "attention.query",
    "scores": "attention.scores",
    "softmax": "attention.normalised",
    "context": "attention.context",
}
"""output of a step -> the point that it shows"""


def _keep(values: list[Tensor], value: Tensor, _: Any) -> None:
    values.append(value)


def _step(model: Model, source: Tensor, steps: int) -> Function:
    """One output position, with changes of the attention, `change.*`, as inputs."""
    memory, first = model.encode(source, torch.tensor([source.size(1)]))
    token, state = torch.tensor([SOS]), first
    for _ in range(steps):
        _, state = model.step(token, state, memory)
    state = _with_tensors(state)
    known = points(model)
    changes = _no_changes(source.size(1)) if "attention.weights" in known else {}
    if changes and known["attention.weights"][0].fixed:
        del changes["change.forced"], changes["change.weights"]

    def step(tensors: Tensors) -> Tensors:
        seen: dict[str, list[Tensor]] = {name: [] for name in SHOWN}
        looks = {point: partial(_keep, seen[name]) for name, point in SHOWN.items() if changes}
        with hooked(model, looks), hooked(model, _hooks(tensors)):
            given = (rebuilt("state", state, tensors), rebuilt("memory", memory, tensors))
            decoded, after = model.step(tensors["token"], *given)
        outputs = {"logits": decoded.logits, **named("state", after)}
        if decoded.weights is None:
            return outputs
        outputs["weights"] = decoded.weights
        for name, values in seen.items():
            heads = len(values) > 1 and not isinstance(model, Transformer)
            outputs[name] = (
                torch.stack(values, dim=1) if heads else values[-1]
            )  # of a Transformer, the last layer
        return outputs

    inputs = {"token": token, **named("state", state), **named("memory", memory), **changes}
    return Function(
        "step", step, inputs, named("state", first) if isinstance(model, Transformer) else {}
    )


def _with_tensors(state: Any) -> Any:
    """The decoder's state with its position as a tensor, which a graph can count."""
    return (
        state._replace(position=torch.tensor(state.position))
        if isinstance(state, DecoderState)
        else state
    )


def _no_changes(width: int) -> Tensors:
    """Inputs that change nothing."""
    none = torch.zeros(1, 1, width, dtype=torch.bool)
    return {
        "change.banned": none,
        "change.forced": none,
        "change.weights": torch.zeros(1, 1, width),
        "change.temperature": torch.ones(1, 1, 1),
        "change.valid": ~none,
    }


def _hooks(tensors: Tensors) -> dict[str, Hook]:
    """The hooks that make the changes in these inputs."""
    if "change.banned" not in tensors:
        return {}
    hooks: dict[str, Hook] = {
        "attention.valid": lambda valid, _: tensors["change.valid"].view_as(valid),
        "attention.allowed": lambda allowed, _: allowed & ~tensors["change.banned"],
        "attention.logits": lambda logits, _: logits / tensors["change.temperature"],
    }
    if "change.forced" in tensors:
        forced, values = tensors["change.forced"], tensors["change.weights"]
        hooks["attention.weights"] = lambda weights, _: set_weights(weights, forced, values)
    return hooks
