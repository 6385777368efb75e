"""The recurrence in C: the library that `setup.py` compiled from the C beside this file when
seq2attn was installed; its functions, called with tensors; and the differentiable function made of
them.
"""

import ctypes
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.errors import Seq2AttnError

SWITCH = "SEQ2ATTN_KERNELS"  # environment variable: `on`, the default, or `off`: the formulas alone
OFF = f"{SWITCH} is off"
FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "recurrence.so"
WHY_NONE = FOLDER / "recurrence.txt"  # written by setup.py where it could not compile

# The fields of the C's structure `Recurrence` in their order; recurrence.c describes each. They are
# numbers and pointers of 8 bytes each. First sizes:
SIZES = [
    "steps",
    "rows",
    "width",
    "vocabulary",
    "embedding_width",
    "fed_width",
    "key_count",
    "key_width",
    "value_width",
    "context_width",
    "channels",
    "taps",
    "distances",
]
# then pointers to the inputs, of which the first have no gradients,
FIXED = ["tokens", "lengths", "kept", "noise", "valid", "scale", "returning"]
LEARNED = [
    "embedding",
    "weight_ih",
    "weight_hh",
    "bias_ih",
    "bias_hh",
    "initial",
    "keys",
    "values",
    "query_weight",
    "v",
    "past_weight",
    "power",
    "moves",
    "combine",
]
INPUTS = FIXED + LEARNED
# to the results, and to the gradients of three of these and of what is learned,
RESULTS = ["gates", "before", "states", "vectors", "weights", "queries", "pasts"]
_POINTERS = len(INPUTS) + len(RESULTS) + 3 + len(LEARNED)
# to the workspace, and four that the C sets itself.
_Recurrence = ctypes.c_int64 * (len(SIZES) + _POINTERS + 1 + 4)
TYPES = {torch.float32: "float", torch.float64: "double"}


class Kernels:
    """The functions of the library for tensors of one dtype and one kind of processor."""

    def __init__(self, library: ctypes.CDLL, dtype: torch.dtype, variant: str) -> None:
        """Choose the functions for a dtype and a kind of processor (`variant`) in the library: of
        float32 and `avx2`, for example, `forward_float_avx2`.

        Raises OSError if the library was compiled with a structure `Recurrence` of another size,
        and AttributeError if it lacks the function that says so.
        """
        self.variant = variant
        self._library = library
        self._dtype = dtype
        self._suffix = f"_{TYPES[dtype]}_{variant}"
        found, expected = self._size("recurrence_size"), ctypes.sizeof(_Recurrence)
        if found != expected:
            raise OSError(f"its structure has {found} bytes, function.py's {expected}")

    def call(self, name: str, sizes: Sequence[int], tensors: Sequence[Any]) -> int:
        """Call `forward`, which computes all steps, first to last, or `backward`, which computes
        the gradients of all steps, last to first, and of the weights. Return what it returns: of
        `forward` 0 if a token is not in the vocabulary.

        sizes: in the order of `SIZES`. tensors: in the order of `INPUTS` and `RESULTS`, for
            `backward` followed by gradients; None stands for those that are not needed. Only the
            tokens are checked: shapes and dtypes must fit, and tensors must be contiguous.
        """
        # a pointer for which there is no tensor stays NULL: for `forward`, those to gradients
        pointers = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
        recurrence = _Recurrence(*sizes, *pointers)
        # memory for intermediate results; its field comes after sizes and tensors
        workspace = torch.empty(self._size("workspace_size", recurrence), dtype=self._dtype)
        recurrence[len(SIZES) + _POINTERS] = workspace.data_ptr()
        result: int = self._library[f"{name}{self._suffix}"](recurrence)
        return result

    def _size(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a size."""
        function = self._library[f"{name}{self._suffix}"]
        function.restype = ctypes.c_int64
        size: int = function(*arguments)
        return size


# ---- the library: found, checked and loaded ----


def load(dtype: torch.dtype) -> Kernels | str:
    """Return the compiled recurrence for this dtype and processor, or why there is none."""
    value = os.environ.get(SWITCH) or "on"
    if value not in ("on", "off"):
        raise Seq2AttnError(f"{SWITCH}: unknown value {value!r}; allowed: on, off")
    return _load(dtype) if value == "on" else OFF


def describe(device: torch.device) -> str:
    """Say which kernels training on this device uses, or why it uses none."""
    found = load(torch.float32)
    if device.type != "cpu" and found != OFF:
        return "not compiled: PyTorch's fused operations"
    return found if isinstance(found, str) else f"compiled, {found.variant}"


def why_slow(device: torch.device) -> str | None:
    """Say how training on a CPU could be faster; None if compiled kernels are there, or were
    switched off by the user, and for another device, which does not use them.
    """
    found = load(torch.float32)  # the kernels, or why there are none
    if device.type != "cpu" or not isinstance(found, str) or found == OFF:
        return None
    return (
        f"{found}; training takes 2.5 times as long as with compiled kernels. To change that, "
        "install a C compiler, then seq2attn again with pip install --force-reinstall --no-deps"
    )


@cache
def _load(dtype: torch.dtype) -> Kernels | str:
    """Return the compiled recurrence for this dtype and this machine's processor, or a sentence
    that says why there is none. The library is loaded once in a process for each dtype.
    """
    if not LIBRARY.is_file():
        reason = f"there is no {LIBRARY.name}"
        if WHY_NONE.is_file():
            reason = WHY_NONE.read_text(encoding="utf-8").strip()
        return f"the recurrences were not compiled when seq2attn was installed: {reason}"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        # both return text: the checksum of the sources, and the fastest variant that this processor
        # can run, such as "avx2"
        library.built_from.restype = library.best_variant.restype = ctypes.c_char_p
        if library.built_from().decode() != checksum():
            return f"{LIBRARY.name} was compiled from other sources than those beside it"
        # float64 is for exact results, not for speed: of it only the variant that every processor
        # can run is compiled
        variant = library.best_variant().decode() if dtype == torch.float32 else "baseline"
        return Kernels(library, dtype, variant)
    except (OSError, AttributeError) as error:  # AttributeError: it lacks a function
        return f"the compiled recurrences cannot be loaded: {error}"


def checksum() -> str:
    """Compute the checksum of the C sources, as setup.py does."""
    sources = sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


# ---- the recurrence as a differentiable function ----


def gru(kernels: Kernels, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
    """Compute all steps of a GRU. Return its outputs (B, L, D), and None.

    With attention: each output followed by its context (B, L, D + Dc), or with `combine` the
    attentional vectors (B, L, D) that it makes of these; and the attention weights (B, L, S). Where
    a row has ended, outputs stay the last one, attentional vectors and weights are 0.

    inputs: by the names in `INPUTS`, with the shapes in recurrence.c; those not needed may be
        missing.
    """
    return Recurrence.apply(kernels, *map(inputs.get, INPUTS))  # type: ignore[no-untyped-call]


class Recurrence(torch.autograd.Function):
    """The recurrence as a differentiable function: of kernels, and inputs in the order of `INPUTS`,
    None for those not needed; it returns what `gru` does.
    """

    @staticmethod
    def forward(ctx: Any, kernels: Kernels, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        """Read the sizes off the inputs, allocate the results, and let the C write them.

        inputs: in the order of `INPUTS`, None for those not needed. B rows of L steps each.

        Return features and attention weights, as `gru` says: the features are `states`, which hold
        contexts too (B, L, D + Dc), or with `combine` the attentional vectors (B, L, D); the
        weights (B, L, S) are None without attention. The other results, with a row for each of the
        B L positions, are what `backward` needs: gates, the states before, and with attention
        projected queries and past weights.
        """
        inputs = tuple(None if tensor is None else tensor.contiguous() for tensor in inputs)
        named = dict(zip(INPUTS, inputs, strict=True))
        rows, steps = named["tokens"].shape  # B, L
        vocabulary, embedded = named["embedding"].shape  # V, E
        like = named["weight_hh"]  # (3D, D); new tensors get its dtype
        width = like.size(1)  # D
        # How many numbers the cell reads beside an embedding (E): without `combine`, a context
        # (Dc). With `combine`, the last attentional vector (D), or nothing (0); the width of a
        # context is then read off `combine` (D, D + Dc) below.
        fed = named["weight_ih"].size(1) - embedded
        context = fed

        # A size is 0, and a result None, where the inputs do not ask for it. The C writes all of
        # `states`. Results of which it leaves a part out, as weights after the end of a row, begin
        # as zeros if they are read whole; of the others it reads only what it wrote.
        key_sizes = (0, 0, 0)  # number of keys, and widths of a key and a value
        filter_sizes = (0, 0, 0)  # channels, taps, distances
        vectors = weights = queries = pasts = None
        if (combine := named["combine"]) is not None:  # `luong`: attentional vectors
            context = combine.size(1) - width
            vectors = like.new_zeros(rows, steps, width)
        if (keys := named["keys"]) is not None:  # attention
            key_sizes = (*keys.shape[1:], named["values"].size(2))
            weights = like.new_zeros(rows, steps, keys.size(1))
        if named["v"] is not None:  # the additive score
            queries = like.new_empty(rows * steps, named["v"].numel())
        if (past := named["past_weight"]) is not None:  # a history
            # the last size is that of distances only where `moves` says that weights move by them
            channels, taps, distances = past.shape
            filter_sizes = (channels, taps, 0 if named["moves"] is None else distances)
            # What a history reads at each position: the weights of the step before, the sum of all,
            # which the C keeps even if the convolution reads one channel, and with three channels
            # the weights of two steps before; `taps - 1` more for the convolution to reach over.
            pasts = like.new_zeros(rows * steps, max(channels, 2), taps - 1 + keys.size(1))

        # of each position n, r, z, and W_hn s + b_hn, which r multiplies, by the formulas of a GRU
        gates = like.new_empty(rows * steps, 4 * width)
        before = like.new_empty(rows * steps, width)  # the state before each position
        states = like.new_empty(rows, steps, width + context)
        results = (gates, before, states, vectors, weights, queries, pasts)

        sizes = (steps, rows, width, vocabulary, embedded, fed, *key_sizes, context, *filter_sizes)
        if not kernels.call("forward", sizes, (*inputs, *results)):
            raise IndexError("a token is not in the vocabulary")

        ctx.kernels = kernels
        ctx.sizes = sizes
        ctx.save_for_backward(*inputs, *results)
        ctx.set_materialize_grads(False)  # `backward` gets None, not zeros
        features = states if vectors is None else vectors
        return features, weights

    @staticmethod
    def backward(
        ctx: Any, grad_features: Tensor | None, grad_weights: Tensor | None
    ) -> tuple[Any, ...]:
        """Allocate the gradients of the inputs in `LEARNED`, and let the C write them. Return a
        gradient for each argument of `forward`, None for those without.

        grad_features (B, L, D), or (B, L, D + Dc), and grad_weights (B, L, S): the gradients of the
        two results of `forward`; None where the loss does not depend on one.
        """
        named = dict(zip(INPUTS + RESULTS, ctx.saved_tensors, strict=True))
        states = named["states"]
        vectors = named["vectors"]

        # a copy of `grad_features`, or zeros: the C adds to it, and the caller's must stay
        grads = torch.zeros_like(states if vectors is None else vectors)
        if grad_features is not None:
            grads.copy_(grad_features)
        if grad_weights is not None:
            grad_weights = grad_weights.contiguous()

        # an encoder's initial state is zeros, which need no gradient; 1: the argument `kernels`,
        # which comes before the inputs
        if not ctx.needs_input_grad[1 + INPUTS.index("initial")]:
            named["initial"] = None
        wanted = {name: named[name] for name in LEARNED if named[name] is not None}
        sizes = [like.numel() for like in wanted.values()]
        parts = states.new_zeros(sum(sizes)).split(sizes)  # one allocation for all gradients
        gradients: dict[str, Tensor] = {}
        for (name, like), part in zip(wanted.items(), parts, strict=True):
            gradients[name] = part.view_as(like)
        learned = [gradients.get(name) for name in LEARNED]

        # The gradients of `states` and of `vectors`. `forward` returned one of the two, whose
        # gradient is `grads`. If it was `vectors`, the gradient of the states begins at 0, and the
        # C adds what reaches them through the vectors.
        of_results = (grads, None) if vectors is None else (torch.zeros_like(states), grads)
        tensors = (*ctx.saved_tensors, *of_results, grad_weights, *learned)
        ctx.kernels.call("backward", ctx.sizes, tensors)
        return None, *(None for _ in FIXED), *learned  # of `kernels`, and of INPUTS
