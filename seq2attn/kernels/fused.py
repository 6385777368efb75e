"""Parts of a model by PyTorch's own fused operations: on a GPU far fewer launches than the formulas
of `model/`, whose numbers they give.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.model.cells import GRU, LSTM, State, TorchCell, at_ends
from seq2attn.model.normalisers import Softmax
from seq2attn.model.points import is_hooked
from seq2attn.torch_private import masked_softmax


class Fused(nn.Module):
    """The fused form of a part, whose weights and points it shares."""

    def __init__(self, part: nn.Module) -> None:
        nn.Module.__init__(self)  # not the part's, which would make new weights
        vars(self).update(vars(part))


class FusedCell(Fused):
    """A cell whose step projects the inputs, too: what `project_input` did is left to it."""

    def project_input(self, inputs: Tensor) -> Tensor:
        """Return the inputs (..., E) themselves."""
        return inputs


class FusedGRU(FusedCell, GRU):
    """A step is one call, and so are all steps of a string (by cuDNN) unless states are reset."""

    def step(self, inputs: Tensor, state: State) -> State:
        return (torch.gru_cell(inputs, *state, *_weights(self)),)

    def forward(
        self, inputs: Tensor, state: State, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Compute the steps for inputs (B, S, E) from `state`, as `Cell.forward` does: all in one
        call of `torch.gru`, unless there is one step only, or a hook is on this cell.

        Returns the outputs (B, S, D), and the state after each row's last token; lengths (B,) of
        the rows, None: all S.
        """
        # a single step is one call of `step` anyway; hooks must get the state of each step
        if inputs.size(1) == 1 or is_hooked(self):
            return super().forward(inputs, state, lengths)
        first = state[0].unsqueeze(0)  # (1, B, D): an axis for layers
        outputs, last = torch.gru(
            inputs,
            first,
            _weights(self),
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=True,  # else cuDNN keeps nothing for the gradients
            bidirectional=False,
            batch_first=True,
        )
        # In memory, torch.gru has the axis S first. Dropout, which draws in the order of memory, is
        # to drop the same numbers as with the formulas.
        outputs = outputs.contiguous()
        if lengths is None:
            return outputs, (last.squeeze(0),)
        return outputs, (at_ends(outputs, lengths),)


class FusedLSTM(FusedCell, LSTM):
    """A step is one call."""

    def step(self, inputs: Tensor, state: State) -> State:
        return torch.lstm_cell(inputs, state, *_weights(self))


class FusedSoftmax(Fused, Softmax):
    """Mask and softmax are one call, for rows that have an allowed key."""

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        return masked_softmax(scores, ~valid, -1, 2)  # 2: the mask has the scores' shape


def _weights(cell: TorchCell) -> list[Tensor]:
    """Return the weights of a cell in the order in which torch takes them."""
    return [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]


FUSED: dict[type, type[Fused]] = {GRU: FusedGRU, LSTM: FusedLSTM, Softmax: FusedSoftmax}


class Place(NamedTuple):
    """The fused form of a part, and the module that owns the part as an attribute."""

    owner: nn.Module
    name: str
    fused: Fused


@contextlib.contextmanager
def fused(places: Iterable[Place]) -> Iterator[None]:
    """In this context, each fused form stands in the place of its part: it is the attribute of the
    part's owner. At the end, all parts are back, whatever happens.
    """
    with contextlib.ExitStack() as restoring:
        for owner, name, form in places:
            restoring.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, form)
        yield


def place_together(cell: GRU) -> None:
    """Move the weights of a cell on a GPU into one piece of memory, as cuDNN wants them."""
    module = nn.GRU(cell.input_width, cell.width, device="meta")  # without weights of its own
    for name, weight in cell.named_parameters():
        setattr(module, f"{name}_l0", weight)
    module.flatten_parameters()
