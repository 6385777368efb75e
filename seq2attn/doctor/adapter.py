"""Finds how an attention is called: which argument is the query, and what shapes it takes.

An adapter is the source of a function `attend(query, keys, valid, values)`, so that what is tried
is what is shown: query (B, Dq), keys (B, S, Dk), valid (B, S), True = real token, or None, and
values (B, S, Dk), to the weights (B, H, S) and the context (B, Dv) or None.
"""

import contextlib
import inspect
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.errors import Seq2AttnError

CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
ROLES = {name: role for role, names in CATALOGUE["roles"].items() for name in names.split()}
SHAPES = CATALOGUE["shapes"]
MASKS = ("valid", "lengths", "mask")  # roles
B, S = 5, 7  # rows and keys while shapes are tried: no widths
SIZES = (16, 12, 20, 8)  # of what a constructor is given


class Inputs(NamedTuple):
    """Arguments of `attend`."""

    query: Tensor
    keys: Tensor
    valid: Any
    """or None"""
    values: Tensor

    def copy(self) -> "Inputs":
        """Return copies."""
        return Inputs(*(value if value is None else value.clone() for value in self))  # type: ignore[arg-type]

    def select(self, rows: slice) -> "Inputs":
        """Return these rows of the batch."""
        valid = None if self.valid is None else self.valid[rows]
        return Inputs(self.query[rows], self.keys[rows], valid, self.values[rows])


class Result(NamedTuple):
    """What `attend` returns."""

    weights: Tensor
    """(B, H, S) of H heads"""
    context: Tensor
    """(B, Dv); (B, 0) if none is returned"""

    @property
    def joined(self) -> Tensor:
        """(B, H S + Dv)"""
        return torch.cat([self.weights.flatten(1), self.context], dim=1)


@dataclass(frozen=True)
class Adapter:
    """How `attention` is called; the texts are expressions of Python."""

    attention: Any
    call: str
    """with `{mask}` where the mask stands, if it takes one"""
    mask: str = ""
    weights: str = "result[1]"
    context: str = "result[0]"
    needs_mask: bool = False

    def __call__(self, inputs: Inputs) -> Result:
        names = self.called(inputs.copy())
        weights = eval(self.weights, names)
        weights = weights.unsqueeze(1) if weights.dim() == 2 else weights
        if weights.shape[::2] != inputs.keys.shape[:2]:
            raise ValueError(f"weights of shape {tuple(weights.shape)}")
        context = eval(self.context, names)
        return Result(weights, weights.new_zeros(len(weights), 0) if context is None else context)

    def called(self, inputs: Inputs) -> dict[str, Any]:
        """Call the attention, and return what the names in expressions stand for."""
        if inputs.valid is None and self.needs_mask:
            inputs = inputs._replace(valid=torch.ones(inputs.keys.shape[:2], dtype=torch.bool))
        names = {"attention": self.attention, "torch": torch, **inputs._asdict()}
        mask = "None" if inputs.valid is None else self.mask
        exec(self.call.replace("{mask}", mask), names)
        return names

    def __str__(self) -> str:
        code = self.call.replace("{mask}", self.mask).replace("; ", "\n    ")
        names = [name for name in Inputs._fields if name in code]
        body = f"    {code}\n    return {self.context}, {self.weights}"
        return f"def attend({', '.join(names)}):\n{body}"


def find_adapter(attention: Any, widths: Sequence[tuple[int, int]]) -> tuple[Adapter, Inputs]:
    """Return how the attention is called, and inputs of the widths that it takes: the first way
    that is plausible, or else the first that runs. Raises `Seq2AttnError` if none runs.
    """
    running: list[tuple[Adapter, Inputs]] = []
    problems: list[str] = []
    for call, role in _calls(attention):
        masks = SHAPES.get(role, [""])
        for pair in widths:
            inputs = draw_inputs(pair)
            for mask, needs_mask in [(masks[0], False), *((mask, True) for mask in masks if mask)]:
                adapter = Adapter(attention, call, mask, needs_mask=needs_mask)
                try:
                    adapter = _with_outputs(adapter, inputs._replace(valid=None))
                except Exception as error:
                    problems.append(f"{call}: {error}".replace("{mask}", mask).partition("\n")[0])
                    continue
                running.append((adapter, inputs))
                if _is_plausible(adapter, inputs):
                    return _with_mask(adapter, masks, inputs), inputs
                if not needs_mask:
                    break
    if running:
        adapter, inputs = running[0]
        return adapter, inputs
    without = [problem for problem in problems if "no weights" in problem]
    raise Seq2AttnError(
        next(iter(without + problems), "it takes no query and no keys"),
        hint="Name a function attend(query, keys, valid) of shapes (B, Dq), (B, S, Dk) and (B, S) "
        "that calls it and returns context (B, Dv) or None, and weights (B, S).",
    )


@torch.no_grad()
def _with_outputs(adapter: Adapter, inputs: Inputs) -> Adapter:
    """Find weights and context in the result, by the sizes of their axes."""
    names = adapter.called(inputs.copy())
    result = names["result"]
    values = {"result": result} if isinstance(result, Tensor) else {}
    if isinstance(result, tuple | list):
        values = {f"result[{index}]": value for index, value in enumerate(result)}
    for name, value in getattr(adapter.attention, "__dict__", {}).items():
        values[f"attention.{name}"] = value  # as d2l keeps its weights
    weights, context = "", "None"
    for name, value in values.items():
        sizes = list(value.shape) if isinstance(value, Tensor) and value.is_floating_point() else []
        others = sorted(set(sizes) - {1})
        if not weights and sizes.count(S) == 1 and B in sizes and value.numel() < 5 * B * S:
            axes = sizes.index(B), sizes.index(S)
            weights = name if axes == (0, len(sizes) - 1) else f"{name}.movedim({axes}, (0, -1))"
            weights += ".flatten(1, -2)" if len(sizes) > 3 else ""
        elif context == "None" and B in sizes and len(others) == 2:
            batch = sizes.index(B)
            context = name if batch == 0 else f"{name}.movedim({batch}, 0)"
            context += ".flatten(1)" if len(sizes) > 2 else ""
    if not weights:
        shapes = [tuple(value.shape) for value in values.values() if isinstance(value, Tensor)]
        raise ValueError(f"no weights (B, S) = {(B, S)} in what it returns, {shapes}")
    return replace(adapter, weights=weights, context=context)


@torch.no_grad()
def _is_plausible(adapter: Adapter, inputs: Inputs) -> bool:
    """Return True if weights sum to 1 over the keys, and rows do not depend on the first row."""
    given, rows = inputs._replace(valid=None), slice(1, None)
    try:
        weights = adapter(given).weights
        without = adapter(given.select(rows)).weights
    except Exception:
        return False
    is_alike = without.shape == weights[rows].shape and torch.allclose(without, weights[rows])
    return is_alike and bool((weights.sum(2) - 1).abs().max() < 1e-3)


@torch.no_grad()
def _with_mask(adapter: Adapter, masks: Sequence[str], inputs: Inputs) -> Adapter:
    """Return the adapter with the mask that suits best: what padding holds should change nothing,
    and padding should get no weight.
    """
    padding = ~inputs.valid.unsqueeze(2)
    noise = torch.where(padding, torch.randn_like(inputs.keys), inputs.keys)
    other = with_values(inputs._replace(keys=noise))
    suits: dict[tuple[bool, float], Adapter] = {}
    for mask in masks if "{mask}" in adapter.call else ():
        masked = replace(adapter, mask=mask)
        with contextlib.suppress(Exception):
            first, second = masked(inputs), masked(other)
            which = "context" if first.context.size(1) else "weights"
            change = getattr(first, which) - getattr(second, which)
            is_same = bool(change.abs().max() < 1e-4)
            on_padding = float((first.weights.mT * padding).sum().nan_to_num(torch.inf))
            suits.setdefault((not is_same, on_padding), masked)
    return suits[min(suits)] if suits else adapter


def draw_inputs(widths: tuple[int, int], rows: int = B, length: int = S) -> Inputs:
    """Draw a query and keys; the first row is the longest."""
    query, keys = torch.randn(rows, widths[0]), torch.randn(rows, length, widths[1])
    lengths = (length - 2 * torch.arange(rows)).clamp(min=min(2, length))
    valid = torch.arange(length) < lengths.unsqueeze(1)
    return with_values(Inputs(query, keys, valid, keys))


def with_values(inputs: Inputs) -> Inputs:
    """Return the inputs with values that follow from the keys, but differ from them."""
    return inputs._replace(values=inputs.keys.cos())


def _calls(attention: Any) -> Iterator[tuple[str, str]]:
    """Yield the call with each shape of query and keys, and the role of the mask, if any."""
    function = attention.forward if isinstance(attention, nn.Module) else attention
    roles = _roles(function)
    mask = next((role for role in roles.values() if role in MASKS), "")
    first = [code for name, code in CATALOGUE["first"].items() if hasattr(attention, name)]
    if any("{mask}" in code for code in first):
        mask = "mask"
    for query, keys in product(SHAPES["query"], SHAPES["keys"]):
        texts = {"query": query, "keys": keys, "values": keys.replace("keys", "values")}
        texts[mask] = "{mask}"
        arguments = [f"{name}={texts[role]}" for name, role in roles.items()]
        yield "; ".join([*first, f"result = attention({', '.join(arguments)})"]), mask


def _roles(function: Callable[..., Any]) -> dict[str, str]:
    """Return the role of each argument, by its name; the roles that are left, in their order, are
    those of required arguments with other names.
    """
    roles: dict[str, str] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        needed = parameter.default is parameter.empty and not parameter.kind.name.startswith("VAR")
        role = ROLES.get(name.lower(), "")
        if role not in roles.values() and (role or needed):
            roles[name] = role
        elif needed:
            roles[name] = ""
    left = [role for role in ("query", "keys", "mask") if role not in roles.values()]
    for name, role in roles.items():
        if not role and left:
            roles[name] = left.pop(0)
    return {name: role for name, role in roles.items() if role}
