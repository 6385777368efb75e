"""The rule that names the score, and the factor of the products of queries and keys."""

import re

import torch
from torch import Tensor

from seq2attn.doctor.numbers import LOST
from seq2attn.doctor.said import docs_of
from seq2attn.doctor.scale import scales
from seq2attn.doctor.scores import Sample, clear_biases, compare, match
from seq2attn.doctor.subject import Subject
from seq2attn.findings.engine import TEXTS, Found, listed

SCALED = r"(?<!un)scaled|sqrt|√"  # what a name or a docstring says of a factor,
DENIED = (
    r"\b(no|not|without|never)\b[^.,;:\n]*|[^.,;:\n]*\b(folded|absorbed|initiali\w+)\b[^.,;:\n]*"
)
"""unless it stands in such a phrase"""
PROMISED = r"(sqrt|√)\W{0,3}(d_?k|d_?h|\w*head|d\b)"  # the right factor, in a docstring
NEVER = {"width", "inverse", "sign"}
"""factors that are mistakes whatever is said, but for 1 / D, with which some parametrise layers"""
OVER_WIDTH = r"\bmup\b|µp|maximal update|(?<!sqrt\()/ ?d\b"


def score(subject: Subject) -> Found:
    """Name the score, or say how it differs from the one that is expected. If it has no name, say
    by what the product of queries and keys is multiplied. This rule comes last, since it changes
    parameters.
    """
    expected = subject.expect
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
        if code:
            yield "expected", {"expected": expected, "by": why}
    else:
        code, name, why = match(sample, subject.scores)
        if code == "score-unknown" and told:
            yield from told
            return
        yield code, {"name": name, "by": why}
        if code == "score":  # its formula is right, and its factor may not be the promised one
            yield from (one for one in told if one[0] != "scale")


def _sample(subject: Subject) -> Sample | None:
    """Return queries and keys with the logarithms of their weights, which are their scores up to a
    number for each query; None unless there is one head, in one layer, and no weight is 0.

    Parameters are moved, as some begin with 0. Of modules with one query at a time, two are joined,
    as the first alone would not show what the query does to the scores.
    """
    given = subject.draw().unpadded
    for parameter in subject.module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    clear_biases(subject.module)
    several = [given]
    if given.query is not None and given.query.size(1) == 1:
        several.append(given._replace(query=given.query.flip(2)))
    queries: list[Tensor] = []
    weights: list[Tensor] = []
    for one in several:
        queries.append(one.keys if one.query is None else one.query)
        weights += subject.run(one).weights
    if len(weights) != len(several) or weights[0].size(1) > 1:  # one layer, one head
        return None
    joined = torch.cat(weights, dim=2)[:, 0]  # (B, L, S)
    if not (joined > 0).all():
        return None
    parameters = list(subject.module.parameters())
    return Sample(torch.cat(queries, dim=1), given.keys, joined.log(), parameters)


def _scaled(subject: Subject) -> Found:
    """Say by what the product of queries and keys is multiplied, in the first layer where that is
    found: `scale`, a fact, if it is the usual root, a number without a meaning, or 1 where nothing
    is said of a factor. Other factors are a `scale-mistake` if nobody means them, or if the
    docstring promises the root of the width, or else a `scale-factor`. Most are only known where
    the module itself splits its queries into heads.
    """
    # what is said, and the first lines alone, without phrases such as "not scaled"
    docs, line = (
        re.sub(DENIED, "", docs_of(subject.call.attention, first).lower())
        for first in (False, True)
    )
    is_promised = re.search(PROMISED, docs)
    for factor, width, heads, is_normed in scales(subject):
        known = {"root": width**-0.5}  # factors that have a text in the catalogue
        if not is_normed and "unflatten" not in subject.call.text:  # it is not given heads
            known["all"] = (width * heads) ** -0.5
            known["width"] = 1 / width
            known["inverse"] = width**0.5
            known["keys"] = subject.length**-0.5
            if heads > 1:
                known["heads"] = heads**-0.5
        is_said = is_promised or re.search(SCALED, line)
        known["said" if is_said and not is_normed else "none"] = 1.0
        # where two are alike, as with as many heads as each is wide, the first is meant
        names = [name for name in known if abs(factor - known[name]) < LOST * factor]
        name = "sign" if factor < 0 else (names or ["other"])[0]
        text = TEXTS["scales"][name].format(by=1 / factor, width=width, all=width * heads)
        # sqrt(d) may mean the width of all heads
        is_root = is_promised and (name != "all" or is_promised[2] != "d")
        if name in ("root", "none", "other"):
            yield "scale", text
        elif is_root or (name in NEVER and not re.search(OVER_WIDTH, docs)):
            yield "scale-mistake", text
        else:
            yield "scale-factor", text
        return
