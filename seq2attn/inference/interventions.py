"""What a person changes while one string is decoded: weights, keys that may not be attended to, temperature, symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypedDict

import torch
from torch import Tensor

from seq2attn.data.padding import valid_mask
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError, is_number, shown
from seq2attn.model.interface import Intervention

MOST_PADDING = 1000


class AttentionChanges(TypedDict, total=False):
    """Those of `Changes` that concern attention, as keywords."""

    force: Mapping[tuple[int, int], float]
    ban: Collection[int | tuple[int, int]]
    temperature: float


class Interventions(AttentionChanges, total=False):
    """All of `Changes`, as keywords."""

    write: Mapping[int, str]
    padding: int
    mask_padding: bool | None


@dataclass(frozen=True)
class Changes:
    """The changes of one decoding. Steps of the output and positions of the source, as the model reads it, count from 0.

    A change at a step that is not reached has no effect. `seq2attn.model.interface` defines what each does to weights.
    """

    force: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """(step, position) -> the weight, from 0 to 1; the others of the step are scaled, so that its weights sum to 1"""
    ban: Collection[int | tuple[int, int]] = ()
    """positions that no step may attend to, and (step, position) for a single step"""
    temperature: float = 1.0  # the scores are divided by it
    write: Mapping[int, str] = field(default_factory=dict)
    """step -> the symbol that the output gets there, and the next step reads, in place of the model's own"""
    padding: int = 0  # how many `<pad>` follow the source
    mask_padding: bool | None = None  # whether padding is masked in attention; None: as the model does

    def __post_init__(self) -> None:
        force = isinstance(self.force, Mapping) and all(
            _is_cell(cell) and is_number(weight, 0, 1) for cell, weight in self.force.items()
        )
        ban = isinstance(self.ban, Collection) and all(_is_cell(place) or is_index(place) for place in self.ban)
        write = isinstance(self.write, Mapping) and all(map(is_index, self.write))
        write = write and all(isinstance(symbol, str) for symbol in self.write.values())
        padding = is_index(self.padding) and self.padding <= MOST_PADDING
        for name, right, wanted in (
            ("force", force, "(step, position) -> weight from 0 to 1, such as {(0, 1): 1.0}"),
            ("ban", ban, "positions, or (step, position), such as [2, (0, 4)]"),
            ("temperature", is_number(self.temperature, 0.001, 1000), "a number from 0.001 to 1000"),
            ("write", write, 'step -> symbol, such as {0: "x"}'),
            ("padding", padding, f"a whole number from 0 to {MOST_PADDING}"),
            ("mask_padding", self.mask_padding in (None, True, False), "True, False or None"),
        ):
            if not right:
                message = f"{name} must be {wanted}; found {shown(getattr(self, name))}"
                raise Seq2AttnError(message, hint="Steps and positions count from 0.")
        object.__setattr__(self, "ban", tuple(self.ban))  # a NumPy array compares by element

    @classmethod
    def of(cls, call: str, known: type, given: Mapping[str, Any]) -> Changes:
        """From the keywords of `call`, those of `known`. TypeError: another one."""
        for name in given.keys() - known.__annotations__.keys():
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
        return cls(**given)

    def check(self, positions: int) -> None:
        """Raise `Seq2AttnError` unless they fit a source of this many tokens, with its padding."""
        for position in [*(at for _, at in self.force), *(at[1] if isinstance(at, tuple) else at for at in self.ban)]:
            if position >= positions:
                raise Seq2AttnError(f"unknown position {position}; allowed: 0 to {positions - 1}, of this source")
        for step in {step for step, _ in self.force}:
            total = sum(weight for (at, _), weight in self.force.items() if at == step)
            if total > 1 + 1e-6:
                raise Seq2AttnError(f"the weights set at step {step} sum to {total:g}; at most 1 is allowed")

    def written(self, vocabulary: Vocabulary) -> dict[int, int]:
        """step -> the id that is written there. `<eos>` ends the output."""
        ids = {symbol: index for index, symbol in enumerate(vocabulary.tokens)}
        for step, symbol in self.write.items():
            if symbol not in ids:
                message = f"step {step} cannot write {symbol!r}, which is not a symbol of the model's outputs"
                raise Seq2AttnError(message, hint="`<eos>` ends the output.")
        return {step: ids[symbol] for step, symbol in self.write.items()}

    def during(self, source: Tensor, lengths: Tensor, dtype: torch.dtype) -> Callable[[int], Intervention] | None:
        """The interventions at each step of decoding source (B, S), lengths (B,); None if attention stays as it is.

        Raises as `check` does.
        """
        self.check(source.size(1))
        if not (self.force or self.ban or self.temperature != 1 or self.mask_padding is not None):
            return None
        return lambda step: self.at(step, lengths, source.size(1), dtype)

    def at(self, step: int, lengths: Tensor, width: int, dtype: torch.dtype) -> Intervention:
        """The intervention at one step, for rows of lengths (B,) in a source of `width` tokens, padding included."""
        rows, device = len(lengths), lengths.device
        banned = torch.zeros(rows, 1, width, dtype=torch.bool, device=device)
        forced = torch.zeros_like(banned)
        weights = torch.zeros(rows, 1, width, dtype=dtype, device=device)
        for place in self.ban:
            at, position = place if isinstance(place, tuple) else (step, place)
            if at == step:
                banned[:, :, position] = True
        for (at, position), weight in self.force.items():
            if at == step:
                forced[:, :, position] = True
                weights[:, :, position] = float(weight)
        valid = None
        if self.mask_padding is not None:
            valid = (valid_mask(lengths, width) if self.mask_padding else torch.ones_like(banned[:, 0])).unsqueeze(1)
        temperature = weights.new_full((rows, 1, 1), self.temperature)
        return Intervention(banned, forced, weights, temperature, valid)


def is_index(value: Any) -> bool:
    """Whether it is a whole number from 0, NumPy's too."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_cell(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_index, value))


UNCHANGED = Changes()
