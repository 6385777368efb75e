"""What the checks examine: an attention with inputs."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seq2attn.doctor.adapter import Adapter, B, Inputs, Result, S, draw_inputs, with_values

MORE = 3  # columns of padding


@dataclass(frozen=True)
class Trial:
    """An attention with inputs, which keeps the rules of the contract of our own parts."""

    adapter: Adapter
    batch: Inputs
    module: nn.Module
    expect: str | None = None

    @property
    def takes_mask(self) -> bool:
        """True if there is an argument for the mask"""
        return "{mask}" in self.adapter.call

    @property
    def padding(self) -> Tensor:
        """(B, 1, S) True = padding"""
        return ~self.batch.valid.unsqueeze(1)

    @property
    def unmasked(self) -> Inputs:
        """The inputs without a mask"""
        return self.batch._replace(valid=None)

    @torch.no_grad()
    def run(self, inputs: Inputs | None = None) -> Result:
        """Call it, without a mask if it takes none."""
        given = inputs or self.batch
        if not self.takes_mask:
            given = given._replace(valid=None)
        return self.adapter(given)

    def forward(self, inputs: Inputs | None = None) -> Tensor:
        """Return weights, 0 on padding, and the context side by side, (B, H S + Dv)."""
        result = self.run(inputs)
        return result._replace(weights=result.weights[..., :S]).joined

    def draw(self, rows: int = B, length: int = S, scale: float = 1) -> Inputs:
        """Draw other inputs."""
        widths = self.batch.query.size(1), self.batch.keys.size(2)
        drawn = draw_inputs(widths, rows, length)
        return with_values(drawn._replace(query=drawn.query * scale, keys=drawn.keys * scale))

    def other_padding(self) -> Iterator[Inputs]:
        """Yield the inputs with other numbers in their padding, and then with more of it."""
        query, keys, valid, _ = self.batch
        noise = 3 * torch.randn_like(keys)
        yield with_values(Inputs(query, torch.where(self.padding.mT, noise, keys), valid, keys))
        wider = pad(keys, (0, 0, 0, MORE), value=1.0)
        yield with_values(Inputs(query, wider, pad(valid, (0, MORE)), keys))


def first_line(error: Exception) -> str:
    """Return an exception as one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:160]


def gap(left: Tensor, right: Tensor) -> float:
    """Return the largest difference; infinity where a number is NaN."""
    differences = (left - right).abs().nan_to_num(torch.inf)
    return max(differences.flatten().tolist(), default=0.0)


def sums(result: Result) -> Tensor:
    """Sum the weights of each row: (B, H)."""
    return result.weights.sum(2)
