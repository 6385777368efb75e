"""Checks of an attention: each is a function of a `Trial` and yields codes with their evidence."""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seq2attn.contract.models import check_batch, check_padding, expect_gradients
from seq2attn.contract.subject import Broken
from seq2attn.doctor.adapter import Inputs, with_values
from seq2attn.doctor.scores import Sample, clear_biases, compare, match
from seq2attn.doctor.trial import Trial, first_line, gap, sums

CLOSE = 1e-4  # smaller differences are rounding
LONG = 500  # keys
MANY = 200  # rows, for statistics
Found = Iterator[tuple[str, dict[str, Any]]]


# ---- what everything rests on ----


def axis(trial: Trial) -> Found:
    """Weights are those of a softmax over the keys."""
    result = trial.run(trial.unmasked)
    weights, (low, high) = result.weights, sums(result).aminmax()
    if weights.min() < 0:
        yield "negative", {"low": float(weights.min())}
    elif not max(abs(low - 1), abs(high - 1)) < 1e-3:
        evidence = {"low": float(low), "high": float(high)}
        if (weights.sum(0) - 1).abs().max() < 1e-3:
            why = "they sum to 1 over the batch: the softmax runs over the wrong axis"
            yield "axis", {**evidence, "why": why}
        elif (weights - 1).abs().max() < 1e-3:
            why = "each is 1, from a softmax over an axis of length 1"
            yield "axis", {**evidence, "why": why}
        else:
            yield "sums", evidence


def changes(trial: Trial) -> Found:
    """Arguments stay as they are."""
    given = trial.batch if trial.takes_mask else trial.unmasked
    copies = given.copy()
    with torch.no_grad(), contextlib.suppress(Exception):
        trial.adapter.called(copies)
    for name, before, after in zip(Inputs._fields, given, copies, strict=True):
        if before is not None and not torch.equal(before, after):
            yield "in-place", {"name": "mask" if name == "valid" else name}


def memory(trial: Trial) -> Found:
    """In evaluation the same input gives the same result, after other calls too."""
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        try:
            results.append(trial.forward(trial.unmasked))
        except Exception as error:
            yield "state", {"by": first_line(error)}
            return
        with contextlib.suppress(Exception):  # a mask that fails
            trial.run(trial.draw())
    first, again, other = results
    if gap(first, again) > CLOSE:
        yield "state", {"by": f"weights differ by {gap(first, again):.2g}"}
    elif gap(first, other) > CLOSE:
        yield "random", {"by": gap(first, other)}


# ---- masks ----


def padding(trial: Trial) -> Found:
    """Padding gets no weight, and changes nothing."""
    plain = trial.run(trial.unmasked)
    on_padding = (plain.weights * trial.padding).sum(2)
    most = float(on_padding.max())
    if not trial.takes_mask:
        yield "no-mask", {"width": trial.padding.size(2), "most": most}
        return
    try:
        masked, other = trial.run(), trial.run(next(trial.other_padding()))
    except Exception as error:
        yield "mask-crash", {"error": first_line(error)}
        return
    on_padding = (masked.weights * trial.padding).sum(2)
    padded = ~trial.batch.valid.all(1)
    most, least = float(on_padding.max()), float(on_padding[padded].min())
    total, by = float(sums(masked).min()), gap(masked.joined, other.joined)
    evidence = {"most": most, "least": least, "total": total, "by": by}
    of_context = gap(masked.context, other.context)
    on_each = masked.weights.masked_fill(~trial.padding, torch.nan)
    is_flat = (on_each - on_each.nanmean(2, keepdim=True)).abs().nan_to_num(0).max() < 1e-7
    valid_alone = (plain.weights * ~trial.padding - masked.weights).abs().max()
    causes = {
        "mask-ignored": gap(masked.joined, plain.joined) < 1e-7,
        "mask-inverted": least > 0.99,
        "mask-after-softmax": total < 0.999 and valid_alone < CLOSE,
        "weights-before-mask": masked.context.size(1) > 0 and most > 1e-3 and of_context < CLOSE,
        "mask-constant": most > 1e-6 and is_flat,
        "padding-leak": most > 1e-6 or by > CLOSE,
        "mask-all": not total > 0.999,
    }
    for code, holds in causes.items():
        if holds:
            yield code, evidence
            return
    if "~" in trial.adapter.mask:
        yield "polarity", {}
    try:
        subject: Any = trial
        check_padding(subject)
    except Exception as error:
        yield "padding-amount", {"by": first_line(error)}


def empty_row(trial: Trial) -> Found:
    """A row without valid keys is no error, and gives no NaN."""
    if not trial.takes_mask:
        return
    valid = trial.batch.valid.clone()
    valid[-1] = False
    try:
        result = trial.run(trial.batch._replace(valid=valid))
    except Exception as error:
        yield "empty-row", {"what": f"raises {first_line(error)}"}
        return
    if not result.weights[-1].isfinite().all():
        yield "empty-row", {"what": "gives NaN"}


# ---- rows, lengths and memory layout ----


def rows(trial: Trial) -> Found:
    """A row has the same result alone as in a batch."""
    try:
        subject: Any = replace(trial, batch=trial.unmasked)
        check_batch(subject)
    except Exception as error:
        yield "batch", {"by": first_line(error)}


def strides(trial: Trial) -> Found:
    """Keys need not be contiguous."""
    given = trial.unmasked
    transposed = given.keys.transpose(0, 1).contiguous().transpose(0, 1)
    try:
        with torch.no_grad():
            other = trial.adapter(with_values(given._replace(keys=transposed)))
        by = gap(other.joined, trial.forward(given))
        reason = f"weights differ by {by:.2g}" if by > CLOSE else ""
    except Exception as error:
        reason = first_line(error)
    if reason:
        yield "strides", {"by": reason}


def lengths(trial: Trial) -> Found:
    """Sources may be short or long."""
    reasons = {}
    for length in (1, LONG):
        try:
            low, high = sums(trial.run(trial.draw(length=length)._replace(valid=None))).aminmax()
            is_right = low > 0.999 and high < 1.001
            reasons[length] = "" if is_right else f"weights sum to {low:.3f} .. {high:.3f}"
        except Exception as error:
            reasons[length] = first_line(error)
    if all(reasons.values()):
        yield "fixed-length", {"why": reasons[1]}
        return
    for length, why in reasons.items():
        if why:
            yield "length", {"length": length, "why": why}


def position(trial: Trial) -> Found:
    """Weights follow the keys when these are shuffled."""
    order = torch.randperm(trial.batch.keys.size(1))
    given = trial.unmasked
    moved = trial.run(with_values(given._replace(keys=given.keys[:, order]))).weights
    by = gap(moved, trial.run(given).weights[..., order])
    if by > CLOSE:
        yield "position", {"by": by}


# ---- gradients ----


def gradients(trial: Trial) -> Found:
    """Gradients are those of finite differences, and reach all parameters."""
    directions = {name: torch.randn_like(getattr(trial.batch, name)) for name in ("query", "keys")}
    for name, direction in directions.items():

        def results(step: Tensor, name: str = name, direction: Tensor = direction) -> Tensor:
            moved = getattr(trial.batch, name) + step * direction
            given = with_values(trial.unmasked._replace(**{name: moved}))
            return trial.adapter(given).joined

        try:
            zero = torch.zeros(())
            expect_gradients(results, zero, eps=5e-3, atol=3e-4, rtol=5e-2, fast_mode=False)
        except Broken:
            yield "gradient", {"name": name}
    result = trial.adapter(trial.unmasked)
    total = result.joined.square().sum()
    named = dict(trial.module.named_parameters())
    found: Any = [None] * len(named)
    if named and total.requires_grad:
        found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    dead = [name for name, gradient in zip(named, found, strict=True) if gradient is None]
    if dead:
        is_fault = result.context.size(1) > 0 and len(dead) <= len(named) / 2
        code = "dead-parameter" if is_fault else "other-parameters"
        yield code, {"count": len(dead), "total": len(named), "names": ", ".join(dead[:3])}


# ---- large numbers, and small types ----


def extremes(trial: Trial) -> Found:
    """Large inputs neither overflow nor underflow."""
    for code, scale in (("overflow", 30), ("large", 1000)):
        given = trial.draw(rows=MANY, scale=scale)
        weights = trial.run(given).weights
        if trial.takes_mask:
            weights = weights * given.valid.unsqueeze(1)
        lost = int((~(weights.sum(2) > 0.99)).sum())
        if lost:
            yield code, {"scale": scale, "count": lost, "total": weights.size(0)}
            return


def halves(trial: Trial) -> Found:
    """It runs in half precision."""
    saved = copy.deepcopy(trial.module.state_dict())
    for dtype in (torch.float16, torch.bfloat16):
        query, keys, valid, values = trial.batch
        name = str(dtype).removeprefix("torch.")
        try:
            trial.module.to(dtype)
            given = Inputs(query.to(dtype), keys.to(dtype), valid, values.to(dtype))
            weights = trial.run(given).weights.float()
            on_padding = (weights * trial.padding).max() if trial.takes_mask else 0
            if not (weights.isfinite().all() and on_padding < CLOSE):
                yield "half", {"name": name}
        except Exception as error:
            yield "no-half", {"name": name, "error": first_line(error)}
        trial.module.to(torch.float32).load_state_dict(saved)


# ---- contexts, dropout and scores ----


def mixture(trial: Trial) -> Found:
    """The context is an affine map of the values averaged with the weights, and of the query."""
    given = trial.draw(rows=MANY)._replace(valid=None)
    weights, context = trial.run(given)
    if not context.size(1):
        yield "no-context", {}
        return
    weights = weights.mean(1, keepdim=True)  # (B, 1, S) of the heads
    of_keys, of_values = ((weights @ x).squeeze(1) for x in (given.keys, given.values))
    takes_values = "values" in trial.adapter.call
    if takes_values and _unexplained(of_keys, context) < 1e-6:
        yield "keys-as-values", {}
        return
    inputs = torch.cat([of_values if takes_values else of_keys, given.query], dim=1)
    share = _unexplained(inputs, context)
    if context.abs().max() < 1:
        share = min(share, _unexplained(inputs, context.atanh()))  # Luong's attentional vector
    if share > CLOSE:
        yield "mixture", {"share": share}


def _unexplained(x: Tensor, y: Tensor) -> float:
    """Return the share of the variance of y (N, M) that no affine map of x (N, F) explains."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    y = y.double()
    rest = x @ torch.linalg.lstsq(x, y, driver="gelsd").solution - y
    return float(rest.square().sum() / (y - y.mean(0)).square().sum())


def dropout(trial: Trial) -> Found:
    """In training the returned weights are those that are used."""
    trial.module.train()
    first, second = trial.run(trial.unmasked), trial.run(trial.unmasked)
    trial.module.eval()
    by = gap(first.context, second.context)
    if by > CLOSE and torch.equal(first.weights, second.weights):
        yield "before-dropout", {"by": by}


def score(trial: Trial) -> Found:
    """Names the score."""
    saved = copy.deepcopy(trial.module.state_dict())
    drawn = trial.draw(scale=0.5)._replace(valid=None)
    queries = [drawn.query, drawn.query.flip(1)]
    with torch.no_grad():
        weights = [trial.run(drawn._replace(query=query)).weights for query in queries]
        if gap(*weights) < 1e-6:
            yield "query-ignored", {}
            return
        other = with_values(drawn._replace(keys=drawn.keys.flip(0)))
        if gap(weights[0], trial.run(other).weights) < 1e-6:
            yield "keys-ignored", {}
            return
        clear_biases(trial.module)
        logs = [trial.run(drawn._replace(query=query)).weights.log() for query in queries]
        trial.module.load_state_dict(saved)
        if logs[0].size(1) > 1 or not torch.stack(logs).isfinite().all():
            yield "score-unknown", {"why": "several heads, or weights of 0"}
            return
        query = torch.stack(queries, dim=1)  # (B, 2, Dq)
        parameters = list(trial.module.parameters())
        sample = Sample(query, drawn.keys, torch.cat(logs, dim=1), parameters)
        yield from _score(sample, trial.expect)


def _score(sample: Sample, expect: str | None) -> Found:
    if expect is not None:
        difference = compare(sample, expect)
        if difference.code:
            yield "expected", {"expected": expect, "why": difference.text}
        return
    found = match(sample)
    if found is None:
        yield "score-unknown", {"why": "it has other layers, or depends on positions"}
        return
    code = "score-mistake" if found.mistake else "score"
    yield code, {"name": found.name, "why": found.mistake}


FIRST = (memory, axis, changes)
CHECKS = (
    *FIRST,
    rows,
    padding,
    empty_row,
    strides,
    lengths,
    position,
    gradients,
    extremes,
    halves,
    mixture,
    dropout,
    score,
)
"""in the order in which they are made: causes before consequences"""
