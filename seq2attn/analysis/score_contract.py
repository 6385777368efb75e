"""The contract that every score function satisfies, built in or a plug-in's; `seq2attn check` and the tests check it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from seq2attn import catalogue
from seq2attn.data.padding import valid_mask
from seq2attn.model.attention import Attention
from seq2attn.model.scores import Score

B, S, D = 3, 5, 4
SOURCE = torch.zeros(B, S, dtype=torch.int64)  # ids, which no score reads
NO_OPTIONS: Mapping[str, object] = {}


class Broken(Exception):
    """A check that a score fails, with what was found."""


def make_score(name: str, options: Mapping[str, object], key_width: int | None = None) -> Score:
    """A float64 score with random parameters; keys are wider than queries where the score allows it."""
    entry = catalogue.SCORES.get(name)
    width = key_width or (D if entry.equal_widths else D + 3)
    score: Score = catalogue.SCORES.make(catalogue.SCORES.choose(name, **options), D, width)
    return score.double()


def advice(name: str, options: Mapping[str, object]) -> str:
    """What to look at first in a score that breaks "shape"; the empty string for one that passes."""
    if not run_check("shape", name, options):
        return ""
    if not catalogue.SCORES.get(name).equal_widths and not run_check("shape", name, options, key_width=D):
        return (
            f"{name!r} was given queries of width {D} and keys of width {D + 3}. If it is for equal widths only, say so: "
            f'@register("{name}", ..., equal_widths=True)'
        )
    return (
        f"{name!r}: forward(query, keys) takes (B, L, query_width) and (B, S, key_width), and returns scores (B, L, S)."
    )


def _inputs(score: Score, length: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(length)
    query = torch.randn(B, length, score.query_width, generator=random, dtype=torch.float64)
    keys = torch.randn(B, S, score.key_width, generator=random, dtype=torch.float64)
    return query, keys


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


def _close(found: Tensor, expected: Tensor) -> bool:
    """Equal but for the rounding of float64."""
    return torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


def check_shape(score: Score) -> None:
    """(B, L, S), for one query and for several; finite. Values are as wide as the score says."""
    for length in (1, 4):
        query, keys = _inputs(score, length)
        scores = score(query, score.project(keys))
        _expect(scores.shape == (B, length, S), f"shape {tuple(scores.shape)}, expected {(B, length, S)}")
        _expect(bool(torch.isfinite(scores).all()), "scores that are not finite")
    values, expected = score.values(keys), (B, S, score.value_width)
    _expect(values.shape == expected, f"values of shape {tuple(values.shape)}, expected {expected}")


def check_padding(score: Score) -> None:
    """Weight exactly 0 on padding, rows sum to 1; a row with nothing to attend to is all zeros, gradients too."""
    query, keys = _inputs(score, 2)
    keys.requires_grad_()
    attention = Attention(score)
    lengths = torch.tensor([S, 2, 0])
    valid = valid_mask(lengths, S)
    attended = attention(query, attention.prepare(keys, valid, SOURCE))
    assert attended.weights is not None
    _expect(bool((attended.weights.masked_select(~valid.unsqueeze(1)) == 0).all()), "weight on padding")
    sums = attended.weights.sum(dim=2)
    wanted = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64).unsqueeze(1).expand(-1, 2)
    _expect(_close(sums, wanted), f"weights sum to {sums.tolist()}")
    attended.context.square().sum().backward()
    assert keys.grad is not None
    _expect(bool(torch.isfinite(keys.grad).all()), "gradients that are not finite")
    _expect(bool((keys.grad[~valid] == 0).all()), "gradient on padding")


def check_padding_invariance(score: Score) -> None:
    """The same contexts whatever stands in the padding and however much of it there is."""
    query, keys = _inputs(score, 2)
    attention = Attention(score)
    short = 3
    alone = attention(
        query, attention.prepare(keys[:, :short], torch.ones(B, short, dtype=torch.bool), SOURCE[:, :short])
    )
    padded = keys.clone()
    padded[:, short:] = 7.0
    among = attention(query, attention.prepare(padded, valid_mask(torch.full((B,), short), S), SOURCE))
    _expect(_close(alone.context, among.context), "the context depends on padding")


def check_batch_invariance(score: Score) -> None:
    """The same scores for a row alone as in a batch."""
    query, keys = _inputs(score, 2)
    together = score(query, score.project(keys))
    alone = torch.cat([score(query[i : i + 1], score.project(keys[i : i + 1])) for i in range(B)])
    _expect(_close(together, alone), "a row's scores depend on the other rows")


def check_loop_form(score: Score) -> None:
    """One call for all queries and keys = one call for each pair."""
    query, keys = _inputs(score, 3)
    matrix = score(query, score.project(keys))
    for t in range(3):
        for j in range(S):
            one = score(query[:, t : t + 1], score.project(keys[:, j : j + 1]))[:, 0, 0]
            _expect(_close(matrix[:, t, j], one), f"query {t} and key {j} differ when asked alone")


def check_gradients(score: Score) -> None:
    """Gradients against finite differences in float64, for query, keys and every parameter."""
    query, keys = _inputs(score, 2)
    query.requires_grad_()
    keys.requires_grad_()
    parameters = tuple(score.parameters())

    def scores(query: Tensor, keys: Tensor, *_: Tensor) -> Tensor:
        result: Tensor = score(query, score.project(keys))
        return result

    try:
        torch.autograd.gradcheck(scores, (query, keys, *parameters))
    except RuntimeError as error:  # how gradcheck reports a difference
        raise Broken(" ".join(str(error).split())[:200]) from None


CHECKS: dict[str, Callable[[Score], None]] = {
    "shape": check_shape,
    "padding": check_padding,
    "padding invariance": check_padding_invariance,
    "batch invariance": check_batch_invariance,
    "loop form": check_loop_form,
    "gradients": check_gradients,
}


def run_check(label: str, name: str, options: Mapping[str, object] = NO_OPTIONS, key_width: int | None = None) -> str:
    """Run one check of one score with these options: the empty string if it passes, otherwise what was found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        score = make_score(name, options, key_width)
    try:
        CHECKS[label](score)
    except Broken as error:
        return str(error)
    except Exception as error:
        first, *_ = str(error).strip().splitlines() or [""]
        return f"raised {type(error).__name__}{f': {first}' if first else ''}"
    return ""
