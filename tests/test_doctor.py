"""`check_attention` names planted bugs, and finds nothing wrong with our own parts."""

import pytest
import torch
from torch import nn

import seq2attn
from seq2attn.build import build_model, build_task
from seq2attn.config import check_config
from seq2attn.data.vocabulary import SOS, UNK
from seq2attn.parts import DECODERS, HISTORIES, NORMALISERS, SCORES, WINDOWS

FILE = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()
        self.project = nn.Linear(key_size, query_size, bias=False)
        self.dropout = nn.Dropout()

    def forward(self, query, keys, values, valid=None):
        scores = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
        if valid is not None:
            scores = scores.masked_fill(~valid, -math.inf)
        weights = torch.softmax(scores, dim=1)
        return (weights.unsqueeze(1) @ values).squeeze(1), weights
"""
SOFTMAX = "torch.softmax(scores, dim=1)"
SCORED = "        if valid"
BUGS = [  # code of the finding, a text of FILE, what stands in its place
    ("not-finite", SOFTMAX, "torch.softmax(scores.log(), dim=1)"),
    ("axis", "dim=1", "dim=0"),
    ("negative", SOFTMAX, "scores"),
    ("sums", SOFTMAX, "torch.sigmoid(scores)"),
    ("in-place", "scores = (self", "keys *= 2; scores = (self"),
    ("state", SCORED, f"        scores = self.s = scores - getattr(self, 's', 0) / 2\n{SCORED}"),
    ("cache", "scores = (self", "keys = self.k = getattr(self, 'k', keys); scores = (self"),
    ("random", SCORED, f"        scores = nn.functional.dropout(scores)\n{SCORED}"),
    ("no-mask", "valid=None):", "):\n        valid = None"),
    ("mask-ignored", "scores = scores.masked", "scores.masked"),
    ("mask-inverted", "~valid", "valid"),
    ("mask-off-by-one", "~valid", "~(valid | valid.roll(1, 1))"),
    ("mask-constant", "-math.inf", "0"),
    ("mask-after-softmax", "scores = scores.masked_fill(~valid, -math.inf)", "pass"),
    ("mask-crash", "~valid", "~valid[:, None, :, None]"),
    ("padding-mixed", "self.project(keys)", "self.project(keys / keys.norm(dim=1, keepdim=True))"),
    ("batch", SCORED, f"        scores = scores * scores[0].abs().sum()\n{SCORED}"),
    ("one-row", ")).squeeze(2)", ")).squeeze()"),
    ("gradient", "query.unsqueeze", "query.detach().unsqueeze"),
    ("dead-parameter", "self.dropout", "self.unused = nn.Linear(3, 3, bias=False); self.dropout"),
    ("overflow", SOFTMAX, "scores.exp() / scores.exp().sum(1, True)"),
    ("keys-as-values", "@ values", "@ keys"),
    ("before-dropout", "(weights.un", "(self.dropout(weights).un"),
    ("query-ignored", "query.unsqueeze(2)", "torch.ones_like(query).unsqueeze(2)"),
    ("uniform", SCORED, f"        scores = scores * 0\n{SCORED}"),
    ("unregistered", "nn.Dropout()", "torch.ones(3, requires_grad=True)"),
    ("mask-in-training", "is not None:", "is not None and not self.training:"),
    ("key-without-weight", "~valid", "~torch.cat([valid[:, 1:], valid[:, :1] & False], 1)"),
    ("score-factor", "/ 4", "/ 3"),
    ("score-mistake", "self.project(keys)", "-keys"),
]


def examined(code, path, *names, **options):
    path.write_text(code)
    made = {}
    exec(compile(code, path, "exec"), made)
    return seq2attn.check_attention(made["Attention"], **options)


@pytest.mark.parametrize("code, text, bug", BUGS)
def test_a_planted_bug_is_named(tmp_path, code, text, bug):
    source = FILE.replace(text, bug)
    if code == "mask-after-softmax":
        source = source.replace(SOFTMAX, f"{SOFTMAX} * (1 if valid is None else valid)")
    report = examined(source, tmp_path / "a.py", allow=["empty-row"], **WIDTHS.get(code, {}))
    found = {finding.code for finding in report.findings if finding.level != "note"}
    assert found == {code}, report


WIDTHS = {"score-mistake": {"query_width": 16, "key_width": 16}}


def test_a_right_attention_has_a_name_and_no_fault(cli, tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    done = cli("check --attention mine.py:Attention --sizes 16,12 --allow empty-row").check()
    assert "note: score: The score is scaled_general." in done.out
    assert "attention(query=query, keys=keys, values=values, valid=valid)" in done.out
    done = cli("check --attention mine.py:Attention --expect general")
    assert (done.code, "it is 0.25 times the expected score" in done.out) == (1, True)
    assert "dott" in cli("check --attention mine.py:Attention --expect dott").refusal
    (tmp_path / "mine.py").write_text(FILE.replace("~valid", "valid"))
    done = cli("check --attention mine.py:Attention --json")
    assert (done.code, '"code": "mask-inverted"' in done.out) == (1, True)
    assert "mine.py:Attention: faults: mask-inverted" in done.err


class Own(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, query, keys, valid):
        memory = self.attention.prepare(keys, valid)
        attended = self.attention(query.unsqueeze(1), memory, self.attention.begin(memory))
        return attended.context.squeeze(1), attended.weights.squeeze(1)


PARTS = {"score": SCORES, "window": WINDOWS, "history": HISTORIES, "normaliser": NORMALISERS}


@pytest.mark.parametrize(
    "kind, name", [(kind, entry) for kind, parts in PARTS.items() for entry in parts.names()]
)
def test_our_own_parts_have_no_fault(kind, name):
    if name == "none" and kind == "score":
        return
    model = {"hidden": 16, "decoder": "bahdanau", "attention": {kind: name}}
    config = check_config({"model": model, "task": {"alphabet": "abc"}})
    attention = build_model(config, build_task(config)).decoder.attention
    widths = {"query_width": attention.score.query_width, "key_width": attention.score.key_width}
    report = seq2attn.check_attention(Own(attention), **widths)
    assert not report.faults, report
    assert not {finding.code for finding in report.findings} & {"unfinished", "empty-row"}, report
    if kind == "score":
        assert report.findings[-1].text == f"The score is {name}."


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


@pytest.mark.parametrize("name", DECODERS.names())
def test_our_own_decoders_have_no_fault(name):
    model = {"hidden": 16, "decoder": name, "attention": {"score": "additive"}}
    config = check_config({"model": model, "task": {"alphabet": "abc"}})
    step = OneStep(build_model(config, build_task(config)).decoder)
    report = seq2attn.check_attention(step, query_width=16, key_width=16)
    assert not report.faults, report
    assert "unfinished" not in {finding.code for finding in report.findings}, report


def test_the_attention_of_torch_is_called_as_it_is_documented():
    report = seq2attn.check_attention(nn.MultiheadAttention(16, 1, batch_first=True))
    assert not report.faults
    assert "key_padding_mask=~valid" in report.adapter


def test_what_returns_no_weights_cannot_be_examined(cli, tmp_path):
    (tmp_path / "mine.py").write_text(FILE.replace(", weights\n", "\n"))
    done = cli("check --attention mine.py:Attention")
    assert done.code == 2
    assert "it returns no weights" in done.refusal
    assert "Name a function attend(query, keys, valid)" in done.err
    with pytest.raises(seq2attn.Seq2AttnError, match="no weights"):
        seq2attn.check_attention(lambda query, keys, valid: keys.mean(1))
    with pytest.raises(seq2attn.Seq2AttnError, match="3 is not a callable object"):
        seq2attn.check_attention(3)


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
    seq2attn.check_attention(module, query_width=16, key_width=16)
    after = [*module.parameters(), *module.buffers()]
    for old, new in zip(before, after, strict=True):
        assert old.dtype == new.dtype
        assert torch.equal(old, new)
    assert (module.training, module.norm.training) == (True, False)
