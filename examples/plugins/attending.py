"""An encoder that looks everywhere, as a Transformer's."""

from torch import nn

from seq2attn import Encoded, Encoder, register
from seq2attn.data.batches import valid_mask
from seq2attn.model.transformer import sinusoids


@register("attending", source="Vaswani et al. 2017")
class Attending(Encoder):
    """Positions attend to each other, as in a Transformer."""

    def __init__(self, vocabulary_size, embedding, cells, *, heads: int = 4):
        super().__init__(vocabulary_size, embedding, cells)
        self.first = nn.Linear(embedding, self.width)
        sizes = self.width, heads, 4 * self.width, cells.dropout
        layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, cells.layers, enable_nested_tensor=False)

    def encode(self, embedded, lengths):  # (B, S, E), (B,)
        valid = valid_mask(lengths, embedded.size(1))  # (B, S)
        positions = sinusoids(0, embedded.size(1), self.width).to(embedded)  # (S, D)
        states = self.layers(self.first(embedded) + positions, src_key_padding_mask=~valid)
        summary = (states * valid.unsqueeze(2)).sum(1) / lengths.unsqueeze(1)  # (B, D)
        return Encoded(states, (summary,))
