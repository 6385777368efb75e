"""`luong`: step, then attend."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2attn import kernels
from seq2attn.model.attention import Attention, Memory, NoAttention
from seq2attn.model.cells import GRU, Cell, Cells, State
from seq2attn.model.decoder import Decoder, DecoderState
from seq2attn.model.interface import Decoded


class LuongDecoder(Decoder):
    """Step, then attend with the new state (Luong et al. 2015, eq. 5 and 6).

    s_t = cell(emb(y_{t-1}), s_{t-1});  c_t = attention(s_t);  a_t = tanh(W_c [c_t; s_t]);  logits = W_o a_t + b

    input_feeding: the cell also reads the previous attentional vector, [emb(y_{t-1}); a_{t-1}], zeros at first
        (section 3.3). Without it, states do not depend on attention: teacher forcing runs the cell over all positions first,
        then attends with all states at once.
    """

    kernel = "reader"

    def __init__(
        self,
        vocabulary_size: int,
        embedding: int,
        attention: Attention | NoAttention,
        cells: Cells,
        *,
        input_feeding: bool = False,
    ) -> None:
        super().__init__(vocabulary_size, embedding, attention, cells, output_width=cells.width)
        self.input_feeding = input_feeding
        recurrent = cells.stack(embedding + cells.width * input_feeding)
        self.cell_name = "gru" if isinstance(recurrent, GRU) else "cell"
        self.add_module(self.cell_name, recurrent)
        self.combine = nn.Linear(attention.context_width + cells.width, cells.width, bias=False)  # W_c

    @property
    def recurrent(self) -> Cell:
        cell: Cell = getattr(self, self.cell_name)
        return cell

    @property
    def _combination(self) -> nn.Linear:
        return self.combine

    def begin(self, first: State, memory: Memory) -> DecoderState:
        state = super().begin(first, memory)
        fed = torch.zeros_like(self.recurrent.output(first)) if self.input_feeding else None
        return state._replace(attentional=fed)

    def forward(self, tokens: Tensor, lengths: Tensor | None, state: DecoderState, memory: Memory) -> Decoded:
        if self.input_feeding:
            return self.forward_in_order(tokens, lengths, state, memory)
        compiled = self._compiled(tokens, lengths, state, memory)
        if compiled is not None:
            return compiled
        states = self._states(tokens, lengths, state.cell)  # (B, L, D)
        if state.past is None:
            attended = self.attention(states, memory, None, state.position)
            return self.decode(self._combine(attended.context, states), attended.weights, memory)
        contexts, weights, past = [], [], state.past
        for index, query in enumerate(torch.split(states, 1, dim=1)):  # (B, 1, D) each
            attended = self.attention(query, memory, past, state.position + index)
            past = attended.past
            contexts.append(attended.context)
            weights.append(attended.weights)
        features = self._combine(torch.cat(contexts, dim=1), states)
        return self.decode(features, torch.cat(weights, dim=1), memory)

    def _states(self, tokens: Tensor, lengths: Tensor | None, first: State) -> Tensor:
        """The cell's outputs over all positions: tokens (B, L) -> (B, L, D)."""
        fast = kernels.recurrence(self, tokens, lengths, self.recurrent, first)
        if fast is not None:
            return fast[0]
        states: Tensor = self.recurrent(self.embed(tokens), first)[0]
        return states

    def advance(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor, Tensor | None]:
        inputs = embedded if state.attentional is None else torch.cat([embedded, state.attentional], dim=1)
        output, cell = self.recurrent(inputs, state.cell)  # (B, D)
        query = output.unsqueeze(1)
        attended = self.attention(query, memory, state.past, state.position)
        vector = self._combine(attended.context, query).squeeze(1)  # (B, D)
        weights = None if attended.weights is None else attended.weights.squeeze(1)
        fed = vector if self.input_feeding else None
        return DecoderState(cell, state.position + 1, attended.past, fed), vector, weights

    def _combine(self, context: Tensor, states: Tensor) -> Tensor:
        """The attentional vectors of contexts (B, L, Dv) and states (B, L, D): (B, L, D)."""
        return torch.tanh(self.combine(torch.cat([context, states], dim=2)))
