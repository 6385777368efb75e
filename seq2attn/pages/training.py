"""Training in the page: the project's own training step, the drawing of its batches and of the
first weights.

What is drawn at random comes in as inputs `random.N`, uniform in [0, 1): the page has a generator
of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode

from seq2attn.build import build_model
from seq2attn.config.schema import Config
from seq2attn.data.batches import drop_words, generator, make_batch
from seq2attn.data.tasks import Examples, Task
from seq2attn.data.vocabulary import PAD
from seq2attn.errors import Seq2AttnError
from seq2attn.model.attention import Attention
from seq2attn.model.interface import Model
from seq2attn.pages.functions import Function, Tensors
from seq2attn.training.losses import training_losses
from seq2attn.training.schedule import learning_rate
from seq2attn.training.step import TrainingStep

CARRIED = 2000
"""examples that the page carries of a task whose drawing cannot be exported"""
CPU = torch.device("cpu")


def training_functions(model: Model, config: Config, task: Task) -> list[Function]:
    """With fixed shapes. `first`: random numbers -> the weights before training; `draw`: the same
    -> a batch's examples; `train`: examples, weights and the optimiser's state -> the same after a
    training step, and how right the model was.
    """

    def first(_: Tensors) -> Tensors:
        return {name: one.detach() for name, one in build_model(config, task).named_parameters()}

    draw = _draw(config, task)
    examples = draw.call(draw.inputs)
    return [given_random("first", first, {}), draw, _train(model, config, examples)]


def _draw(config: Config, task: Task) -> Function:
    """The task's own drawing if it can be traced; otherwise examples that are drawn here, among
    which the page chooses.
    """
    count = config.training.batch_size
    if task.training_set is None:
        try:
            drawn = given_random("draw", lambda _: _named(task.examples(generator(CPU), count)), {})
            other = drawn.call({name: 1 - tensor for name, tensor in drawn.inputs.items()})
            if drawn.inputs and not torch.equal(
                other["source"], drawn.call(drawn.inputs)["source"]
            ):
                return drawn
        except Exception:  # such as a loop in Python over what was drawn
            pass
        table = _named(task.examples(generator(CPU, "page"), CARRIED))
    else:
        table = _named(task.encode(list(task.training_set[:CARRIED]), CPU))
    rows = len(table["source"])

    def choose(_: Tensors) -> Tensors:
        chosen = torch.randint(rows, (count,), generator=generator(CPU))
        return {name: tensor.index_select(0, chosen) for name, tensor in table.items()}

    return given_random("draw", choose, {})


def _named(examples: Examples) -> Tensors:
    return {name: one for name, one in vars(examples).items() if name != "alignment"}


def _train(model: Model, config: Config, examples: Tensors) -> Function:
    model = copy.deepcopy(model)
    for one in model.modules():
        if isinstance(one, Attention):
            one.mask_padding = True  # whatever the config says, `mask` decides
    encode = model.encode
    trained = {
        name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad
    }
    state = TrainingStep(model, config, CPU).state

    def encode_masked(mask: Tensor, *inputs: Any) -> Any:
        memory, first = encode(*inputs)
        return memory._replace(valid=memory.valid | ~mask), first

    def train(tensors: Tensors) -> Tensors:
        model.encode = partial(encode_masked, tensors["mask"])  # type: ignore[method-assign]
        random = generator(CPU)
        batch = make_batch(
            Examples(*(tensors[name] for name in examples)), source_eos=config.model.source_eos
        )
        if config.training.word_dropout:
            batch = drop_words(batch, config.training.word_dropout, random)
        weights = {name: tensors[name].clone().requires_grad_() for name in trained}
        with _reparametrize_module(model, weights):
            step = TrainingStep(model, config, CPU)
            step.use_formulas(traced=True)
            for name, tensor in step.state.items():
                tensor.copy_(tensors[name])
            decoded = step.forward(batch, 0)
            losses = training_losses(decoded, batch, config.training)
            step.gradients(losses.total)
            step.update(tensors["rate"])
        padding = batch.decoder_output == PAD
        right = ((decoded.logits.argmax(dim=2) == batch.decoder_output) | padding).all(dim=1)
        after = {name: tensor.detach() for name, tensor in weights.items()} | step.state
        return {"loss": losses.total.detach(), "right": right, **after}

    given = {"mask": torch.tensor(True), "rate": torch.tensor(config.training.learning_rate)}
    return given_random("train", train, {**examples, **given, **trained, **state})


# ---- tracing: random numbers from outside, and operations that the exporter lacks ----


def given_random(name: str, call: Callable[[Tensors], Tensors], inputs: Tensors) -> Function:
    """A function whose random numbers are not drawn, but given; without gradients, which are among
    its operations.
    """
    with torch.random.fork_rng(devices=[]), sdpa_kernel(SDPBackend.MATH), _Products():
        traced = make_fx(call)(inputs)
    draws = [node for node in traced.graph.nodes if _is_random(node.target)]
    shapes = [(2,) * _is_normal(node.target) + tuple(node.meta["val"].shape) for node in draws]
    random = {
        f"random.{k}": torch.rand(shape, generator=generator(CPU, k))
        for k, shape in enumerate(shapes)
    }

    def given(tensors: Tensors) -> Any:
        drawn = iter([tensors[name] for name in random])
        return _Outside(traced, drawn).run({name: tensors[name] for name in inputs})

    return Function(name, given, {**inputs, **random})


def _is_random(target: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def _is_normal(target: Any) -> bool:
    return str(target).startswith(("aten.normal", "aten.randn"))


class _Products(TorchFunctionMode):
    """Convolutions as matrix products: the exporter lacks the gradient of a convolution."""

    def __torch_function__(
        self, called: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return (_convolution if called is torch.conv1d else called)(*args, **(kwargs or {}))


def _convolution(
    x: Tensor,
    filters: Tensor,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.conv1d` of x (B, C, S) with filters (M, C, K): (B, M, L)."""
    if groups > 1 or isinstance(padding, str):
        return torch.conv1d(x, filters, bias, stride, padding, dilation, groups)
    step, around, spread = (
        one if isinstance(one, int) else one[0] for one in (stride, padding, dilation)
    )
    within = spread * torch.arange(filters.size(2))  # (K,)
    starts = torch.arange(
        -around, x.size(2) + around - spread * (filters.size(2) - 1), step
    )  # (L,)
    read = (
        torch.arange(x.size(2)).view(-1, 1, 1) == starts.unsqueeze(1) + within
    )  # (S, L, K): what is read where
    made = torch.einsum("bcs,slk,mck->bml", x, read.to(x.dtype), filters)
    return made if bias is None else made + bias.unsqueeze(1)


class _Outside(fx.Interpreter):
    """Runs a graph with the random numbers that are given, and without fused operations."""

    def __init__(self, graph: fx.GraphModule, drawn: Iterator[Tensor]) -> None:
        super().__init__(graph)
        self.drawn = drawn
        self.made: dict[Any, Any] = {}

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target not in self.made:
            kept = super().get_attr(
                target, args, kwargs
            )  # a weight: it is made, then drawn in place, and returned
            self.made[target] = (
                torch.zeros(kept.shape, dtype=kept.dtype).copy_(kept)
                if isinstance(kept, Tensor)
                else kept
            )
        return self.made[target]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = str(target).removeprefix("aten.")
        if _is_random(target):
            if name.split(".")[0] not in DRAWN:
                raise Seq2AttnError(f"it draws random numbers by {name}, which the page cannot")
            return DRAWN[name.split(".")[0]](next(self.drawn), *args)
        return (
            UNFUSED[name](*args, **kwargs)
            if name in UNFUSED
            else super().call_function(target, args, kwargs)
        )


def _integers(uniform: Tensor, *args: Any) -> Tensor:
    low, high = (0, args[0]) if isinstance(args[1], list) else args[:2]
    return (uniform * (high - low)).floor().to(torch.int64) + low


def _normal(uniform: Tensor, like: Tensor, mean: float = 0.0, deviation: float = 1.0) -> Tensor:
    """Of two uniform numbers each (Box & Muller 1958)."""
    drawn = (-2 * torch.log(1 - uniform[0])).sqrt() * torch.cos(2 * torch.pi * uniform[1])
    return like.copy_(mean + deviation * drawn)


DRAWN: dict[str, Callable[..., Tensor]] = {
    "randn": lambda uniform, size, **_: _normal(uniform, torch.empty(size)),
    "randn_like": lambda uniform, like, **_: _normal(uniform, torch.zeros_like(like)),
    "uniform_": lambda uniform, like, least=0.0, most=1.0: like.copy_(
        least + (most - least) * uniform
    ),
    "normal_": _normal,
    "rand": lambda uniform, *_: uniform,
    "rand_like": lambda uniform, *_: uniform,
    "randint": _integers,
    "bernoulli": lambda uniform, like, p=None: (uniform < (like if p is None else p)).to(
        like.dtype
    ),
    "bernoulli_": lambda uniform, like, p=0.5: like.copy_(uniform < p),
}


def _adamw(
    weights: Any, gradients: Any, averages: Any, squares: Any, _: Any, steps: Any, **options: Any
) -> None:
    """The fused operation as torch.optim.AdamW describes it (Loshchilov & Hutter 2019)."""
    rate, first, second = options["lr"], options["beta1"], options["beta2"]
    for weight, gradient, average, square, step in zip(
        weights, gradients, averages, squares, steps, strict=True
    ):
        average.mul_(first).add_(gradient * (1 - first))
        square.mul_(second).add_(gradient * gradient * (1 - second))
        size = average / (1 - first**step)
        spread = (square / (1 - second**step)).sqrt() + options["eps"]
        weight.mul_(1 - rate * options["weight_decay"]).sub_(rate * size / spread)


LOSSES: Any = [torch.ops.aten.nll_loss_forward, torch.ops.aten.nll_loss_backward]
UNFUSED: dict[str, Callable[..., Any]] = {
    **{
        str(one).removeprefix("aten."): formula
        for one, formula in get_decompositions(LOSSES).items()
    },
    "_fused_adamw_.tensor_lr": _adamw,
    "_foreach_norm.Scalar": lambda tensors: [tensor.square().sum().sqrt() for tensor in tensors],
    "_foreach_mul_.Tensor": lambda tensors, factor: [tensor.mul_(factor) for tensor in tensors],
}


def training_settings(config: Config) -> dict[str, Any]:
    """What the page needs beside the graphs, as JSON values."""
    training = config.training
    steps = range(training.warmup)
    return {
        "warmup": [
            learning_rate(training, step, training.warmup + 1) / training.learning_rate
            for step in steps
        ],
        "rate": training.learning_rate,
        "seed": config.seed,
    }
