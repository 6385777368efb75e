"""Finds how an attention is called: which argument is the query, and what shapes it takes.

An adapter is the source of a function `attend(query, keys, valid, values)`, so that what is tried
is what is shown: query (B, Dq), keys and values (B, S, Dk), valid (B, S), True = real token, or
None, to the weights (B, H, S) and the context (B, Dv) or None.
"""

import contextlib
import inspect
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from seq2attn.errors import Seq2AttnError
from seq2attn.text import line_of

CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
ROLES: dict[str, str] = {}
"""role by the name of an argument"""
for _role, _names in CATALOGUE["roles"].items():
    ROLES.update(dict.fromkeys(_names.split(), _role))
SHAPES = CATALOGUE["shapes"]
MASKS = ("valid", "lengths", "mask")  # roles
B, S = 5, 7  # rows and keys while shapes are tried: no widths
HINT = (
    "Name a function attend(query, keys, valid) of shapes (B, Dq), (B, S, Dk) and (B, S) that "
    "calls it and returns context (B, Dv) or None, and weights (B, S)."
)
NO_WEIGHTS = "it returns no weights, a tensor with rows and keys as axes"


class Inputs(NamedTuple):
    """Arguments of `attend`."""

    query: Tensor
    keys: Tensor
    valid: Tensor
    """if all are valid, `attend` gets None"""

    def copy(self) -> "Inputs":
        """Return copies."""
        return Inputs(*map(torch.clone, self))

    def with_noise(self) -> "Inputs":
        """Return the inputs with other numbers in their padding."""
        noise = 3 * self.keys.flip(0, 1)
        keys = torch.where(self.padding.mT, noise, self.keys)
        return self._replace(keys=keys)

    def select(self, rows: slice) -> "Inputs":
        """Return these rows of the batch."""
        return Inputs(*(value[rows] for value in self))

    @property
    def unmasked(self) -> "Inputs":
        """The inputs with all keys valid"""
        return self._replace(valid=torch.ones_like(self.valid))

    @property
    def padding(self) -> Tensor:
        """(B, 1, S) True = padding"""
        return ~self.valid.unsqueeze(1)


class Result(NamedTuple):
    """What `attend` returns."""

    weights: Tensor
    """(B, H, S) of H heads"""
    context: Tensor
    """(B, Dv); (B, 0) if none is returned"""

    @property
    def joined(self) -> Tensor:
        """(B, H S + Dv), without weights of further keys"""
        weights = self.weights[..., :S]
        return torch.cat([weights.flatten(1), self.context], dim=1)


@dataclass(frozen=True)
class Adapter:
    """How `attention` is called; the texts are expressions of Python."""

    attention: Any
    call: str
    """with `{mask}` where the mask stands, if it takes one"""
    masks: Sequence[str]
    """expressions of the mask that may be meant"""
    mask: str
    """the one of them that is given"""
    needs_mask: bool = False
    """it does not take None"""
    weights: str = ""
    context: str = "None"

    def __call__(self, inputs: Inputs) -> Result:
        names = self.called(inputs.copy())
        weights = eval(self.weights, names).unsqueeze(1).flatten(1, -2)
        if weights.shape[::2] != inputs.valid.shape:
            raise ValueError(f"weights of shape {tuple(weights.shape)}")
        context = eval(self.context, names)
        if context is None:
            context = weights.new_zeros(len(weights), 0)
        if len(context) != len(weights):
            raise ValueError(f"context of shape {tuple(context.shape)}")
        return Result(weights, context.flatten(1))

    def called(self, inputs: Inputs) -> dict[str, Any]:
        """Call the attention, and return what the names in expressions stand for."""
        names = {
            "attention": self.attention,
            "torch": torch,
            "values": inputs.keys.cos(),  # they follow from the keys, but differ from them
            **inputs._asdict(),
        }
        is_masked = self.needs_mask or not inputs.valid.all()
        exec(self.call.replace("{mask}", self.mask if is_masked else "None"), names)
        return names

    @property
    def code(self) -> str:
        """The call with its mask"""
        return self.call.replace("{mask}", self.mask)

    @property
    def omitted(self) -> list[str]:
        """The arguments that the call leaves to their defaults"""
        names = inspect.signature(_function(self.attention)).parameters
        return [name for name in names if f"{name}=" not in self.call]

    def __str__(self) -> str:
        names = [name for name in ("query", "keys", "valid", "values") if name in self.code]
        lines = [
            f"def attend({', '.join(names)}):",
            *self.code.split("; "),
            f"return {self.context}, {self.weights}",
        ]
        return "\n    ".join(lines)


Way = tuple[Adapter, Inputs]
Widths = tuple[int, int]


def find_adapter(attention: Any, widths: Sequence[Widths]) -> Way:
    """Return how the attention is called, and inputs of the widths that it takes: the first way
    that is plausible, or else the first that runs. Raises `Seq2AttnError` if none runs.
    """
    running: list[Way] = []
    problems: list[tuple[int, str]] = []
    for adapter, inputs in _ways(attention, widths):
        try:
            adapter = _with_outputs(adapter, inputs.unmasked)
        except Exception as error:
            problems.append(_problem(adapter, error))
            continue
        running.append((adapter, inputs))
        if _misfit(adapter, inputs.unmasked) == 0:
            others = [replace(adapter, mask=mask) for mask in adapter.masks]
            return min(others, key=lambda other: _misfit(other, inputs)), inputs
    if running:
        return running[0]
    _, problem = min(problems, key=itemgetter(0))
    raise Seq2AttnError(f"the attention cannot be examined: {problem}", hint=HINT)


def _problem(adapter: Adapter, error: Exception) -> tuple[int, str]:
    """Return what a call ended with, and its rank: no weights say most; without a mask, least."""
    call = f"in `{adapter.code}`"
    if str(error) == NO_WEIGHTS:
        return 0, f"{error}, {call}"
    attention = adapter.attention
    source = type(attention) if isinstance(attention, nn.Module) else attention
    text = f"{line_of(source, error)}: {type(error).__name__}: {error}, {call}"
    return 2 - adapter.needs_mask, text


def draw_inputs(widths: Widths, rows: int = B, length: int = S) -> Inputs:
    """Draw a query and keys; the second row is the longest, the first and the last are short."""
    query_width, key_width = widths
    query = torch.randn(rows, query_width)
    keys = torch.randn(rows, length, key_width)
    lengths = torch.linspace(length, min(length, 2), rows).roll(1)
    valid = torch.arange(length) < lengths.unsqueeze(1)
    return Inputs(query, keys, valid)


def gap(left: Tensor, right: Tensor | float) -> float:
    """Return the largest difference; infinity where a number is NaN."""
    differences = (left - right).abs().nan_to_num(torch.inf)
    return max(differences.flatten().tolist(), default=0.0)


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Set the numbers, their types and the modes of a module to what they were, in the end."""
    modes = {part: part.training for part in module.modules()}
    saved = {}
    for name, tensor in _tensors(module):
        if not is_lazy(tensor):  # otherwise it has no numbers yet
            saved[name] = tensor.detach().clone()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        for name, tensor in _tensors(module):
            if name in saved:
                tensor.data = saved[name]


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(module.named_parameters(), module.named_buffers())


# ---- calls ----


def _ways(attention: Any, widths: Sequence[Widths]) -> Iterator[Way]:
    """Yield adapters that only lack the outputs, the usual ones first, with inputs."""
    roles = _roles(_function(attention))
    first = [code for name, code in CATALOGUE["first"].items() if hasattr(attention, name)]
    mask = next((role for role in MASKS if role in roles), "mask")
    for query, keys in product(SHAPES["query"], SHAPES["keys"]):
        texts = {
            "query": query,
            "keys": keys,
            "values": keys.replace("keys", "values"),
            mask: "{mask}",
        }
        given = [f"{roles[role]}={text}" for role, text in texts.items() if role in roles]
        call = "; ".join([*first, f"result = attention({', '.join(given)})"])
        masks = SHAPES[mask] if "{mask}" in call else [""]
        usual = Adapter(attention, call, masks, masks[0])
        for pair in widths:
            inputs = draw_inputs(pair)
            yield usual, inputs
            for text in masks:
                yield replace(usual, mask=text, needs_mask=True), inputs


def _function(attention: Any) -> Any:
    return attention.forward if isinstance(attention, nn.Module) else attention


def _roles(function: Any) -> dict[str, str]:
    """Return the argument of each role, by its name; required arguments with other names get the
    roles that are left, in their order.
    """
    roles: dict[str, str] = {}
    for name in inspect.signature(function).parameters:
        roles.setdefault(ROLES.get(name.lower(), ""), name)
    roles.pop("", None)
    left = [role for role in ("query", "keys", "mask") if role not in roles]
    others = [name for name in required(function) if name.lower() not in ROLES]
    return {**roles, **dict(zip(left, others, strict=False))}


def required(function: Any) -> list[str]:
    """Return the names of the arguments without a default value."""
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is parameter.empty and "*" not in str(parameter):
            names.append(name)
    return names


# ---- what is returned ----


def _with_outputs(adapter: Adapter, inputs: Inputs) -> Adapter:
    """Find weights and context in the result, by the sizes of their axes."""
    result = adapter.called(inputs.copy())["result"]
    values = {"result": result}
    if isinstance(result, dict):
        values = {f"result[{key!r}]": value for key, value in result.items()}
    elif isinstance(result, tuple | list):
        values = {f"result[{index}]": value for index, value in enumerate(result)}
    for name, value in getattr(adapter.attention, "__dict__", {}).items():
        values[f"attention.{name}"] = value  # as d2l keeps its weights
    weights = ""
    context = "None"
    for name, value in values.items():
        sizes = list(value.shape) if isinstance(value, Tensor) else []
        if B not in sizes:
            continue
        batch = sizes.index(B)
        if not weights and sizes.count(S) == 1 and value.numel() < 5 * B * S:
            axes = batch, sizes.index(S)
            is_usual = axes == (0, len(sizes) - 1)
            weights = name if is_usual else f"{name}.movedim({axes}, (0, -1))"
        elif context == "None" and len({*sizes} - {1}) == 2:
            context = f"{name}.movedim({batch}, 0)" if batch else name
    if not weights:
        raise ValueError(NO_WEIGHTS)
    return replace(adapter, weights=weights, context=context)


def _misfit(adapter: Adapter, inputs: Inputs) -> float:
    """Return how much sums of weights differ from 1, padding gets weight, and results change with
    padding or the other rows.
    """
    rows = slice(1, None)
    try:
        result = adapter(inputs)
        noisy = adapter(inputs.with_noise())
        alone = adapter(inputs.select(rows))
        gaps = (
            gap(result.weights.sum(2), 1),
            gap(result.weights * inputs.padding, 0),
            gap(result.weights, noisy.weights),
            gap(result.context, noisy.context),
            gap(result.joined[rows], alone.joined),
        )
        return round(sum(gaps), 3)
    except Exception:
        return torch.inf
