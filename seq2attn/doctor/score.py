"""The rule that names the score, and the factor of the products of queries and keys.

Codes of findings: `scale`, `scale-factor` and `scale-mistake` are about that factor, `score`,
`score-factor`, `score-mistake` and `score-unknown` about the score as a whole; `expected` says that
it is not the one that the user expects. B counts rows of the batch, H heads, L queries, S keys.
"""

import re

import torch
from torch import Tensor

from seq2attn.doctor.said import docs_of
from seq2attn.doctor.scale import scales
from seq2attn.doctor.scores import Sample, clear_biases, compare, match
from seq2attn.doctor.subject import Subject
from seq2attn.findings.engine import TEXTS, Found, listed

EQUAL = 0.01  # factors that differ by less, as a share, are equal
SCALED = r"(?<!un)scaled|sqrt|√"  # what a name or a docstring says of a factor,
DENIED = (
    r"\b(no|not|without|never)\b[^.,;:\n]*|[^.,;:\n]*\b(folded|absorbed|initiali\w+)\b[^.,;:\n]*"
)
"""unless it stands in such a phrase"""
PROMISED = r"(sqrt|√)\W{0,3}(d_?k|d_?h|\w*head|d\b)"  # the right factor, in a docstring
NEVER = {"width", "inverse", "sign"}
"""factors that are mistakes whatever is said, but for 1 / D, with which some parametrise layers"""
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
            yield "expected", {"expected": expected, "by": why}
        else:
            yield from told or [("score-unknown", why)]
    elif expected:
        code, why = compare(sample, expected, subject.scores)
        if code:  # "": it is the expected one
            yield "expected", {"expected": expected, "by": why}
    else:
        code, name, why = match(sample, subject.scores)
        if code == "score-unknown" and told:  # the factor says more
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
    number without a meaning, or 1 where nothing is said of a factor. Other factors are a
    `scale-mistake` if nobody means them (NEVER), or if the docstring promises the root of the
    width, or else a `scale-factor`. Most have a meaning only where the module itself splits its
    queries into heads, and does not normalise keys.
    """
    # all that is said, and the first lines alone, without phrases such as "not scaled"
    docs, line = (
        re.sub(DENIED, "", docs_of(subject.call.attention, first).lower())
        for first in (False, True)
    )
    is_promised = re.search(PROMISED, docs)
    for factor, width, heads, is_normed in scales(subject):
        known = {"root": width**-0.5}  # factors, by the names of their texts in the catalogue
        # the call does not split queries into heads (by `unflatten`) for it
        if not is_normed and "unflatten" not in subject.call.text:
            known["all"] = (width * heads) ** -0.5
            known["width"] = 1 / width
            known["inverse"] = width**0.5
            known["keys"] = subject.length**-0.5
            if heads > 1:
                known["heads"] = heads**-0.5
        is_said = is_promised or re.search(SCALED, line)
        known["said" if is_said and not is_normed else "none"] = 1.0
        # where two are equal, as with as many heads as each is wide, the first is meant
        names = [name for name in known if abs(factor - known[name]) < EQUAL * factor]
        name = "sign" if factor < 0 else (names or ["other"])[0]
        text = TEXTS["scales"][name].format(by=1 / factor, width=width, all=width * heads)
        # the root of a head's width is promised; but sqrt(d) may mean the width of all heads
        is_root = is_promised and (name != "all" or is_promised[2] != "d")
        if name in ("root", "none", "other"):
            yield "scale", text
        # some do mean 1 / width, and say so
        elif is_root or (name in NEVER and not re.search(OVER_WIDTH, docs)):
            yield "scale-mistake", text
        else:
            yield "scale-factor", text
        return  # after the first layer
