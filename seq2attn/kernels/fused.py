"""Parts of a model by PyTorch's own fused operations: on a GPU far fewer launches than the formulas
of `model/`, whose numbers they give.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from seq2attn.model.cells import GRU, LSTM, State, TorchCell
from seq2attn.model.normalisers import Softmax
from seq2attn.model.points import is_hooked


class FusedGRU(GRU):
    """A step is one call, and so are all steps of a string (by cuDNN) unless states are reset."""

    def project_input(self, inputs: Tensor) -> Tensor:
        """Return the inputs (..., E) themselves: the fused step projects them."""
        return inputs

    def step(self, inputs: Tensor, state: State) -> State:
        return (torch.gru_cell(inputs, *state, *_weights(self)),)

    def forward(
        self, inputs: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        if inputs.size(1) == 1 or is_hooked(self):
            return super().forward(inputs, state, lengths)
        first = state[0].unsqueeze(0)
        weights = _weights(self)
        outputs, last = torch.gru(inputs, first, weights, True, 1, 0.0, True, False, True)
        if lengths is None:
            return outputs, (last.squeeze(0),)
        index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, self.width)  # (B, 1, D)
        return outputs, (outputs.gather(1, index).squeeze(1),)


class FusedLSTM(LSTM):
    """A step is one call."""

    def project_input(self, inputs: Tensor) -> Tensor:
        """Return the inputs (..., E) themselves: the fused step projects them."""
        return inputs

    def step(self, inputs: Tensor, state: State) -> State:
        return torch.lstm_cell(inputs, state, *_weights(self))


class FusedSoftmax(Softmax):
    """Mask and softmax are one call, for rows that have an allowed key."""

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        return torch._masked_softmax(scores, ~valid, -1, 2)  # 2: the mask has the scores' shape


def _weights(cell: TorchCell) -> list[Tensor]:
    return [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]


FUSED = {GRU: FusedGRU, LSTM: FusedLSTM, Softmax: FusedSoftmax}


@contextlib.contextmanager
def fused(parts: Iterable[nn.Module]) -> Iterator[None]:
    """In this context, these parts, of the exact classes above, use the fused operations."""
    classes = [(part, type(part)) for part in parts]
    try:
        for part, kind in classes:
            part.__class__ = FUSED[kind]
        yield
    finally:
        for part, kind in classes:
            part.__class__ = kind


def place_together(cell: GRU) -> None:
    """Move the weights of a cell on a GPU into one piece of memory, as cuDNN wants them."""
    module = nn.GRU(cell.input_width, cell.width, device="meta")
    for name, weight in cell.named_parameters():
        setattr(module, f"{name}_l0", weight)
    module.flatten_parameters()
