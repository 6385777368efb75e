"""Models and their parts as the tests need them, made of the classes themselves."""

from functools import partial

import torch

from seq2attn import parts
from seq2attn.build import build_training_data
from seq2attn.config import check_config
from seq2attn.data.batches import Batch
from seq2attn.model.attention import Attention, NoAttention
from seq2attn.model.cells import GRU, LSTM, RNN, Cells
from seq2attn.model.decoder import BahdanauDecoder, LuongDecoder, PointerDecoder, Reverser
from seq2attn.model.encoder import Bridge, Last, RecurrentEncoder, Zeros
from seq2attn.model.hard_monotonic import HardMonotonicDecoder
from seq2attn.model.windows import LocalM, LocalP
from seq2attn.parts import NORMALISERS, SCORES

CPU = torch.device("cpu")
SIX_STEPS = (
    "training.steps=6 training.batch_size=4 training.evaluate_every=6 "
    "training.validation_samples=2 training.log_every=1 training.snapshots=0"
)
CELLS = {"gru": GRU, "lstm": LSTM, "rnn": RNN}
INITIAL_STATES = {"zeros": Zeros, "last": Last, "bridge": Bridge}
ARRANGEMENTS = {
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
    "feeding": partial(LuongDecoder, input_feeding=True),
    "pointer": PointerDecoder,
    "hard_monotonic": HardMonotonicDecoder,
    "order 0": partial(HardMonotonicDecoder, order=0),
}
WINDOWS = {
    "global": None,
    "local_m": partial(LocalM, radius=1),
    "reversed": partial(LocalM, radius=1, centre="reversed"),
    "local_p": LocalP,
}
HISTORIES = parts.HISTORIES.names()
ATTENDING = [name for name in SCORES.names() if name != "none"]


TRANSFORMER = "model.architecture=transformer model.hidden=8 model.heads=2 model.feedforward=8"


def make_config(changes):
    """The default config with `changes`, such as `"model.hidden=8 seed=2"`."""
    return check_config({}, changes.split())


def first_batch(config):
    """The first batch of the training of `config`."""
    return next(build_training_data(config, CPU).batches())


def make_score(name, query_width, key_width, **options):
    """A score by its name, its weights drawn from torch's generator as it stands."""
    return SCORES.load(name)(query_width, key_width, **options)


def make_cells(cell="gru", width=5, layers=1, dropout=0.0, bidirectional=False):
    """Layers of a cell, by its name or class."""
    kind = CELLS[cell] if isinstance(cell, str) else cell
    return Cells(
        lambda input_width: kind(input_width, width), width, layers, dropout, bidirectional
    )


def make_model(
    score="additive",
    *,
    cell="gru",
    layers=1,
    dropout=0.0,
    bidirectional=False,
    initial_state="zeros",
    arrangement="bahdanau",
    window="global",
    history="none",
    normaliser="softmax",
    source_eos=False,
    vocabulary=8,
    embedding=4,
    hidden=5,
    seed=3,
    dtype=torch.float64,
    **options,
):
    """A model in training mode, its weights drawn from `seed`. options: of `Attention`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cells = make_cells(cell, hidden, layers, dropout, bidirectional)
        encoder = RecurrentEncoder(vocabulary, embedding, cells)
        attention = NoAttention()
        if score != "none":
            made = (
                make_score(score, hidden, encoder.width)
                if isinstance(score, str)
                else score(hidden, encoder.width)
            )
            make_window = WINDOWS[window]
            make_history = parts.HISTORIES.load(history)
            attention = Attention(
                made,
                normaliser=NORMALISERS.load(normaliser)(),
                window=make_window and make_window(hidden, source_eos),
                history=make_history and make_history(hidden, encoder.width, made.feature_width),
                **options,
            )
        decoder = ARRANGEMENTS[arrangement](vocabulary, embedding, attention, cells)
        model = Reverser(encoder, INITIAL_STATES[initial_state](encoder, decoder.cell), decoder)
        for weight in attention.parameters():
            if not weight.any():  # some start at zero, where mistakes do not show
                torch.nn.init.normal_(weight)
        return model if dtype == torch.get_default_dtype() else model.to(dtype)


def assert_close(found, expected, rtol=None, atol=None):
    """The same shape, dtype and, nearly, numbers. torch.testing has a function of this name, which
    imports half of torch first: that takes a second and more.
    """
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    usual = 1e-7 if found.dtype == torch.float64 else 5e-6
    rtol, atol = (usual if one is None else one for one in (rtol, atol))
    assert torch.allclose(found, expected, rtol, atol, equal_nan=True), (found, expected)


def close(found, expected, tolerance=1e-11):
    """Equal but for rounding in float64."""
    assert_close(found, expected, 0, tolerance)


def as_batch(source, lengths, tokens, decoder_lengths=None):
    """What a model is called with: source (B, S), lengths (B,), decoder input (B, L), of which by
    default all is real.
    """
    counts = (
        torch.full_like(lengths, tokens.size(1)) if decoder_lengths is None else decoder_lengths
    )
    return Batch(source, lengths, tokens, tokens, counts - 1, None)


def is_real(lengths, width):
    """lengths (B,) -> (B, width), True = a real token."""
    return torch.tensor(
        [[position < length for position in range(width)] for length in lengths.tolist()]
    )


def make_batch(
    lengths=(4, 2, 1),
    steps=3,
    padding=0,
    vocabulary=8,
    garbage=5,
):
    """Source (B, S + padding) with `garbage` past each end, lengths (B,), decoder input
    (B, steps).
    """
    random = torch.Generator().manual_seed(0)
    width = max(lengths)
    source = torch.randint(3, vocabulary, (len(lengths), width), generator=random)
    tokens = torch.randint(3, vocabulary, (len(lengths), steps), generator=random)
    source = torch.cat([source, torch.zeros(len(lengths), padding, dtype=torch.int64)], dim=1)
    counts = torch.tensor(lengths)
    return source.masked_fill(~is_real(counts, width + padding), garbage), counts, tokens
