"""Training in the page: the first weights, the drawing of batches and the training step of the
project itself, as functions.

What they draw at random comes in as inputs `random.N`, uniform in [0, 1): the page has a generator
of its own.

Shapes: B strings of a batch, S source positions, L output positions.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.optim.adamw import adamw

from seq2attn.build import build_losses, build_model
from seq2attn.config.schema import Config
from seq2attn.data.batches import Examples, drop_words, generator, make_batch, valid_mask
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD
from seq2attn.model.points import Hook, Rank, named_hooks, places
from seq2attn.pages.functions import Tensors
from seq2attn.pages.graphs import Graph, Lacking, graph_json, torch_decompositions
from seq2attn.pages.tracing import exporting, line_of
from seq2attn.torch_private import (
    aten_foreach_multiply,
    aten_foreach_norm,
    aten_fused_adamw,
    reparametrize_module,
)
from seq2attn.training.step import TrainingStep, learning_rate

CARRIED = 2000
"""examples that the page carries of a task whose drawing cannot be exported"""
CPU = torch.device("cpu")
Call = Callable[[Tensors], Tensors]
aten = torch.ops.aten


def training_graphs(config: Config, task: Task) -> dict[str, Graph]:
    """Return the graphs that train a model, by name; the shapes of their tensors are fixed.

    first: the weights before training, from random numbers alone.
    draw: the examples of a batch, from random numbers alone.
    train: one training step. From examples, weights, the optimiser's state, `rate` (the learning
        rate) and `mask` (True: padding gets no attention) to the next weights and state, `loss`,
        and `right`, (B,) True where every symbol of the target, `<eos>` too, was the likeliest
        (with teacher forcing).

    Raises `Seq2AttnError` for a model that PyTorch cannot trace, for an operation that the page
    lacks, and for a loss that changes from step to step.
    """
    failure = f"the page cannot train {config.score_name}"
    hint = "`seq2attn train` trains it, and `seq2attn page` shows the run."

    def first(_: Tensors) -> Tensors:
        return dict(build_model(config, task).named_parameters())

    # fork_rng: tracing draws numbers, but the caller's generator stays as it is
    with exporting(failure, hint), torch.random.fork_rng(devices=[]):
        for name, loss in build_losses(config).items():
            if "step" in loss.asks:  # it takes the number of the step; `exporting` reports this
                raise ValueError(
                    f"the loss {name} depends on the step, and the page repeats one traced step"
                )
        draw, drawn = drawing(config, task)
        examples = draw({})
        return {
            "first": graph_of(first, {}),
            "draw": drawn,
            "train": graph_of(*_train(config, task, examples)),
        }


def training_settings(config: Config) -> dict[str, Any]:
    """Return what the page needs beside the graphs, as JSON values.

    warmup: for each step of the warm-up, the share of the learning rate with which it is taken. All
        later steps have the whole rate, whatever the schedule of the config: the reader sets it by
        a slider, and may train on without end.
    rate: the learning rate at first. seed, steps: those of the config.
    """
    training = config.training
    steps = training.warmup + 1  # any number of steps beyond the warm-up gives the same shares
    rates = [learning_rate(training, step, steps) for step in range(training.warmup)]
    return {
        "warmup": [rate / training.learning_rate for rate in rates],
        "rate": training.learning_rate,
        "seed": config.seed,
        "steps": training.steps,  # None if the config counts epochs
    }


def drawing(config: Config, task: Task) -> tuple[Call, Graph]:
    """Return a function that draws the examples of a batch, tensors by the names of the fields of
    `Examples`, from no inputs; and its graph.

    It is the task's own drawing if that can be traced. Otherwise it chooses among examples that are
    constants in the graph: the first `CARRIED` of a training set, or as many that are drawn now, if
    the drawing cannot be traced, since Python reads what is drawn.
    """
    count = config.training.batch_size
    if task.training_set is None:

        def draw(_: Tensors) -> Tensors:
            # any generator: what it draws becomes an input of the graph
            return _tensors(task.examples(generator(CPU), count))

        # an exception: the drawing cannot be traced, as with a Python loop over what was drawn
        with contextlib.suppress(Exception):
            graph = graph_of(draw, {}, "real")
            # its only inputs are random numbers: without any, all its examples would be the same
            if graph["inputs"]:
                return draw, graph
        examples = task.examples(generator(CPU, "page"), CARRIED)
    else:
        examples = task.encode(list(task.training_set[:CARRIED]), CPU)
    carried = _tensors(examples)

    def choose(_: Tensors) -> Tensors:
        rows = torch.randint(len(carried["source"]), (count,))
        return {name: tensor.index_select(0, rows) for name, tensor in carried.items()}

    return choose, graph_of(choose, {})


def _tensors(examples: Examples) -> Tensors:
    """Return the tensors of examples by name. Training does not use their alignment."""
    return {name: value for name, value in vars(examples).items() if name != "alignment"}


def _train(config: Config, task: Task, examples: Tensors) -> tuple[Call, Tensors]:
    """Return the training step as a function, and example inputs for it, with these examples.

    It is `TrainingStep` itself, run on weights and an optimiser's state that are inputs.
    """
    model = build_model(config, task)
    parameters = dict(model.named_parameters())
    attends = "attention.valid" in places(model)

    def train(tensors: Tensors) -> Tensors:
        """Take one step, with tensors named as `training_graphs` says."""
        drawn = Examples(**{name: tensors[name] for name in examples})
        batch = make_batch(drawn, source_eos=config.model.source_eos)
        # any generator: what it draws becomes an input of the graph
        batch = drop_words(batch, config.training.word_dropout, generator(CPU))

        # `mask` decides which positions are attended to, whatever the config says
        real = valid_mask(batch.source_lengths, batch.source.size(1))  # (B, S)
        allowed = real | ~tensors["mask"]
        mask: dict[str, Hook] = {"attention.valid": lambda valid, _: allowed.view_as(valid)}

        weights = {}
        for name, parameter in parameters.items():
            weight = tensors[name].detach().clone()  # which the step updates in place
            weights[name] = weight.requires_grad_(parameter.requires_grad)
        with (
            reparametrize_module(model, weights),
            named_hooks(model, mask if attends else {}, Rank.CHANGE),
        ):
            step = TrainingStep(model, config, CPU)
            step.trace()  # as one graph: no compiled kernels, no branches on numbers
            for name, tensor in step.state.items():
                tensor.copy_(tensors[name])
            decoded = step.forward(batch, 0)  # the number of a step only seeds what it draws
            losses = step.losses(decoded, batch)
            step.gradients(losses["loss"])
            step.update(tensors["rate"])

        is_right = decoded.logits.argmax(dim=2) == batch.decoder_output  # (B, L)
        is_padding = batch.decoder_output == PAD
        right = (is_right | is_padding).all(dim=1)  # (B,)
        return {"loss": losses["loss"], "right": right, **weights, **step.state}

    rate = torch.tensor(config.training.learning_rate)
    state = TrainingStep(model, config, CPU).state  # zeros
    return train, {**examples, "mask": torch.tensor(True), "rate": rate, **parameters, **state}


# ---- tracing ----


def graph_of(call: Call, inputs: Tensors, tracing: str = "fake") -> Graph:
    """Trace a function in the context of `exporting`, and return its graph. Gradients that it
    computes are operations like all others.

    inputs: examples. tracing: `fake`, by their shapes alone; `real`, with their numbers, as for a
        task that keeps tensors of its first call for the next.

    If the page lacks an operation, `Lacking` names the line of Python that called it. Recording
    these lines doubles the time of tracing, so only a second trace, made for the message, does.
    """
    # the model may hold tensors of its own, with numbers
    options: Any = {"tracing_mode": tracing, "_allow_non_fake_inputs": True}

    def trace_call(*, lines: bool) -> fx.GraphModule:
        table = {**torch_decompositions(), **OWN_DECOMPOSITIONS}
        with torch.enable_grad():
            return make_fx(call, table, record_stack_traces=lines, **options)(inputs)

    # trace twice: `functionalize` replaces writing in place, but cannot differentiate `call`; so it
    # gets a graph of `call`, in which gradients are operations already
    graph = make_fx(functionalize(trace_call(lines=False)), **options)(inputs)
    try:
        return graph_json(graph, inputs, list(graph(inputs)))  # run for the names of its results
    except Lacking as lacking:
        for node in trace_call(lines=True).graph.nodes:
            if node.target in lacking.operations:
                raise Lacking(f"{lacking}{line_of(node)}") from None
        raise


# ---- operations that the page lacks, in terms of others; what is random, of torch.rand ----


def _normal(shape: Sequence[int]) -> Tensor:
    """Draw each number from two uniform ones (Box & Muller 1958)."""
    radius, angle = torch.rand(2, *shape)
    return (-2 * torch.log(1 - radius)).sqrt() * torch.cos(2 * torch.pi * angle)


def _draw_integers(*arguments: Any, **_: Any) -> Tensor:
    """Draw whole numbers. arguments: (high, shape) or (low, high, shape), as of `torch.randint`."""
    *bounds, shape = arguments
    low, high = (0, *bounds)[-2:]  # low is 0 if it is not given
    return (torch.rand(shape) * (high - low)).floor().to(torch.int64) + low


def _convolution_backward(gradient: Tensor, x: Tensor, filters: Tensor, *settings: Any) -> Any:
    """Differentiate `torch.conv1d` of x (B, C, S) by x, by its filters (M, C, K), and by its bias.

    gradient: by the result, (B, M, L). settings: torch's further arguments, in its order. Raises
    `Lacking` for a convolution with strides, dilation or groups: the page cannot train it.
    """
    # not used: the size of the bias, what only transposed ones have, and which gradients are wanted
    _, stride, (padding,), dilation, _, _, groups, _ = settings
    if (*stride, *dilation, groups) != (1, 1, 1):
        raise Lacking("it lacks the gradient of a convolution with strides, dilation or groups")
    around = filters.size(2) - 1 - padding  # so that the result is as long as x
    by_x = F.conv1d(gradient, filters.flip(2).transpose(0, 1), padding=around)
    by_filters = F.conv1d(x.transpose(0, 1), gradient.transpose(0, 1), padding=padding)  # (C, M, K)
    return by_x, by_filters.transpose(0, 1), gradient.sum(dim=(0, 2))


def _adamw(
    weights: Any, gradients: Any, averages: Any, squares: Any, _: Any, steps: Any, **options: Any
) -> None:
    """Update weights in place by PyTorch's formulas (`torch.optim.adamw`), which stand for the
    fused operation in a traced graph.

    averages, squares: the two moments of each gradient. _: what only AMSGrad has. steps: how many
    updates there are with this one, as the caller of the fused operation has counted; the formulas
    count this one themselves, and so begin one step earlier.
    """
    steps = [step - 1 for step in steps]
    options |= {"foreach": False, "differentiable": True}  # without branches on numbers
    adamw(weights, gradients, averages, squares, [], steps, **options)


def _scale(tensors: Any, factor: Any) -> None:
    """Multiply each tensor in place."""
    for tensor in tensors:
        tensor.mul_(factor)


RANDOM: dict[Any, Callable[..., Tensor]] = {
    aten.normal_: lambda like, mean=0.0, deviation=1.0, **_: like.copy_(
        mean + deviation * _normal(like.shape)
    ),
    aten.uniform_: lambda like, low=0.0, high=1.0, **_: like.copy_(
        low + (high - low) * torch.rand(like.shape)
    ),
    aten.randint: _draw_integers,
    aten.randn: lambda shape, **_: _normal(shape),
    aten.randn_like: lambda like, **_: _normal(like.shape),
    aten.rand_like: lambda like, **_: torch.rand(like.shape),
    aten.bernoulli_: lambda like, p=0.5, **_: like.copy_(torch.rand(like.shape) < p),
}
"""operations that draw random numbers, from uniform ones"""
OWN_DECOMPOSITIONS: Any = {
    aten.rand.generator: lambda shape, **_: torch.rand(shape),
    aten.convolution_backward.default: _convolution_backward,
    aten_fused_adamw: _adamw,
    aten_foreach_norm: lambda tensors: list(map(torch.linalg.vector_norm, tensors)),
    aten_foreach_multiply: _scale,
}
for operation, draw_uniformly in RANDOM.items():
    for overload in operation.overloads():
        OWN_DECOMPOSITIONS[getattr(operation, overload)] = draw_uniformly
