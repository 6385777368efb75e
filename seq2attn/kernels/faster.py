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

from seq2attn.data.batches import Batch, valid_mask
from seq2attn.kernels.function import OFF, TYPES, gru, load
from seq2attn.kernels.fused import FUSED, Place, fused, place_together
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.cells import GRU, LSTM, Resets, at_ends
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
from seq2attn.model.interface import Decoded, Model
from seq2attn.model.normalisers import Softmax, log_count
from seq2attn.model.points import Rank, hooked_places
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
    """Return the methods of the classes in `KNOWN` and of all their bases, by class and name.

    Somebody may replace one, as in `GRU.step = ...`, to change what models compute. Kernels would
    not notice, so `faster_form` compares these methods with those at import.
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
    """Return a function `(batch, resets) -> Decoded` that computes what `model` does, faster. It
    reads the model's weights whenever it is called; the model's parts must stay as they are.

    On a CPU with compiled kernels, the encoder's first layer and the decoder are each computed in C
    if the C knows all their parts. PyTorch's fused operations compute what they can of the rest,
    and of everything on other devices.

    None if kernels are switched off, and for a model that they do not cover: one that is not
    recurrent, or has hooks or methods of its own; whose weights are not plain parameters of one
    dtype, float32 or float64, on one device, not mps; or that has no part to be fused. None for
    every model while a method of a class in `KNOWN` is replaced.
    """
    if type(model) is not Reverser or not _is_as_written(model) or _methods() != _WRITTEN:
        return None
    # `others` has kinds if some weights are of another dtype or device, or parametrized
    kind, *others = {(type(weight), weight.dtype, weight.device) for weight in model.parameters()}
    weight_type, dtype, device = kind
    # kernels compute in float32 and float64; on mps they were never tried
    if others or weight_type is not nn.Parameter or dtype not in TYPES or device.type == "mps":
        return None

    kernels = load(dtype)  # a text if there are none: why
    places = list(_fused_parts(model))
    # what the C computes has a GRU, which can be fused: without places there is nothing for the C
    if kernels == OFF or not places:
        return None
    for place in places:
        if isinstance(place.fused, GRU):
            place_together(place.fused)  # for cuDNN; on a CPU nothing happens
    if isinstance(kernels, str) or device.type != "cpu":  # no C: PyTorch's operations alone
        return FasterForm(model, places)
    reads = _is_known_encoder(model.encoder)
    decodes = _is_known_decoder(model.decoder)
    # a decoder that the C knows has one layer, and so has its encoder: nothing is left to be fused
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
    """A model some of whose parts are fused, and perhaps the encoder's first layer, the decoder or
    both in C.
    """

    model: Reverser
    places: Sequence[Place]
    """the parts with a fused form"""
    kernels: Any = None
    """the C, as `Kernels`; None if it is not used"""
    reads: bool = False
    """True if the C computes the encoder's first layer"""
    decodes: bool = False
    """True if the C computes the decoder"""

    def size(self, rows: int) -> int:
        """Compute B x D^2, to which the work of a position is proportional."""
        width: int = self.model.decoder.cell.width
        return rows * width**2

    def __call__(self, batch: Batch, resets: Resets) -> Decoded:
        """Compute what the model does, up to rounding, with teacher forcing: encoder and decoder
        each in C, or by the model's formulas with fused parts.

        resets: which states become noise, and the noise; the C gets them as inputs, formulas call
            them as hooks.
        """
        model = self.model
        lengths = batch.source_lengths
        with fused(self.places), hooked_places(resets.items(), Rank.RESET):  # for what is not in C
            # For large B x D^2, PyTorch's products on several threads are faster than the C, which
            # has one.
            if self.size(len(lengths)) >= LARGE and torch.get_num_threads() > 1:
                return model.forward(batch)
            encoded = self._encode(batch.source, lengths, resets)
            valid = valid_mask(lengths, batch.source.size(1))  # (B, S)
            memory, state = model.prepare(encoded, valid, batch.source)
            if self.decodes:
                return self._decode(batch, state, memory, resets)
            return model.decoder(batch.decoder_input, state, memory)[0]

    def _encode(self, source: Tensor, lengths: Tensor, resets: Resets) -> Encoded:
        """Return what the encoder makes of source (B, S) of these lengths (B,). If the C knows its
        bottom layer, that is computed in C, embeddings included, and the layers above by the
        formulas; otherwise all by the formulas.
        """
        encoder: Any = self.model.encoder
        if not self.reads:
            return encoder(source, lengths)

        bottom, *above = encoder.layers
        states, final = self._read(bottom, bottom.cell, source, lengths, resets)  # (B, S, D)
        if bottom.backward_cell is not None:
            # it reads the strings reversed, and its states are put back in order, as in `Layer`
            index = flip_index(lengths, source.size(1))  # (B, S)
            flipped = source.gather(1, index)
            # `final` is now the backward cell's: a layer has no other final state
            back, final = self._read(bottom, bottom.backward_cell, flipped, lengths, resets)
            states = torch.cat([states, flip(back, index)], dim=2)  # (B, S, 2D)
        for layer in above:
            states, last = layer(states, lengths)
            final += last  # tuples of (B, D): the final states of all layers, bottom first
        return Encoded(states, final)

    def _read(
        self, layer: Layer, cell: GRU, source: Tensor, lengths: Tensor, resets: Resets
    ) -> Encoded:
        """Read source (B, S) of these lengths (B,) with one cell of the layer, first token first,
        in C. Returns the states (B, S, D), and the one after each string's last token, (B, D).
        """
        embedding = self.model.encoder.embedding
        (initial,) = cell.initial(len(source))
        inputs = _recurrence(embedding, layer.dropout, cell, source, initial, resets)
        # the C may leave out padding, unless attention sees the states there
        if self.model.decoder.attention.mask_padding:
            inputs |= _lengths(lengths, source)

        outputs, _ = gru(self.kernels, inputs)  # (B, S, D)
        return Encoded(outputs, (at_ends(outputs, lengths),))

    def _decode(self, batch: Batch, state: DecoderState, memory: Memory, resets: Resets) -> Decoded:
        """Decode with teacher forcing: the recurrence and its attention in C, the output layer by
        the formulas.

        A `luong` decoder also combines context c and state s to tanh(W_c [c; s]): with attention
        the C does it, otherwise the formulas, with contexts of width 0.
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
        if attends and combines:
            # W_c multiplies [c; s], and the C has [s; c]: the columns of s move to the front
            inputs["combine"] = decoder.combine.weight.roll(decoder.cell.width, 1)

        features, weights = gru(self.kernels, inputs)  # (B, L, ...), and (B, L, S) or None
        if combines and not attends:
            nothing = features[..., :0]  # (B, L, 0): contexts, and embeddings, which are not used
            features = decoder.features(nothing, features, nothing)
        return decoder.decode(features, weights, memory)


# ---- which parts the C knows ----


def _is_as_written(*modules: nn.Module) -> bool:
    """Return whether these modules, apart from those inside them, compute what their classes say:
    they are of classes in `KNOWN`, and have neither hooks of PyTorch nor methods of their own.
    """
    if has_any_global_hook():  # hooks of PyTorch on all modules
        return False
    for module in modules:
        kind = type(module)
        if kind not in KNOWN:
            return False
        for name, value in vars(module).items():
            # somebody has set it on this module, where it hides the method of the class
            is_method = callable(value) and hasattr(kind, name)
            if is_method or (name.endswith("_hooks") and value):  # PyTorch's dicts of hooks
                return False
    return True


def _fused_parts(model: nn.Module) -> Iterator[Place]:
    """Yield the GRUs, LSTMs and softmaxes of attention in a model that a fused form may take the
    place of: those that nobody has changed, and softmaxes only of attention without a window.
    """
    for owner in model.modules():
        # in a row without an allowed key the fused softmax gives NaN; a window may make such rows
        softmax_fits = type(owner) is Attention and owner.window is None
        for name, part in owner.named_children():
            kind = type(part)
            fits = softmax_fits if kind is Softmax else kind in FUSED
            if fits and _is_as_written(part):
                yield Place(owner, name, FUSED[kind](part))


def _is_known_encoder(encoder: Any) -> bool:
    """Return whether an encoder is recurrent and its first layer a GRU."""
    if type(encoder) is not RecurrentEncoder:
        return False
    parts = list(encoder.layers[0].modules())  # the layer itself, its cells and its dropout
    known = {type(part) for part in parts} <= {Layer, GRU, nn.Dropout}
    return known and _is_as_written(encoder, encoder.embedding, *parts)


def _is_known_decoder(decoder: Any) -> bool:
    """Return whether the C can compute a decoder: `bahdanau` or `luong` with a single GRU, all its
    parts as this package wrote them, and with an attention that the C knows, or none.

    The C knows products and the additive score, the softmax, and the histories in `KNOWN`; it has
    no windows, no heads and no other normaliser.
    """
    # all parts are in `KNOWN`, so that there are neither heads nor other normalisers
    if type(decoder) not in DECODERS or not _is_as_written(*decoder.modules()):
        return False

    attention = decoder.attention
    if type(attention) is NoAttention:
        # without contexts the C makes no attentional vector, which input feeding would need
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
    """Return the inputs of a cell that reads tokens (B, L) from its initial state (B, D), by their
    names in function.py: the cell's weights, embeddings, tokens and initial state; and if its state
    is reset, `kept` (B, L), False where it is, and `noise` (B, L, D), what it is reset to.

    The C looks up the embeddings, and has no dropout.
    """
    if dropout.training and dropout.p:
        # Dropout drops other numbers at each occurrence of a token, so each occurrence becomes a
        # token of its own: a vector that is dropped out already, and its index as token.
        table = dropout(embedding(tokens)).flatten(0, 1)  # (B L, E)
        tokens = torch.arange(tokens.numel()).view_as(tokens)
    else:
        table = embedding.weight  # (V, E)
        if embedding.padding_idx is not None:  # by the module, which gives this row no gradient
            table = embedding(torch.arange(len(table)))

    inputs: dict[str, Any] = dict(cell.named_parameters())
    inputs |= {"embedding": table, "tokens": tokens, "initial": initial}
    reset = resets.get(cell.state_points[0])
    if reset is not None:
        inputs |= {"kept": reset.kept, "noise": reset.noise.to(table.dtype)}
    return inputs


def _lengths(lengths: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return lengths (B,) of tokens (B, L) as an input, by which the C leaves out rows that have
    ended. It needs them longest first, and none empty or too long; otherwise return no input: the C
    then reads the padding, too.
    """
    counts = lengths.tolist()
    descending = counts == sorted(counts, reverse=True)
    usable = descending and counts[-1] >= 1 and counts[0] <= tokens.size(1)
    return {"lengths": lengths} if usable else {}


def _attention(attention: Attention, memory: Memory) -> dict[str, Any]:
    """Return the inputs of an attention, by their names in function.py: keys and values of the
    memory, which keys are `valid`, the factor of the scores, and the parameters of score and
    history.
    """
    score = attention.score
    inputs: dict[str, Any] = {"keys": memory.keys, "values": memory.values, "valid": memory.valid}
    if attention.scalable_softmax:
        inputs["scale"] = log_count(memory.valid, memory.keys)  # (B, 1, 1) ln n of each string

    # the keys of a product are projected already, so that it has no parameters left
    if isinstance(score, Additive):
        inputs["query_weight"] = score.query_map.weight
        inputs["v"] = score.v.weight
    return inputs | _history(attention.history, memory)


def _history(history: nn.Module, memory: Memory) -> dict[str, Tensor]:
    """Return the inputs of a history, by their names in function.py; none for `none`.

    The C computes every history by one convolution over past weights, with the filters
    `past_weight` (C, T, M). It reads C channels (the weights of the step before, the sum of all,
    the weights of two steps before) at T positions around a key, and gives M numbers for each key:
    features for the score, or for `shift_by_key` logits of the distances by which its weight may
    move, or for `shift` the weight that has moved to it. The last two also have `power`, to which
    the moved weights are raised.
    """
    if isinstance(history, Coverage):
        # it reads the second channel alone, the sum of all: the filters of the first are 0
        weight = history.map.weight.t().unsqueeze(0)  # (1, 1, features)
        return {"past_weight": torch.cat([torch.zeros_like(weight), weight])}

    if isinstance(history, Location):  # a convolution, then a linear map: together they are one
        filters = history.convolution.weight.permute(1, 2, 0)  # (C, T, filters)
        return {"past_weight": filters @ history.map.weight.t()}  # (C, T, features)

    if not isinstance(history, Shift):  # `none`
        return {}
    power = 1 + F.softplus(history.power).view(1)
    if isinstance(history, ShiftByKey):
        weight = history.speed * history.by_past.permute(1, 2, 0)  # (C, T, 2 reach + 1)
        return {
            "power": power,
            "past_weight": weight,
            # (B, S, 2 reach + 1): b + W h_j, the logits that depend on the key
            "moves": history.speed * memory.prepared.mT,
            "returning": weight.new_tensor([history.returning]),  # factor of rereading
        }
    # p_d of d = -reach to reach. moved_j = sum_d p_d alpha_(j-d), but the C, as `torch.conv1d`,
    # sums over alpha_(j+d): so p is turned around.
    distribution = torch.softmax(history.speed * history.logits, dim=0)
    return {"power": power, "past_weight": distribution.flip(0).view(1, -1, 1)}
