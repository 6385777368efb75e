"""An estimate of the memory that a config needs, checked before anything is computed. Imports no torch at the top.

Training keeps, in float32 numbers:

    parameters and optimiser   4 x parameters       (weights, gradients, Adam's two averages)
    one batch                  B x ((2 G + 2) x (S x directions + L) x N x D  +  4 x L x V  +  L x (5 x D + 2 x S))

with S and L those of the task's longest source and target (of a training set, the mean ones), `<eos>` counted, N layers, G
gates of the cell (3 of a GRU), and without the last term where there is no attention; for a Transformer of N layers with H
heads and inner layers F wide,

    one batch                  B x (N x ((S + L) x (16 x D + 2 x F)  +  H x (S x S + L x L + L x S))  +  6 x L x V)

The factors are fitted as a lower bound to the measured peaks of GRU models on a CPU: a config that is refused would not have
fitted, and one that is accepted may still exceed the memory slightly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seq2attn.config import Config, ModelConfig, RecurrentConfig, TransformerConfig
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.machine import available_bytes, shown_bytes

if TYPE_CHECKING:
    import torch

    from seq2attn.data.tasks import Task

FLOAT = 4  # bytes
MANY = 1000  # models, where the free memory is unknown
GATES = {"gru": 3, "lstm": 4}  # matrices D x D that a cell has; one in any other


def check_training_memory(config: Config, task: Task, parameters: int, device: torch.device) -> None:
    """Raise `Seq2AttnError` if training a model of `config` with so many parameters exceeds the free memory."""
    _check(f"training on {device.type}", training_bytes(config, task, parameters), config, available_bytes(device))


def seeds_that_fit(config: Config, task: Task, parameters: int, device: torch.device) -> int:
    """How many such models can be trained at a time, at least 1; half of the free memory is left for what this omits."""
    free = available_bytes(device)
    need = sum(training_bytes(config, task, parameters).values())
    return MANY if free is None else max(1, free // 2 // need)


def check_model_memory(config: Config, task: Task) -> None:
    """Raise `Seq2AttnError` if the weights of `config` alone exceed the free memory, judged before the model is built."""
    _check("the model", {"parameters": FLOAT * least_parameters(config, task)}, config, available_bytes())


def check_answer_memory(model: ModelConfig, source: int, target: int) -> None:
    """Raise `Seq2AttnError` if decoding one string, of `source` tokens into `target`, exceeds the free memory.

    A Transformer needs a few weights for each pair of tokens. A recurrent model needs the encoder's states and gates;
    of its attention weights, only those of one step.
    """
    numbers = 4 * target * source
    if isinstance(model, RecurrentConfig):
        numbers = source * model.hidden * (2 * (1 + model.bidirectional) + GATES.get(model.cell.name, 1))
    need, free = FLOAT * numbers, available_bytes()
    if free is not None and need > free:
        message = f"strings this long need about {shown_bytes(need)} of memory, and {shown_bytes(free)} are free"
        raise Seq2AttnError(message, hint="Use shorter strings.")


def least_parameters(config: Config, task: Task) -> int:
    """A lower bound on the parameters of `config`, from its sizes alone: those of a model without attention."""
    model, width = config.model, config.model.hidden
    source, target = len(task.source_vocabulary), len(task.target_vocabulary)
    if isinstance(model, TransformerConfig):
        return model.layers * (12 * width**2 + 4 * width * model.feedforward) + (source + 2 * target) * width
    cells = model.layers * (2 + model.bidirectional)
    weights = cells * GATES.get(model.cell.name, 1) * width * (width + 2)
    weights += (
        (2 + model.bidirectional) * GATES.get(model.cell.name, 1) * width * model.embedding
    )  # of the first layers
    return (source + target) * model.embedding + target * width + weights


def training_bytes(config: Config, task: Task, parameters: int) -> dict[str, int]:
    """The memory that training a model with so many parameters needs, by part."""
    model, training = config.model, config.training
    source, target = (length + 1 for length in _lengths(task))
    source -= not model.source_eos
    vocabulary = len(task.target_vocabulary)
    if isinstance(model, TransformerConfig):
        pairs = source**2 + target**2 + target * source
        inner = 16 * model.hidden + 2 * model.feedforward
        batch = model.layers * ((source + target) * inner + model.heads * pairs) + 6 * target * vocabulary
    else:
        states = model.layers * (source * (2 if model.bidirectional else 1) + target)
        attention = 0 if config.score_name == "none" else target * (5 * model.hidden + 2 * source)
        batch = (2 * GATES.get(model.cell.name, 1) + 2) * states * model.hidden + 4 * target * vocabulary + attention
    rows = min(training.batch_size, len(task.training_set or range(training.batch_size)))
    return {"parameters and optimiser": 4 * FLOAT * parameters, "one batch": FLOAT * rows * batch}


def _lengths(task: Task) -> tuple[int, int]:
    """The longest source and target; of a training set, whose batches differ in length, the mean of each, rounded down."""
    if task.training_set is None:
        return task.max_length, task.target_length(task.max_length)
    vocabularies = (task.source_vocabulary, task.target_vocabulary)
    sides = zip(*task.training_set, strict=True)
    totals = [sum(len(one.symbols_of(text)) for text in side) for one, side in zip(vocabularies, sides, strict=True)]
    return totals[0] // len(task.training_set), totals[1] // len(task.training_set)


def _check(what: str, parts: dict[str, int], config: Config, free: int | None) -> None:
    need = sum(parts.values())
    if free is None or need <= free:
        return
    listed = ", ".join(f"{shown_bytes(size)} for {part}" for part, size in parts.items())
    sizes = {"model.hidden": config.model.hidden, "training.batch_size": config.training.batch_size}
    if "max_length" in config.task.options:
        sizes["task.max_length"] = config.task.options["max_length"]
    message = f"{what} needs about {shown_bytes(need)} of memory ({listed}), and {shown_bytes(free)} are free"
    hint = f"Make one of these smaller: {', '.join(f'{key} ({size:,})' for key, size in sizes.items())}."
    raise Seq2AttnError(message, hint=hint)
