"""A GPU that is simulated, in PyTorch's PrivateUse1 slot: its memory is the CPU's, but an operation
on tensors of both is refused, launches (operations that compute or copy) are counted, and so are
waits (values that the CPU asks for). The import changes PyTorch for the whole process.
"""

import ctypes
from collections import Counter
from functools import cache, partial

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch.utils.dlpack import from_dlpack, to_dlpack

_setup_privateuseone_for_python_backend("simulated")
CPU = torch.device("cpu")
DEVICE = torch.device("simulated", 0)
launches, waits = Counter(), Counter()
aten = torch.ops.aten

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def alias(tensor, device):
    """A tensor of `device` in the memory of this one."""
    capsule = to_dlpack(tensor)
    kind = _pointer(capsule, b"dltensor") + 8  # after the pointer to the data
    ctypes.c_int32.from_address(kind).value = 1 if device == CPU else 12
    return from_dlpack(capsule)


def compute(operation, kernel, *arguments, **options):
    """Compute an operation on the CPU, by a kernel that works in the memory of its arguments."""
    schema = operation._schema
    name = schema.name.removeprefix("aten::")
    originals = []

    def to_cpu(value):
        if isinstance(value, torch.device):
            return CPU
        if not isinstance(value, torch.Tensor):
            return value
        inside = value
        if value.device != CPU:  # an empty one may grow
            inside = alias(value, CPU) if value.numel() else torch.empty_like(value, device=CPU)
        originals.append((inside, value))
        return inside

    def to_device(result):
        for inside, value in originals:
            if result is inside:
                if inside.shape != value.shape:
                    value.data = alias(inside, DEVICE)
                return value
        return alias(result, DEVICE) if isinstance(result, torch.Tensor) else result

    arguments = mapped(to_cpu, list(arguments))
    options = {option: mapped(to_cpu, value) for option, value in options.items()}
    for place, value in enumerate(arguments):  # the dispatcher makes numbers of some tensors
        if isinstance(value, (int, float)) and isinstance(
            schema.arguments[place].type, torch.TensorType
        ):
            arguments[place] = torch.tensor(value)

    copies = name == "_copy_from"
    if not copies and any(value.device == CPU and value.dim() for _, value in originals):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device")
    if name == "_local_scalar_dense" or (copies and arguments[1] is originals[1][1]):
        waits[name] += 1
    elif not name.startswith(("empty", "_unsafe_view")) and not is_view(operation):
        launches[name] += 1
    return mapped(to_device, kernel(*arguments, **options))


def mapped(function, value):
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(function, member) for member in value])
    return function(value)


@cache
def is_view(operation):
    aliases = [result.alias_info for result in operation._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


FUSED = {  # operation: launches on CUDA, forward and backward (ATen/native/RNN.cpp)
    aten.gru.input: (1, 1),  # cuDNN: all steps of a string
    aten.gru_cell.default: (3, 8),  # two products, the gates; backward also sums
    aten.lstm_cell.default: (3, 6),
}


class Fused(torch.autograd.Function):
    """An operation that CUDA computes in few launches, on the CPU with its autograd."""

    @staticmethod
    def forward(ctx, operation, call, *tensors):
        ctx.operation = operation
        launches[str(operation)] += FUSED[operation][0]
        with torch.enable_grad():
            ctx.inputs = [alias(tensor, CPU).requires_grad_() for tensor in tensors]
            ctx.results = tree_leaves(call(ctx.inputs))
        return tuple(alias(result, DEVICE) for result in ctx.results)

    @staticmethod
    def backward(ctx, *gradients):
        launches[str(ctx.operation)] += FUSED[ctx.operation][1]
        gradients = [alias(gradient, CPU) for gradient in gradients]
        results = torch.autograd.grad(ctx.results, ctx.inputs, gradients)
        return None, None, *[alias(result, DEVICE) for result in results]


def fused(operation, *arguments):
    leaves, form = tree_flatten(arguments)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    numbers = leaves[len(tensors) :]  # these come last

    def call(inputs):
        return operation(*tree_unflatten([*inputs, *numbers], form))

    results = Fused.apply(operation, call, *tensors)
    return results if len(results) > 1 else results[0]


class Generator(torch.Generator):
    def __new__(cls, device="cpu"):
        simulated = torch.device(device).type == DEVICE.type
        made = super().__new__(cls, CPU if simulated else device)
        made.simulated = simulated
        return made

    @property
    def device(self):
        return DEVICE if self.simulated else super().device


torch.Generator = Generator
_default = torch.library.Library("_", "IMPL")
_default.fallback(lambda operation, *a, **k: compute(operation, operation, *a, **k), "PrivateUse1")
_library = torch.library.Library("aten", "IMPL")
for _operation in FUSED:
    _library.impl(_operation, partial(fused, _operation), "AutogradPrivateUse1")
for _operation, _kernel in {
    aten._copy_from.default: lambda source, target, *_: target.copy_(source),
    aten._local_scalar_dense.default: torch.Tensor.item,
    aten.convolution_overrideable.default: aten.convolution,
    aten.convolution_backward_overrideable.default: lambda gradient, inputs, weight, *options: (
        aten.convolution_backward(gradient, inputs, weight, None, *options)
    ),
    aten._foreach_norm.Scalar: aten._foreach_norm.Scalar,
    aten._foreach_mul_.Tensor: aten._foreach_mul_.Tensor,
}.items():
    _library.impl(_operation, partial(compute, _operation, _kernel), "PrivateUse1")
