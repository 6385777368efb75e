"""An encoder that looks at neighbours."""

import torch
from torch import nn

from seq2attn import Encoded, Encoder, register
from seq2attn.data.batches import valid_mask


@register("convolutional", formula="h' = h + tanh(F * h), in each layer")
class Convolutional(Encoder):
    """Each state depends on its neighbours.

    reach: positions that a layer sees to each side
    """

    def __init__(self, vocabulary_size, embedding, cells, *, reach: int = 2):
        super().__init__(vocabulary_size, embedding, cells)
        sizes = self.width, self.width, 2 * reach + 1
        layers = [nn.Conv1d(*sizes, padding=reach) for _ in range(cells.layers)]
        self.first, self.layers = nn.Linear(embedding, self.width), nn.ModuleList(layers)

    def encode(self, embedded, lengths):  # (B, S, E), (B,)
        real = valid_mask(lengths, embedded.size(1)).unsqueeze(2)  # (B, S, 1)
        states = self.first(embedded) * real  # (B, S, D)
        for layer in self.layers:
            states = (states + torch.tanh(layer(states.mT).mT)) * real
        return Encoded(states, (states.sum(1) / lengths.unsqueeze(1),))  # the mean: (B, D)
