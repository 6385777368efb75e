"""`bahdanau`: attend, then step."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.cells import Cell, Cells
from seq2attn.model.decoder import Decoder, DecoderState


class BahdanauDecoder(Decoder):
    """Attend with the previous state, then step (Bahdanau et al. 2015).

    c_t = attention(s_{t-1});  s_t = cell([emb(y_{t-1}); c_t], s_{t-1});  logits = W_o [s_t; c_t] + b
    """

    kernel = "reader"

    def __init__(self, vocabulary_size: int, embedding: int, attention: Attention | NoAttention, cells: Cells) -> None:
        width = cells.width + attention.context_width
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=width)
        self.cell = cells.stack(embedding + attention.context_width, steps=True)

    @property
    def recurrent(self) -> Cell:
        return self.cell

    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        query = self.cell.output(state.cell).unsqueeze(1)  # (B, 1, D)
        attended = self.attention(query, memory, state.past, state.position)
        context = attended.context.squeeze(1)  # (B, Dv)
        output, cell = self.cell(torch.cat([embedded, context], dim=1), state.cell)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        state = DecoderState(cell, state.position + 1, attended.past)
        return state, torch.cat([output, context], dim=1), weights
