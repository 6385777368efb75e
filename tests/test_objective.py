import math

import pytest
import torch
from models import first_batch, make_config, seeded
from tables import table

from seq2attn.config import check_config
from seq2attn.model.interface import Decoded
from seq2attn.parts import LOSSES
from seq2attn.training.step import learning_rate, token_accuracy

V = 8


def make_batch():
    """Six strings of 1 to 5 letters."""
    task = "task.alphabet=abcde task.max_length=5"
    return first_batch(make_config(f"{task} training.batch_size=6 seed=2 model.source_eos=false"))


def make_weights(batch, width):
    """As attention to so many positions has them, (B, L, width)."""
    drawn = seeded(4)
    return torch.rand(*batch.decoder_output.shape, width, generator=drawn, dtype=torch.float64)


def loss_of(decoded, batch, name, **options):
    return float(LOSSES.choose(name, **options).make().forward(decoded, batch))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_real_tokens_by_hand(smoothing):
    """The target distribution is 1 - e on the right token plus e / V on each token, the right one
    included.
    """
    batch = make_batch()
    random = seeded(0)
    logits = torch.randn(*batch.decoder_output.shape, V, generator=random, dtype=torch.float64)
    right = torch.nn.functional.one_hot(batch.decoder_output, V).double()
    losses = logits.exp().sum(2, True).log() - logits  # (B, L, V)
    expected = (((1 - smoothing) * right + smoothing / V) * losses).sum(2)
    real = batch.decoder_output != 0
    assert real.sum() == batch.target_lengths.sum() + 6  # each string's characters and its <eos>
    assert not real.all()
    loss = loss_of(Decoded(logits, None), batch, "cross_entropy", label_smoothing=smoothing)
    assert loss == pytest.approx(float(expected[real].mean()), rel=1e-12)


def test_accuracy_is_the_share_of_real_tokens():
    batch = make_batch()
    logits = torch.nn.functional.one_hot(batch.decoder_output, V).double()
    assert float(token_accuracy(logits, batch)) == 1.0
    logits[0] = 0.0
    logits[0, :, 1] = 1.0  # <sos>, which no target holds: all of the first string is wrong
    tokens = int(batch.target_lengths.sum()) + 6
    wrong = int(batch.target_lengths[0]) + 1
    assert float(token_accuracy(logits, batch)) == pytest.approx((tokens - wrong) / tokens)


def training(**values):
    return check_config({"training": {"learning_rate": 0.2, **values}}).training


@table(
    "schedule, warmup, step, share",
    """
cosine | 0 | 0 | 1.0
cosine | 0 | 25 | 0.8535533905932737  # (1 + cos 45 degrees) / 2 = (1 + sqrt(1/2)) / 2
cosine | 0 | 50 | 0.5
cosine | 0 | 99 | 0.0002467198171342  # (1 + cos x) / 2 = sin((pi - x) / 2)^2: sin(pi / 200)^2
linear | 0 | 30 | 0.7
linear | 0 | 99 | 0.01
constant | 0 | 99 | 1.0
cosine | 20 | 0 | 0.05
cosine | 20 | 9 | 0.5
cosine | 20 | 20 | 1.0
cosine | 20 | 60 | 0.5
linear | 20 | 40 | 0.75
constant | 20 | 4 | 0.25
cosine | 100 | 99 | 1.0
""",
    "warmup step share",
)
def test_the_schedule_by_formula(schedule, warmup, step, share):
    rate = learning_rate(training(schedule=schedule, warmup=warmup), step, 100)
    assert rate == pytest.approx(0.2 * share, rel=1e-9)


def test_the_coverage_loss_by_hand():
    batch = make_batch()
    weights = make_weights(batch, 3)
    again = []
    for row, tokens in zip(weights, batch.decoder_output, strict=True):
        for t in tokens.nonzero():
            again.append(float(torch.minimum(row[t], row[:t].sum(0)).sum()))
    loss = loss_of(Decoded(weights, weights), batch, "coverage")
    assert loss == pytest.approx(sum(again) / len(again), rel=1e-12)


def test_attentive_guidance_by_hand():
    batch = make_batch()
    weights = make_weights(batch, 5)
    surprises = []
    for row, length in enumerate(batch.target_lengths.tolist()):
        for t in range(length):  # the task reverses: `<eos>` copies nothing
            surprises.append(-math.log(weights[row, t, length - 1 - t]))
    loss = loss_of(Decoded(weights, weights), batch, "attentive_guidance")
    assert loss == pytest.approx(sum(surprises) / len(surprises), rel=1e-12)
    weights[0, 0] = 0.0  # of a normaliser that gives some positions nothing
    assert math.isfinite(loss_of(Decoded(weights, weights), batch, "attentive_guidance"))
