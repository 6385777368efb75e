"""Checks of an attention: each is a function of a `Trial`, and yields codes with their evidence. An
exception is a finding of the name of the check, or else that it is unfinished.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seq2attn.contract.models import check_batch, check_padding, expect_gradients
from seq2attn.contract.subject import expect
from seq2attn.doctor.adapter import Adapter, B, Inputs, S, draw_inputs, gap, unchanged
from seq2attn.doctor.scores import Sample, clear_biases, compare, match

CLOSE = 1e-4  # smaller differences are rounding
DRAWS = 40  # for statistics
MORE = 3  # columns of padding
SCALE = 30  # of large inputs
Found = Iterator[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Trial:
    """An attention with inputs, which keeps the rules of the contract of our own parts."""

    run: Adapter
    fresh: Adapter
    """of a copy that was never called"""
    batch: Inputs
    module: nn.Module
    expect: str | None = None

    def forward(self, inputs: Inputs | None = None) -> Tensor:
        """Return weights and context, (B, H S + Dv)."""
        return self.run(inputs or self.batch).joined

    def draw(self, length: int = S) -> Inputs:
        """Draw other inputs."""
        widths = self.batch.query.size(1), self.batch.keys.size(2)
        return draw_inputs(widths, B, length)

    def other_padding(self) -> Iterator[Inputs]:
        """Yield the inputs with other numbers in their padding, and then with more of it."""
        yield self.batch.with_noise()
        wider = torch.cat([self.batch.keys, self.batch.keys[:, :MORE]], dim=1)
        yield Inputs(self.batch.query, wider, pad(self.batch.valid, (0, MORE)))


def expect_sums(weights: Tensor) -> None:
    """Raise `Broken` unless weights sum to 1."""
    expect(gap(weights.sum(2), 1) < 0.01, "weights do not sum to 1")


# ---- what everything rests on ----


def not_finite(trial: Trial) -> None:
    """Results are numbers."""
    expect(trial.forward(trial.batch.unmasked).isfinite().all(), "NaN or infinity")


def state(trial: Trial) -> Found:
    """In evaluation the same input gives the same result, after other calls too."""
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(trial.forward(trial.batch.unmasked))
        trial.run(trial.draw().unmasked)
    first, again, other = results
    expect(gap(first, again) < CLOSE, "they differ")
    by = gap(first, other)
    given = trial.draw().unmasked
    if by > CLOSE:
        yield "random", {"by": by}
    elif gap(trial.forward(given), trial.fresh(given).joined) > CLOSE:
        yield "cache", {}


def axis(trial: Trial) -> Found:
    """Weights are not those of a softmax over another axis."""
    weights = trial.run(trial.batch.unmasked).weights
    is_other_axis = gap(weights.sum(0), 1) < 1e-3 or gap(weights, 1) < 1e-3
    if weights.min() < 0:
        yield "negative", {"low": float(weights.min())}
    elif is_other_axis:
        yield from sums(trial, "axis")


def sums(trial: Trial, code: str = "sums") -> Found:
    """Weights of a row sum to 1."""
    totals = trial.run(trial.batch.unmasked).weights.sum(2)
    if gap(totals, 1) > 1e-3:
        ends = f"{totals.min():.3g}", f"{totals.max():.3g}"
        yield code, {"totals": " to ".join(dict.fromkeys(ends))}


def in_place(trial: Trial) -> None:
    """Arguments stay as they are."""
    copies = trial.batch.copy()
    trial.run.called(copies)
    for name, before, after in zip(Inputs._fields, trial.batch, copies, strict=True):
        expect(torch.equal(before, after), f"{name} differs after it")


# ---- masks ----


def mask_crash(trial: Trial) -> None:
    """It takes a mask, and weights keep their shape."""
    masked, plain = trial.run(trial.batch).weights, trial.run(trial.batch.unmasked).weights
    expect(masked.shape == plain.shape, f"weights become {tuple(masked.shape)}")


def padding(trial: Trial) -> Found:
    """Padding gets no weight, and changes nothing."""
    if not trial.run.mask:
        yield "no-mask", {}
        return
    given = trial.batch
    plain, masked = trial.run(given.unmasked), trial.run(given)
    other = trial.run(given.with_noise())
    on_padding = (masked.weights * given.padding).sum(2)
    evidence = {
        "most": float(on_padding.max()),
        "missing": gap(masked.weights.sum(2), 1),
        "by": gap(masked.joined, other.joined),
    }
    most, missing, by = evidence.values()
    valid_alone = gap(plain.weights * ~given.padding, masked.weights)
    of_context = gap(masked.context, other.context)
    later = given.padding & given.padding.roll(1, 2)  # padding behind padding
    causes = {
        "mask-ignored": gap(masked.joined, plain.joined) < 1e-7,
        "mask-inverted": on_padding[-1].min() > 0.99,
        "mask-after-softmax": missing > 1e-3 and valid_alone < CLOSE,
        "mask-constant": most > 1e-6 and gap(masked.weights, other.weights) < 1e-7,
        "mask-off-by-one": most > 1e-6 and gap(masked.weights * later, 0) < 1e-6,
        "weights-before-mask": most > 1e-3 and of_context < CLOSE and masked.context.size(1),
        "padding-leak": most > 1e-6,
        "padding-mixed": by > CLOSE,
        "polarity": "~" in trial.run.mask,
    }
    for code, holds in causes.items():
        if holds:
            yield code, evidence
            return


def padding_amount(trial: Trial) -> None:
    """Neither what padding holds nor how much there is of it changes anything."""
    subject: Any = trial
    check_padding(subject)


def empty_row(trial: Trial) -> None:
    """A row without valid keys is no error, and gives no NaN."""
    valid = trial.batch.valid.clone()
    valid[-1] = False
    weights = trial.run(trial.batch._replace(valid=valid)).weights
    expect(weights[-1].isfinite().all(), "NaN")


# ---- rows, lengths and types ----


def one_row(trial: Trial) -> None:
    """It takes a batch of one row."""
    trial.forward(trial.batch.unmasked.select(slice(1)))


def batch(trial: Trial) -> None:
    """A row has the same result alone as in a batch."""
    subject: Any = replace(trial, batch=trial.batch.unmasked)
    check_batch(subject)


def length(trial: Trial) -> None:
    """Sources may be short or long."""
    for keys in (1, 500):
        expect_sums(trial.run(trial.draw(length=keys).unmasked).weights)


def strides(trial: Trial) -> None:
    """Keys may lie in memory as a transposed encoder output does."""
    given = trial.batch.unmasked
    transposed = given.keys.transpose(0, 1).contiguous().transpose(0, 1)
    by = gap(trial.forward(given._replace(keys=transposed)), trial.forward(given))
    expect(by < CLOSE, "results differ")


def half(trial: Trial) -> None:
    """It runs in half precision."""
    query, keys, valid = trial.batch
    for dtype in (torch.float16, torch.bfloat16):
        with unchanged(trial.module):
            trial.module.to(dtype)
            given = Inputs(query.to(dtype), keys.to(dtype), valid)
            expect_sums(trial.run(given).weights.float())


def overflow(trial: Trial) -> None:
    """Large inputs neither overflow nor underflow."""
    for _ in range(DRAWS):
        query, keys, valid = trial.draw()
        weights = trial.run(Inputs(SCALE * query, SCALE * keys, valid)).weights
        if trial.run.mask:
            weights = weights * valid.unsqueeze(1)
        total = float(weights.sum(2).min())
        expect(total > 0.99, f"those of a row sum to {total:.3g}")


def order(trial: Trial) -> Found:
    """Weights follow the keys when these change places."""
    given = trial.batch.unmasked
    moved = trial.run(given._replace(keys=given.keys.roll(1, 1))).weights
    by = gap(moved, trial.run(given).weights.roll(1, 2))
    if by > CLOSE:
        yield "position", {"by": by}


def valid_keys(trial: Trial) -> Found:
    """The first and the last valid key can get weight."""
    ends = []
    for _ in range(2 * DRAWS):
        given = trial.draw()
        weights = trial.run(given).weights.sum(1)  # (B, S)
        last = given.valid.sum(1, keepdim=True) - 1
        ends.append(torch.stack([weights[:, :1], weights.gather(1, last)]))
    most = torch.stack(ends).amax(0).squeeze(2)  # (2, B)
    for name, of_rows in zip(("first", "last"), most, strict=True):
        if of_rows.min() == 0:
            yield "key-without-weight", {"name": name}


# ---- gradients ----


@torch.enable_grad()
def gradient(trial: Trial) -> None:
    """Gradients of query and keys are those of finite differences."""
    query, keys, valid = trial.batch.unmasked
    along, across = torch.randn_like(query), torch.randn_like(keys)

    def results(step: Tensor) -> Tensor:
        return trial.forward(Inputs(query + step * along, keys + step * across, valid))

    expect_gradients(
        results,
        torch.zeros(()),
        eps=3e-4,  # a ReLU has kinks
        atol=5e-3,
        rtol=5e-2,
        fast_mode=False,
    )


@torch.enable_grad()
def parameters(trial: Trial) -> Found:
    """Gradients reach all parameters, unless the module holds more than the attention, or an
    argument that has a default is left out.
    """
    total = trial.forward(trial.batch.unmasked).square().sum()
    if not total.requires_grad:
        return
    names, tensors = [], []
    for name, parameter in trial.module.named_parameters():
        if parameter.requires_grad:
            names.append(name)
            tensors.append(parameter)
    gradients = torch.autograd.grad(total, tensors, allow_unused=True)
    dead = [name for name, grad in zip(names, gradients, strict=True) if grad is None]
    if 0 < len(dead) <= len(names) / 2:
        omitted = ", ".join(trial.run.omitted)
        evidence = {"names": ", ".join(dead[:3]), "omitted": omitted}
        yield "unused-parameter" if omitted else "dead-parameter", evidence


def unregistered(trial: Trial) -> Found:
    """An optimiser is given everything that can be trained."""
    known = set(trial.module.parameters())
    for part in trial.module.modules():
        for name, value in vars(part).items():
            if not known.issuperset(trainable(value)):
                yield "unregistered", {"name": name}


def trainable(value: Any) -> Iterator[Tensor]:
    """Yield what can be trained in an attribute: a tensor, a module, or a list of them."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from trainable(item)
    elif isinstance(value, nn.Module):
        yield from value.parameters()
    elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
        yield value


# ---- contexts, dropout and scores ----


def context(trial: Trial) -> Found:
    """The context is an average of the values, not of the keys."""
    given = trial.batch.unmasked
    weights, context = trial.run(given)
    of_keys = (weights @ given.keys).flatten(1)
    takes_values = "values" in trial.run.call
    if not context.size(1):
        yield "no-context", {}
    elif takes_values and of_keys.shape == context.shape and gap(of_keys, context) < CLOSE:
        yield "keys-as-values", {}


def average(trial: Trial) -> Found:
    """The context is an affine map of the values averaged with the weights, and of the query."""
    inputs, contexts = [], []
    for _ in range(DRAWS):
        given = trial.draw().unmasked
        weights, context = trial.run(given)
        values = given.keys.cos() if "values" in trial.run.call else given.keys
        inputs.append(torch.cat([(weights @ values).flatten(1), given.query], dim=1))
        contexts.append(context)
    if not contexts[0].size(1):
        return
    x, y = torch.cat(inputs), torch.cat(contexts)
    share = unexplained(x, y)
    if y.abs().max() < 1:
        share = min(share, unexplained(x, y.atanh()))  # Luong's attentional vector
    if share > CLOSE:
        yield "mixture", {"share": share}


def unexplained(x: Tensor, y: Tensor) -> float:
    """Return the share of the variance of y (N, M) that no affine map of x (N, F) explains."""
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1).double()
    y = y.double()
    residuals = x @ torch.linalg.lstsq(x, y, driver="gelsd").solution - y
    variance = (y - y.mean(0)).square().sum()
    return float(residuals.square().sum() / variance.clamp(min=1e-30))


def training(trial: Trial) -> Found:
    """In training the mask holds as well, and the returned weights are those that are used."""
    given = trial.batch.unmasked
    with unchanged(trial.module):
        trial.module.train()
        masked, first, second = trial.run(trial.batch), trial.run(given), trial.run(given)
    most = float((masked.weights * trial.batch.padding).max())
    if trial.run.mask and most > 1e-6:
        yield "mask-in-training", {"most": most}
    by = gap(first.context, second.context)
    if by > CLOSE and torch.equal(first.weights, second.weights):
        yield "before-dropout", {"by": by}


def score(trial: Trial) -> Found:
    """Name the score. It comes last, since it changes parameters."""
    given = trial.draw().unmasked
    queries = [given.query, given.query.flip(1)]
    for parameter in trial.module.parameters():
        if parameter.dim() > 0:  # it may begin with 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    clear_biases(trial.module)
    weights = [trial.run(given._replace(query=query)).weights for query in queries]
    first, second = weights
    if trial.expect is None and gap(first, second) < 1e-6:
        is_uniform = gap(first, first[..., :1]) < 1e-6
        ignored = "uniform" if is_uniform else "query-ignored"
        yield ignored if "query" in trial.run.call else "no-query", {}
        return
    logs = torch.cat(weights, dim=1).log()
    has_heads = logs.size(1) > len(queries)
    if has_heads or not logs.isfinite().all():
        yield "score-unknown", {"why": "several heads, or weights of 0"}
        return
    tensors = list(trial.module.parameters())
    sample = Sample(torch.stack(queries, dim=1), given.keys, logs, tensors)
    if trial.expect is not None:
        code, text = compare(sample, trial.expect)
        if code:
            yield "expected", {"expected": trial.expect, "why": text}
        return
    code, name, why = match(sample)
    yield code, {"name": name, "why": why}


CHECKS: tuple[Callable[[Trial], Found | None], ...] = (
    not_finite,
    state,
    axis,
    one_row,
    batch,
    sums,
    mask_crash,
    in_place,
    padding,
    padding_amount,
    empty_row,
    length,
    strides,
    order,
    valid_keys,
    unregistered,
    gradient,
    overflow,
    half,
    context,
    average,
    parameters,
    training,
    score,
)
"""in the order in which they are made: causes before consequences"""
