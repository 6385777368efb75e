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
from seq2attn.inference.inside import Inside
from seq2attn.inference.interventions import Changes
from seq2attn.model.attention import NoAttention
from seq2attn.model.cells import Cell, State
from seq2attn.model.decoder import Reverser
from seq2attn.model.encoder import Encoded, Layer
from seq2attn.model.interface import Model
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
    encoder = _encoder_functions(model, source) if isinstance(model, Reverser) else [_encode_whole(model, source)]
    return [*encoder, _step(model, source, steps)]


def right_answer(task: StringTask, length: int) -> Function:
    """The rule of a task: a source without `<eos>` -> its target, right-padded, and the target's length."""

    def answer(tensors: Tensors) -> Tensors:
        solved = task.solve(tensors["source"], tensors["lengths"])
        return {"target": solved.target, "target_lengths": solved.target_lengths}

    source = (torch.arange(length) ** 2 // 3).unsqueeze(0) % len(task.source_vocabulary.symbols) + len(SPECIAL)
    return Function("answer", answer, {"source": source, "lengths": torch.tensor([length])})


def named(prefix: str, value: Any) -> Tensors:
    """The tensors of a nested tuple: `memory.keys`, `state.cell.0`."""
    return {_name(prefix, path): one for path, one in tree_leaves_with_path(value) if isinstance(one, Tensor)}


def rebuilt(prefix: str, like: Any, tensors: Tensors) -> Any:
    """The nested tuple that `like` is, with the tensors that have its names."""
    return tree_map_with_path(lambda path, one: tensors[_name(prefix, path)] if isinstance(one, Tensor) else one, like)


def _name(prefix: str, path: Any) -> str:
    return ".".join([prefix, *(str(key).strip(".[]'") for key in path)])


def _encoder_functions(model: Reverser, source: Tensor) -> Iterator[Function]:
    """One token into each cell of the encoder, without dropout, and the preparation of what the decoder attends to."""
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
        memory = model.decoder.attention.prepare(tensors["states"], tensors["valid"], tensors["source"])
        encoded = Encoded(tensors["states"], rebuilt("final", final, tensors))
        state = model.decoder.begin(model.initial_state(encoded), memory)
        return named("memory", memory) | named("state", state)

    yield Function("prepare", prepare, {"source": source, "states": states, "valid": valid, **named("final", final)})


def _read(embed: nn.Module, cell: Cell, like: State, tensors: Tensors) -> Tensors:
    output, state = cell(embed(tensors["input"]), rebuilt("state", like, tensors))
    return {"output": output, **named("state", state)}


def _encode_whole(model: Model, source: Tensor) -> Function:
    """A Transformer's encoder."""

    def encode(tensors: Tensors) -> Tensors:
        memory, _ = model.encode(tensors["source"], tensors["valid"].sum(dim=1))
        return named("memory", memory)

    return Function("prepare", encode, {"source": source, "valid": torch.ones_like(source, dtype=torch.bool)})


def _step(model: Model, source: Tensor, steps: int) -> Function:
    """One output position."""
    lengths = torch.tensor([source.size(1)])
    memory, first = model.encode(source, lengths)
    token, state = torch.tensor([SOS]), first
    for _ in range(steps):
        _, state = model.step(token, state, memory)
    change = Changes(mask_padding=True).at(0, lengths, source.size(1), torch.float32)
    attends = not (isinstance(model, Reverser) and isinstance(model.decoder.attention, NoAttention))
    inputs = {"token": token, **named("state", state), **named("memory", memory)}
    if attends:
        inputs |= named("change", change)

    def step(tensors: Tensors) -> Tensors:
        kept = rebuilt("memory", memory, tensors)
        if attends:
            kept = model.intervene(kept, rebuilt("change", change, tensors))
        inside = Inside(model)
        decoded, after = inside.step(tensors["token"], rebuilt("state", state, tensors), kept)
        outputs = {"logits": decoded.logits, **named("state", after)}
        if decoded.weights is None:
            return outputs
        shown = {name: getattr(inside.attended, name) for name in ("context", "scores", "softmax", "query")}
        return outputs | {"weights": decoded.weights} | {name: one for name, one in shown.items() if one is not None}

    return Function("step", step, inputs, named("state", first) if isinstance(model, Transformer) else {})
