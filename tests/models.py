"""Models and their parts as the tests need them, made of the classes themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2attn import parts
from seq2attn.data.batches import Batch
from seq2attn.model.attention import Attention, NoAttention
from seq2attn.model.cells import GRU, LSTM, RNN, Cell, Cells
from seq2attn.model.decoder import BahdanauDecoder, LuongDecoder, Reverser
from seq2attn.model.encoder import Bridge, Encoder, Last, Zeros
from seq2attn.model.hard_monotonic import HardMonotonicDecoder
from seq2attn.model.pointer import PointerDecoder
from seq2attn.model.scores import Score
from seq2attn.model.windows import LocalM, LocalP
from seq2attn.parts import NORMALISERS, SCORES

SIX_STEPS = {
    "steps": 6,
    "batch_size": 4,
    "evaluate_every": 6,
    "validation_samples": 2,
    "log_every": 1,
    "snapshots": 1,
}
"""a config's `training`"""
CELLS: dict[str, type[Cell]] = {"gru": GRU, "lstm": LSTM, "rnn": RNN}
INITIAL_STATES = {"zeros": Zeros, "last": Last, "bridge": Bridge}
ARRANGEMENTS: dict[str, Callable[..., Any]] = {
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
    "feeding": partial(LuongDecoder, input_feeding=True),
    "pointer": PointerDecoder,
    "hard_monotonic": HardMonotonicDecoder,
    "order 0": partial(HardMonotonicDecoder, order=0),
}
WINDOWS: dict[str, Callable[..., Any] | None] = {
    "global": None,
    "local_m": partial(LocalM, radius=1),
    "reversed": partial(LocalM, radius=1, centre="reversed"),
    "local_p": LocalP,
}
HISTORIES = parts.HISTORIES.names()
ATTENDING = [name for name in SCORES.names() if name != "none"]


def make_score(name: str, query_width: int, key_width: int, **options: Any) -> Score:
    """A score by its name, its weights drawn from torch's generator as it stands."""
    score: Score = SCORES.get(name).load()(query_width, key_width, **options)
    return score


def make_cells(
    cell: str | type[Cell] = "gru", width: int = 5, layers: int = 1, dropout: float = 0.0
) -> Cells:
    """Layers of a cell, by its name or class."""
    kind = CELLS[cell] if isinstance(cell, str) else cell
    return Cells(lambda input_width: kind(input_width, width), width, layers, dropout)


def make_model(
    score: str | type[Score] = "additive",
    *,
    cell: str | type[Cell] = "gru",
    layers: int = 1,
    dropout: float = 0.0,
    bidirectional: bool = False,
    initial_state: str = "zeros",
    arrangement: str = "bahdanau",
    window: str = "global",
    history: str = "none",
    normaliser: str = "softmax",
    scalable_softmax: bool = False,
    mask_padding: bool = True,
    source_eos: bool = False,
    vocabulary: int = 8,
    embedding: int = 4,
    hidden: int = 5,
    seed: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Reverser:
    """A model in training mode, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cells = make_cells(cell, hidden, layers, dropout)
        encoder = Encoder(vocabulary, embedding, cells, bidirectional=bidirectional)
        attention: Attention | NoAttention = NoAttention()
        if score != "none":
            made = (
                make_score(score, hidden, encoder.width)
                if isinstance(score, str)
                else score(hidden, encoder.width)
            )
            make_window, make_history = WINDOWS[window], parts.HISTORIES.load(history)
            attention = Attention(
                made,
                normaliser=NORMALISERS.load(normaliser)(),
                window=make_window and make_window(hidden, source_eos),
                history=make_history and make_history(hidden, encoder.width, made.feature_width),
                scalable_softmax=scalable_softmax,
                mask_padding=mask_padding,
            )
        decoder = ARRANGEMENTS[arrangement](vocabulary, embedding, attention, cells)
        model = Reverser(encoder, INITIAL_STATES[initial_state](encoder, decoder.cell), decoder)
        for weight in attention.parameters():
            if not weight.any():  # some start at zero, where mistakes do not show
                torch.nn.init.normal_(weight)
        return model if dtype == torch.get_default_dtype() else model.to(dtype)


def close(found: Any, expected: Any, tolerance: float = 1e-11) -> None:
    """Equal but for rounding in float64."""
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def as_batch(
    source: Tensor, lengths: Tensor, tokens: Tensor, decoder_lengths: Tensor | None = None
) -> Batch:
    """What a model is called with: source (B, S), lengths (B,), decoder input (B, L), of which by
    default all is real.
    """
    counts = (
        torch.full_like(lengths, tokens.size(1)) if decoder_lengths is None else decoder_lengths
    )
    return Batch(source, lengths, tokens, tokens, counts - 1, None)


def is_real(lengths: Tensor, width: int) -> Tensor:
    """lengths (B,) -> (B, width), True = a real token."""
    return torch.tensor(
        [[position < length for position in range(width)] for length in lengths.tolist()]
    )


def make_batch(
    lengths: tuple[int, ...] = (4, 2, 1),
    steps: int = 3,
    padding: int = 0,
    vocabulary: int = 8,
    garbage: int = 5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Source (B, S + padding) with `garbage` past each end, lengths (B,), decoder input (B, steps)."""
    random = torch.Generator().manual_seed(0)
    width = max(lengths)
    source = torch.randint(3, vocabulary, (len(lengths), width), generator=random)
    tokens = torch.randint(3, vocabulary, (len(lengths), steps), generator=random)
    source = torch.cat([source, torch.zeros(len(lengths), padding, dtype=torch.int64)], dim=1)
    counts = torch.tensor(lengths)
    return source.masked_fill(~is_real(counts, width + padding), garbage), counts, tokens
