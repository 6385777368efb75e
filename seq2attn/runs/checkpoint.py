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

from seq2attn.errors import Seq2AttnError, is_out_of_memory, quoted
from seq2attn.files import write_atomically
from seq2attn.runs.records import Progress, Record, reason_of

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
    """Write a checkpoint, all of it or nothing.

    tensors: of any device; they do not change. state: the fields of a `Progress`.
    """
    # copies, since safetensors refuses tensors that share memory or are not contiguous
    contiguous = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    header = {"checksum": _checksum(contiguous, state), "state": state}
    # One key of the file's metadata, because safetensors does not keep the order of several: equal
    # checkpoints are equal files.
    write_atomically(path, save(contiguous, {FORMAT: json.dumps(header)}))


def load_checkpoint(path: Path, model: nn.Module | None = None) -> Checkpoint:
    """Read a checkpoint, and check its form and checksum. Raises `Seq2AttnError` with file and
    reason if there is none, or something is wrong with it.

    model: the model that the checkpoint is for, which is not changed; the names, shapes and dtypes
        of the `model.*` tensors must be those of the model, and its parameters finite. None: the
        tensors may be any.
    """
    if not path.exists():
        raise Seq2AttnError(f"{path}: no such checkpoint")
    if model is not None:  # a run may come from somebody else: read no file that fills the memory
        size = path.stat().st_size
        weights = sum(tensor.nbytes for tensor in model.state_dict().values())
        # for each tensor up to three of an optimiser; and 10 MB for all else
        largest = 10_000_000 + 4 * weights
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
        # Only parameters must be finite: a plug-in's buffer may hold infinities. A parameter that
        # two modules share has a name in each, as in the checkpoint.
        parameters = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        check_tensors(path, checkpoint.part(MODEL), model.state_dict(), finite=parameters)
    return checkpoint


def _read(path: Path) -> tuple[dict[str, str], Tensors]:
    """Read the metadata and the tensors of a safetensors file, without checking what they are.
    Raises `Seq2AttnError` if the file cannot be read or is no such file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
    except Exception as error:  # safetensors may raise anything
        if is_out_of_memory(error):
            raise
        cut = "it is cut short, or its header is wrong"
        # the system's words (`strerror`) if the file cannot be opened; the words of safetensors
        # mean nothing to users
        raise _damaged(path, getattr(error, "strerror", None) or cut) from None


def check_tensors(
    path: Path,
    tensors: Tensors,
    expected: Tensors,
    finite: Collection[str],
) -> None:
    """Raise `Seq2AttnError` unless `tensors` have the names, shapes and dtypes of `expected`, and
    the values of those named in `finite` are finite.

    path: what the message calls the place that has the tensors.
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
