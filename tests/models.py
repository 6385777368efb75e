"""Models as the tests need them, and batches for them."""

import pytest
import torch
import yaml
from inline import TINY

import seq2attn
from seq2attn import parts
from seq2attn.build import build_model, build_training_data
from seq2attn.config import check_config
from seq2attn.data.batches import Batch
from seq2attn.inference.predictor import Predictor
from seq2attn.model.cells import GRU, Cells
from seq2attn.model.encoder import Encoded, Encoder
from seq2attn.parts import SCORES, TASKS

CPU = torch.device("cpu")
VALUES = yaml.safe_load(TINY)
SIX_STEPS = """
training.steps=6 training.batch_size=4 training.evaluate_every=6 training.validation_samples=2
training.log_every=1 training.snapshots=0
"""
NAMED = yaml.safe_load("""
feeding: {name: luong, input_feeding: true}
order 0: {name: hard_monotonic, order: 0}
local_m: {name: local_m, radius: 1}
reversed: {name: local_m, radius: 1, centre: reversed}
""")  # what stands for a part with options
CELLS = parts.CELLS.names()
INITIAL_STATES = parts.INITIAL_STATES.names()
ARRANGEMENTS = ["feeding", "order 0", *parts.DECODERS.names()]
each_arrangement = pytest.mark.parametrize("arrangement", ["bahdanau", "luong", "feeding"])
WINDOWS = ["reversed", *parts.WINDOWS.names()]
HISTORIES = parts.HISTORIES.names()
ATTENDING = [name for name in SCORES.names() if name != "none"]


TRANSFORMER = "model.architecture=transformer model.hidden=8 model.heads=2 model.feedforward=8"


def make_config(changes):
    """The default config with `changes`, such as `"model.hidden=8 seed=2"`."""
    return check_config({}, changes.split())


def new_model(*overrides):
    """A tiny model of the user's own."""
    return seq2attn.new_model(VALUES, overrides, device="cpu")


def first_batch(config):
    """The first batch of the training of `config`."""
    return next(build_training_data(config, CPU).batches())


def make_task(name="reverse", **options):
    return TASKS.get(name).load()(**options)


def predictor_of(model, task, source_eos=False, **options):
    return Predictor(model, task, source_eos, CPU, **options)


def seeded(seed):
    """A generator of random numbers."""
    return torch.Generator().manual_seed(seed)


def make_score(name, query_width, key_width, **options):
    """A score by its name, its weights drawn from torch's generator as it stands."""
    return SCORES.get(name).load()(query_width, key_width, **options)


def config_of(score="additive", arrangement="bahdanau", vocabulary=8, seed=3, **choices):
    """choices: keys of `model` or of `model.attention`, a part also by a name of `NAMED`."""
    values = {"hidden": 5, "embedding": 4, "initial_state": "zeros", "source_eos": False}
    values["attention"] = attention = {"score": score}
    for key, value in {"decoder": arrangement, **choices}.items():
        of_attention = key in "window history normaliser scalable_softmax mask_padding".split()
        (attention if of_attention else values)[key] = NAMED.get(str(value), value)
    task = {"alphabet": "abcdefghij"[: vocabulary - 3], "max_length": 4}
    return check_config({"seed": seed, "task": task, "model": values})


def make_model(*score, **choices):
    """The model of `config_of(...)` in training mode."""
    model = build_model(config_of(*score, **choices)).double()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for weight in model.decoder.attention.parameters():
            if not weight.any():  # some start at zero, where mistakes do not show
                torch.nn.init.normal_(weight)
    return model


class Doubled(Encoder):
    """Twice the embeddings, whose numbers lie in memory in another order."""

    def encode(self, embedded, lengths):
        return Encoded(2 * embedded.mT.contiguous().mT, (embedded[:, 0],))


def make_cell_free_model():
    """A model whose encoder has no recurrent layers."""
    model = make_model("general", embedding=5, initial_state="last")
    cells = Cells(lambda input_width: GRU(input_width, 5), 5, 1, 0.0, False)
    model.encoder = Doubled(8, 5, cells).double()
    return model


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


def stepped(model, tokens, state, memory):
    """Logits (B, L, V) and weights (B, L, S), None without attention, one position after another;
    tokens: the decoder's inputs (B, L).
    """
    steps = []
    for column in tokens.unbind(1):
        decoded, state = model.step(column, state, memory)
        steps.append(decoded)
    logits = torch.cat([one.logits for one in steps], dim=1)
    attends = decoded.weights is not None
    return logits, torch.cat([one.weights for one in steps], dim=1) if attends else None


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
    return torch.arange(width) < lengths.unsqueeze(1)


def make_batch(lengths=(4, 2, 1), steps=3, padding=0, vocabulary=8, garbage=5):
    """Source (B, S + padding) with `garbage` past each end, lengths (B,), decoder input
    (B, steps).
    """
    random = seeded(0)
    width = max(lengths)
    source = torch.randint(3, vocabulary, (len(lengths), width), generator=random)
    tokens = torch.randint(3, vocabulary, (len(lengths), steps), generator=random)
    source = torch.cat([source, torch.zeros(len(lengths), padding, dtype=torch.int64)], dim=1)
    counts = torch.tensor(lengths)
    return source.masked_fill(~is_real(counts, width + padding), garbage), counts, tokens
