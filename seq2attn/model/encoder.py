"""GRU encoder, in one direction or both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2attn.data.padding import valid_mask
from seq2attn.kernels.packing import pack_all, pack_lengths
from seq2attn.model.recurrence import GRUWeights, gru_recurrence
from seq2attn.model.resets import Reset, Resets


@dataclass(frozen=True)
class Encoded:
    """What the encoder read."""

    states: Tensor
    """(B, S, width) one state a position, forward then backward half; past a source's end they mean nothing"""
    final: Tensor
    """(B, width) forward state at each source's last token, then backward state at its first"""


class Encoder(nn.Module):
    """Embedding and a one-layer GRU (Cho et al. 2014); `bidirectional` adds a second GRU that reads backwards.

    The backward GRU reads each source from its own last token, so that no state depends on padding.

    reads_padding: go on reading past a source's end, as a model does whose attention does not mask padding. Otherwise the
    states there may be zeros.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        hidden: int,
        *,
        bidirectional: bool = False,
        reads_padding: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.gru = nn.GRU(embedding, hidden, batch_first=True)
        self.backward_gru = nn.GRU(embedding, hidden, batch_first=True) if bidirectional else None
        self.reads_padding = reads_padding
        self.hidden = hidden
        self.width = 2 * hidden if bidirectional else hidden

    def forward(self, source: Tensor, lengths: Tensor, resets: Resets | None = None) -> Encoded:
        """source (B, S) ids, right-padded; lengths (B,) real tokens, at least 1."""
        onward, back = (None, None) if resets is None else (resets.forward, resets.backward)
        states, final = self._read(self.gru, source, lengths, onward)
        if self.backward_gru is None:
            return Encoded(states, final)
        flip = _flip_index(lengths, source.size(1))  # (B, S)
        flipped, first = self._read(self.backward_gru, source.gather(1, flip), lengths, back)
        backward = flipped.gather(1, flip.unsqueeze(2).expand_as(flipped))  # (B, S, D)
        return Encoded(torch.cat([states, backward], dim=2), torch.cat([final, first], dim=1))

    def _read(self, gru: nn.GRU, source: Tensor, lengths: Tensor, reset: Reset | None) -> tuple[Tensor, Tensor]:
        """All states (B, S, D) of one GRU, and the one at each source's last token (B, D).

        Past a source's end stands its last state: masked there, but something that any score is defined on. Read by our own
        recurrence on a CPU, elsewhere by the device's, with resets one position after another.
        """
        if reset is not None:
            states = _read_by_steps(gru, self.embedding(source), reset)
        elif source.device.type == "cpu":
            packing = None if self.reads_padding else pack_lengths(lengths, source.size(1))
            weights = GRUWeights.of(self.embedding, gru)
            first = weights.weight_hh.new_zeros(len(source), self.hidden)
            states, last = gru_recurrence(source, weights, first, packing or pack_all(*source.shape))
            if packing is not None:
                return states, last
        else:
            states = gru(self.embedding(source))[0]
        at_end = (lengths - 1).view(-1, 1, 1).expand(-1, -1, self.hidden)  # (B, 1, D)
        final = states.gather(1, at_end).squeeze(1)  # (B, D)
        if not self.reads_padding:
            valid = valid_mask(lengths, source.size(1)).unsqueeze(2)
            states = torch.where(valid, states, final.detach().unsqueeze(1))
        return states, final


def _read_by_steps(gru: nn.GRU, embedded: Tensor, reset: Reset) -> Tensor:
    """All states (B, S, D) of a GRU that reads (B, S, E) with resets."""
    state = embedded.new_zeros(len(embedded), gru.hidden_size)
    states = []
    for position, given in enumerate(embedded.unbind(1)):  # (B, E) each
        state = torch.gru_cell(given, reset(state, position), *gru.all_weights[0])
        states.append(state)
    return torch.stack(states, dim=1)


def _flip_index(lengths: Tensor, width: int) -> Tensor:
    """(B,) -> (B, width): an index that turns each row's real part around and leaves its padding in place.

    >>> _flip_index(torch.tensor([3]), 5)
    tensor([[2, 1, 0, 3, 4]])
    """
    positions = torch.arange(width, device=lengths.device)
    turned = lengths.unsqueeze(1) - 1 - positions
    return torch.where(turned >= 0, turned, positions)
