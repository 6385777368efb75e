"""Rule of co-attention, where the keys attend to the queries as well: this way is examined, too,
with queries and keys in each other's place.
"""

import contextlib
import re
from dataclasses import replace

from torch import Tensor

from seq2attn.doctor.call import draw
from seq2attn.doctor.layout import observed
from seq2attn.doctor.subject import TINY, Subject
from seq2attn.doctor.weights import sums
from seq2attn.doctor.words import is_in, role_of
from seq2attn.findings.engine import Found, finding, listed

TURNED = {"query": "keys", "keys": "query"}


def other_way(subject: Subject) -> Found:
    """Where the queries are averaged by weights of a softmax, these sum to 1 over the queries, and
    padding of queries gets none; otherwise `other-way` is yielded, with the argument that is the
    query and the text of the first fault. Nothing is said without a query, or where the turned
    attention cannot be called or examined.
    """
    query, expressions = subject.inputs.query, subject.call.expressions
    name = next((name for name, text in expressions.items() if "query" in text), "")
    if query is None:
        return
    with contextlib.suppress(Exception):
        turned = _turned(subject, name, query)
        watch = turned.unmasked.watch
        if not (watch.uses and watch.softmaxes):
            return
        found = [finding(*one) for one in listed(sums(turned))]
        most = float(turned.weight_on_padding(turned.masked).max())  # 0 without a mask
        if most > TINY:
            found.append(finding("padding-leak", most))
        texts = [one.text for one in found if one.level == "fault"]
        if texts:
            yield "other-way", name, texts[0]


def _turned(subject: Subject, named: str, query: Tensor) -> Subject:
    """Return the subject with queries and keys in each other's place: the argument for queries gets
    the keys of its new inputs, (B, S, Dq), and that for keys their query, (B, L, Dk). If a mask has
    the name of the argument for queries, it gets their padding; the other mask hides nothing.

    named: the argument that is the query. query: what it was given, (B, L, Dq).
    """
    call = subject.call
    # expressions of the inputs, with "query" and "keys" exchanged
    texts = {
        name: re.sub("query|keys", lambda found: TURNED[found[0]], text)
        for name, text in call.expressions.items()
    }
    if call.mask:  # the mask of what is now the query: all of it is valid
        texts[call.mask] = call.form.replace("valid", "torch.ones(query.shape[:2]).bool()")
    masks = [name for name in subject.arguments if role_of(name) == "mask" and is_in(named, [name])]
    mask = next(iter(masks), "")
    texts.pop(mask, None)
    form = call.form if call.mask else "valid"
    called = subject.called(expressions=texts, mask=mask, form=form, needs_mask=bool(mask))
    drawn = draw(subject.inputs.keys.size(2), query.size(2), query.size(1))
    drawn = drawn if mask else drawn.unpadded  # without a mask, nothing could tell padding
    return observed(replace(called, inputs=drawn, fresh=None))
