"""`check_attention` names planted bugs, and finds nothing wrong with attention that is right."""

import dataclasses
import functools
import json
import linecache
import re
import sys
import textwrap

import faulty
import numpy as np
import pytest
import torch
import unusual
from faulty import CASES, ONE
from torch import nn

import seq2attn
from seq2attn.build import build_model, build_task
from seq2attn.config import check_config
from seq2attn.data.vocabulary import SOS, UNK
from seq2attn.doctor import examine, required, score
from seq2attn.findings import engine
from seq2attn.findings.engine import CATALOGUE, TEXTS
from seq2attn.parts import DECODERS, HISTORIES, NORMALISERS, SCORES, WINDOWS

WIDTHS = {"widths": (16, 16)}
UNUSED = "The returned weights are not those that were used"
HALVED = "A row of the returned weights sums to 0.5, and not to 1"
ADDED = "The context is not the average of the keys"


def examined(code, **options):
    made = {}
    linecache.cache["attention.py"] = len(code), None, code.splitlines(keepends=True), ""
    exec(compile(code, "attention.py", "exec"), made)
    return seq2attn.check_attention(made["Attention"], **{**WIDTHS, **options})


every_finding = engine.examine


def up_to_a_fault(*given):
    """What rules find, until one finds a fault: what comes after it takes time."""
    for finding in every_finding(*given):
        yield finding
        if finding.level == "fault":
            return


def is_found(case, source):
    """Whether the finding of a case comes first among those of its level."""
    level = CATALOGUE[case.code].level
    with pytest.MonkeyPatch.context() as patch:
        if level == "fault":
            patch.setattr(engine, "examine", up_to_a_fault)
        report = examined(source, **case.options)
    codes = [finding.code for finding in report.findings if finding.level == level]
    return case.code in (codes[:1] if level == "fault" else codes)


# by default the first case of each fault: what is less is examined to the end, which takes longer
FIRST = {one.code: one for one in reversed(CASES) if CATALOGUE[one.code].level == "fault"}.values()
EACH_CASE = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=f"{place}-{case.code}", marks=[pytest.mark.slow] * (case not in FIRST)
        )
        for place, case in enumerate(CASES)
    ],
)


@EACH_CASE
def test_a_finding_is_provoked(case):
    assert is_found(case, case.sources()[0])


@functools.cache
def codes_of(source, options):
    return {finding.code for finding in examined(source, **dict(options)).findings}


@pytest.mark.slow
@EACH_CASE
def test_a_finding_is_nearly_provoked(case):
    options = {key: tuple(value) for key, value in case.options.items() if key == "require"}
    assert case.code not in codes_of(case.sources()[1], tuple(options.items()))


def test_every_finding_has_a_case():
    assert {case.code for case in CASES} == TEXTS["findings"].keys() - {"patched"}


def fails():
    """Whether some case fails."""
    return not all(is_found(case, case.sources()[0]) for case in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("rule", examine.RULES, ids=lambda rule: rule.__name__)
def test_no_rule_can_be_left_out(monkeypatch, rule):
    others = tuple(other for other in examine.RULES if other is not rule)
    monkeypatch.setattr(examine, "RULES", others)
    assert fails()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CLOSE", "TINY", "EXACT", "SHARE", "LOST", "TOLERANCE"])
def test_no_threshold_can_be_ten_times_as_loose(monkeypatch, name):
    for module in [*sys.modules]:
        if module.startswith("seq2attn.doctor.") and hasattr(sys.modules[module], name):
            monkeypatch.setattr(f"{module}.{name}", 10 * getattr(sys.modules[module], name))
    assert fails()


# ---- what is right ----


def assert_right(report):
    assert not report.faults, report
    assert "unfinished" not in {finding.code for finding in report.findings}, report


QUICK = [unusual.Linear, unusual.Decoder, unusual.PositionMajor]
FORMS = [form for form in vars(unusual).values() if getattr(form, "__module__", "") == "unusual"]
SLOW = [form for form in FORMS if form not in (*QUICK, unusual.masked_softmax)]
SLOW.append(nn.MultiheadAttention)


@pytest.mark.parametrize(
    "form",
    [*QUICK, *(pytest.param(form, marks=pytest.mark.slow) for form in SLOW)],
    ids=lambda form: form.__name__,
)
def test_what_is_unusual_and_right_has_no_fault(form):
    report = seq2attn.check_attention(form)
    assert_right(report)


BASES = """
ONE CROSS SELF LINEAR BARE POOL LOOKUP SLOTS EQUAL STEPS SPLIT BLOCKS VISITED GRAPH
BOTH_WAYS FIRST POOLED WINDOWS LAYER JOINT
"""  # of the faults; the others have a fault before they are changed, too


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES.split())
def test_what_is_right_before_it_is_changed_has_no_fault(name):
    report = examined(getattr(faulty, name))
    assert_right(report)


class OneStep(nn.Module):
    """The first step of a decoder, whose logits stand for the context."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, query, keys, valid):
        source = torch.full(valid.shape, UNK + 1)
        memory = self.decoder.attention.prepare(keys, valid, source)
        state = self.decoder.begin((query,), memory)
        tokens = torch.full((len(query), 1), SOS)
        decoded, _ = self.decoder(tokens, state, memory)
        return decoded.logits.squeeze(1), decoded.weights.squeeze(1)


KINDS = {"decoder": DECODERS, "score": SCORES, "window": WINDOWS, "history": HISTORIES}
KINDS["normaliser"] = NORMALISERS
QUICKLY = {"additive", "pointer", "hard_monotonic"}
OURS = [
    pytest.param(kind, name, marks=[] if name in QUICKLY else pytest.mark.slow)
    for kind, parts in KINDS.items()
    for name in parts.names()
    if (kind, name) != ("score", "none")
]


def report_of(kind, name):
    """Of the first step of a decoder that has the part."""
    setting = f"model.decoder={name}" if kind == "decoder" else f"model.attention.{kind}={name}"
    config = check_config({"task": {"alphabet": "abc"}}, ["model.hidden=16", setting])
    step = OneStep(build_model(config, build_task(config)).decoder)
    return seq2attn.check_attention(step, **WIDTHS)


@pytest.mark.parametrize("kind, name", OURS)
def test_our_own_parts_have_no_fault(kind, name):
    report = report_of(kind, name)
    assert_right(report)
    assert "empty-row" not in {finding.code for finding in report.findings}, report


@pytest.mark.parametrize("name", [name for name in SCORES.names() if name != "none"])
def test_our_own_scores_are_named(monkeypatch, name):
    monkeypatch.setattr(examine, "RULES", (score.score,))
    report = report_of("score", name)
    assert report.findings[-1].text == f"The score is {name}.", report


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("offset", torch.full((16,), 1 / 3), persistent=False)

    def forward(self, query, keys, valid):
        query = self.norm(query) * self.scale + self.offset
        scores = (keys @ query.unsqueeze(2)).squeeze(2)
        return None, scores.masked_fill(~valid, -1e9).softmax(1)


def test_a_module_is_left_as_it_was():
    module = Normalised()
    module.norm.eval()
    before = [value.clone() for value in (*module.parameters(), *module.buffers())]
    seq2attn.check_attention(module, **WIDTHS)
    after = [*module.parameters(), *module.buffers()]
    for old, new in zip(before, after, strict=True):
        assert old.dtype == new.dtype
        assert torch.equal(old, new)
    assert (module.training, module.norm.training) == (True, False)


# ---- the call ----


def test_the_attention_of_torch_is_called_as_it_is_documented():
    report = seq2attn.check_attention(nn.MultiheadAttention(16, 1, batch_first=True), **WIDTHS)
    assert not report.faults
    assert "key_padding_mask=~valid" in report.adapter


def test_a_number_that_is_right_at_one_width_is_found_at_another():
    source = "def Attention(query, keys):\n    return (query @ keys.mT / 4.0).softmax(-1) @ keys"
    codes = {finding.code for finding in examined(source).findings}
    assert not codes & {"score-factor", "wrong-score"}
    (fault,) = examined(source, expect="scaled", widths=()).faults
    assert "it is 1.732 times the expected score" in fault.text
    source = source.replace("4.0", "48 ** 0.5")
    (fault,) = examined(source, expect="scaled", widths=()).faults
    assert "it is 0.8165 times the expected score. This is at width 32." in fault.text


@pytest.mark.parametrize(
    "line, said",
    [
        ("context, weights", ""),
        ("[context, weights]", ""),
        ("weights, context", "(B, S), (B, D)"),
        ("context", "(B, D)"),
        ("weights", "(B, S)"),
        ("None", "None"),
        ("()", "nothing"),
        ("dict(context=context, weights=weights)", "dict"),
        ("context, weights, scores", "(B, D), (B, S), (B, S)"),
        ("context[:, None], weights", "(B, 1, D), (B, S)"),
        ("context, weights[..., None]", "(B, D), (B, S, 1)"),
        ("context, weights[:, None]", "(B, D), (B, 1, S)"),
        ("torch.cat([context, query], 1), weights", "(B, 96), (B, S)"),
        ("context, scores", UNUSED),
        ("context, weights.log()", UNUSED),
        ("context, valid", UNUSED),
        ("(weights[:, None] / 2 @ keys).squeeze(1), weights / 2", HALVED),
        ("context + query, weights", ADDED),
    ],
)
def test_what_is_returned_may_be_required(line, said):
    source = f"""
import torch
def Attention(query, keys, valid):
    scores = (keys @ query[..., None]).squeeze(2).masked_fill(~valid, -torch.inf)
    weights = scores.softmax(1)
    context = (weights[:, None] @ keys).squeeze(1)
    return {line}
"""
    report = examined(source, widths=(48, 48), require=["returns=context,weights"])
    assert bool(report.faults) == bool(said)
    assert said in str(report)


@pytest.mark.parametrize("shown, faults", [("weights", []), ("scores.exp()", ["unmet"])])
def test_weights_of_a_loop_may_be_required(shown, faults):
    source = f"""
import torch
def Attention(query, keys, valid):
    scores = (keys @ query[..., None]).squeeze(2).masked_fill(~valid, -torch.inf)
    weights = scores.softmax(1)
    rows = [(shares[:, None] * row).sum(0) for shares, row in zip(weights, keys)]
    return torch.stack(rows), {shown}
"""
    report = examined(source, require=["returns=context,weights"])
    assert [fault.code for fault in report.faults] == faults


@pytest.mark.parametrize(
    "given, weights",
    [
        ("query, keys", "(query.expand(5, 1, 16) @ keys.mT)"),  # one query, (B, 1, D)
        ("query, keys", "(query @ keys.mT)"),
        ("keys", "(keys @ keys.mT)"),
    ],
)
def test_what_is_returned_has_the_axes_of_the_query(monkeypatch, given, weights):
    monkeypatch.setattr(examine, "RULES", (required.required,))
    source = f"""
import torch
def Attention({given}):
    weights = {weights}.softmax(-1)
    return weights @ keys, weights
"""
    report = examined(source, require=["returns=context,weights"])
    assert not report.findings, report


def test_a_row_of_the_batch_is_not_the_batch():
    source = """
def Attention(query, keys):
    weights = (keys @ query).softmax(-1)
    return weights @ keys, weights
"""
    (fault,) = examined(source, require=["returns=context,weights"]).faults
    assert "It returned (D), (S); required: context (B, D), weights (B, S)" in fault.text


def test_a_call_may_be_given():
    def attend(query, keys, mask):
        """Makes (B, B, D) of queries (B, D), but works with queries (B, L, D)."""
        scores = query @ keys.mT / query.size(-1) ** 0.5
        return scores.masked_fill(~mask[:, None], -1e9).softmax(-1) @ keys

    def inverted(query, keys, mask):
        scores = (keys @ query[:, :, None]).squeeze(2) / query.size(-1) ** 0.5
        return (scores.masked_fill(mask, -1e9).softmax(-1)[:, None] @ keys).squeeze(1)

    given = {"call": "attention(query[:, 0], keys, mask=valid)", "require": ["returns=context"]}
    assert "returns" in {one.code for one in seq2attn.check_attention(attend, **given).faults}
    report = seq2attn.check_attention(attend)
    assert not report.faults
    assert "attention(query=query, keys=keys, mask=valid[:, None]" not in report.adapter
    report = seq2attn.check_attention(inverted, **given, expect="scaled")
    assert [one.code for one in report.faults] == ["mask-inverted"]
    assert "It was called" not in str(report)


def test_a_call_that_is_given_is_tried_with_padding():
    def attend(query, keys, lengths):
        assert (lengths >= 0).all()
        hidden = torch.arange(keys.size(1)) > lengths[:, None]  # one key too many
        return (query @ keys.mT).masked_fill(hidden[:, None], -1e9).softmax(-1) @ keys

    def crashing(query, keys, lengths):
        assert (lengths == keys.size(1)).all(), "no padding, please"
        return (query @ keys.mT).softmax(-1) @ keys

    call = "attention(query, keys, valid.sum(1))"
    (fault,) = seq2attn.check_attention(attend, call=call).faults
    assert fault.code == "mask-off-by-one"
    with pytest.raises(seq2attn.Seq2AttnError, match="no padding, please, in `attention"):
        seq2attn.check_attention(crashing, call=call)


@pytest.mark.parametrize(
    "call, said",
    [
        ("attention(query, keys[", "the call of an attention: found 'attention(query, keys['"),
        ("query", "the call of an attention: found 'query'"),
        ("attention(**keys)", "the call of an attention: found 'attention(**keys)'"),
        ("attention(query, keys, valid)", "it takes query, keys; it is given `attention(query"),
        ("attention(query[:, 0], keys)", ", in `attention(query=query[:, 0], keys=keys)`"),
        ("attention(query, values)", ": not written yet"),
    ],
)
def test_a_call_that_is_given_is_refused_where_it_fails(call, said):
    def attention(query, keys):
        if query.dim() == 2:
            return query @ keys
        raise NotImplementedError("not written yet")

    with pytest.raises(seq2attn.Seq2AttnError) as caught:
        seq2attn.check_attention(attention, call=call)
    assert said in str(caught.value)


def test_an_unknown_finding_is_not_allowed():
    with pytest.raises(seq2attn.Seq2AttnError, match="did you mean 'batch'"):
        examined(ONE, allow=["empty-row", "batches"])


@pytest.mark.parametrize("name", ["returns=foo", "returns", "returns=", "window=", "casual"])
def test_an_unknown_requirement_is_refused(name):
    with pytest.raises(seq2attn.Seq2AttnError, match=f"unknown requirement '{name}'; .*allowed: c"):
        examined(ONE, require=[name])


def test_weights_need_not_be_returned():
    source = "def Attention(query, keys, valid):\n    return keys.mean(1)"
    report = examined(source)
    assert [fault.code for fault in report.faults] == ["query-ignored", "mask-ignored"]


def test_what_cannot_be_called_is_refused_with_a_call_to_edit():
    with pytest.raises(seq2attn.Seq2AttnError, match="3 is not a callable object"):
        seq2attn.check_attention(3)

    ones = np.ones(2)

    def attention(query, keys, zebra, factors=ones):
        return (query @ keys.mT * zebra["width"] * factors[0]).softmax(-1) @ keys

    with pytest.raises(seq2attn.Seq2AttnError, match="what it needs as zebra is not") as refused:
        seq2attn.check_attention(attention)
    code = refused.value.hint.partition("\n")[2]
    names = {"attention": attention}
    exec(code.replace("zebra=___", "zebra={'width': 0.25}"), names)
    report = seq2attn.check_attention(names["attend"], **WIDTHS)
    assert [finding.code for finding in report.findings] == ["no-mask", "score"]
    assert report.findings[1].text == "The score is scaled."


def test_a_guessed_constructor_with_a_doubtful_call_is_refused():
    source = """
import torch
class Attention(torch.nn.Module):
    def __init__(self, pair):
        super().__init__()
        self.layer = torch.nn.Linear(pair[0], pair[1])

    def forward(self, x):
        values = x.roll((1, 1), (0, 1)).transpose(1, 2).mT  # of other rows, and other places
        return (self.layer(x) @ x.mT / 4.0).softmax(-1) @ values
"""
    with pytest.raises(seq2attn.Seq2AttnError, match="what its constructor takes is not known"):
        examined(source)


def test_padding_belongs_on_the_left_where_the_last_place_is_read():
    code = """
import torch

class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(width, 4, batch_first=True)

    def forward(self, x, padding_mask=None):
        return self.layer(x, src_key_padding_mask=padding_mask)[:, -1]
"""
    (care,) = (one for one in examined(code).findings if one.code == "mask-not-examined")
    assert "padding is meant to be on the left" in care.text
    largest = examined(code.replace("[:, -1]", ".amax(1)"))  # padding matters wherever it is
    assert [fault.code for fault in largest.faults] == ["padding-mixed"]


def test_a_result_without_rows_of_the_batch_is_no_sign_of_the_right_layout():
    code = """
import torch

class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(width, 4)  # and not batch_first

    def forward(self, x):
        return self.layer(x)[:, -1]
"""
    report = examined(code)
    assert [fault.code for fault in report.faults] == ["batch"]
    assert "attention(x=keys)" in report.adapter


@pytest.mark.parametrize("scale, faults", [("", ["dead-parameter"]), ("self.gamma * ", [])])
def test_of_an_image_only_what_no_code_names_is_dead(scale, faults):
    code = f"""
import torch

class Base(torch.nn.Module):
    def forward(self, x):
        keys = self.shrink(x) if x.size(2) > 16 else x  # which a small image does not need
        queries, keys = self.layer(x).flatten(2), keys.flatten(2)
        return x + {scale}(keys @ (keys.mT @ queries / 4.0).softmax(1)).reshape(x.shape)

class Attention(Base):
    def __init__(self, dim):
        super().__init__()
        self.layer = torch.nn.Conv2d(dim, dim, 1)
        self.shrink = torch.nn.Conv2d(dim, dim, 1, bias=False)
        self.gamma = torch.nn.Parameter(torch.ones(1))
"""
    assert [fault.code for fault in examined(code).faults] == faults


def test_weights_that_are_lost_to_a_slight_sum_are_a_care():
    report = examined("""
def Attention(query, keys, padding):
    weights = (query @ keys.mT).softmax(-1).masked_fill(padding[:, None], 0)
    return weights / (weights.sum(-1, keepdim=True) + 1e-6) @ keys
""")
    assert not report.faults
    assert "underflow" in [finding.code for finding in report.findings]


def test_matrices_that_begin_small_hide_nothing():
    code = """
import torch

class Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.keys = (torch.nn.Linear(width, width) for _ in range(2))
        self.score = torch.nn.Linear(width, 1)
        for layer in (self.query, self.keys, self.score):
            torch.nn.init.normal_(layer.weight, std=0.001)  # where tanh(x) = x

    def forward(self, x, q):
        joined = torch.tanh(self.keys(x) + self.query(q)[:, None])
        return (self.score(joined).mT.softmax(-1) @ x).squeeze(1)
"""
    assert not examined(code).faults


@pytest.mark.parametrize(
    "after, faults",
    [("", []), (" * ok[:, None]", ["mask-after-softmax"]), (" + 0 * ok.sum()", None)],
)
def test_a_mask_may_have_any_name(after, faults):
    filled = ".masked_fill(~ok[:, None], -1e4)" if not after else ""
    report = examined(f"""
def Attention(query, keys, ok):
    return ((query @ keys.mT / 4.0){filled}.softmax(-1){after}) @ keys
""")
    if faults is None:  # it does nothing that a mask does
        assert "no-mask" in [finding.code for finding in report.findings]
    else:
        assert "ok=valid" in report.adapter
        assert [fault.code for fault in report.faults] == faults


def test_what_is_seen_is_said_where_more_is_required():
    source = """
def Attention(x, rotary_emb=None):
    if rotary_emb is not None:  # what is left out is not unused
        x = x * rotary_emb
    apart = torch.arange(x.size(1))
    apart = apart[:, None] - apart
    scores = (x @ x.mT / 4.0).masked_fill((apart < 0) | (apart > 3), -torch.inf)
    return scores.softmax(-1) @ x
"""
    report = examined("import torch" + source, require=["window=3"])
    text = "A row sees a window of 4 places: 3 before its own, and 0 after it; required: window=3."
    assert [fault.text for fault in report.faults] == [text]
    assert not [finding for finding in report.findings if finding.level == "care"]  # no-mask
    everything = source.replace(".masked_fill((apart < 0) | (apart > 3), -torch.inf)", "")
    (fault,) = examined("import torch" + everything, require=["causal"]).faults
    assert fault.text == "A row sees all places; required: causal."


def test_each_type_of_half_precision_is_named():
    code = """
def Attention(query, keys, valid):
    return (query @ keys.mT).masked_fill(~valid[:, None], -1e9).softmax(-1) @ keys
"""
    (care,) = (one for one in examined(code).findings if one.code == "half")
    assert care.text.startswith("It does not work in float16: RuntimeError: value cannot")


LINES = """
allowed = torch.arange(keys.size(1)) <= lengths[:, None]
weights = (query @ keys.mT).masked_fill(~allowed[:, None], -1e4).softmax(-1)
# -> allowed = torch.arange(keys.size(1)) < lengths[:, None]

return F.scaled_dot_product_attention(query, keys, keys, dropout_p=0.5)
# -> dropout_p=0.5 if self.training else 0.0)

mask = torch.arange(keys.size(1)) < lengths[:, None]
q, k = (x.unflatten(2, (2, -1)).transpose(1, 2).flatten(0, 1) for x in (query, keys))
heads = (q @ k.mT).masked_fill(~mask[:, None].repeat(2, 1, 1), -1e4).softmax(-1) @ k
return heads.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2)
# -> ~mask[:, None].repeat_interleave(2, dim=0), -1e4)

weights = torch.softmax(query @ keys.mT, dim=1)
# -> write weights = torch.softmax(query @ keys.mT, dim=-1); there is

hidden = torch.arange(keys.size(1)) >= lengths[:, None]
keys = keys.masked_fill(hidden[..., None], 0)
weights = (query @ keys.mT).softmax(-1)
values = keys.masked_fill(hidden[..., None], 0)
# -> mask the scores, not keys; there is keys = keys.masked_fill(

valid = torch.arange(keys.size(1)) < lengths[:, None]
weights = query @ keys.mT
weights.masked_fill(valid[:, None], -1e4)
weights = weights.softmax(-1)
# -> write weights = weights.masked_fill(~valid[:, None], -1e4); there is
"""


@pytest.mark.parametrize("source", LINES.strip().split("\n\n"))
def test_the_line_to_change_is_shown(source):
    source, _, better = source.partition("\n# -> ")
    start = "import torch\nfrom torch.nn import functional as F\n\n"
    body = textwrap.indent(f"{source}\nreturn weights @ keys", "    ")
    fault = examined(f"{start}def Attention(query, keys, lengths):\n{body}\n").faults[0]
    assert [better in line for line in fault.lines] == [True]


def test_only_causes_that_occur_in_the_code_are_named():
    code = """
def Attention(query, keys):
    rows = keys.reshape(keys.size(1), keys.size(0), -1).transpose(0, 1)
    return (query @ rows.mT / 4.0).softmax(-1) @ rows
"""
    look = examined(code).faults[0].look_at
    assert look.startswith(".view or .reshape where .transpose")
    assert not any(text in look for text in ("{", "argsort", "repeat_interleave"))
    (fault,) = examined(f"{code}    # rows are never put in order\n").faults
    assert fault.look_at == look
    (fault,) = examined(f"{code}    # argsort\n").faults
    assert "; a batch sorted by length and not put back: output[order.argsort()]" in fault.look_at


def test_a_refusal_shows_the_plainest_call():
    source = """
def Attention(query, keys, valid):
    scores = keys @ query  # other calls come farther, such as one with a row of the batch
    raise ValueError
"""
    with pytest.raises(seq2attn.Seq2AttnError, match="line 3: RuntimeError: ") as refused:
        examined(source)
    called = "attention(query=query, keys=keys, valid=valid)"
    assert refused.value.message.endswith(f", in `{called}`")
    assert refused.value.hint.endswith(f"return {called}")


def test_a_refusal_shows_a_call_with_enough_axes():
    source = """
def Attention(x):
    batch, channels, height, width = x.shape
    return x.view(batch, channels, 5)
"""
    with pytest.raises(seq2attn.Seq2AttnError, match="line 4: "):
        examined(source)


def test_no_call_that_failed_is_tried_again():
    shapes = []

    def attention(x):
        """x: (B, S, D)"""  # calls of these axes are tried before all calls
        shapes.append(x.shape)
        raise ValueError("no")

    with pytest.raises(seq2attn.Seq2AttnError, match="ValueError: no, in `attention"):
        seq2attn.check_attention(attention)
    assert len(shapes) == len(set(shapes)) > 3


CALLS = """
# a shape tells lengths from a mask
def attention(query, nodes, n_valid):
    "query: (B, L, D); nodes: (B, S, D); n_valid: (B,) counts"
    hidden = torch.arange(nodes.size(1)) >= n_valid[:, None]
    return (query @ nodes.mT).masked_fill(hidden[:, None], -1e9).softmax(-1) @ nodes
# -> n_valid=valid.sum(-1)

def attention(query, nodes, lengths):
    "query: (B, L, D); nodes: (B, S, D); lengths: (B, 1)"
    hidden = torch.arange(nodes.size(1)) >= lengths
    return (query @ nodes.mT).masked_fill(hidden[:, None], -1e9).softmax(-1) @ nodes
# -> lengths=valid.sum(-1, keepdim=True)

# of what has an unknown name, the effect tells that it is a mask
def attention(state, nodes, visited):
    "state: (B, D)"
    scores = (state[:, None] @ nodes.mT).masked_fill(visited[:, None], -1e9)
    return scores.softmax(-1) @ nodes
# -> visited=~valid

# lengths that are named after an argument are its own
def attention(captions, image_feats, caption_lengths=None):
    return (captions @ image_feats.mT / 4.0).softmax(-1) @ image_feats
# -> attention(captions=query, image_feats=keys)

def attention(tokens, sensor, sensor_len):
    hidden = torch.arange(sensor.size(1)) >= sensor_len[:, None]
    return (tokens @ sensor.mT).masked_fill(hidden[:, None], -1e9).softmax(-1) @ sensor
# -> attention(tokens=query, sensor=keys, sensor_len=valid.sum(-1))

# a mask that leaves nothing of the tokens means padding
def attention(x, timeline_mask):
    x = x * ~timeline_mask[..., None]
    scores = (x @ x.mT).masked_fill(timeline_mask[:, None], -1e9)
    return scores.softmax(-1) @ x * ~timeline_mask[..., None]
# -> attention(x=keys, timeline_mask=~valid)

def attention(image):
    assert image.dim() == 4 and image.size(1) == 16
    places = layer(image.flatten(2).mT)
    return ((places @ places.mT).softmax(-1) @ places).mT.view(image.shape)
# -> image=keys.mT[:, :, None]

def attention(x, positions):
    "positions: (B, T) long"
    allowed = positions[:, :, None] >= positions[:, None]
    return (x @ x.mT).masked_fill(~allowed, -1e9).softmax(-1) @ x
# -> positions=torch.arange(keys.size(1)).expand(len(keys), -1)

def attention(x, segments):
    "x: (B, T, D); segments: (B, T) int"
    allowed = segments[:, :, None] == segments[:, None]
    return (x @ x.mT).masked_fill(~allowed, -1e9).softmax(-1) @ x
# -> segments=torch.zeros(len(keys), keys.size(1)).long()

# one row of the batch, as in most textbooks
def attention(query, keys, values, mask):
    "mask: (S,) bool"
    scores = torch.stack([key @ query for key in keys]) / 4.0
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), 0) @ values
# -> torch.vmap(lambda query, keys, valid, values: attention(query=query[0], keys=keys, values=

# a mask has to be numbers, and there is one query
def attention(state, nodes, mask):
    hidden = mask[..., None] @ torch.ones(1, 1) == 0
    scores = (nodes @ state[..., None]).masked_fill(hidden, -torch.inf)
    return scores.softmax(1).mT @ nodes
# -> attention(state=query[:, 0], nodes=keys, mask=(valid).to(keys))

# two sequences of the same length, and a result for each
def attention(x1, x2):
    assert x1.shape == x2.shape
    return x1 @ (x2.mT @ x2 / 9).softmax(1), x2 @ (x1.mT @ x1 / 9).softmax(1)
# -> attention(x1=query, x2=keys)

# lengths are shares of the longest
def attention(keys, wav_lens):
    counted = torch.arange(keys.size(1)) < (wav_lens * keys.size(1)).round()[:, None]
    weights = keys.sum(-1).masked_fill(~counted, -1e9).softmax(-1)
    return (weights[..., None] * keys).sum(1)
# -> wav_lens=valid.float().mean(-1)

# what need not be given and has no effect is left out, though its name may be the query's
def attention(x, hidden=None):
    return (x @ x.mT / 4.0).softmax(-1) @ x
# -> attention(x=keys)

# what need not be given is left out, though its name has the word of the keys
def attention(inputs, memory, memory_segment=None):
    assert memory_segment is None
    return (inputs @ memory.mT).softmax(-1) @ memory
# -> attention(inputs=query, memory=keys)

# what stands before the values is left among the other arguments
def attention(x, source, bias, z):
    return (x @ source.mT / 4.0 + bias).softmax(-1) @ z
# -> z=values

# a state that is returned is not a row of the result
def attention(query, keys, temperature, start: int):
    weights = (query @ keys.mT / temperature).softmax(-1)
    return weights @ keys, (query.sum((1, 2)) + start)[None, :, None]
# -> temperature=1.0, start=0

# axes of one name are as long: the values, each with its place of the memory
def attention(states, memory, offers, memory_mask):
    "states (B, T, D), memory (B, S, D), offers (B, S, V)"
    logs = (states @ memory.mT / 4.0).masked_fill(~memory_mask[:, None], -1e9)
    logs = logs.log_softmax(-1)[..., None]
    return (logs + offers[:, None]).logsumexp(2)
# -> attention(states=query, memory=keys, offers=values, memory_mask=valid)

# what a docstring says of True tells a mask
def attention(vehicles, cities, visited=None):
    "cities (B, N, D), visited (B, N) True = may not be chosen"
    scores = vehicles @ cities.mT / 4.0
    if visited is not None:
        scores = scores.masked_fill(visited[:, None], -1e9)
    return scores.softmax(-1) @ cities
# -> visited=~valid

# a number is tried early; the last state of (layers, B, D) is one query; the first keys are all
# that this step sees
def attention(decoder_hidden, encoder_output, src_mask, t):
    keys = encoder_output[: t + 10].transpose(0, 1)
    scores = torch.bmm(decoder_hidden[-1][:, None], keys.mT)
    scores.masked_fill_((src_mask[: t + 10] != 0).t()[:, None], -1e10)
    return torch.bmm(scores.softmax(-1), keys).transpose(0, 1)
# -> (decoder_hidden=query[:, 0][None], encoder_output=keys.transpose(0, 1), t=0, src_mask=~

# a config answers as a dictionary, and counts are small
class Attention(torch.nn.Module):
    def __init__(self, config, topk):
        super().__init__()
        assert topk < 9
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.layer = torch.nn.Linear(config.get("hidden_size"), config["hidden_size"])

    def forward(self, x):
        assert self.groups < self.heads
        queries = self.layer(x)
        return (queries @ x.mT / 4.0).softmax(-1) @ x
# -> topk=4

# widths that have a default are given, too, where the call needs it
class Attention(torch.nn.Module):
    def __init__(self, d_model=2, axis=1):
        super().__init__()
        self.layer = torch.nn.Linear(d_model, d_model)
        assert d_model > 2

    def forward(self, x):
        return (self.layer(x) @ x.mT / 4.0).softmax(-1) @ x
# -> Attention(d_model=16)

# windows are shifted, though they are not by default
class Attention(torch.nn.Module):
    def __init__(self, dim, shift_size=0):
        super().__init__()
        self.layer, self.shift = torch.nn.Linear(dim, dim), shift_size

    def forward(self, x):
        keys = x.roll(self.shift, 1)
        return (self.layer(x) @ keys.mT / 4.0).softmax(-1) @ keys
# -> Attention(dim=16, shift_size=1)

# a query and a key are chosen at once, and nothing else is returned
def attention(query, keys):
    scores = query @ keys.mT / 4.0
    return scores.flatten(1).softmax(1).view(scores.shape)
# -> attention(query=query, keys=keys)

# queries and keys attend to each other, and the keys are averaged with what they got
def attention(document, question):
    scores = document @ question.mT / 4.0
    read = scores.softmax(1).mT @ document
    return torch.cat([document, scores.softmax(2) @ read], -1)
# -> attention(document=query, question=keys)

# channels attend to each other
def attention(image):
    assert image.dim() == 4 and image.size(1) == 16
    x = torch.nn.functional.normalize(layer(image.flatten(2).mT).mT, dim=-1)
    return ((x @ x.mT).softmax(-1) @ x).view(image.shape)
# -> image=keys.mT[:, :, None]

# a factor is denied over two lines of the docstring
def attention(query, keys):
    '''There is no division of the
    scores by sqrt(d_k).'''
    return (query @ keys.mT).softmax(-1) @ keys
# -> attention(query=query, keys=keys)

# positions that may be left out are left out
def attention(query, keys, position_ids=None):
    return (query @ keys.mT / 4.0).softmax(-1) @ keys
# -> attention(query=query, keys=keys)

# the memory is in heads already
def attention(x, mem_k, mem_v):
    assert x.dim() == 3
    query, keys, values = layer(x).unflatten(2, (4, -1)).transpose(1, 2), mem_k, mem_v
    assert keys.size(1) == query.size(1)
    weights = (query @ keys.mT / 2.0).softmax(-1)
    return (weights @ values).transpose(1, 2).flatten(2)
# -> x=query, mem_k=keys.unflatten(2, (4, -1)).transpose(1, 2)

# documents one after another, of which one row is one
def attention(x, cu_seqlens):
    places = torch.arange(x.size(0))
    document = torch.searchsorted(cu_seqlens[1:].contiguous(), places, right=True)
    apart = document[:, None] != document
    return (x @ x.mT / 4.0).masked_fill(apart, -torch.inf).softmax(-1) @ x
# -> cu_seqlens=torch.tensor([0, keys.size(-2)])

# logarithms of shares, and of what is left of them
def attention(query, keys, mask):
    scores = (query @ keys.mT / 4.0).masked_fill(~mask[:, None], -torch.inf)
    both = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1)
    return both.log_softmax(-1)
# -> mask=valid

# the sides of a window
class Attention(torch.nn.Module):
    def __init__(self, window_size):
        super().__init__()
        height, width = window_size
        self.places = height * width

    def forward(self, x):
        assert x.size(1) == self.places
        return (x @ x.mT / 4.0).softmax(-1) @ x
# -> window_size=(3, 3)

# the sides of an image, each with a default, and how many rows a batch has
class Attention(torch.nn.Module):
    def __init__(self, batch_size, height=14, width=14):
        super().__init__()
        assert batch_size == 5
        self.places = torch.nn.Parameter(torch.randn(height * width))

    def forward(self, x):
        batch, channels, height, width = x.shape
        places = x.flatten(2).mT
        weights = (places @ places.mT / 4.0 + self.places).softmax(-1)
        return (weights @ places).mT.reshape(x.shape)
# -> attention = Attention(batch_size=5, height=6, width=6)

# numbers of a config by index, a type, a device, and a flag
class Attention(torch.nn.Module):
    def __init__(self, cfg, dtype):
        super().__init__()
        self.out = torch.nn.Linear(cfg[0], cfg[1], dtype=dtype)

    def forward(self, query, keys, device, zero_pad):
        scores = (query @ keys.mT / 4.0).to(torch.device(device))
        return self.out(scores.softmax(-1) @ keys * (zero_pad != 4))
# -> device='cpu', zero_pad=False

# lengths (B,) would mask all rows of the batch for each one
def attention(query, memory, memory_length):
    "query: (B, D)"
    hidden = torch.arange(memory.size(1)) >= memory_length[..., None]
    scores = query[:, None] @ memory.mT / 4.0
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ memory
# -> memory_length=valid.sum(-1, keepdim=True)

# a width that is 1 by default
class Attention(torch.nn.Module):
    def __init__(self, d_model=1):
        super().__init__()
        self.out = torch.nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.out((x @ x.mT / x.size(-1) ** 0.5).softmax(-1) @ x)
# -> attention = Attention(d_model=16)

# positions are vectors
def attention(query, key, pos_embedding):
    return (query @ (key + pos_embedding).mT / 4.0).softmax(-1) @ key
# -> pos_embedding=keys.new_zeros(1, keys.size(1), keys.size(2))

# ids, of which 0 is padding; numbers of places are looked up, too
class Attention(torch.nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, d_model, padding_idx=0)
        self.places = torch.nn.Embedding(600, d_model)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.places(torch.arange(input_ids.size(1)))
        scores = (x @ x.mT / 4.0).masked_fill((input_ids == 0)[:, None], -1e4)
        return scores.softmax(-1) @ x
# -> attention(input_ids=valid * (torch.arange(valid.numel()).view(valid.shape) + 600))

# ids of a query, and of keys without a mask, time first
class Attention(torch.nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, d_model)
        self.attend = torch.nn.MultiheadAttention(d_model, 4)

    def forward(self, src, tgt):
        keys = self.embed(src)
        return self.attend(self.embed(tgt), keys, keys)[0]
# -> attention(src=(valid * (torch.arange(valid.numel()).view(valid.shape) + 40)).t(), tgt=

# all that it takes are ids of one sequence
class Attention(torch.nn.Module):
    def __init__(self, items, users, d_model):
        super().__init__()
        self.items, self.users = (torch.nn.Embedding(n, d_model) for n in (items, users))

    def forward(self, item, category, user):
        x = self.items(item) + self.items(category) + self.users(user)
        return (x @ x.mT / 4.0).softmax(-1) @ x
# -> attention(item=valid * (torch.arange(valid.numel()).view(valid.shape) + 16), category=valid * 

# ids of words, in sentences; a state need not be given
class Attention(torch.nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, d_model)
        self.rnn = torch.nn.GRU(d_model, d_model, batch_first=True)

    def forward(self, docs, hidden_state):
        sentences = self.embed(docs.flatten(0, 1)).mean(1).unflatten(0, docs.shape[:2])
        x, _ = self.rnn(sentences, hidden_state)
        return (x @ x.mT / 4.0).softmax(-1) @ x
# -> [..., None].expand(-1, -1, 2), hidden_state=None

# the last id is the query, so padding has to be on the left
class Attention(torch.nn.Module):
    def __init__(self, n_items, d_model):
        super().__init__()
        self.embed = torch.nn.Embedding(n_items, d_model, padding_idx=0)

    def forward(self, session):
        x = self.embed(session)
        scores = (x[:, -1:] @ x.mT / 4.0).masked_fill((session == 0)[:, None], -1e4)
        return (scores.softmax(-1) @ x).squeeze(1)
# -> session=valid * (

# coordinates of points, and labels that need not be given
class Attention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.far = torch.nn.Linear(3, 1)

    def forward(self, xyz, features, labels=None):
        apart = xyz[:, :, None] - xyz[:, None]
        return (features @ features.mT / 4.0 + self.far(apart)[..., 0]).softmax(-1) @ features
# -> xyz=keys[..., :3], features=keys

# a constructor takes a dictionary that it unpacks, pairs of numbers in a list, a class, and a name
class Attention(torch.nn.Module):
    def __init__(self, places, pairs, norm, way):
        super().__init__()
        assert way in ("dot", "general") and way == "dot" and way != "general"
        places["span"], places["step"]
        self.norm = norm(dict(**places)["span"])
        self.layers = torch.nn.ModuleList(torch.nn.Linear(n, m) for n, m in pairs)

    def forward(self, x):
        x = self.norm(x)
        queries, keys = (layer(x) for layer in self.layers)
        return (queries @ keys.mT / 4.0).softmax(-1) @ x
# -> {'span': 16, 'step': 16}, pairs=[[16, 16], [16, 16]], norm=nn.Identity, way='dot')

# keys are a list, with a tensor of each step; a sum of earlier weights may be left out
def attention(hidden, outputs, sum_of_sources):
    assert sum_of_sources is None
    keys = torch.stack(outputs, 1)
    weights = (keys @ hidden[..., None]).squeeze(2).softmax(-1)
    return (weights[..., None] * keys).sum(1)
# -> attention(hidden=query[:, 0], outputs=keys.unbind(1), sum_of_sources=None)

# what a decoder handed on is the query, wherever it stands; the rest is a second memory
def attention(static_hidden, moved_hidden, decoder_hidden):
    keys = torch.cat([static_hidden, moved_hidden], 2)
    weights = (keys @ keys.mT).sum(1) + (static_hidden @ decoder_hidden[..., None]).squeeze(2)
    return (weights.softmax(-1)[:, None] @ keys).squeeze(1)
# -> static_hidden=keys, moved_hidden=values, decoder_hidden=query[:, 0]

# the first axis is attended to, with as many queries as keys; a matrix of pairs of these
def attention(query, keys, dist_mat):
    scores = torch.einsum("qbd,kbd->bqk", query, keys.reshape(query.shape)) / 4.0 + dist_mat
    return torch.einsum("bqk,kbd->qbd", scores.softmax(-1), keys)
# -> query=query.transpose(0, 1), keys=keys.transpose(0, 1), dist_mat=keys.new_zeros(

# a video, of which all places attend to each other
class Attention(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layer = torch.nn.Conv3d(channels, channels, 1)

    def forward(self, x):
        places = self.layer(x).flatten(2).mT
        return ((places @ places.mT / 4.0).softmax(-1) @ places).mT.reshape(x.shape)
# -> x=keys.mT.unflatten(2, (6, 6))[:, :, None]).flatten(2)

# a step of a decoder takes the id of the token before, a state, and the encoder's outputs
class Attention(torch.nn.Module):
    def __init__(self, output_dim, emb_dim, enc_hid_dim, dec_hid_dim):
        super().__init__()
        self.embedding = torch.nn.Embedding(output_dim, emb_dim)
        self.project = torch.nn.Linear(enc_hid_dim, dec_hid_dim)
        self.rnn = torch.nn.GRU(emb_dim + enc_hid_dim, dec_hid_dim, batch_first=True)

    def forward(self, input, hidden, encoder_outputs):
        scores = (self.project(encoder_outputs) @ hidden[..., None]) / 4.0
        context = scores.softmax(1).mT @ encoder_outputs
        step = torch.cat([self.embedding(input)[:, None], context], 2)
        return self.rnn(step, hidden[None])
# -> attention(input=torch.zeros(len(keys)).long(), hidden=query[:, 0], encoder_outputs=keys)

# the state before may be the query
class Attention(torch.nn.Module):
    def __init__(self, ydim, xdim):
        super().__init__()
        self.embedding = torch.nn.Embedding(ydim, xdim)

    def forward(self, x, h_prev, y_prev):
        query = self.embedding(y_prev) + h_prev[0]
        return ((x @ query[..., None] / 4.0).softmax(1) * x).sum(1)
# -> attention(x=keys, h_prev=query[:, 0][None], y_prev=torch.zeros(len(keys)).long())

# a mask that has to be given, of channels before places; other layouts give no finite result
def attention(query, key, value, mask=None):
    scores = query.mT @ key / 4.0
    scores = scores.masked_fill(mask.view(len(mask), 1, mask.size(1)), -torch.inf)
    return (scores.softmax(-1) @ value.mT).mT
# -> query=query.mT.contiguous(), key=keys.mT.contiguous(), value=values.mT.contiguous(), mask=~

# one of two optional widths has to be given
class Attention(torch.nn.Module):
    def __init__(self, n_heads, embed_dim=None, val_dim=None, head_dropout=None):
        super().__init__()
        self.out = torch.nn.Linear(embed_dim or val_dim, embed_dim or val_dim)

    def forward(self, q, h):
        return self.out((q @ h.mT / 4.0).softmax(-1) @ h)
# -> attention = Attention(n_heads=4, embed_dim=16, val_dim=16)

# query, keys and values are one argument
def attention(x, inf=1e10):
    query, keys, values = x
    return (query @ keys.mT / 4.0).softmax(-1) @ values
# -> attention(x=(keys, keys, keys))

# the place where each row begins
def attention(nodes, graph, first_idx):
    query = graph + nodes[torch.arange(len(nodes)), first_idx]
    return ((nodes @ query[..., None] / 4.0).softmax(1) * nodes).sum(1)
# -> attention(nodes=keys, graph=query[:, 0], first_idx=torch.zeros(len(keys)).long())

# a config is a dataclass, whose fields may have no default
@dataclass
class Config:
    d_model: int
    heads: int = 4096
    way: str = "dot"

class Attention(torch.nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        assert config.way == "dot"
        self.layer = torch.nn.Linear(config.d_model, config.d_model)

    def forward(self, x):
        return (self.layer(x) @ x.mT / 4.0).softmax(-1) @ x
# -> attention = Attention(config=Config(d_model=16, heads=4, way='dot'))

# scores of 2 S distances are shifted by a view of (S, 2 S + 1)
class Attention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.far = torch.nn.Parameter(torch.randn(1200, dim))

    def forward(self, x):
        batch, length, _ = x.shape
        far = x @ self.far[600 - length : 600 + length].mT
        far = torch.cat([far, far[..., :1]], 2).view(batch, -1, length)[:, :-1]
        far = far.view(batch, length, 2, length)[:, :, 0]
        return ((x @ x.mT + far) / 8.0).softmax(-1) @ x
# -> attention = Attention(dim=16)

# what is least alike attends to each other
def attention(x):
    "Channel attention, as in DANet (Fu et al. 2019)"
    scores = x @ x.mT / 4.0
    return (scores.amax(-1, keepdim=True) - scores).softmax(-1) @ x
# -> attention(x=keys)

# weights of windows: three of three places, as many as there are keys
def attention(q, k, v, mask=None):
    assert q.shape == k.shape
    windows = lambda x: x.unflatten(1, (-1, 3))
    around = lambda x: torch.cat([x.roll(1, 1), x, x.roll(-1, 1)], 2)
    ends = torch.ones(len(k), k.size(1) // 3, 9).bool()
    ends[:, 0, :3] = ends[:, -1, 6:] = False
    if mask is not None:
        ends = ends & around(windows(mask))
    scores = windows(q) @ around(windows(k)).mT / 4.0
    weights = scores.masked_fill(~ends[:, :, None], -1e9).softmax(-1)
    return (weights @ around(windows(v))).flatten(1, 2)
# -> attention(q=query, k=keys, v=values, mask=valid)

# a layer of what is returned if it is asked for
class Attention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.out, self.more = (torch.nn.Linear(dim, dim) for _ in range(2))

    def forward(self, x, return_more=False):
        y = (x @ x.mT / 4.0).softmax(-1) @ x
        more = self.more(y)
        return (self.out(y), more) if return_more else self.out(y)
# -> attention(x=keys)

# states are looked at as one long list, which a transposed tensor is not
def attention(hidden, encoder_outputs):
    flat = encoder_outputs.view(-1, encoder_outputs.size(2))
    scores = (flat * hidden.repeat(encoder_outputs.size(0), 1)).sum(-1) / 4.0
    weights = scores.view(encoder_outputs.shape[:2]).softmax(0)
    return (weights[..., None] * encoder_outputs).sum(0)
# -> encoder_outputs=keys.transpose(0, 1).contiguous()

# the name of a mask tells which of two are the keys
def attention(agent_feat, neigh_feats, neigh_mask):
    scores = (neigh_feats @ agent_feat[:, :, None] / 4.0).squeeze(2)
    return (scores.masked_fill(~neigh_mask, -1e4).softmax(1)[:, None] @ neigh_feats).squeeze(1)
# -> agent_feat=query[:, 0], neigh_feats=keys, neigh_mask=valid

# a shape that is not told to its end
def attention(q, k, v):
    "q: [b, q_len, ]"
    return torch.bmm((torch.bmm(q, k.mT) / 4.0).softmax(2), v)
# -> attention(q=query, k=keys, v=values)

# a mask that has to be given hides all keys in its usual form
def attention(x, y, x_mask):
    "x: batch * len * width; y: batch * width; x_mask: 1 for padding, 0 for true"
    scores = (x @ y[:, :, None]).squeeze(2)
    return scores.masked_fill(x_mask, -torch.inf).softmax(-1)
# -> x_mask=~valid

# what has only an axis of the keys, here of as many queries, is weights, and not a result
def attention(query, key, value):
    "query: (batch, q_len, width)"
    weights = (query + key).tanh().sum(2).softmax(-1)
    return (weights[:, None] @ value), weights
# -> attention(query=query, key=keys, value=values)
"""  # each with a part of the call that is found
DEAR_CALLS = """
# the mask of the other sequence hides nothing
def attention(context, question, context_mask, question_mask):
    scores = (context @ question.mT).masked_fill(~question_mask[:, None], -1e9)
    return scores.softmax(-1) @ question * context_mask[..., None]
# -> context_mask=torch.ones(len(keys), query.size(-2)).bool(), question_mask=valid

# the constructor asks for one of several strings, for True, or for heads that fit
class Attention(torch.nn.Module):
    def __init__(self, dim, atype):
        super().__init__()
        if atype == 'none':
            raise NotImplementedError
        elif atype in ('dot', 'general'):
            self.w = torch.nn.Linear(dim, dim)
        else:
            raise ValueError(atype)

    def forward(self, query, keys):
        return (self.w(query) @ keys.mT / 4.0).softmax(-1) @ keys
# -> Attention(dim=16, atype='dot')

class Attention(torch.nn.Module):
    def __init__(self, embed_dim, batch_first=False):
        super().__init__()
        assert batch_first
        self.w = torch.nn.Linear(embed_dim, embed_dim)

    def forward(self, query, keys):
        return (self.w(query) @ keys.mT / 4.0).softmax(-1) @ keys
# -> Attention(embed_dim=16, batch_first=True)

class Attention(torch.nn.Module):
    def __init__(self, dim, heads=8, dim_head=64):
        super().__init__()
        assert heads * dim_head == dim
        self.w = torch.nn.Linear(dim, dim)

    def forward(self, query, keys):
        return (self.w(query) @ keys.mT / 4.0).softmax(-1) @ keys
# -> Attention(dim=16, dim_head=4, heads=4)

class Attention(torch.nn.Module):
    def __init__(self, embed_dim, num_heads, head_width):
        super().__init__()
        assert embed_dim == num_heads * head_width
        self.w = torch.nn.Linear(embed_dim, embed_dim)

    def forward(self, query, keys):
        return (self.w(query) @ keys.mT / 4.0).softmax(-1) @ keys
# -> Attention(embed_dim=16, num_heads=4, head_width=4)

class Attention(torch.nn.Module):
    def __init__(self, adj, dim):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(adj.shape))
        self.w = torch.nn.Linear(dim, dim)

    def forward(self, x):
        return (x @ self.w(x).mT / 4.0 + self.bias).softmax(-1) @ x
# -> Attention(adj=torch.ones(9, 9), dim=16)

# queries are ids, and keys are vectors
class Attention(torch.nn.Module):
    def __init__(self, vocab_size, d_model, pad_id=0):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, d_model, padding_idx=pad_id)

    def forward(self, tokens, image_feats):
        assert tokens.dim() == 2 and image_feats.dim() == 3
        return (self.embed(tokens) @ image_feats.mT / 4.0).softmax(-1) @ image_feats
# -> image_feats=keys)

# the batch comes after rows and places
def attention(x, padding_mask=None):
    x = layer(x)
    rows, places, batch, width = x.shape
    scores = torch.einsum('rinh,rjnh->nij', x, x) / (4.0 * rows ** 0.5)
    if padding_mask is not None:
        scores = scores.masked_fill(padding_mask[:, 0, None], -1e9)
    return torch.einsum('nij,rjnh->rinh', scores.softmax(-1), x)
# -> attention(x=keys.transpose(0, 1)[None], padding_mask=~valid[:, None])

# as many queries as keys, in heads; an object may be given as mask
def attention(queries, keys, values, attn_mask):
    batch, places, heads, width = queries.shape
    later = torch.ones(places, places).triu(1).bool() if attn_mask is None else attn_mask.mask
    scores = torch.einsum('blhe,bshe->bhls', queries, keys) / width ** 0.5
    return torch.einsum('bhls,bshd->blhd', scores.masked_fill(later, -1e9).softmax(-1), values)
# -> values=values.unflatten(2, (4, -1)), attn_mask=None)

# neither a string nor a mask of heads is a padding mask
def attention(query, keys, values, mask: str | None = None):
    return (query @ keys.mT / 4.0).softmax(-1) @ values
# -> attention(query=query, keys=keys, values=values)

def attention(x, head_mask=None):
    weights = (x @ x.mT / 4.0).softmax(-1)
    return (weights if head_mask is None else weights * head_mask) @ x
# -> attention(x=keys)

# one argument is queries and keys
def attention(qk, v, query_len=None, input_mask=None):
    scores = qk @ qk.mT / 4.0
    if input_mask is not None:
        scores = scores.masked_fill(~input_mask[:, None], -1e9)
    return scores.softmax(-1) @ v
# -> attention(qk=keys, v=keys, input_mask=valid)

# a documented shape of lengths, and yet a mask
def attention(x, mask=None):
    ":param x: [batch, len, dim]  :param mask: [batch_size,]"
    scores = x.mean(-1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return (scores.softmax(-1)[..., None] * x).sum(1)
# -> attention(x=keys, mask=valid)

# another attention of the file is the inner one
class FullAttention(torch.nn.Module):
    def forward(self, queries, keys, values):
        return (queries @ keys.mT / 4.0).softmax(-1) @ values

class Attention(torch.nn.Module):
    def __init__(self, attention, d_model):
        super().__init__()
        self.inner, self.out = attention, torch.nn.Linear(d_model, d_model)

    def forward(self, queries, keys, values):
        return self.out(self.inner(queries, keys, values))
# -> Attention(attention=FullAttention(), d_model=16)

# two masks that mean the same by True
def attention(v1, v1_mask, v2, v2_mask):
    scores = v1 @ v2.mT / 4.0
    over = scores.masked_fill(v1_mask[..., None], -1e4).softmax(1).mT @ v1
    rows = scores.masked_fill(v2_mask[:, None], -1e4).softmax(2) @ v2
    return rows.masked_fill(v1_mask[..., None], 0), over.masked_fill(v2_mask[..., None], 0)
# -> v2_mask=~torch.ones(len(keys), query.size(-2)).bool(), v1_mask=~valid)

# the sides of an image whose places are a sequence
def attention(query, keys, shape):
    height, width = shape
    return (query @ keys.mT / 4.0).softmax(-1) @ keys.view(len(keys), height * width, -1)
# -> shape=(keys.size(1), 1)

# two masks of columns
def attention(a, b, mask_a, mask_b):
    scores = a @ b.mT / 4.0
    scores = scores.masked_fill((mask_a.float() @ mask_b.mT.float()) == 0, -1e9)
    return scores.softmax(1).mT @ a
# -> mask_b=torch.ones(len(keys), query.size(-2), 1).bool(), mask_a=valid[..., None])

# the mask is that of queries, too, which are as many as keys
def attention(query, keys, values, mask=None):
    scores = layer(query) @ keys.mT / 4.0
    if mask is not None:
        scores = scores.masked_fill(~(mask[:, :, None] & mask[:, None]), -1e4)
    return scores.softmax(-1) @ values
# -> attention(query=query, keys=keys, values=values, mask=valid)

# padding has the id 1
class Attention(torch.nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, d_model)
        self.score = torch.nn.Linear(d_model, 1)

    def forward(self, ids):
        vectors = self.embed(ids)
        weights = self.score(vectors).masked_fill((ids == 1)[..., None], -1e4).softmax(1)
        return (weights * vectors).sum(1)
# -> attention(ids=~valid + valid * (torch.arange(

# a mask that takes the shape of lengths hides nothing by them
def attention(intent, slot, mask):
    hidden = (1.0 - mask[:, None].to(intent)) * -1e4
    over = (intent @ slot.mT / 4.0 + hidden).softmax(-1) @ slot
    return over, (slot @ intent.mT / 4.0 + hidden).softmax(-1) @ intent
# -> mask=torch.ones(len(keys), query.size(-2)).bool())

# an argument that is averaged is not a mask
def attention(feature, flow):
    assert feature.dim() == 4
    places = layer(feature.flatten(2).mT)
    return (places @ places.mT / 4.0).softmax(-1) @ flow.view(len(flow), flow.size(1), -1).mT
# -> flow=keys.mT[:, :, None].contiguous())

# padding has no edges
def attention(x, mask, adj_matrix):
    scores = (x @ x.mT / 4.0).masked_fill(~mask[:, None], -1e4)
    edges = adj_matrix.to(x)
    assert edges.dim() == 3
    return (scores.softmax(-1) + edges / edges.sum(-1, keepdim=True).clamp(min=1)) / 2 @ x
# -> adj_matrix=(valid[:, None] & valid[..., None]), mask=valid)

# queries attend to each other beside the keys, of which there are as many
def attention(query, keys):
    assert query.shape == keys.shape
    among = (query @ query.mT / 4.0).softmax(-1) @ query
    return query + among + (query @ keys.mT / 4.0).softmax(-1) @ keys
# -> attention(query=query, keys=keys)

# rounding to half precision
def attention(query, keys):
    scores = query.bfloat16() @ keys.bfloat16().mT / 4.0
    return (scores.softmax(-1) @ keys.bfloat16()).to(query)
# -> attention(query=query, keys=keys)
"""  # many forms are tried


def blocks(text):
    """The code of each block, and the call under it."""
    return re.findall(r"(?s:(.+?))\n# -> (.+)", text)


@pytest.mark.parametrize(
    "code, call",
    [*blocks(CALLS), *(pytest.param(*one, marks=pytest.mark.slow) for one in blocks(DEAR_CALLS))],
)
def test_what_an_argument_may_be_is_tried(code, call):
    made = {"torch": torch, "layer": nn.Linear(16, 16), "dataclass": dataclasses.dataclass}
    exec(code, made)
    report = seq2attn.check_attention(made.get("attention") or made["Attention"], **WIDTHS)
    assert call in report.adapter
    assert_right(report)


def test_keys_that_attend_to_themselves_alone_are_a_result():
    def attention(x, mask=None):
        scores = x @ x.mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e4)
        return scores.softmax(-1) @ x

    assert_right(seq2attn.check_attention(attention, widths=(128, 128)))


def test_a_buffer_that_each_call_replaces_is_taken_for_nothing_else():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", None)

        def forward(self, query, keys):
            self.last = keys  # where the last one lay, the values may lie
            values = 2 * keys
            return (query @ keys.mT / 4.0).softmax(-1) @ values

    for _ in range(8):  # it is a matter of chance
        report = seq2attn.check_attention(Attention(), **WIDTHS)
        assert "score" in {finding.code for finding in report.findings}, report


def test_embeddings_look_up_ids_again_in_the_end():
    made = {}
    exec(faulty.IDS, made)
    module = made["Attention"](8, 16)
    ids = torch.tensor([[1, 2, 0]])
    before = module(ids)
    seq2attn.check_attention(module)
    assert torch.equal(module(ids), before)


def test_a_mask_is_given_the_numbers_that_a_docstring_names():
    code = """
def Attention(query, keys, mask=None):
    "mask (B, S): 1 = may be pointed to"
    logs = (query @ keys.mT / 4).log_softmax(-1)
    return logs if mask is None else logs * mask[:, None].to(logs)
"""
    report = examined(code)
    assert "mask=valid)" in report.adapter
    assert report.faults[0].code == "sums-with-mask"


def test_a_result_with_as_many_queries_as_keys_is_a_context_beside_weights():
    project = nn.Linear(16, 16)

    def attention(query, keys):
        assert query.shape == keys.shape
        weights = (project(query) @ keys.mT / 4.0).softmax(-1)
        return weights @ keys, weights

    report = seq2attn.check_attention(attention, **WIDTHS)
    assert "no-context" not in [finding.code for finding in report.findings]


def test_a_width_is_one_that_32_groups_of_channels_divide():
    class Attention(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm = nn.GroupNorm(32, channels)

        def forward(self, x):
            queries = self.norm(x.flatten(0, 1)).view(x.shape)
            return (queries @ x.mT / 4.0).softmax(-1) @ x

    assert "Attention(channels=32)" in seq2attn.check_attention(Attention).adapter


def test_a_width_that_three_divides_is_not_split_into_three_rows():
    def attention(hidden, memory):  # states (layers, B, D) and (S, B, D)
        keys = memory.transpose(0, 1)
        return ((hidden[-1][:, None] @ keys.mT).softmax(-1) @ keys).transpose(0, 1)

    report = seq2attn.check_attention(attention, widths=(48, 48))
    assert "hidden=query[:, 0][None]" in report.adapter
    assert not report.faults, report


def test_what_is_wrapped_or_no_function_is_examined():
    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.project = nn.Linear(width, width)

        def forward(self, x):
            return (self.project(x) @ x.mT / 4.0).softmax(-1) @ x

    @functools.wraps(Attention)
    def made(*given, **named):
        return Attention(*given, **named)

    assert seq2attn.check_attention(made, **WIDTHS).adapter.startswith("attention = Attention(")
    failing = functools.partial(lambda x, width: x[width], width="none")
    with pytest.raises(seq2attn.Seq2AttnError, match="cannot be called: IndexError"):
        seq2attn.check_attention(failing)


def test_keys_that_are_all_alike_are_one_fault():
    def attention(x, style):
        """x: (B, T, D); style: (B, D)"""
        heads = x.unflatten(2, (4, -1)).transpose(1, 2)
        alike = style[:, None].expand_as(x).unflatten(2, (4, -1)).transpose(1, 2)
        weights = (heads @ alike.mT / alike.size(-1) ** 0.5).softmax(-1)
        return (weights @ alike).transpose(1, 2).flatten(2)

    report = seq2attn.check_attention(attention, **WIDTHS)
    assert [finding.code for finding in report.faults] == ["query-ignored"]


def test_a_report_fails_a_test_with_all_it_says(attention_doctor):
    made = {}
    exec(ONE.replace("~valid", "valid"), made)
    report = attention_doctor(made["Attention"], **WIDTHS)
    with pytest.raises(AssertionError) as failed:
        report.require()
    assert "fault: mask-inverted: The mask is inverted" in str(failed.value)
    assert str(failed.value).endswith("valid=~valid)")
    assert repr(report.faults) == f"[{report.faults[0]!r}]"
    assert repr(report.faults[0]).startswith("fault: mask-inverted: ")
    right = attention_doctor(unusual.log_space, **WIDTHS)
    assert right.require().faults == []


# ---- the command ----


def test_a_right_attention_has_a_name_and_no_fault(cli, tmp_path):
    (tmp_path / "mine.py").write_text(ONE)
    done = cli("check --attention mine.py:Attention").check()
    assert "care: score-factor: The score is 0.25 * general." in done.out
    assert "values=values, valid=valid)" in done.out
    done = cli("check --attention mine.py:Attention --expect general")
    assert (done.code, "it is 0.25 times the expected score" in done.out) == (1, True)
    assert "dott" in cli("check --attention mine.py:Attention --expect dott").refusal
    (tmp_path / "mine.py").write_text(ONE.replace("~valid", "valid"))
    done = cli("check --attention mine.py:Attention --json")
    codes = [finding["code"] for finding in json.loads(done.out)[0]["report"]["findings"]]
    assert (done.code, codes[0]) == (1, "mask-inverted")
    assert "mine.py:Attention: mask-inverted" in done.err
