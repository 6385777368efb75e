"""`faster_form`: a faster form of one model's `forward`, which training may call in its place. It
computes parts of the model by kernels: recurrences in compiled C, which has no windows, and cells
and softmaxes by PyTorch's fused operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.data.batches import Batch
from seq2attn.data.padding import valid_mask
from seq2attn.kernels.function import TYPES, gru
from seq2attn.kernels.fused import FUSED, Place, fused, place_together
from seq2attn.kernels.library import OFF, load
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.cells import GRU, LSTM, at_ends
from seq2attn.model.decoder import BahdanauDecoder, DecoderState, LuongDecoder, Reverser
from seq2attn.model.encoder import Encoded, Layer, RecurrentEncoder, flip, flip_index
from seq2attn.model.histories import (
    Coverage,
    Location,
    LocationCoverage,
    NoHistory,
    Shift,
    ShiftByKey,
)
from seq2attn.model.hooks import Rank, hooked_places
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.normalisers import Softmax, log_count
from seq2attn.model.resets import Resets
from seq2attn.model.scores import Additive, Dot, General, KeyValue, Scaled, ScaledGeneral
from seq2attn.torch_private import has_any_global_hook

LARGE = 2**25
"""B x D^2 from which on PyTorch's products on several threads are faster than the C"""
SMALL = 1_500_000
"""B x D^2 up to which a CPU probably trains faster than a GPU: measured beside an H100 and an
H200, it did at 1.05 million and did not at 2.36 (benchmarks/README.md). There the CPU's calls take
the time, not what the GPU computes"""
PRODUCTS = (Dot, Scaled, General, ScaledGeneral, KeyValue)  # scores s.k of projected keys k
DECODERS = (BahdanauDecoder, LuongDecoder)
KNOWN = {
    Reverser,
    RecurrentEncoder,
    Layer,
    GRU,
    LSTM,
    *DECODERS,
    Attention,
    NoAttention,
    Additive,
    *PRODUCTS,
    Softmax,
    NoHistory,
    Coverage,
    Location,
    LocationCoverage,
    Shift,
    ShiftByKey,
    nn.Linear,
    nn.Embedding,
    nn.Dropout,
    nn.Conv1d,
}
_COMPUTE_NOTHING = ("__init__", "__setstate__")  # torch.compile replaces these


def _methods() -> dict[tuple[type, str], Any]:
    """Return the methods of every known class and of its bases.

    Somebody may replace one, as in `GRU.step = ...`, to change what models compute. The faster form
    would not notice, so `faster_form` compares these methods with those at import.
    """
    methods: dict[tuple[type, str], Any] = {}
    for kind in KNOWN:
        for base in kind.__mro__:
            for name, value in vars(base).items():
                if callable(value) and name not in _COMPUTE_NOTHING:
                    methods[base, name] = value
    return methods


_WRITTEN = _methods()
"""the methods as they were when this module was imported"""


def faster_form(model: Model) -> FasterForm | None:
    """Return a function `(batch, resets) -> Decoded` that computes what `model` does, faster.

    None if there is none: it is only for recurrent models in which no weight is parametrized, no
    part of this package has a changed method, and a cell or the attention is built in and without
    forward hooks. It reads the model's weights whenever it is called; the model must stay as it is.

    On a CPU with compiled kernels, encoder and decoder are each computed in C if they are built in;
    PyTorch's fused operations compute the parts of what is not in C.
    """
    if type(model) is not Reverser or not _is_as_written(model) or _methods() != _WRITTEN:
        return None
    first = next(model.parameters())
    if first.dtype not in TYPES or first.device.type == "mps":  # mps: never tried
        return None
    for weight in model.parameters():
        alike = weight.dtype == first.dtype and weight.device == first.device
        if type(weight) is not nn.Parameter or not alike:
            return None

    kernels = load(first.dtype)
    places = list(_fused_parts(model))
    # a model without such parts has no GRU, so that there is nothing for the C either
    if kernels == OFF or not places:
        return None
    for place in places:
        if isinstance(place.part, GRU):
            place_together(place.part)  # on a CPU nothing happens
    if isinstance(kernels, str) or first.device.type != "cpu":  # no C: PyTorch's operations alone
        return FasterForm(model, places)
    reads = _is_known_encoder(model.encoder)
    decodes = _is_known_decoder(model.decoder)
    # A decoder in C has a single layer, and so has the encoder: nothing is left for fused parts.
    if reads and decodes:
        places = []
    return FasterForm(model, places, kernels, reads, decodes)


def prefers_cpu(model: Model, rows: int) -> bool:
    """Return whether batches of so many rows probably train faster on a CPU than on a GPU: small
    ones, if both encoder and decoder are in C.

    model: on the CPU.
    """
    faster = faster_form(model)
    return faster is not None and faster.reads and faster.decodes and faster.size(rows) <= SMALL


@dataclass(frozen=True)
class FasterForm:
    """A model some of whose parts are fused, and perhaps the encoder's first layer (`reads`), the
    decoder (`decodes`) or both in C.
    """

    model: Reverser
    places: Sequence[Place]
    kernels: Any = None
    reads: bool = False
    decodes: bool = False

    def size(self, rows: int) -> int:
        """Compute B x D^2, to which the work of a position is proportional."""
        width: int = self.model.decoder.cell.width
        return rows * width**2

    def __call__(self, batch: Batch, resets: Resets) -> Decoded:
        """Compute what the model does, up to rounding, with these resets of its states: encoder and
        decoder each in C, or by the formulas with fused parts.
        """
        model = self.model
        lengths = batch.source_lengths
        # PyTorch's products on several threads are then faster than the C on one
        is_large = self.size(len(lengths)) >= LARGE and torch.get_num_threads() > 1
        with fused(self.places), hooked_places(resets.items(), Rank.RESET):  # for what is not in C
            if is_large or not (self.reads or self.decodes):
                return model.forward(batch)  # with the fused parts, if there are any
            encoded = self._encode(batch.source, lengths, resets)
            valid = valid_mask(lengths, batch.source.size(1))
            memory, state = model.prepare(encoded, valid, batch.source)
            if self.decodes:
                return self._decode(batch, state, memory, resets)
            return model.decoder(batch.decoder_input, state, memory)[0]

    def _encode(self, source: Tensor, lengths: Tensor, resets: Resets) -> Encoded:
        """Read source (B, S) of these lengths (B,): the bottom layer in C, which looks up the
        embeddings itself, those above by the formulas.
        """
        encoder: Any = self.model.encoder
        if not self.reads:
            return encoder(source, lengths)

        bottom, *above = encoder.layers
        states, final = self._read(bottom, bottom.cell, source, lengths, resets)  # (B, S, D)
        if bottom.backward_cell is not None:  # it reads the strings reversed, as in `Layer`
            index = flip_index(lengths, source.size(1))  # (B, S)
            flipped = source.gather(1, index)
            back, final = self._read(bottom, bottom.backward_cell, flipped, lengths, resets)
            # the final state of the layer is that of its backward cell alone
            states = torch.cat([states, flip(back, index)], dim=2)
        for layer in above:
            states, last = layer(states, lengths)
            final += last  # a tuple: the final states of all layers
        return Encoded(states, final)

    def _read(
        self, layer: Layer, cell: GRU, source: Tensor, lengths: Tensor, resets: Resets
    ) -> Encoded:
        """Read source (B, S) with one cell, first token first. The C stops at the end of each
        string, unless attention reads what is in the padding.
        """
        embedding = self.model.encoder.embedding
        (initial,) = cell.initial(len(source))
        inputs = _recurrence(embedding, layer.dropout, cell, source, initial, resets)
        if self.model.decoder.attention.mask_padding:
            inputs |= _lengths(lengths, source)

        outputs, _ = gru(self.kernels, inputs)  # (B, S, D)
        return Encoded(outputs, (at_ends(outputs, lengths),))

    def _decode(self, batch: Batch, state: DecoderState, memory: Memory, resets: Resets) -> Decoded:
        """Decode with teacher forcing: the recurrence and its attention in C, the output layer by
        the formulas. A `luong` decoder also combines context and state; the C knows its W_c.
        """
        decoder: Any = self.model.decoder
        tokens = batch.decoder_input  # (B, L)
        attends = isinstance(decoder.attention, Attention)
        combines = isinstance(decoder, LuongDecoder)

        (initial,) = state.cell
        inputs = _recurrence(
            decoder.embedding, decoder.dropout, decoder.cell, tokens, initial, resets
        )
        inputs |= _lengths(batch.decoder_lengths, tokens)
        if attends:
            inputs |= _attention(decoder.attention, memory)
        if attends and combines:  # W_c multiplies [c; s], and the C has [s; c]
            inputs["combine"] = decoder.combine.weight.roll(decoder.cell.width, 1)

        features, weights = gru(self.kernels, inputs)  # (B, L, ...) and (B, L, S)
        if combines and not attends:  # the C leaves this to us: combine with contexts of width 0
            nothing = features[..., :0]
            features = decoder.features(nothing, features, nothing)
        return decoder.decode(features, weights, memory)


# ---- which parts the C knows ----


def _is_as_written(*modules: nn.Module) -> bool:
    """Return whether these modules, without those inside them, are as this package wrote them.

    They are of known classes, and have neither hooks nor methods of their own.
    """
    if has_any_global_hook():
        return False
    for module in modules:
        kind = type(module)
        if kind not in KNOWN:
            return False
        for name, value in vars(module).items():
            is_method = callable(value) and hasattr(kind, name)  # hides the method of its class
            if is_method or (name.endswith("_hooks") and value):
                return False
    return True


def _fused_parts(model: nn.Module) -> Iterator[Place]:
    """Yield the cells and softmaxes that a fused form may take the place of: those that nobody has
    changed.
    """
    for owner in model.modules():
        # the fused softmax gives NaN in a row without an allowed key, which a window may leave
        softmax_fits = type(owner) is Attention and owner.window is None
        for name, part in owner.named_children():
            kind = type(part)
            fits = softmax_fits if kind is Softmax else kind in FUSED
            if fits and _is_as_written(part):
                yield Place(owner, name, part, FUSED[kind](part))


def _is_known_encoder(encoder: Any) -> bool:
    """Return whether an encoder is recurrent and its first layer a GRU."""
    if type(encoder) is not RecurrentEncoder:
        return False
    parts = list(encoder.layers[0].modules())  # the layer itself, its cells and its dropout
    known = {type(part) for part in parts} <= {Layer, GRU, nn.Dropout}
    return known and _is_as_written(encoder, encoder.embedding, *parts)


def _is_known_decoder(decoder: Any) -> bool:
    """Return whether a decoder is a GRU that attends as the C does, or that does not attend.

    The C attends with the softmax of the scores of projected keys, perhaps changed by a history,
    and to all keys: it has no windows.
    """
    if type(decoder) not in DECODERS or not _is_as_written(*decoder.modules()):
        return False

    attention = decoder.attention
    if type(attention) is NoAttention:
        # without contexts the C combines nothing, so it has no vector to feed back
        known = not getattr(decoder, "input_feeding", False)
    else:
        known = type(attention.score) in (Additive, *PRODUCTS) and attention.window is None
    return known and type(decoder.cell) is GRU


# ---- what the C computes from, by the names in function.py ----


def _recurrence(
    embedding: nn.Embedding,
    dropout: nn.Dropout,
    cell: GRU,
    tokens: Tensor,
    initial: Tensor,
    resets: Resets,
) -> dict[str, Any]:
    """Return the inputs of a cell that reads tokens (B, L) from its initial state (B, D): weights,
    embeddings, tokens, and the resets of its state.

    The C has no dropout: the embeddings that it gets are dropped out already.
    """
    if dropout.training and dropout.p:
        # dropout differs at each occurrence of a token: a vector for each, and a token that names
        # its place among them
        table = dropout(embedding(tokens)).flatten(0, 1)  # (B L, E)
        tokens = torch.arange(tokens.numel()).view_as(tokens)
    else:
        table = embedding.weight  # (V, E)
        if embedding.padding_idx is not None:  # PyTorch gives this row no gradient
            fixed = (torch.arange(len(table)) == embedding.padding_idx).unsqueeze(1)
            table = torch.where(fixed, table.detach(), table)

    inputs: dict[str, Any] = dict(cell.named_parameters())
    inputs |= {"embedding": table, "tokens": tokens, "initial": initial}
    reset = resets.get(cell.state_points[0])
    if reset is not None:
        inputs |= {"kept": reset.kept, "noise": reset.noise.to(table.dtype)}
    return inputs


def _lengths(lengths: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return lengths (B,) of tokens (B, L) as an input, if rows come longest first and none is
    empty: the C then leaves out the rows that have ended. Otherwise nothing: it reads the padding.
    """
    counts = lengths.tolist()
    descending = counts == sorted(counts, reverse=True)
    usable = descending and counts[-1] >= 1 and counts[0] <= tokens.size(1)
    return {"lengths": lengths} if usable else {}


def _attention(attention: Attention, memory: Memory) -> dict[str, Any]:
    """Return the inputs of an attention: the memory that it compares and averages, the parameters
    of its score, and those of its history.
    """
    score = attention.score
    inputs: dict[str, Any] = {"keys": memory.keys, "values": memory.values, "valid": memory.valid}
    if attention.scalable_softmax:
        # ln n of each string; the second argument only gives shape and dtype, (B, 1, S)
        inputs["scale"] = log_count(memory.valid, memory.keys[..., :1].mT)

    if isinstance(score, Additive):
        inputs["query_weight"] = score.query_map.weight
        inputs["v"] = score.v.weight
    return inputs | _history(attention.history, memory)


def _history(history: nn.Module, memory: Memory) -> dict[str, Tensor]:
    """Return the inputs of a history: `past_weight`, of one convolution over past weights, by which
    the C computes every history; and for those that move weights `power`, which sharpens them.

    `past_weight` (C, T, M) are the filters of the convolution. It reads C channels, of the last
    weights, the sum of all, and the weights of two steps before, at T offsets around a key; and it
    computes M numbers for each key: features for the score, or logits of the distances of
    `shift_by_key`, or the moved weight of `shift`.
    """
    if isinstance(history, Coverage):
        # it reads the second channel alone, the sum of all: the first gets filters of 0
        weight = history.map.weight.t().unsqueeze(0)  # (1, 1, features)
        return {"past_weight": torch.cat([torch.zeros_like(weight), weight])}

    if isinstance(history, Location):  # a convolution, then a linear map: together they are one
        filters = history.convolution.weight.permute(1, 2, 0)  # (C, T, filters)
        return {"past_weight": filters @ history.map.weight.t()}  # (C, T, features)

    if not isinstance(history, Shift):
        return {}
    power = 1 + F.softplus(history.power).view(1)
    if isinstance(history, ShiftByKey):
        weight = history.speed * history.by_past.permute(1, 2, 0)  # (C, T, 2 reach + 1)
        return {
            "power": power,
            "past_weight": weight,
            "moves": history.speed * memory.prepared.mT,  # (B, S, 2 reach + 1) b + W h_j
            "returning": weight.new_tensor([history.returning]),  # factor of rereading
        }
    distribution = torch.softmax(history.speed * history.logits, dim=0)  # of d = -reach to reach
    # moved_j = sum_d p_d alpha_(j-d), and the C, as `torch.conv1d`, sums over alpha_(j+d)
    return {"power": power, "past_weight": distribution.flip(0).view(1, -1, 1)}
