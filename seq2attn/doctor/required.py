"""Rule of what the user requires: which places a row may see, and what is returned."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from seq2attn.doctor.call import B
from seq2attn.doctor.masks import places
from seq2attn.doctor.subject import Subject
from seq2attn.doctor.weights import returned, sums
from seq2attn.errors import unknown
from seq2attn.findings.engine import Found, listed

FEATURES = {"context": "D", "weights": "S"}
"""what may be required to be returned, and its last axis"""
ALLOWED = ("causal", "window=N", "returns=context,weights", "returns=context")
KNOWN = r"causal|window=\d+|returns=(context|weights)(,(context|weights))*"


def refuse_unknown(require: Sequence[str]) -> None:
    """Raise `Seq2AttnError` unless all that is required can be examined."""
    for name in require:
        if not re.fullmatch(KNOWN, name):
            raise unknown("requirement", name, ALLOWED)


def required(subject: Subject) -> Found:
    """Yield each of the user's requirements that does not hold: `causal`; a window such as
    `window=3`, which holds if a row sees that many places, its own being the last; or what is
    returned, such as `returns=context,weights`.
    """
    found = {code: evidence for code, *evidence in listed(places(subject))}
    size, _, after = found.get("window", [0, 0, 1])  # no window: no requirement of one holds
    holds = {"causal": subject.is_causal, f"window={size}": not after}
    for name in subject.require:
        kind, _, parts = name.partition("=")
        if kind == "returns":
            yield from _returns(subject, parts.split(","))
        elif not holds.get(name):
            yield "required", "is something else", name


def _returns(subject: Subject, names: Sequence[str]) -> Found:
    """Yield `required` unless exactly these are returned, in this order: the context (B, D) and the
    weights (B, S) of one query, or (B, L, D) and (B, L, S) of several, where weights may have an
    axis of heads, (B, H, L, S). They are those that were used: if others are returned that may be
    weights, too, that is another finding, `other-weights-returned`.

    names: "context", "weights" or both.
    """
    inputs, result = subject.inputs, subject.call(subject.inputs)
    queries, width = subject.queries(inputs), inputs.keys.size(2)
    query_width = width if inputs.query is None else inputs.query.size(2)
    letters = {queries: "L", query_width: "D", width: "D", B: "B", subject.length: "S", 1: "1"}
    # one query has an axis of its own, of length 1, only if it is given so
    is_one = queries == 1 and "query" not in subject.call.expressions.values()
    axis = "" if is_one else f"{letters[queries]}, "
    forms = [f"(B, {axis}{FEATURES[name]})" for name in names]
    given = result if isinstance(result, tuple | list) else [result]
    # of an attention that takes one row, the call has put the axis of the batch before the others
    shapes = [_shape(one, letters, int(subject.call.by_row)) for one in given]
    without_heads = [re.sub(r"\(B, \w+, (\w+, S\))", r"(B, \1", shape) for shape in shapes]
    found = f"returned {', '.join(shapes) or 'nothing'}"
    if without_heads == forms:
        if "weights" not in names or _are_weights_used(subject, names.index("weights")):
            return
        found += ", but these are not the weights that were used"
    yield "required", found, ", ".join(map(" ".join, zip(names, forms, strict=True)))


def _are_weights_used(subject: Subject, index: int) -> bool:
    """Return whether what is returned at this index is the weights that were used, with a mask,
    too: no rule finds other numbers, such as scores or logarithms, in their place. Where weights
    are not required, such a finding is a note or a care; here it is a fault.
    """
    # where no weights were caught, as in loops, those that are returned have to sum to 1
    rules = [returned] if any(subject.orders) else [returned, sums]
    codes = {code for rule in rules for code, *_ in listed(rule(subject))}
    is_found = [*subject.weight_indices] == [index] and bool(subject.masked.weights)
    return is_found and not codes & {"other-returned", "logarithms", "sums"}


def _shape(value: Any, letters: Mapping[int, str], first: int) -> str:
    """Return the shape of a tensor from the axis `first` on, with letters for the sizes of the
    inputs; of another value, the name of its type.
    """
    if not isinstance(value, Tensor):
        return type(value).__name__.removesuffix("Type")  # None is of NoneType
    return f"({', '.join(letters.get(size, str(size)) for size in value.shape[first:])})"
