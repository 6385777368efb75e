"""A look inside: what a model computes while it decodes, by name; and some of it replaced (activation patching).

What a module returns is read by ordinary forward hooks, so a part of one's own is in it, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.inference.interventions import UNCHANGED, is_index
from seq2attn.model.attention import Attended, Attention, NoAttention
from seq2attn.model.cells import Cell
from seq2attn.model.decoder import Reverser
from seq2attn.model.hard_monotonic import HardMonotonicDecoder
from seq2attn.model.interface import Decoded, Model, Resets
from seq2attn.model.transformer import Transformer

Patch = Mapping[tuple[str, int], ArrayLike]
"""(name, step of the output, or for `encoder.states` position of the source) -> what replaces that row of the quantity"""


class Cache(dict[str, NDArray[np.floating]]):
    """What a model computed for one string, by name. T steps of the output, S positions of the source, D a width.

    encoder.states (S, D): in a bidirectional encoder forward beside backward half.
    decoder.state (T, D): what each step reads from the one before; row 0 is the initial state. Several tensors stand side
        by side, the hidden state first: h, c of an LSTM; the layers of a decoder, the bottom one first.
    decoder.gates (T, G, D): what `Cell.gates` returns, r, z, n of a GRU, i, f, g, o of an LSTM; the bottom layer's first.
    attention.query (T, D), attention.keys (S, D): what the score compares. attention.scores (T, S): before window, mask and
        normaliser. attention.weights (T, S), attention.context (T, D). Of H heads, query and scores are (T, H, ...), and
        the keys are the states.
    logits (T, V): of the V symbols of `model.task.target_vocabulary`.

    A Transformer has attention.*, of the last layer's attention to the source, encoder.states and logits.
    """

    def names(self) -> list[str]:
        """The quantities that this model has."""
        return list(self)

    def __repr__(self) -> str:
        return f"Cache({', '.join(f'{name} {array.shape}' for name, array in self.items())})"

    def __missing__(self, name: object) -> NDArray[np.floating]:
        raise Seq2AttnError(f"unknown quantity {shown(name)}; this model has {', '.join(self)}")


class Inside(Model):
    """A recurrent model or a Transformer that keeps what it computes for the first of its strings, and takes what is patched
    in place of its own. What the model computes from a patched quantity follows from the patch.
    """

    def __init__(self, model: Model, patch: Patch | None = None) -> None:
        super().__init__()
        if not isinstance(model, Reverser | Transformer):
            raise Seq2AttnError("an ensemble has an inside for each of its models", hint="Load one of its runs.")
        self.model: Model = model
        if not isinstance(patch, Mapping | None):
            raise Seq2AttnError('patch must be (name, step) -> a row, such as {("decoder.state", 3): row}')
        self.patch = dict(patch or {})
        self.copies = model.copies
        self.attended: Attended | None = None
        """what attention to the source computed in the last step, with its query"""
        self._gates: list[Tensor] = []
        self._begin()
        names = ["encoder.states"]
        if isinstance(model, Reverser):
            attention = model.decoder.attention
            reads = not isinstance(attention, NoAttention) and not isinstance(model.decoder, HardMonotonicDecoder)
            names += ["decoder.state"] + ["attention.context"] * reads
            names += ["attention.weights"] * isinstance(attention, Attention)  # of heads, each has its own
        for key in self.patch:
            if not (isinstance(key, tuple) and len(key) == 2 and is_index(key[1])):
                raise Seq2AttnError(
                    f"patch: expected (name, step), steps from 0, of encoder.states positions; found {key!r}"
                )
            if key[0] not in names:
                guess = did_you_mean(str(key[0]), names)
                what = f"{shown(key[0])} cannot be replaced in this model; {guess}allowed: {', '.join(names)}"
                raise Seq2AttnError(f"patch: {what}")

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        self._begin()
        with self._hooked():
            memory, state = self.model.encode(source, lengths)
        self._unchanged = UNCHANGED.at(0, lengths, source.size(1), next(self.parameters()).dtype)
        keys = memory.keys if isinstance(self.model, Reverser) else memory.layers[-1].chunk(2, dim=2)[0]
        self._kept["attention.keys"] += keys[0]
        return memory, state

    def step(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Decoded, Any]:
        kept, self._gates, self.attended = self._kept, [], None
        if isinstance(self.model, Reverser):
            joined = self._patched("decoder.state", self._step, torch.cat(state.cell, dim=1))  # (B, parts D)
            kept["decoder.state"].append(joined[0])
            state = state._replace(cell=torch.split(joined, [part.size(1) for part in state.cell], dim=1))
        if ("attention.weights", self._step) in self.patch:
            change = memory.intervention or self._unchanged
            weights = self._patched("attention.weights", self._step, change.weights)  # (B, 1, S)
            memory = self.intervene(memory, change._replace(forced=torch.ones_like(change.forced), weights=weights))
        with self._hooked():
            if isinstance(self.model, Transformer):
                decoded, self.attended, state = self.model.decode_attended(tokens.unsqueeze(1), state, memory)
            else:
                decoded, state = self.model.step(tokens, state, memory)
        if self.attended is not None and self.attended.weights is not None:
            for name in ("query", "scores", "weights", "context"):
                rows = getattr(self.attended, name)  # (B, ..., 1, D)
                kept[f"attention.{name}"].append(rows[0].select(-2, 0))  # (..., D)
        if self._gates:
            kept["decoder.gates"].append(torch.stack(self._gates))  # (G, D)
        kept["logits"].append(decoded.logits[0, 0])
        self._step += 1
        return decoded, state

    def forward(self, batch: Batch, resets: Resets | None = None) -> Decoded:
        raise NotImplementedError("only decoding is looked into, step by step")

    def cache(self) -> Cache:
        """What was kept while the last string was decoded."""
        stacked = {name: torch.stack(rows).cpu().numpy() for name, rows in self._kept.items()}
        return Cache({name: array for name, array in stacked.items() if array.size})

    def _begin(self) -> None:
        self._kept: dict[str, list[Tensor]] = defaultdict(list)
        self._step = 0

    def _hooked(self) -> ExitStack:
        """With forward hooks on the modules whose results are kept or patched."""
        model: Any = self.model
        if isinstance(model, Reverser):
            hooks: list[Any] = [(cell, self._gated) for cell in model.decoder.cell.modules() if isinstance(cell, Cell)]
            hooks += [(model.encoder, self._encoded), (model.decoder.attention, self._attended)]
        else:
            hooks = [(model.encoder_norm, self._encoded)]
        stack = ExitStack()
        for module, hook in hooks:
            stack.callback(module.register_forward_hook(hook).remove)
        return stack

    def _encoded(self, _: nn.Module, __: Any, encoded: Any) -> Any:
        states = encoded if isinstance(encoded, Tensor) else encoded.states  # (B, S, D)
        for name, position in self.patch:
            if name == "encoder.states" and not 0 <= position < states.size(1):
                raise Seq2AttnError(f"patch: unknown position {position}; allowed: 0 to {states.size(1) - 1}")
        rows = [self._patched("encoder.states", position, row) for position, row in enumerate(states.unbind(1))]
        states = torch.stack(rows, dim=1)
        self._kept["encoder.states"] += states[0]
        return states if isinstance(encoded, Tensor) else encoded._replace(states=states)

    def _gated(self, cell: Any, inputs: tuple[Any, ...], _: Any) -> None:
        read = cell.read(inputs[0].flatten(1))  # (B, E) or (B, 1, E) -> (B, ...)
        self._gates += [gate[0] for gate in cell.gates(read, inputs[1])]

    def _attended(self, _: nn.Module, inputs: tuple[Any, ...], attended: Attended) -> Attended:
        context = self._patched("attention.context", self._step, attended.context)  # (B, 1, Dv)
        query = inputs[0] if attended.query is None else attended.query
        self.attended = attended._replace(context=context, query=query)
        return self.attended

    def _patched(self, name: str, index: int, value: Tensor) -> Tensor:
        """value (B, ..., D), or the D numbers given in its place, the same for every row."""
        if (name, index) not in self.patch:
            return value
        given = np.asarray(self.patch[name, index])
        if given.shape != value.shape[-1:] or given.dtype.kind not in "fiu":
            found = " x ".join(map(str, given.shape)) or "a single value"
            hint = "It has a number for each position of the source." if name == "attention.weights" else None
            raise Seq2AttnError(f"patch: {name} at {index} has {value.size(-1)} numbers; found {found}", hint=hint)
        if not np.isfinite(given).all():
            raise Seq2AttnError(f"patch: {name} at {index} must have finite numbers; found {shown(given.tolist())}")
        return torch.as_tensor(given).to(value).expand_as(value)
