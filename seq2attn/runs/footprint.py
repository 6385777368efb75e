"""How much memory a config needs, and how much there is: asked before anything is computed.

Training keeps, in float32 numbers:

    parameters and optimiser   4 x parameters       (weights, gradients, Adam's two averages)
    one batch                  B x (9 x (S x directions + L) x D  +  4 x L x V  +  L x (5 x D + 2 x S))

with S and L those of the task's longest source and target, `<eos>` counted, and without the last term where there is no
attention;
for a Transformer of N layers with H heads and inner layers F wide,

    one batch                  B x (N x ((S + L) x (16 x D + 2 x F)  +  H x (S x S + L x L + L x S))  +  6 x L x V)

The factors were fitted to the peaks that GRU models reached on a CPU, from below: what is refused would not have fitted.
What is let through may still not fit, by a little.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.config import Config, TransformerConfig
from seq2attn.errors import Seq2AttnError

if TYPE_CHECKING:
    import torch

FLOAT = 4  # bytes


def check_training_memory(config: Config, device: torch.device) -> None:
    """Raise `Seq2AttnError` if training `config` cannot fit into the memory that is free."""
    _check(f"training on {device.type}", training_bytes(config), config, available_bytes(device))


def check_model_memory(config: Config) -> None:
    """Raise `Seq2AttnError` if the weights of `config` alone cannot fit into the memory that is free."""
    parts = {"parameters": FLOAT * parameter_count(config)}
    _check("the model", parts, config, available_bytes())


def check_answer_memory(cells: int) -> None:
    """Raise `Seq2AttnError` if `cells` attention weights, a few times over, cannot fit into the memory that is free."""
    need, free = 4 * FLOAT * cells, available_bytes()
    if free is not None and need > free:
        message = f"strings this long need about {shown_bytes(need)} of memory, and {shown_bytes(free)} are free"
        raise Seq2AttnError(message, hint="Ask for shorter ones.")


def training_bytes(config: Config) -> dict[str, int]:
    """What training keeps in memory, by part."""
    from seq2attn.model.build import build_task

    model, training = config.model, config.training
    task = build_task(config)
    source = task.max_length + model.source_eos
    target = task.target_length(task.max_length) + 1
    vocabulary = len(task.target_vocabulary)
    if isinstance(model, TransformerConfig):
        pairs = source * source + target * target + target * source
        inner = 16 * model.hidden + 2 * model.feedforward
        batch = model.layers * ((source + target) * inner + model.heads * pairs) + 6 * target * vocabulary
    else:
        states = source * (2 if model.bidirectional else 1) + target
        attention = 0 if config.score_name == "none" else target * (5 * model.hidden + 2 * source)
        batch = 9 * states * model.hidden + 4 * target * vocabulary + attention
    return {
        "parameters and optimiser": 4 * FLOAT * parameter_count(config),
        "one batch": FLOAT * training.batch_size * batch,
    }


def parameter_count(config: Config) -> int:
    """How many parameters the model of `config` has, found without making it; 0 where that cannot be told."""
    import torch
    from torch.overrides import TorchFunctionMode

    from seq2attn.model.build import build_model

    class Undrawn(TorchFunctionMode):
        """Weights are not drawn: on the device `meta` that would load torch's compiler, half as long as torch itself."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__module__", None) == "torch.nn.init":
                return args[0] if args else kwargs["tensor"]
            return function(*args, **(kwargs or {}))

    try:
        with torch.device("meta"), Undrawn():
            return sum(parameter.numel() for parameter in build_model(config).parameters())
    except Exception:  # a plug-in that wants to see numbers; what is wrong with it is told when it is built
        return 0


def available_bytes(device: torch.device | None = None) -> int | None:
    """Free memory, of a GPU or of the system; None where that cannot be told."""
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    limits = [_system_bytes(), _cgroup_bytes()]
    return min((limit for limit in limits if limit is not None), default=None)


def shown_bytes(count: int) -> str:
    """`1610612736` -> `1.5 GiB`."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def _check(what: str, parts: dict[str, int], config: Config, free: int | None) -> None:
    need = sum(parts.values())
    if free is None or need <= free:
        return
    listed = ", ".join(f"{shown_bytes(size)} for {part}" for part, size in parts.items())
    raise Seq2AttnError(
        f"{what} needs about {shown_bytes(need)} of memory ({listed}), and {shown_bytes(free)} are free",
        hint=f"Make one of these smaller: model.hidden ({config.model.hidden:,}), "
        f"training.batch_size ({config.training.batch_size:,}), "
        f"task.max_length ({max(config.trained_lengths or config.evaluation_lengths):,}).",
    )


def _system_bytes() -> int | None:
    try:
        if sys.platform == "linux":
            for line in Path("/proc/meminfo").read_text().splitlines():
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        if sys.platform == "win32":
            return _windows_bytes()
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all there is, where what is free is not told
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _cgroup_bytes() -> int | None:
    """What a container may still take (cgroup v2)."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        folder = Path("/sys/fs/cgroup") / group.lstrip("/")
        if not (folder / "memory.max").exists():  # the group of a container, seen from inside
            folder = Path("/sys/fs/cgroup")
        limit, used = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
        kept = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return limit - used + int(kept.get("file", 0))  # files that are held in memory make room when asked
    except (OSError, ValueError):  # no Linux, no limit ("max"), or an older kernel
        return None


def _windows_bytes() -> int | None:
    class Status(ctypes.Structure):
        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "page", "page_free", "virtual", "virtual_free")),
            ("extended", ctypes.c_ulonglong),
        ]

    status = Status(length=ctypes.sizeof(Status))
    found = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return int(status.free) if found else None
