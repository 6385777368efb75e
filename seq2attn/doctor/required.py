"""Rule of what the user requires: which places a row may see, what is returned, and that large
inputs do no harm.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from seq2attn.doctor.call import B
from seq2attn.doctor.masks import padding, places
from seq2attn.doctor.numbers import overflow
from seq2attn.doctor.subject import CLOSE, Subject
from seq2attn.doctor.weights import returned, sums
from seq2attn.errors import unknown
from seq2attn.findings.engine import CATALOGUE, Found, finding, listed

FEATURES = {"context": "D", "weights": "S"}
"""what may be required to be returned, and its last axis"""
ALLOWED = ("causal", "window=N", "stable", "returns=context,weights", "returns=context")
KNOWN = r"causal|stable|window=\d+|returns=(context|weights)(,(context|weights))*"


def refuse_unknown(require: Collection[str], allow: Collection[str]) -> None:
    """Raise `Seq2AttnError` unless all that is required can be examined, and all that is allowed
    can be found.
    """
    for name in require:
        if not re.fullmatch(KNOWN, name):
            raise unknown("requirement", name, ALLOWED)
    for code in allow:
        if code not in CATALOGUE:
            raise unknown("finding", code, CATALOGUE)


def required(subject: Subject) -> Found:
    """Yield each of the user's requirements that does not hold: `causal`; a window such as
    `window=3`, which holds if a row sees that many places, its own being the last; `stable`, which
    holds unless large inputs give NaN or infinity, or take weight from valid keys (`overflow`); or
    returned weights, of which `_wrong` says what is wrong.
    """
    found = listed(places(subject))
    evidence = {code: values for code, *values in found}
    size, _, after = evidence.get("window", [0, 0, 1])  # no window: no requirement of one holds
    holds = {"causal": subject.is_causal, f"window={size}": not after}
    hides_padding = not listed(padding(subject))  # otherwise weights and large scores suffer, too
    for name in subject.require:
        kind, _, parts = name.partition("=")
        if kind == "returns" and "weights" in parts and hides_padding:
            if wrong := _wrong(subject, parts.split(",").index("weights")):
                yield "unmet", wrong, name
        elif kind == "stable" and hides_padding:
            for one in listed(overflow(subject)):
                yield "unmet", finding(*one).text.rstrip("."), name
        elif kind not in ("returns", "stable") and not holds.get(name):
            told = [finding(*one).text for one in found if one[0] != "position"]
            yield "unmet", "".join(told).rstrip(".") or "A row sees all places", name


def returns(subject: Subject) -> Found:
    """Yield `returns` unless exactly what is required is returned, in this order: the context
    (B, D) and the weights (B, S) of one query, or (B, L, D) and (B, L, S) of several, where weights
    may have an axis of heads, (B, H, L, S). Something has to be returned, or kept on the module.
    """
    names = next((one[8:].split(",") for one in subject.require if one.startswith("returns=")), [])
    if not names:
        is_none = subject.call(subject.inputs) is None
        if is_none and Tensor not in map(type, vars(subject.call.attention).values()):
            yield "returns", "None", "a result"
        return
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
    if without_heads != forms:
        needed = ", ".join(map(" ".join, zip(names, forms, strict=True)))
        yield "returns", ", ".join(shapes) or "nothing", needed


def _wrong(subject: Subject, index: int) -> str:
    """Return what is wrong with the weights that are returned at this index, or with the context
    beside them, and "" if nothing is. The weights are those that were used, with a mask, too, and
    sum to 1: where they are not required, another finding on that is a note or a care. Without
    parameters, which might change it, the context is the average of values, or of keys.
    """
    found = {
        code: evidence for rule in (returned, sums) for code, *evidence in listed(rule(subject))
    }
    if "sums" in found:
        return f"A row of the returned weights sums to {found['sums'][0]['totals']}, and not to 1"
    is_found = [*subject.weight_indices] == [index] and bool(subject.masked.weights)
    if not is_found or found.keys() & {"other-returned", "logarithms"}:
        return "The returned weights are not those that were used"
    inputs, result = subject.inputs, subject.masked
    takes_values = any("values" in text for text in subject.call.expressions.values())
    shown = result.returned
    if shown is None or shown.size(1) > 1 or [*subject.module.parameters()]:
        return ""
    average = shown[:, 0] @ (inputs.keys.cos() if takes_values else inputs.keys)  # (B, L, D)
    is_comparable = subject.output_indices and average.shape == result.output.shape
    if is_comparable and subject.difference(average, result.output) > CLOSE:
        return f"The context is not the average of the {'values' if takes_values else 'keys'}"
    return ""


def _shape(value: Any, letters: Mapping[int, str], first: int) -> str:
    """Return the shape of a tensor from the axis `first` on, with letters for the sizes of the
    inputs; of another value, the name of its type.
    """
    if not isinstance(value, Tensor):
        return type(value).__name__.removesuffix("Type")  # None is of NoneType
    return f"({', '.join(letters.get(size, str(size)) for size in value.shape[first:])})"
