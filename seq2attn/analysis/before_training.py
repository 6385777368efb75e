"""Attention before any training: over random queries and keys, the variance of scores, saturation
and entropy of weights, and the gradient of the largest; and the windows as pictures.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import product

import torch
from torch import Tensor

from seq2attn.analysis import Analysis
from seq2attn.data.batches import generator
from seq2attn.display.table import Column, Number, Table
from seq2attn.inference.evaluation import attention_entropy
from seq2attn.model.normalisers import LocalM, View, gaussian
from seq2attn.model.scores import Dot, Score
from seq2attn.parts import SCORES

BLOCK = 2**20  # numbers drawn at once
SATURATED = 0.99
SHADES = " ░▒▓█"
DRAWN = 2**21  # numbers for an expected entropy, which is then right to about 0.001


def seeded_score(name: str, width: int, seed: int) -> Score:
    """Return a score for queries and keys of this width, its weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SCORES.choose(name).make(width, width)


@torch.no_grad()
def random_scores(
    score: Score,
    purpose: str,
    width: int,
    keys: int,
    samples: int,
    seed: int,
    query_mean: float = 0.0,
    key_mean: float = 0.0,
) -> Tensor:
    """Return the scores of `samples` random queries of width D, each against `keys` random keys of
    its own: (samples, S), float64, S the number of keys. The components of queries and keys are
    independent and normal, with these means and the variance 1.

    Every score sees the same queries and keys, which depend on seed, width, number of keys and
    `purpose`, any word: another word gives other numbers. They are drawn a block of queries at a
    time, to bound memory.
    """
    random = generator("cpu", seed, purpose, width, keys)
    # as many queries as fit into `BLOCK` numbers with their keys
    block = max(1, BLOCK // (width * (keys + 1)))
    blocks = []
    for first in range(0, samples, block):
        count = min(block, samples - first)
        query = query_mean + torch.randn(count, 1, width, generator=random)  # (n, 1, D)
        drawn = key_mean + torch.randn(count, keys, width, generator=random)  # (n, S, D) keys
        scores = score(query, score.project(drawn))  # (n, 1, S)
        blocks.append(scores.squeeze(1).double())
    return torch.cat(blocks)


def random_weights(name: str, width: int, keys: int, samples: int, seed: int) -> Tensor:
    """Return the attention weights (samples, S) of a score, all components N(0, 1)."""
    score = seeded_score(name, width, seed)
    scores = random_scores(score, "weights", width, keys, samples, seed)
    return torch.softmax(scores, dim=1)


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Return the mean of values (n,), and its standard error."""
    return float(values.mean()), float(values.std() / len(values) ** 0.5)


# ---- variance of a score ----


def score_variance(
    scores: Sequence[str],
    widths: Sequence[int],
    *,
    samples: int,
    seed: int,
    query_mean: float,
    key_mean: float,
) -> Analysis:
    """Measure the variance of each score at each width D, over `samples` random pairs of a query
    and a key, the same for every score: a row for each score and width.

    Theory: a multiplicative score is s.(M h) of query s and key h, with M fixed (I for dot, I /
    sqrt(D) for scaled, W for general). Where their components have the means ms and mh and the
    variance 1, Var = |M|^2 + mh^2 |M 1|^2 + ms^2 |1 M|^2, |.|^2 a sum of squares and 1 a vector of
    ones; for dot this is D (1 + mh^2 + ms^2).

    The columns of the table:

    variance: as measured.
    variance_error: its standard error.
    variance_theory: by the formula; None for a score that is not multiplicative.
    deviation: (measured - theory) / standard error. Where the theory holds, chance takes it beyond
        3 or -3 once in 370 times. None without theory, and where the error is 0.
    """
    means = query_mean, key_mean
    rows = []
    for name, width in product(scores, widths):
        score = seeded_score(name, width, seed)
        values = random_scores(score, "variance", width, 1, samples, seed, *means)
        variance = float(values.var())
        # the measured variance is about the mean of these squares, so it has the error of this mean
        squares = (values - values.mean()).square()  # (samples, 1), as each query has one key
        error = float(squares.std(correction=0)) / math.sqrt(samples)
        theory = theoretical_variance(score, width, *means)
        # the error is 0 if all scores are equal, as those of a plug-in may be
        deviation = (variance - theory) / error if theory is not None and error else None
        rows.append([name, width, variance, error, theory, deviation])
    columns = [
        Column("score"),
        Number("D", key="width"),
        Number("variance", form=".5g"),
        Number("±", key="variance_error", form=".2g"),
        Number("expected variance", key="variance_theory", form=".5g"),
        Number("off by", key="deviation", form="+.1f"),
    ]
    settings = {
        "samples": samples,
        "seed": seed,
        "query_mean": query_mean,
        "key_mean": key_mean,
    }
    return Analysis(settings, Table(columns, rows))


@torch.no_grad()
def theoretical_variance(
    score: Score, width: int, query_mean: float, key_mean: float
) -> float | None:
    """Return the variance of a multiplicative score by the formula of `score_variance`; of others,
    None.
    """
    if not isinstance(score, Dot):  # the base class of multiplicative scores
        return None
    # `project` makes M e_j, column j of M, of the unit vector e_j; here these columns are rows
    transposed = score.project(torch.eye(width).unsqueeze(0))[0].double()  # (D, D)
    one_m, m_one = transposed.sum(dim=1), transposed.sum(dim=0)  # 1 M, M 1: (D,) each
    variance = (
        transposed.square().sum()
        + (key_mean * m_one).square().sum()
        + (query_mean * one_m).square().sum()
    )
    return float(variance)


# ---- saturation, entropy ----


def weight_saturation(
    scores: Sequence[str], widths: Sequence[int], *, keys: int, samples: int, seed: int
) -> Analysis:
    """Measure how far attention is from uniform, for `samples` random queries over `keys` random
    keys, all components N(0, 1): the mean of the largest weight, the share of queries in which it
    is above `SATURATED`, and the mean weight by rank. There is a row for each score and width D.

    The columns of the table:

    largest, largest_error: the mean of the largest weight, and its standard error.
    saturated: the share of queries.
    weights: means by rank, the largest first: S numbers that sum to 1.
    """
    rows = []
    for name, width in product(scores, widths):
        weights = random_weights(name, width, keys, samples, seed)
        ranked = weights.sort(dim=1, descending=True).values  # (samples, S)
        largest = ranked[:, 0]
        saturated = float((largest > SATURATED).double().mean())
        by_rank = tuple(ranked.mean(dim=0).tolist())
        rows.append([name, width, *mean_and_error(largest), saturated, by_rank])
    columns = [
        Column("score"),
        Number("D", key="width"),
        Number("largest weight", key="largest"),
        Number("±", key="largest_error"),
        Number("saturated"),
        Number("weights by rank", key="weights"),
    ]
    return Analysis({"keys": keys, "samples": samples, "seed": seed}, Table(columns, rows))


def entropy_by_width(
    scores: Sequence[str], widths: Sequence[int], *, keys: Sequence[int], samples: int, seed: int
) -> Analysis:
    """Measure the entropy of the weights that `samples` random queries give random keys, all
    components N(0, 1): a row for each number of keys, score and width D. Scores of `dot` then have
    the standard deviation sqrt(D), those of `scaled` 1.

    The columns of the table, in nats:

    entropy, entropy_error: the mean over the queries, and its standard error.
    limit: the expected entropy for S independent normal scores of the same variance, which is the
        limit for D -> infinity; None for scores other than `dot` and `scaled`.
    uniform: log S, the entropy of uniform weights.
    """
    rows = []
    for count, name, width in product(keys, scores, widths):
        weights = random_weights(name, width, count, samples, seed)
        entropy, error = mean_and_error(attention_entropy(weights))
        deviation = {"dot": math.sqrt(width), "scaled": 1.0}.get(name)
        limit = deviation and expected_entropy(count, deviation)
        rows.append([count, name, width, entropy, error, limit, math.log(count)])
    columns = [
        Number("S", key="keys"),
        Column("score"),
        Number("D", key="width"),
        Number("entropy", form=".4f"),
        Number("±", key="entropy_error", form=".4f"),
        Number("expected", key="limit", form=".4f"),
        Number("uniform", form=".4f"),
    ]
    return Analysis({"samples": samples, "seed": seed}, Table(columns, rows))


@cache
def expected_entropy(keys: int, deviation: float) -> float:
    """Return E[H(softmax(z))] in nats for z_1..z_S independent N(0, deviation^2): the mean over
    many draws.
    """
    random = generator("cpu", "expected entropy", keys)
    scores = torch.randn(DRAWN // keys, keys, generator=random)  # (n, S)
    return float(attention_entropy(torch.softmax(deviation * scores.double(), dim=1)).mean())


# ---- gradient ----


def gradient_by_scale(scales: Sequence[float], *, keys: int, samples: int, seed: int) -> Analysis:
    """Measure the norm of d max_j softmax(z)_j / dz at z = c e, e ~ N(0, 1), for each scale c; the
    same e at each. z are the scores of one query against `keys` keys; e is drawn `samples` times.

    By formula, with p = softmax(z) and p_m its largest: p_m sqrt((1 - p_m)^2 + sum of p_j^2 over j
    != m). An unscaled dot product of N(0, 1) components has scale sqrt(D), a scaled one scale 1.

    The columns of the table:

    scale: the standard deviation of the scores.
    mean, mean_error: of the norms by autograd, with the standard error.
    formula: the mean by formula, on the same scores.
    median: of the norms by autograd.
    largest: the mean of the largest weight.
    """
    random = generator("cpu", seed, "gradient", keys)
    scores = torch.randn(samples, keys, generator=random, dtype=torch.float64)  # (n, S)
    rows = []
    for scale in scales:
        scaled = (scale * scores).requires_grad_()
        weights = torch.softmax(scaled, dim=1)
        largest = weights.max(dim=1).values  # (n,)
        # of the sum, since each row's largest weight depends on the scores of this row alone
        (gradient,) = torch.autograd.grad(largest.sum(), scaled)  # (n, S)
        norms = gradient.norm(dim=1)

        weights = weights.detach()  # from here on by formula
        largest = largest.detach()
        others = weights.square().sum(dim=1) - largest.square()  # (n,) sum of p_j^2 over j != m
        formula = largest * ((1 - largest).square() + others).sqrt()
        means = float(formula.mean()), float(norms.median()), float(largest.mean())
        rows.append([scale, *mean_and_error(norms), *means])
    columns = [
        Number("scale c", key="scale", form="g"),
        Number("mean norm", key="mean", form=".4f"),
        Number("±", key="mean_error", form=".4f"),
        Number("by formula", key="formula", form=".4f"),
        Number("median norm", key="median", form=".4f"),
        Number("largest weight", key="largest"),
    ]
    return Analysis({"keys": keys, "samples": samples, "seed": seed}, Table(columns, rows))


# ---- windows ----


def window_masks(source: int, target: int, radius: int) -> Analysis:
    """Compute the windows `global`, `local_m` monotonic and reversed, and `local_p` (Luong et al.
    2015, section 3.2), as the model has them: a row for each window and output position, with the
    factors of the weights at the S source positions, as numbers and as a picture.

    source, target: the lengths S and L. radius: how many positions a window reaches to each side of
    its centre. At output position t, the centre of monotonic is source position t, that of reversed
    S - 1 - t. local_p learns its centres; here they sweep evenly from the last source position to
    the first.

    The columns of the table:

    mask: the window.
    t: the output position, from 0.
    centre: p_t in the paper, a source position from 0; None for `global`, which has no centre.
    picture: the factors in shades of grey.
    factors: a number for each source position: 0 outside the window, inside it what the weight is
        multiplied by.
    """
    t = torch.arange(target).view(1, -1, 1)  # (1, L, 1), as windows take their centres
    last = source - 1
    # from `last` down to 0; `max`, so that a single output position does not divide by 0
    sweep = last * (target - 1 - t) / max(1, target - 1)
    # for queries of width 1, and sources without `<eos>`
    window = LocalM(1, False, radius=radius, centre="reversed")
    backwards = window(torch.zeros(1, target, 1), torch.tensor([source]), source, 0)
    bell = gaussian(torch.arange(source) - sweep, radius)  # (1, L, S)
    # name, centre at each output position (`global` has none), and the window itself
    windows = [
        ("global", [None] * target, View(torch.ones(1, target, source))),
        ("monotonic", t.flatten().tolist(), View(window.inside(t, source))),
        ("reversed", (last - t).flatten().tolist(), backwards),
        ("local_p", sweep.flatten().tolist(), View(window.inside(sweep, source), bell)),
    ]
    rows = []
    for name, centres, (allowed, factor) in windows:
        # without a factor, a window leaves the weights inside as they are
        factors = allowed.float() if factor is None else allowed * factor  # (1, L, S)
        for position, row in enumerate(factors[0].tolist()):
            # one of five shades, 0 to 4; two characters for a position, so that it looks square
            picture = "".join(2 * SHADES[round(4 * share)] for share in row)
            rows.append([name, position, centres[position], picture, tuple(row)])
    columns = [
        Column("mask"),
        Number("t"),
        Number("centre", form=".3g"),
        Column("source positions", key="picture"),
        Column("", key="factors"),
    ]
    settings = {"source": source, "target": target, "radius": radius}
    return Analysis(settings, Table(columns, rows))
