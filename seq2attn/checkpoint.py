"""Checkpoints: tensors and a little state in one safetensors file: no pickle, written atomically, checked when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from seq2attn.errors import CheckpointError
from seq2attn.files import write_atomically

FORMAT = "seq2attn-checkpoint"
VERSION = 1
MODEL = "model."  # prefix of the model's tensors; the optimiser's have their own


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds."""

    tensors: dict[str, Tensor]
    """by name: `model.*` and whatever else the training keeps"""
    state: dict[str, Any]
    """plain values: step and so on"""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with `prefix`, without it."""
        return {name[len(prefix) :]: tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: dict[str, Any]) -> None:
    """Write a checkpoint; a reader sees the old file or the new one, whole."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state, sort_keys=True)
    header = {"version": VERSION, "checksum": _checksum(plain, text), "state": text}
    write_atomically(
        path, save(plain, {FORMAT: json.dumps(header)})
    )  # one key: safetensors writes several in any order


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Whatever is wrong with the file is a `CheckpointError` that names it and the reason."""
    try:
        with safe_open(path, framework="pt") as file:
            header = _read_header(path, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no iterator of its own)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except (SafetensorError, OSError, ValueError, MemoryError) as error:
        raise _damaged(path, str(error)) from None
    text = header["state"]
    if header["checksum"] != _checksum(tensors, text):
        raise _damaged(path, "its checksum does not match its contents")
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(path, "its state is no JSON") from None
    if not isinstance(state, dict) or not isinstance(state.get("step"), int):
        raise _damaged(path, "its state names no step")
    return Checkpoint(tensors, state)


def load_weights(path: Path, checkpoint: Checkpoint, model: nn.Module) -> None:
    """Put the checkpoint's `model.*` tensors into `model`, after checking names, shapes, types and values."""
    found, expected = checkpoint.part(MODEL), model.state_dict()
    missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or extra:
        parts = [f"lacks {', '.join(missing[:3])}"] if missing else []
        parts += [f"has unexpected {', '.join(extra[:3])}"] if extra else []
        raise _foreign(path, " and ".join(parts))
    for name, tensor in found.items():
        wanted = expected[name]
        if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
            raise _foreign(
                path,
                f"{name} is {tensor.dtype} {tuple(tensor.shape)}, expected {wanted.dtype} {tuple(wanted.shape)}",
            )
        if not torch.isfinite(tensor).all():
            raise _damaged(path, f"{name} holds values that are not finite")
    model.load_state_dict(found)


def _read_header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Version, checksum and state, of a file that says it is a checkpoint of a version that can be read."""
    if FORMAT not in metadata:
        raise CheckpointError(f"{path}: not a seq2attn checkpoint (its header does not say {FORMAT!r})")
    try:
        header = json.loads(metadata[FORMAT])
        version = header["version"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise _damaged(path, "its header names no format version") from None
    if not isinstance(version, int) or version < 1:
        raise _damaged(path, "its header names no format version")
    if version > VERSION:
        raise CheckpointError(
            f"{path}: written in format version {version}; this seq2attn reads up to {VERSION}",
            hint="Use a newer seq2attn.",
        )
    if not isinstance(header.get("state"), str) or not isinstance(header.get("checksum"), str):
        raise _damaged(path, "its header lacks state or checksum")
    return dict(header)


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _damaged(path: Path, reason: str) -> CheckpointError:
    reason = " ".join(reason.split())[:200]
    hint = "The run's other checkpoint may be whole: --checkpoint last, --checkpoint best."
    return CheckpointError(f"{path}: damaged: {reason}", hint=hint)


def _foreign(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: does not belong to this config: it {reason}")
