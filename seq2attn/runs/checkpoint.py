"""Checkpoints: tensors and a small state in one safetensors file, written atomically and checked
when read; no pickle.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.files import write_atomically
from seq2attn.runs.records import Progress, Record, reason_of
from seq2attn.text import quoted

FORMAT = "seq2attn-checkpoint"
MODEL = "model."  # prefix of the model's tensors
OPTIMISER = "optimiser."  # prefix of the optimiser's
Tensors = dict[str, Tensor]


class _Header(Record):
    """The metadata in the header of the safetensors file."""

    checksum: str
    state: dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    tensors: Tensors
    """`model.*` and, to resume, `optimiser.*`"""
    state: dict[str, Any]
    """plain values: a `Progress`"""

    def part(self, prefix: str) -> Tensors:
        """Return the tensors whose names start with `prefix`, without it."""
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def save_checkpoint(path: Path, tensors: Tensors, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically: copies of the tensors, since safetensors refuses those that
    share memory or are not contiguous.
    """
    contiguous = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    header = {"checksum": _checksum(contiguous, state), "state": state}
    # In one key, because safetensors does not keep the order of several.
    write_atomically(path, save(contiguous, {FORMAT: json.dumps(header)}))


def load_checkpoint(path: Path, model: nn.Module | None = None) -> Checkpoint:
    """Read a checkpoint. Raises `Seq2AttnError` with file and reason if that fails.

    model: the model that the checkpoint is for, which is not changed. Names, shapes, types and
        values of the `model.*` tensors must fit it; a far larger file is not read, since a run may
        come from somebody else.
    """
    if not path.exists():
        raise Seq2AttnError(f"{path}: no such checkpoint")
    if model is not None:
        size = path.stat().st_size
        weights = sum(tensor.nbytes for tensor in model.state_dict().values())
        largest = 10_000_000 + 4 * weights  # an optimiser has up to three tensors for each
        if size > largest:
            raise _damaged(path, f"its size is {size:,} bytes; at most {largest:,} are read")
    metadata, tensors = _read(path)
    if FORMAT not in metadata:
        reason = f"its header does not say {FORMAT!r}"
        raise Seq2AttnError(f"{path}: not a seq2attn checkpoint ({reason})")
    try:
        header = _Header.model_validate_json(metadata[FORMAT])
        Progress.model_validate(header.state)
    except ValidationError as error:
        raise _damaged(path, f"its header has {reason_of(error)}") from None
    if header.checksum != _checksum(tensors, header.state):
        raise _damaged(path, "its checksum does not match its contents")
    checkpoint = Checkpoint(tensors, header.state)
    if model is not None:
        # Only parameters must be finite: a plug-in's buffer may hold infinities. What two modules
        # share has two names, as in the checkpoint.
        parameters = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        check_tensors(path, checkpoint.part(MODEL), model.state_dict(), finite=parameters)
    return checkpoint


def _read(path: Path) -> tuple[dict[str, str], Tensors]:
    """Read the metadata and the tensors of a safetensors file, as they are."""
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except Exception as error:  # safetensors may raise anything
        if is_out_of_memory(error):
            raise
        cut = "it is cut short, or its header is wrong"
        # the system's words where it cannot be opened; those of safetensors mean nothing to users
        raise _damaged(path, getattr(error, "strerror", None) or cut) from None


def check_tensors(
    path: Path,
    tensors: Tensors,
    expected: Tensors,
    finite: Collection[str],
) -> None:
    """Raise `Seq2AttnError` unless names, shapes and types are the expected ones, and the values of
    the tensors named in `finite` are finite.
    """
    for name in sorted(tensors.keys() | expected.keys()):
        actual, wanted = _dtype_and_shape(tensors.get(name)), _dtype_and_shape(expected.get(name))
        if actual != wanted:
            reason = f"it has {actual} as {quoted(name)}, expected {wanted}"
            raise Seq2AttnError(f"{path}: does not belong to this config: {reason}")
    if undefined := not_finite({name: tensors[name] for name in finite}):
        raise _damaged(path, f"{undefined} holds values that are not finite")


def not_finite(tensors: Tensors) -> str | None:
    """Return the name of a tensor with a value that is not finite; None if there is none."""
    for name in sorted(tensors):
        if not torch.isfinite(tensors[name]).all():
            return name
    return None


def _dtype_and_shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"


def _checksum(tensors: Tensors, state: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {_dtype_and_shape(tensor)};".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, reason: str) -> Seq2AttnError:
    other = "last" if path.stem == "best" else "best"
    hint = f"The run's other checkpoint may be intact: eval and predict take --checkpoint {other}."
    return Seq2AttnError(f"{path}: damaged: {reason}", hint=hint)
