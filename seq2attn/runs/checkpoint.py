"""Checkpoints: tensors and a small state in one safetensors file, written atomically and checked
when read; no pickle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from seq2attn.errors import LARGEST_FILE, Seq2AttnError
from seq2attn.runs.files import write_atomically
from seq2attn.runs.records import Count, Record, reason_of
from seq2attn.text import quoted

FORMAT = "seq2attn-checkpoint"
MODEL = "model."  # prefix of the model's tensors
OPTIMISER = "optimiser."  # prefix of the optimiser's


class _State(Record, extra="allow"):
    step: Count


class _Header(Record):
    """Beside the tensors, in safetensors' own header."""

    checksum: str
    state: _State


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    tensors: dict[str, Tensor]
    """`model.*` and, to resume, `optimiser.*`"""
    state: dict[str, Any]
    """plain values, at least `step`"""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with `prefix`, without it."""
        return {
            name[len(prefix) :]: tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors under their names in a checkpoint."""
    return {MODEL + name: tensor for name, tensor in model.state_dict().items()}


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint atomically."""
    contiguous = torch.contiguous_format
    plain = {
        name: tensor.detach().cpu().clone(memory_format=contiguous)
        for name, tensor in tensors.items()
    }
    header = json.dumps({"checksum": _checksum(plain, state), "state": state})
    metadata = {FORMAT: header}  # one key, because safetensors does not keep the order of several
    write_atomically(path, save(plain, metadata))


def load_checkpoint(path: Path, model: nn.Module | None = None) -> Checkpoint:
    """Read a checkpoint, which may not be far larger than that of `model`. Raises `Seq2AttnError`
    with file and reason.
    """
    if not path.exists():
        raise Seq2AttnError(f"{path}: no such checkpoint")
    size, most = path.stat().st_size, LARGEST_FILE["checkpoint"]
    if model is not None:  # its weights, and an optimiser's tensors for each
        most = 10_000_000 + 4 * sum(tensor.nbytes for tensor in model.state_dict().values())
    if size > most:
        raise _damaged(path, f"its size is {size:,} bytes; at most {most:,} are read")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no iterator of its own)
    except Exception as error:  # safetensors may raise anything
        raise _damaged(
            path, getattr(error, "strerror", None) or "it is cut short, or its header is wrong"
        ) from None
    if FORMAT not in metadata:
        raise Seq2AttnError(
            f"{path}: not a seq2attn checkpoint (its header does not say {FORMAT!r})"
        )
    try:
        header = _Header.model_validate_json(metadata[FORMAT])
    except ValidationError as error:
        raise _damaged(path, f"its header has {reason_of(error)}") from None
    state = header.state.model_dump()
    if header.checksum != _checksum(tensors, state):
        raise _damaged(path, "its checksum does not match its contents")
    return Checkpoint(tensors, state)


def load_weights(path: Path, checkpoint: Checkpoint, model: nn.Module) -> None:
    """Load the checkpoint's `model.*` tensors into `model`, after checking names, shapes, types and
    values.
    """
    found = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if not name.startswith(OPTIMISER)
    }
    parameters = {MODEL + name for name, _ in model.named_parameters(remove_duplicate=False)}
    check_tensors(
        path, found, model_tensors(model), finite=parameters
    )  # a plug-in's buffer may hold infinities
    model.load_state_dict(checkpoint.part(MODEL))


def check_tensors(
    path: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], finite: Collection[str]
) -> None:
    """Raise `Seq2AttnError` unless names, shapes and types are the expected ones, and the values of
    `finite` finite.
    """
    for name in sorted(found.keys() | expected.keys()):
        here, wanted = (_describe(tensors.get(name)) for tensors in (found, expected))
        if here != wanted:
            reason = f"it has {here} as {quoted(name)}, expected {wanted}"
            raise Seq2AttnError(f"{path}: does not belong to this config: {reason}")
        if name in finite and not torch.isfinite(found[name]).all():
            raise _damaged(path, f"{name} holds values that are not finite")


def _describe(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"


def _checksum(tensors: Mapping[str, Tensor], state: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, reason: str) -> Seq2AttnError:
    other = "last" if path.stem == "best" else "best"
    hint = f"The run's other checkpoint may be intact: eval and predict take --checkpoint {other}."
    return Seq2AttnError(f"{path}: damaged: {' '.join(reason.split())[:200]}", hint=hint)
