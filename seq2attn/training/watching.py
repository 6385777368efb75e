"""Watching a model compute: the first tensor that is not finite, and what a plug-in's code does wrong."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.config.plugin_errors import OwnPart, part_of_class
from seq2attn.errors import Seq2AttnError

ANY_TYPE = {"project", "read"}  # their results are passed to other methods of the same part only


@dataclass(frozen=True)
class Culprit:
    """A tensor that is not finite, and the plug-in's part it is from, if it is from one."""

    tensor: str
    part: OwnPart | None = None


class Watch:
    """The first tensor that is not finite among the results of a model's modules, and of the methods of a plug-in's parts.

    Raises `Seq2AttnError` where a part of a plug-in changes a tensor that it was given, returns nothing, or returns numbers
    of another type than `dtype`.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.model = model
        self.dtype = dtype
        self.culprit: Culprit | None = None
        for name, parameter in model.named_parameters():
            self._look(parameter, f"the parameter {name}", _part_around(model, name))

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Watch while the block runs."""
        with contextlib.ExitStack() as stack:
            for name, module in self.model.named_modules():
                part = part_of_class(type(module))
                for method, defined in _interface(type(module)).items() if part else ():
                    module.__dict__[method] = self._watched(part, method, getattr(module, method), defined)
                    stack.callback(module.__dict__.pop, method)
                if part is None:
                    hook = module.register_forward_hook(self._hook(name))
                    stack.callback(hook.remove)
            yield

    def look_at_gradients(self) -> None:
        """Look at the parameters' gradients, those that were computed first before the others."""
        for name, parameter in reversed(list(self.model.named_parameters())):
            if parameter.grad is not None:
                self._look(parameter.grad, f"the gradient of {name}", _part_around(self.model, name))

    def _look(self, result: Any, what: str, part: OwnPart | None) -> None:
        if self.culprit is None and any(not torch.isfinite(one).all() for one in _numbers(result)):
            self.culprit = Culprit(what, part)

    def _hook(self, name: str) -> Callable[..., None]:
        def look(module: nn.Module, inputs: Any, result: Any) -> None:
            self._look(result, f"the output of {name or 'the model'}", _part_around(self.model, name))

        return look

    def _watched(
        self, part: OwnPart | None, name: str, method: Callable[..., Any], defined: Callable[..., Any]
    ) -> Callable[..., Any]:
        """defined: the method of the base class, whose annotation says whether it may return None."""
        may_be_none = str(inspect.signature(defined).return_annotation).endswith("None")

        def call(*arguments: Any, **keywords: Any) -> Any:
            given = [(one, one._version) for one in _tensors((arguments, keywords))]
            result = method(*arguments, **keywords)
            problem = ""
            if any(one._version != version for one, version in given):
                problem = f"{name} changes a tensor that it was given, in place; work on a copy"
            elif result is None and not may_be_none:
                problem = f"{name} returns nothing; does it end without `return`?"
            elif name not in ANY_TYPE:
                other = next((one.dtype for one in _numbers(result) if one.dtype != self.dtype), None)
                problem = (
                    f"{name} returns {other}, expected {self.dtype}, such as result.to(query.dtype)" if other else ""
                )
            if problem and part is not None:
                raise Seq2AttnError(f"{part}: {problem}", hint=f"Check it: {part.check}")
            self._look(result, f"what {name} of {part} returned", part)
            return result

        return call


def _part_around(model: nn.Module, name: str) -> OwnPart | None:
    """The innermost part of a plug-in that holds the module or parameter `name`."""
    found, module = part_of_class(type(model)), model
    for step in name.split("."):
        module = getattr(module, step, module)
        found = part_of_class(type(module)) or found
    return found


def _interface(cls: type) -> dict[str, Callable[..., Any]]:
    """The methods by which a model uses a part: those of the base class of its kind."""
    (base,) = [one for one in cls.__mro__ if "registry" in vars(one)]
    return {name: one for name, one in vars(base).items() if inspect.isfunction(one) and not name.startswith("_")}


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _tensors(one)


def _numbers(value: Any) -> Iterator[Tensor]:
    return (one for one in _tensors(value) if one.is_floating_point())
