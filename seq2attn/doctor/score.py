"""The rule that names the score, and the factor of the products of queries and keys.

Codes of findings: `scale`, `scale-factor` and `scale-mistake` are about that factor, `score`,
`score-factor`, `score-mistake` and `score-unknown` about the score as a whole; `expected` says that
it is not the one that the user expects. B counts rows of the batch, H heads, L queries, S keys.
"""

import re
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from seq2attn.doctor.call import B, arrange, orders_of
from seq2attn.doctor.said import docs_of, source_of
from seq2attn.doctor.scores import Sample, clear_biases, compare, factor_of, match
from seq2attn.doctor.subject import Subject, gap
from seq2attn.findings.engine import TEXTS, Found, listed

EVEN = 1e-3  # by which norms of normalised keys may differ
EQUAL = 0.01  # factors that differ by less, as a share, are equal
SCALED = r"(?<!un)scaled|sqrt|√"  # what a name or a docstring says of a factor,
DENIED = (
    r"\b(no|not|without|never)\b[^.,;:\n]*|[^.,;:\n]*\b(folded|absorbed|initiali\w+)\b[^.,;:\n]*"
)
"""unless it stands in such a phrase"""
PROMISED = r"(sqrt|√)\W{0,3}(d_?k|d_?h|\w*head|d\b)"  # the right factor, in a docstring
NEVER = {"width", "inverse"}
"""factors that are mistakes, as a wrong sign is, unless the docstring divides by the width"""
UNLIKE = r"(?i)channel.attention|max\([^\n]*\)\[0\][^\n]*- ?\w+"
"""words of a docstring where what is least alike may attend to each other (Fu et al. 2019, CAM),
and code that takes scores from the largest"""
OVER_WIDTH = r"\bmup\b|µp|maximal update|(?<!sqrt\()/ ?d\b"
"""words of a docstring that divides by the width, and not by its root"""


def score(subject: Subject) -> Found:
    """Name the score; or, if the user expects one, say how it differs from that. If it has no name,
    say by what the product of queries and keys is multiplied. This rule comes last, since it
    changes parameters.
    """
    expected = subject.expect  # a name or a formula; None if none is expected
    told = listed(_scaled(subject))  # findings on the factor, before the parameters change
    sample = _sample(subject)
    if sample is None:
        why = "there are several heads or layers, or weights of 0, or none were caught"
        if expected:
            yield "wrong-score", {"expected": expected, "by": why}
        else:
            yield from told or [("score-unknown", why)]
    elif expected:
        code, why = compare(sample, expected, subject.scores)
        if code:  # "": it is the expected one
            yield "wrong-score", {"expected": expected, "by": why}
    else:
        code, name, why = match(sample, subject.scores)
        if code == "score-mistake" and name.startswith("-") and _may_be_unlike(subject):
            code = "score-factor"
        has_meaning = code == "score-factor" and told and told[0][0] != "scale"
        if has_meaning or (code == "score-unknown" and told):  # the factor says more
            yield from told
            return
        yield code, {"name": name, "by": why}
        # the score has a name, but its factor may be another one than its docstring promises; that
        # it is a usual one (`scale`) follows from the name
        if code == "score":
            yield from (one for one in told if one[0] != "scale")


def _sample(subject: Subject) -> Sample | None:
    """Return queries and keys with the logarithms of their weights, which are their scores up to a
    number for each query; None unless there is one head, in one layer, and no weight is 0.

    Parameters are changed: random numbers are added, as some begin with 0, and biases become 0. A
    module that takes one query at a time is called twice, and its two queries are joined: the first
    alone would not show what the query does to the scores.
    """
    inputs = subject.draw().unpadded
    for parameter in subject.module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    clear_biases(subject.module)
    several = [inputs]
    if inputs.query is not None and inputs.query.size(1) == 1:
        several.append(inputs._replace(query=inputs.query.flip(2)))
    queries: list[Tensor] = []
    weights: list[Tensor] = []
    for one in several:
        queries.append(one.keys if one.query is None else one.query)
        weights += subject.run(one).weights
    if len(weights) != len(several) or weights[0].size(1) > 1:  # several layers, or heads
        return None
    joined = torch.cat(weights, dim=2)[:, 0]  # (B, L, S)
    if not (joined > 0).all():
        return None
    parameters = list(subject.module.parameters())
    return Sample(torch.cat(queries, dim=1), inputs.keys, joined.log(), parameters)


def _scaled(subject: Subject) -> Found:
    """Say by what the product of queries and keys is multiplied, in the first layer where that is
    found, by one finding. It is `scale`, a fact, if the factor is 1 / sqrt(width of a head), a
    number without a meaning, or 1 where nothing is said of a factor, or where keys are normalised.
    Other factors are a `scale-mistake` if nobody means them (NEVER), or if the docstring promises
    the root of the width, or else a `scale-factor`.
    """
    # all docstrings, and their first lines alone, without phrases such as "not scaled"
    docs, line = (
        re.sub(DENIED, "", re.sub(r"\n +", " ", docs_of(subject.call.attention, first).lower()))
        for first in (False, True)
    )
    is_promised = re.search(PROMISED, docs)
    for factor, width, heads, is_normed in _scales(subject):
        # factors with a meaning, by the names of their texts in the catalogue
        known = {"root": width**-0.5}
        # These would be chance where any factor may be right, as keys are normalised, and where the
        # call splits queries into heads, by `unflatten`: then the module knows a head's width alone
        if not is_normed and "unflatten" not in subject.call.text:
            known["all"] = (width * heads) ** -0.5
            known["width"] = 1 / width
            known["inverse"] = width**0.5
            known["keys"] = subject.length**-0.5
            if heads > 1:
                known["heads"] = heads**-0.5
        is_said = is_promised or re.search(SCALED, line)
        # no factor at all: "said", although a factor is said; or "none", which is right where none
        # is said, or where keys are normalised
        known["said" if is_said and not is_normed else "none"] = 1.0
        # where two are equal, as with as many heads as each is wide, the first is meant
        names = [name for name in known if abs(factor - known[name]) < EQUAL * factor]
        name = "sign" if factor < 0 else (names or ["other"])[0]
        text = TEXTS["scales"][name].format(by=1 / factor, width=width, all=width * heads)
        # the root of a head's width is promised, not this; but sqrt(d) may mean that of all heads
        is_root = is_promised and (name != "all" or is_promised[2] != "d")
        if name in ("root", "none", "other"):
            yield "scale", text
        # where the docstring divides by the width, as muP does, a multiplier of its own may make
        # any factor above 0
        elif (
            is_root
            or (name == "sign" and not _may_be_unlike(subject))
            or (name in NEVER and not re.search(OVER_WIDTH, docs))
        ):
            yield "scale-mistake", text
        else:
            yield "scale-factor", text
        return  # after the first layer


def _may_be_unlike(subject: Subject) -> bool:
    """Return whether what is least alike may attend to each other."""
    return bool(re.search(UNLIKE, subject.docs + source_of(subject.call.attention)))


def _scales(subject: Subject) -> Iterator[tuple[float, int, int, bool]]:
    """Yield, for each use of weights (B, H, L, S), the factor of q · k before its softmax, the
    width of q and k, the number of heads, and whether keys are normalised: then any factor may be
    right. A use whose weights follow from no recorded product is left out.

    The logarithms of the weights of a call without padding (`unmasked`) are compared with the
    products that were recorded. Removed from both is what the softmax takes away, a number for each
    query, and what is added at each place alike in all rows of the batch, such as a position bias.
    """
    queries, recorded = subject.queries(subject.inputs), subject.unmasked.watch.scores
    for weights in subject.unmasked.weights:
        seen = (weights > 0).all(0)  # (H, L, S) keys with weight in all rows of the batch
        logs = _without_offsets(weights.log(), seen)
        # which of the products were the scores, and in which order, is not known: all are tried
        for (scores, keys), order in product(recorded, orders_of(weights.size(1))):
            if scores.numel() != weights.numel():
                continue
            scored = arrange(scores, order, B, queries)  # (B, H, L, S), if this is the order
            if scored.shape != weights.shape:
                continue
            if factor := factor_of(_without_offsets(scored, seen), logs):  # None: no factor fits
                norms = keys.norm(dim=-1)
                is_normed = gap(norms / norms.mean(), 1) < EVEN
                yield factor, keys.size(-1), weights.size(1), is_normed
                break


def _without_offsets(numbers: Tensor, seen: Tensor) -> Tensor:
    """Return numbers (B, H, L, S) as (B H, L, S), less their mean over the rows of the batch, and
    then less that over the keys that are seen; 0 for keys that are not.

    seen: (H, L, S).
    """
    numbers = numbers.double().masked_fill(~seen, 0)
    numbers = numbers - numbers.mean(0)
    means = numbers.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return ((numbers - means) * seen).flatten(0, 1)
