"""How much memory a config needs, compared with what is free before anything is computed. Imports no torch at the top.

Training keeps, in float32 numbers:

    parameters and optimiser   4 x parameters       (weights, gradients, Adam's two averages)
    one batch                  B x (9 x (S x directions + L) x D  +  4 x L x V  +  L x (5 x D + 2 x S))

with S and L those of the longest string of the task, `<eos>` counted, and without the last term where there is no attention;
for a Transformer of N layers with H heads and inner layers F wide,

    one batch                  B x (N x ((S + L) x (16 x D + 2 x F)  +  H x (S x S + L x L + L x S))  +  6 x L x V)

The factors were fitted from below to the measured peaks of GRU models on a CPU: a config that is refused would not have
fitted, and one that is accepted may still exceed the memory by a little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError
from seq2attn.runs.machine import available_bytes, shown_bytes

if TYPE_CHECKING:
    import torch

    from seq2attn.config import Config

FLOAT = 4  # bytes
SPECIAL = 3  # tokens of a vocabulary beside its characters


def check_training_memory(config: Config, parameters: int, device: torch.device) -> None:
    """Raise `Seq2AttnError` if training a model of `config` with so many parameters exceeds the free memory."""
    _check(f"training on {device.type}", training_bytes(config, parameters), config, available_bytes(device))


def check_model_memory(config: Config) -> None:
    """Raise `Seq2AttnError` if the weights of `config` alone exceed the free memory, judged before the model is built."""
    _check("the model", {"parameters": FLOAT * least_parameters(config)}, config, available_bytes())


def check_answer_memory(cells: int) -> None:
    """Raise `Seq2AttnError` if `cells` attention weights, a few times over, exceed the free memory."""
    need, free = 4 * FLOAT * cells, available_bytes()
    if free is not None and need > free:
        message = f"strings this long need about {shown_bytes(need)} of memory, and {shown_bytes(free)} are free"
        raise Seq2AttnError(message, hint="Ask for shorter ones.")


def least_parameters(config: Config) -> int:
    """A lower bound on the parameters of `config`, from its sizes alone: those of a model without attention."""
    model = config.model
    vocabulary, width = len(config.task.alphabet) + SPECIAL, model.hidden
    if model.architecture == "transformer":
        sizes = model.transformer
        return sizes.layers * (12 * width**2 + 4 * width * sizes.feedforward) + 3 * vocabulary * width
    recurrences = 2 + model.bidirectional
    return vocabulary * (2 * model.embedding + width) + recurrences * 3 * width * (model.embedding + width + 2)


def training_bytes(config: Config, parameters: int) -> dict[str, int]:
    """What training a model with so many parameters keeps in memory, by part."""
    model, training = config.model, config.training
    task = config.task
    source = task.max_length + model.source_eos
    target = _expansion(config) * task.max_length + 1
    states = source * (2 if model.bidirectional else 1) + target
    vocabulary = len(task.alphabet) + SPECIAL
    attention = 0 if model.attention.score == "none" else target * (5 * model.hidden + 2 * source)
    batch = 9 * states * model.hidden + 4 * target * vocabulary + attention
    if model.architecture == "transformer":
        sizes = model.transformer
        pairs = source * source + target * target + target * source
        inner = 16 * model.hidden + 2 * sizes.feedforward
        batch = sizes.layers * ((source + target) * inner + sizes.heads * pairs) + 6 * target * vocabulary
    return {
        "parameters and optimiser": 4 * FLOAT * parameters,
        "one batch": FLOAT * training.batch_size * batch,
    }


def _check(what: str, parts: dict[str, int], config: Config, free: int | None) -> None:
    need = sum(parts.values())
    if free is None or need <= free:
        return
    listed = ", ".join(f"{shown_bytes(size)} for {part}" for part, size in parts.items())
    raise Seq2AttnError(
        f"{what} needs about {shown_bytes(need)} of memory ({listed}), and {shown_bytes(free)} are free",
        hint=f"Make one of these smaller: model.hidden ({config.model.hidden:,}), "
        f"training.batch_size ({config.training.batch_size:,}), task.max_length ({config.task.max_length:,}).",
    )


def _expansion(config: Config) -> int:
    from seq2attn.model.build import build_task

    return build_task(config).expansion
