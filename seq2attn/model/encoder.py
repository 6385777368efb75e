"""GRU encoder, in one direction or both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


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
    """

    def __init__(self, vocabulary_size: int, embedding: int, hidden: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.gru = nn.GRU(embedding, hidden, batch_first=True)
        self.backward_gru = nn.GRU(embedding, hidden, batch_first=True) if bidirectional else None
        self.hidden = hidden
        self.width = 2 * hidden if bidirectional else hidden

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """source (B, S) ids, right-padded; lengths (B,) real tokens, at least 1."""
        embedded = self.embedding(source)  # (B, S, E)
        states = self.gru(embedded)[0]  # (B, S, D)
        last = (lengths - 1).view(-1, 1, 1).expand(-1, -1, self.hidden)  # (B, 1, D)
        final = states.gather(1, last).squeeze(1)  # (B, D)
        if self.backward_gru is None:
            return Encoded(states, final)
        flip = _flip_index(lengths, source.size(1)).unsqueeze(2)  # (B, S, 1)
        flipped = embedded.gather(1, flip.expand_as(embedded))
        backward = self.backward_gru(flipped)[0].gather(1, flip.expand_as(states))  # (B, S, D)
        return Encoded(torch.cat([states, backward], dim=2), torch.cat([final, backward[:, 0]], dim=1))


def _flip_index(lengths: Tensor, width: int) -> Tensor:
    """(B,) -> (B, width): an index that turns each row's real part around and leaves its padding in place.

    >>> _flip_index(torch.tensor([3]), 5)
    tensor([[2, 1, 0, 3, 4]])
    """
    positions = torch.arange(width, device=lengths.device)
    turned = lengths.unsqueeze(1) - 1 - positions
    return torch.where(turned >= 0, turned, positions)
