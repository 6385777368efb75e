"""Checkpoints: tensors and a small state in one safetensors file, written atomically and checked when read; no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from seq2attn.errors import LARGEST_FILE, CheckpointError, shown
from seq2attn.runs.files import write_atomically
from seq2attn.runs.records import Count, Record

FORMAT = "seq2attn-checkpoint"
VERSION = 1
MODEL = "model."  # prefix of the model's tensors
OPTIMISER = "optimiser."  # prefix of the optimiser's


class _Header(Record):
    """Beside the tensors, in safetensors' own header."""

    version: int
    checksum: str
    state: str
    """JSON"""


class _State(Record):
    step: Count


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file."""

    tensors: dict[str, Tensor]
    """`model.*` and, to resume, `optimiser.*`"""
    state: dict[str, Any]
    """plain values, at least `step`"""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with `prefix`, without it."""
        return {name[len(prefix) :]: tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint atomically."""
    contiguous = torch.contiguous_format
    plain = {name: tensor.detach().cpu().clone(memory_format=contiguous) for name, tensor in tensors.items()}
    text = json.dumps(state, sort_keys=True)
    header = _Header(version=VERSION, checksum=_checksum(plain, text), state=text)
    metadata = {FORMAT: header.model_dump_json()}  # one key, because safetensors does not keep the order of several
    write_atomically(path, save(plain, metadata))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises `CheckpointError` with file and reason."""
    try:
        size, most = path.stat().st_size, LARGEST_FILE["checkpoint"]
        if size > most:
            raise _damaged(path, f"its size is {size:,} bytes; at most {most:,} are read")
        with safe_open(path, framework="pt") as file:
            header = _read_header(path, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no iterator of its own)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except CheckpointError:
        raise
    except Exception as error:  # safetensors may raise anything
        raise _damaged(path, getattr(error, "strerror", None) or "it is cut short, or its header is wrong") from None
    if header.checksum != _checksum(tensors, header.state):
        raise _damaged(path, "its checksum does not match its contents")
    try:
        _State.model_validate_json(header.state)
    except ValidationError:
        raise _damaged(path, "its state has no step") from None
    return Checkpoint(tensors, json.loads(header.state))


def load_weights(path: Path, checkpoint: Checkpoint, model: nn.Module) -> None:
    """Load the checkpoint's `model.*` tensors into `model`, after checking names, shapes, types and values."""
    found, expected = checkpoint.part(MODEL), model.state_dict()
    check_names(path, found, expected)
    extra = sorted(name for name in checkpoint.tensors if not name.startswith((MODEL, OPTIMISER)))
    if extra:
        raise _foreign(path, f"has unexpected {shown(extra[0])}")
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, tensor in found.items():  # a buffer, such as a mask of a plug-in's, may hold infinities
        check_tensor(path, name, tensor, expected[name], finite=name in parameters)
    model.load_state_dict(found)


def check_names(path: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], prefix: str = "") -> None:
    """Raise `CheckpointError` unless the names, which follow `prefix`, are the expected ones."""
    missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or extra:
        parts = [f"lacks {', '.join(prefix + name for name in missing[:3])}"] if missing else []
        parts += [f"has unexpected {', '.join(shown(prefix + name) for name in extra[:3])}"] if extra else []
        raise _foreign(path, " and ".join(parts))


def check_tensor(path: Path, name: str, tensor: Tensor, like: Tensor, *, finite: bool = True) -> None:
    """Raise `CheckpointError` unless `tensor` has the shape and type of `like`, and if `finite` only finite values."""
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        found = f"{tensor.dtype} {tuple(tensor.shape)}"
        raise _foreign(path, f"has {name} as {found}, expected {like.dtype} {tuple(like.shape)}")
    if finite and not torch.isfinite(tensor).all():
        raise _damaged(path, f"{name} holds values that are not finite")


def _read_header(path: Path, metadata: Mapping[str, str]) -> _Header:
    """The header, if it is whole and its version is this one."""
    if FORMAT not in metadata:
        raise CheckpointError(f"{path}: not a seq2attn checkpoint (its header does not say {FORMAT!r})")
    try:
        header = _Header.model_validate_json(metadata[FORMAT])
    except ValidationError:
        raise _damaged(path, "its header lacks version, state or checksum") from None
    if header.version != VERSION:
        raise CheckpointError(f"{path}: written in format version {header.version}; this seq2attn reads {VERSION}")
    return header


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, reason: str) -> CheckpointError:
    other = "last" if path.stem == "best" else "best"
    hint = f"The run's other checkpoint may be intact: eval and predict take --checkpoint {other}."
    return CheckpointError(f"{path}: damaged: {' '.join(reason.split())[:200]}", hint=hint)


def _foreign(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: does not belong to this config: it {reason}")
