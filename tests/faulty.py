"""Each finding of the doctor, provoked by a small change of a right attention, and nearly so."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

ONE = """\
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
"""one query, a general score"""
CROSS = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout()

    def split(self, x):
        return x.unflatten(2, (4, -1)).transpose(1, 2)

    def forward(self, query, keys, values, key_padding_mask=None):
        q, k, v = self.split(self.q(query)), self.split(self.k(keys)), self.split(self.v(values))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        output = (weights @ v).transpose(1, 2).flatten(2)
        return self.out(output), weights
"""
"""several queries, four heads"""
PICTURE = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(channels, channels, 1) for _ in range(3))

    def forward(self, x):
        q, k, v = (layer(x).flatten(2) for layer in (self.q, self.k, self.v))
        weights = torch.softmax(q.mT @ k / q.size(1) ** 0.5, dim=2)
        return x + (v @ weights.mT).view(x.shape)
"""
SELF = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        place = torch.arange(x.size(1))
        apart = place - place[:, None]
        closed = apart > 99
        if mask is not None:
            closed = closed | (mask == 0)[:, None]
        weights = scores.masked_fill(closed, -math.inf).softmax(-1)
        return self.out(weights @ v)
"""
"""a row for each key, one head"""
LINEAR = """\
import torch
from torch import nn
from torch.nn.functional import elu

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, query, keys, values, key_mask=None):
        q, k, v = elu(self.q(query)) + 1, elu(self.k(keys)) + 1, self.v(values)
        if key_mask is not None:
            k = k * key_mask[:, :, None]
        return q @ (k.mT @ v) / (q @ k.sum(1)[:, :, None])
"""
"""linear attention, of features"""
BARE = """\
import torch

def Attention(query, keys, valid):
    scores = keys @ query.mT / query.size(2) ** 0.5
    scores = scores.squeeze(2).masked_fill(~valid, -6e4)
    return scores.softmax(1)
"""
"""weights alone, the scaled score"""
POOL = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, keys, lengths):
        scores = self.score(keys).squeeze(2)
        valid = torch.arange(keys.size(1)) < lengths[:, None]
        weights = scores.masked_fill(~valid, -1e30).softmax(1)
        return (weights.unsqueeze(2) * keys).sum(1)
"""
"""no query"""
LOOKUP = """\
import torch
from torch import nn

class Lookup(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.places = nn.Parameter(torch.randn(8, width))
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)

    def scores(self, x):
        return self.q(x) @ self.k(self.places).mT / 4

    def forward(self, x):
        return x + 0.01 * (self.scores(x).softmax(-1) @ torch.ones(8, x.size(2)).cumsum(0).sin())

Attention = Lookup
"""
"""a table of keys that are learned"""
SLOTS = """\
import torch
from torch import nn

class Attention(nn.Module):
    "slots"

    def __init__(self, width):
        super().__init__()
        self.slot_mean = nn.Parameter(torch.randn(1, 4, width))
        self.k, self.v = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        width = x.size(2)
        scores = self.slot_mean @ self.k(x).mT / width**0.5
        weights = scores.softmax(1)
        return weights / weights.sum(-1, keepdim=True) @ self.v(x)
"""
"""slots, for which the keys are shared out"""
EQUAL = """\
import torch

def Attention(q, k, v):
    batch, heads, length, width = q.shape
    apart = torch.arange(k.size(2)) - torch.arange(length)[:, None]
    scores = q @ k.mT / width**0.5 - torch.eye(length)
    return scores.masked_fill(apart > 0, -torch.inf).softmax(-1) @ v
"""
"""as many queries as keys, in heads"""
STEPS = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, past=None):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)
        place, first = torch.arange(k.size(1)), k.size(1) - q.size(1)
        closed = place > place[first:, None]
        scores = q @ k.mT / math.sqrt(q.size(-1))
        return scores.masked_fill(closed, -math.inf).softmax(-1) @ v, (k, v)
"""
"""a causal row for each key, with a cache"""
SPLIT = """\
import torch

def Attention(query, keys, values, mask=None):
    "mask: 1.0 for what is real"
    scores = query @ keys.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None] == 0, -torch.inf)
    return scores.softmax(-1) @ values
"""
"""queries and keys in heads, which only the mask shows"""
BLOCKS = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.block = 6
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        apart = x.unflatten(1, (-1, self.block))
        q, k, v = self.all(apart).unflatten(3, (4, -1)).transpose(2, 3).chunk(3, -1)
        weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
        return self.out((weights @ v).transpose(2, 3).flatten(3)).flatten(1, 2)
"""
"""a sequence in blocks, each apart"""
GROUPED = """\
import math, torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q = nn.Linear(width, width)
        self.k, self.v = nn.Linear(width, width // 2), nn.Linear(width, width // 2)

    def forward(self, query, keys):
        q, k, v = self.q(query), self.k(keys), self.v(keys)
        q, k, v = (x.unflatten(2, (-1, 4)).transpose(1, 2) for x in (q, k, v))
        k, v = k.repeat_interleave(2, dim=1), v.repeat(1, 2, 1, 1)
        return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)
"""
"""keys and values of half as many heads"""
VISITED = """\
import math, torch

def Attention(query, keys):
    largest, sums, total = torch.full((*query.shape[:2], 1), -math.inf), 0, 0
    for block in keys.split(64, dim=1):
        scores = query @ block.mT / query.size(-1) ** 0.5
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        shares, old = (scores - new).exp(), (largest - new).exp()
        sums = sums * old + shares.sum(-1, keepdim=True)
        total = total * old + shares @ block
        largest = new
    return total / sums
"""
"""keys in blocks, with a running maximum"""
GRAPH = """\
def Attention(x, adj):
    "adj: (B, N, N) or (N, N) bool, True for an edge"
    scores = (x @ x.mT / x.size(-1) ** 0.5).masked_fill(~adj, -1e9)
    return scores.softmax(-1) @ x
"""
"""neighbours in a graph"""
LOGARITHMS = """\
def Attention(query, keys):
    scores = query @ keys.mT / query.size(-1) ** 0.5
    return scores.softmax(-1).log_softmax(-1)
"""
"""the logarithms of weights are returned"""
BOTH_WAYS = """\
import torch

def Attention(a, b, a_lengths, b_lengths):
    masks = [torch.arange(x.size(1)) < n[:, None] for x, n in ((a, a_lengths), (b, b_lengths))]
    scores = a @ b.mT / a.size(-1) ** 0.5
    for_a = scores.masked_fill(~masks[1][:, None], -1e9).softmax(2) @ b
    for_b = scores.masked_fill(~masks[0][:, :, None], -1e9).softmax(1).mT @ a
    return for_a * a, for_b * b
"""
"""two sequences that attend to each other"""
MASKED_WAYS = """\
def Attention(a, b, a_mask, b_mask):
    scores = a @ b.mT / a.size(-1) ** 0.5
    for_a = scores.masked_fill(~b_mask[:, None], -1e9).softmax(2) @ b
    for_b = scores.masked_fill(~a_mask[:, :, None], -1e9).softmax(1).mT @ a
    return for_a, for_b
"""
"""the same, with masks"""
FIRST = """\
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 4)

    def forward(self, x):
        "x: (places, batch, width)"
        return self.attend(x, x, x)[0]
"""
"""places come first"""
POOLED = """\
def Attention(a, b):
    both = (a @ b.mT).tanh()
    for_a, for_b = (a + both @ b).sum(-1)[:, None], (b + both.mT @ a).sum(-1)[:, None]
    return for_a.softmax(2) @ a + for_b.softmax(2) @ b
"""
"""two sequences that are pooled with each other"""
TIMED = """\
from torch import nn

class Attention(nn.Module):
    "tgt: (tgt_len, bsz, width), memory: (src_len, bsz, width)"

    def __init__(self, width):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, tgt, memory):
        q, k = self.query(tgt).transpose(0, 1), self.key(memory).transpose(0, 1)
        weights = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
        output = weights @ memory.transpose(0, 1)
        return output.transpose(0, 1).reshape(tgt.shape)
"""
"""places first"""
COVERED = """\
import torch
from torch import nn

class Attention(nn.Module):
    coverage = None

    def __init__(self, width):
        super().__init__()
        self.query, self.cover = nn.Linear(width, width), nn.Linear(1, width, bias=False)
        self.score = nn.Linear(width, 1)

    def forward(self, dec_states, enc_states, enc_mask):
        "enc_mask: (B, S), 1 for words and 0 for padding"
        seen, contexts = self.coverage, []
        if seen is None or seen.shape != enc_mask.shape:
            seen = torch.zeros(enc_mask.shape)
        for state in dec_states.unbind(1):
            sums = enc_states + self.query(state)[:, None] + self.cover(seen[:, :, None])
            scores = self.score(sums.tanh()).squeeze(2).masked_fill(enc_mask == 0, -torch.inf)
            weights = scores.softmax(1)
            seen = seen + weights
            contexts.append((weights[:, None] @ enc_states).squeeze(1))
        last = self.coverage = seen.detach()
        return torch.stack(contexts, 1)
"""
"""coverage of all steps"""
WINDOWS = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, window_size=4):
        super().__init__()
        self.window_size, self.shift = window_size, window_size // 2
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        "x: (B, H, W, width)"
        batch, height, width, size = x.shape
        moved = x.roll((-self.shift, -self.shift), (1, 2))
        shape = batch, height // self.window_size, self.window_size, -1, self.window_size, size
        windows = moved.view(shape).transpose(2, 3)
        flat = windows.reshape(-1, self.window_size ** 2, size)
        output = self.attend(flat, flat, flat)[0].view(windows.shape).transpose(2, 3)
        return x + output.reshape(x.shape).roll((self.shift, self.shift), (1, 2))
"""
"""shifted windows of an image"""
LAYER = """\
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.among = nn.MultiheadAttention(width, 4, batch_first=True)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, tgt, memory):
        x = tgt + self.among(tgt, tgt, tgt)[0]
        return x + self.attend(x, memory, memory)[0]
"""
"""a decoder layer"""


STEPWISE = """\
import torch

class CausalRows(torch.nn.Module):
    def forward(self, query, keys, values):
        "query, keys, values: (B, T, D)"
        query, keys = torch.stack([query, keys]).relu() + 1e-3
        sums = (keys[..., None] * values[:, :, None]).cumsum(1)
        total = (query * keys.cumsum(1)).sum(-1, keepdim=True)
        return torch.einsum("bld,blde->ble", query, sums) / total

Attention = CausalRows
"""
"""linear, of a query for each key"""
PAIRED = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        (q1, q2), (k1, k2) = (
            layer(x).unflatten(2, (2, 2, -1)).permute(3, 0, 2, 1, 4) for layer in (self.q, self.k)
        )
        weights = [(q @ k.mT).softmax(-1) for q, k in ((q1, k1), (q2, k2))]
        return ((weights[0] - 0.5 * weights[1]) @ x[:, None]).transpose(1, 2).flatten(2)
"""
"""the difference of two attentions in each of two heads"""
COMPETING = GROUPED.replace("nn.Module):", "nn.Module):\n    'Slots.'")
"""queries that may compete"""
CUT = ONE.replace("nn.Module):", "nn.Module):\n    'Gradients of the query are cut.'").replace(
    "query.unsqueeze", "query.detach().unsqueeze"
)
"""no gradient of the query, on purpose"""
DECODING = LAYER.replace("nn.Module):", "nn.Module):\n    'A causal decoder layer.'").replace(
    "(tgt, tgt, tgt)", "(tgt, tgt, tgt, attn_mask=tgt.new_ones(2 * tgt.shape[1:2]).triu(1).bool())"
)
OVER_WIDTH = CROSS.replace("math.sqrt(q.size(-1))", "q.size(-1)").replace(
    "nn.Module):", "nn.Module):\n    'Scores are q k / d, as in muP.'"
)
LOCAL = (
    SELF.replace("width):", "width, window_size=32):", 1)
    .replace("super().__init__()", "super().__init__(); self.window_size = window_size")
    .replace("nn.Module):", "nn.Module):\n    'A place and the window_size - 1 places before it.'")
    .replace("apart > 99", "~((apart <= 0) & (-apart <= window))")
)
"""a window that ends at the row's own place"""
RECENT = LOCAL.replace(
    "A place and the window_size - 1 places before it", "t - window_size + 1 to t"
)
COUNTING = LOCAL.replace(
    "A place and the window_size - 1 places before it", "window_size, counting itself"
)
CAUSAL = SELF.replace("apart > 99", "apart > 0")
AROUND = LOCAL.replace(
    "the window_size - 1 places before it", "2 * window_size + 1 in all"
).replace("~((apart <= 0) & (-apart <= window))", "apart.abs() > window")
"""a window on both sides of the row's own place"""
SELECTED = """\
import torch

def Attention(query, keys):
    scores = query @ keys.mT / query.size(-1) ** 0.5
    kth = scores.topk(3, dim=-1).values[..., -1:]
    return scores.masked_fill(scores < kth, -torch.inf).softmax(-1) @ keys
"""
"""the best keys alone"""
POSED = """\
def Attention(query, keys, pos=None):
    if pos is not None:
        query = query + pos
    return (query @ keys.mT / query.size(-1) ** 0.5).softmax(-1) @ keys
"""
"""queries with positions that may be left out"""
BIASED = """\
def Attention(query, keys, attn_bias=None):
    scores = query @ keys.mT / query.size(-1) ** 0.5
    if attn_bias is not None:
        scores = scores + attn_bias * 2
    return scores.softmax(-1) @ keys
"""
"""scores with biases that may be left out"""
RELATIVE = """\
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, window_size):
        super().__init__()
        sides = [torch.arange(window_size)] * 2
        rows, columns = (x[:, None] - x + window_size - 1 for x in torch.cartesian_prod(*sides).mT)
        self.register_buffer("index", rows * (2 * window_size - 1) + columns)
        self.table = nn.Parameter(torch.randn((2 * window_size - 1) ** 2))

    def forward(self, x):
        scores = x @ x.mT / x.size(-1) ** 0.5
        return (scores + self.table[self.index]).softmax(-1) @ x
"""
"""biases of the distances in a window of an image"""


class Case(NamedTuple):
    """What of a right attention is replaced."""

    code: str
    base: str
    old: str
    new: str
    """provokes the finding"""
    near: str
    """does not"""
    options: Mapping = MappingProxyType({})

    def sources(self):
        """The source that provokes the finding, and that which nearly does."""
        assert self.old in self.base, self
        return [self.base.replace(self.old, text) for text in (self.new, self.near)]


ONES = "        weights = torch.softmax(scores, dim=1)\n"
FILL = "scores = scores.masked_fill(~valid, -math.inf)"
SOFT = "torch.softmax(scores, dim=1)"
SCORE = "        if valid is not None"
CLOSED = "closed = apart > 99"
MASK = "closed = closed | (mask == 0)[:, None]"
PROJECTED = "self.q(x), self.k(x), self.v(x)"
JOINT = SELF.replace(PROJECTED, "self.all(x).chunk(3, 2)").replace(
    "self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))",
    "self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)",
)
SCALE = "math.sqrt(q.size(-1))"
START = "x, mask=None):"
NO_MASK = "x):\n        mask = None"
MASKLESS = SELF.replace(START, NO_MASK)
NAMED = MASKLESS.replace("Attention", "CausalRows") + "\nAttention = CausalRows\n"
KEEP = ONE.replace("valid", "keep")
DESCRIBED = MASKLESS.replace("nn.Module):", 'nn.Module):\n    """Causal rows."""\n')
OPENED = re.sub(r"\bmask\b", "keep", SELF).replace(
    CLOSED, "closed = apart > (0 if keep is None else 99)"
)
HEADS = "(weights @ v).transpose(1, 2).flatten(2)"
HEAD_FILL = "scores = scores.masked_fill(key_padding_mask[:, None, None], -math.inf)"
TAIL = ONE[ONE.index(FILL) :]
MIXED = """\
        less = torch.arange(4)[:, None, None] / 4
        weights = weights.flip(1) - weights * less
        output"""
TALKING = CROSS.replace("        output", MIXED)
RETURN = "return (weights.unsqueeze(1) @ values).squeeze(1), weights"


HEAD_MASK = "key_padding_mask"
HEAD_MAX = "torch.softmax(scores, dim=-1)"
KEPT = "valid = self.__dict__.setdefault"
SHOWING = CROSS.replace(
    "return self.out(output), weights",
    "shown = weights\n        return self.out(output), shown",
)
HUGGING = SELF.replace("mask=None", "valid_mask=None").replace(
    "mask is not None:\n            closed = closed | (mask",
    "valid_mask is not None:\n            closed = closed | (valid_mask",
)
FLAGGED = STEPS.replace("past=None", "past=None, use_cache=False").replace(
    "@ v, (k, v)", "@ v, (k, v) if use_cache else None"
)
FILLED = STEPS.replace(
    "k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)",
    "k, v = (torch.cat(pair, dim=1) for pair in zip(past.get(0, (k[:, :0], v[:, :0])), (k, v)))\n"
    "            past[0] = k, v",
).replace("@ v, (k, v)", "@ v")
LAST = "torch.softmax(scores, dim=-1)"
EXP, SUM = "scores.exp()", "scores.exp().sum(1, True)"
TAKEN = "self.k(x) + self.position.weight[: x.size(1)]"
PLACED = SELF.replace("self.k(x)", TAKEN).replace(
    "for _ in range(4))", "for _ in range(4))\n        self.position = nn.Embedding(999, width)"
)
ALIBI = (
    SELF.replace("scores.masked_fill", "(scores + self.alibi(apart)).masked_fill")
    + """
    def alibi(self, apart):
        return -apart.abs() / 4
"""
)
TURNED = "self.rotary(q) @ self.rotary(k).mT"
ROTARY = (
    SELF.replace("q @ k.mT", TURNED)
    + """
    def rotary(self, x):
        angle = 0.3 * torch.arange(x.size(1))[:, None]
        left, right = x.chunk(2, dim=-1)
        turned = left * angle.cos() - right * angle.sin(), left * angle.sin() + right * angle.cos()
        return torch.cat(turned, dim=-1).to(x)
"""
)


PLACES = ROTARY.replace("mask=None", "mask=None, position_ids=None")
MEMORY = (
    CROSS.replace("keys, values,", "memory,").replace("keys", "memory").replace("values", "memory")
)


def documented(text):
    """The first line of `SELF.forward`, with what is said of its mask."""
    return f"{START}\n        'mask: {text}'"


def first(line):
    """A line before the mask of `ONE`."""
    return f"        {line}\n{SCORE}"


IDS = """\
from torch import nn

class Attention(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed, self.score = nn.Embedding(vocab, width), nn.Linear(width, 1)

    def forward(self, ids):
        x = self.embed(ids)
        scores = self.score(x).masked_fill((ids == 0)[..., None], -1e4)
        return (scores.softmax(1) * x).sum(1)
"""
"""a network over ids, where 0 is padding"""
BEST = """\
        largest, best = scores.topk(min(4, scores.size(1)), 1)
        weights = torch.zeros_like(scores).scatter(1, {}, largest.softmax(1))
"""
MADE = "self.split(self.k(keys)), self.split(self.v(values))"
UNDERFLOWS = "w = torch.softmax(scores * valid, 1) * valid; weights = w / (w.sum(1, True) + 1e-13)"
TABLE = f"""
in-place || CROSS || {HEAD_FILL} || {HEAD_FILL}; {HEAD_MASK}.zero_() || {HEAD_FILL}
not-finite || ONE || {SOFT} || torch.softmax(scores.log(), dim=1) || {SOFT}
not-finite || ONE || {FILL} || {FILL} * 0 || {FILL} * 1
random-slots || SLOTS || self.slot_mean @ || torch.randn(len(x), 4, width) @ || self.slot_mean @
one-row || ONE || )).squeeze(2) || )).squeeze() || )).squeeze(-1)
one-row || CROSS || self.out(output), weights || self.out(output).squeeze() || self.out(output)
batch || ONE || (weights.unsqueeze || (weights.roll(1, 0).unsqueeze || (weights.unsqueeze
batch || FIRST || (places, batch, width) || (batch, places, width) || (places, rows, width)
batch || FIRST || x: (places, batch || Inputs are (batch, places || Inputs: (places, batch
queries-mixed || TALKING || {HEADS} || (weights @ v).flatten(1).view(query.shape) || {HEADS}
queries-mixed || CROSS || q @ k.mT || (q + q.roll(1, 2)) @ k.mT || q.cumsum(2) @ k.mT
queries-mixed || CROSS || math.sqrt(q.size(-1)) || math.sqrt(q.size(2)) || math.sqrt(k.size(2))
no-query || POOL || keys, lengths || keys, lengths || keys, lengths, query
negative || ONE || {SOFT} || scores || {SOFT} - 0
axis || ONE || dim=1 || dim=0 || dim=-1
axis || CROSS || dim=-1 || dim=-2 || dim=3
axis || CROSS || dim=-1 || dim=1 || dim=3
axis || POOLED || softmax(2) || softmax(1) || softmax(-1)
sums || ONE || {SOFT} || {SOFT} * 0.995 || {SOFT} * 0.9999
sums || ONE || {SOFT} || torch.sigmoid(scores) || {SOFT}
sums || TALKING || - weights * less || - weights * less || * 1
keys-exchanged || CROSS || {MADE} || self.split(self.k(values)), self.split(self.v(keys)) || {MADE}
keys-as-values || ONE || @ values || @ keys || @ (keys + values)
values-ignored || CROSS || {HEADS} || {HEADS} * 0 + query || {HEADS} + query
values-ignored || POOL || * keys) || * keys.abs() ** 0) || * keys.abs() ** 0.9)
bypass || CROSS || self.out(output) || self.out(output + keys.mean(1, True)) || self.out(output)
residual || LAYER || x + self.attend || tgt + self.attend || x + self.attend
no-context || BARE || scores.softmax(1) || scores.softmax(1) || scores.softmax(1)[:, None] @ keys
mask-crash || SELF || {MASK} || closed = missing | mask || {MASK}
mask-crash || ONE || ~valid || ~valid[:, None, :, None] || ~valid[:, :]
mask-not-examined || SELF || {MASK} || closed = closed | mask['padding'] || {MASK}
mask-is-added || SELF || {MASK} || scores = scores + mask || {MASK}
scale-factor || BARE || query.size(2) ** || keys.size(1) ** || query.size(2) **
mask-inverted || ONE || ~valid || valid || ~valid
mask-inverted || IDS || ids == 0 || ids != 0 || ids == 0
mask-inverted || KEEP || ~keep || keep || ~keep
mask-inverted || CROSS || key_padding_mask[ || ~key_padding_mask[ || key_padding_mask[
mask-inverted || HUGGING || valid_mask == 0 || valid_mask == 1 || valid_mask == 0
polarity || SELF || mask == 0 || mask == 1 || mask == 0
mask-ignored || ONE || {FILL} || scores.masked_fill(~valid, -math.inf) || {FILL}
mask-off-by-one || ONE || ~valid || ~(valid | valid.roll(1, 1)) || ~(valid & valid)
mask-off-by-one || BOTH_WAYS || < n[:, None] || <= n[:, None] || < n[:, None]
padding-leak || ONE || -math.inf || -12 || -80
padding-leak || ONE || -math.inf || 1e-9 || -1e9
padding-mixed || LINEAR || k = k * || v = v * || k = k *
mask-opens || OPENED || keep || keep || prefix_keep
dropout-before-softmax || ONE || {SOFT} || self.dropout(scores).softmax(1) || self.dropout({SOFT})
other-way || MASKED_WAYS || ~a_mask[:, :, None] || ~b_mask[:, None] || ~a_mask[..., None]
other-way || MASKED_WAYS || softmax(1).mT || softmax(2).mT || softmax(-2).mT
top-open || SELECTED || -torch.inf || 0.0 || -1e4
top-few || SELECTED || < kth || <= kth || < kth
top-few || SELECTED || -1:] || :1] || 2:]
axis || CAUSAL || softmax(-1) || softmax(1) || softmax(2)
in-place || BIASED || attn_bias * 2 || attn_bias.mul_(2) || attn_bias * 2
in-place || POSED || query = query + pos || query += pos || query = query + pos
empty-row || ONE || -math.inf || -math.inf || -1e30
causal || SELF || {CLOSED} || closed = apart > 0 || closed = apart > 1
window || SELF || {CLOSED} || closed = (apart > 0) | (apart < -2) || closed = apart > 0
window || SELF || {CLOSED} || closed = apart.abs() > 2 || {CLOSED}
dead-parameter || PAIRED || (q2, k2) || (q2, k1) || (q2, k2)
not-causal || STEPWISE || keys.cumsum(1) || keys.sum(1, True) || keys.cumsum(1)
window-wide || LOCAL || <= window) || <= self.window_size) || < self.window_size)
not-causal || DECODING || triu(1) || triu(2) || triu(1)
window-wide || RECENT || <= window) || <= self.window_size) || < self.window_size)
window-wide || COUNTING || <= window) || <= self.window_size) || < self.window_size)
window-wide || AROUND || > window || >= self.window_size || > self.window_size
positions-collide || RELATIVE || rows * (2 * window_size - 1) || rows * 3 || rows * 5
sees-ahead || SELF || {CLOSED} || closed = apart > 1 || closed = (apart > 1) | (apart < -1)
sees-ahead || EQUAL || apart > 0 || apart > 1 || apart > 0
not-causal || NAMED || {CLOSED} || {CLOSED} || closed = apart > 0
not-causal || NAMED || {CLOSED} || closed = (apart > 0) & (apart % 2 > 0) || closed = apart > 0
not-causal || DESCRIBED || Causal rows || Causal rows || Rows, causal or not
not-causal || NAMED || CausalRows || CausalRows || NoncausalRows
sees-later-only || SELF || {CLOSED} || closed = apart < 0 || closed = apart > 0
sees-later-only || SELF || {CLOSED} || closed = apart < -2 || closed = apart.abs() > 2
positions-unused || PLACED || {TAKEN} || self.k(x) + self.position.weight[:1] || {TAKEN}
positions-unused || PLACES || {TURNED} || (0 * self.rotary(q) + q) @ k.mT || q @ k.mT
positions-reversed || ALIBI || -apart.abs() || apart.abs() || -apart.abs()
order || VISITED || total * old || total || total * old
unstable || ONE || {SOFT} || {EXP} / {SUM} || {SOFT}
scaled-late || CROSS || {LAST} || {LAST} / {SCALE} || {LAST}
half || ONE || -math.inf || -1e9 || -1e4
gradient || ONE || query.unsqueeze(2) || query.detach().unsqueeze(2) || query.unsqueeze(2)
gradient || ONE || @ values || @ values.detach() || @ values
gradient || CROSS || self.q(query) || self.q(query.detach()) || self.q(query)
gradient || ONE || {SOFT} || {EXP}.div_({SUM}) || self.dropout({EXP}).div_({SUM})
gradient || CUT || are cut || are needed || are cut
dead-parameter || JOINT || weights @ v || weights @ k || weights @ v.relu()
unregistered || ONE || nn.Dropout() || [nn.Linear(3, 3)] || nn.Dropout()
unregistered || ONE || nn.Dropout() || torch.ones(3, requires_grad=True) || torch.ones(3)
scale || CROSS || {SCALE} || {SCALE} || {SCALE} * (1 + torch.arange(4)[:, None, None])
scale-factor || CROSS || / {SCALE} || / 3 || / {SCALE}
scale-mistake || CROSS || / {SCALE} || / -{SCALE} || / {SCALE}
scale-mistake || CROSS || / {SCALE} || * {SCALE} || / {SCALE}
scale-mistake || OVER_WIDTH || / q.size(-1) || / -q.size(-1) || * q.size(-1) ** 0.5
scale-factor || CROSS || {SCALE} || math.sqrt(query.size(-1)) || {SCALE} + 0 * query.size(-1)
scale-factor || BLOCKS || {SCALE} || math.sqrt(x.size(-1)) || {SCALE}
decoding || STEPS || place[first:, None] || place[: len(q[0]), None] || place[first:, None]
decoding || FLAGGED || place[first:, None] || place[: len(q[0]), None] || place[first:, None]
decoding || FILLED || place[first:, None] || place[: len(q[0]), None] || place[first:, None]
cache-not-examined || STEPS || past=None || past=None, start=None || past=None
unchecked || ONE || {SOFT} || torch.softmax(scores.log(), dim=1) || {SOFT}
"""
"""code || the right attention || what is replaced || what provokes the finding || what does not"""


def case_of(row):
    code, base, *changes = row.split(" || ")
    return Case(code, globals()[base], *changes)


PATCHES = f"""
in-place ONE
- {SCORE}
+         keys *= 2
+ {SCORE}
~         keys = keys * 2
~ {SCORE}

state ONE
- {SCORE}
+         scores = self.s = scores - getattr(self, 's', 0) / 900
+ {SCORE}
~         scores = self.s = scores - 0 * getattr(self, 's', 0)
~ {SCORE}

batch TIMED
- output.transpose(0, 1).reshape(tgt.shape)
+ output.reshape(tgt.shape)
~ output.transpose(0, 1).reshape(tgt.shape)

state COVERED
- = self.coverage = seen.detach()
+ = self.coverage = seen.detach()
~ = seen.detach()

cache ONE
- self.project(keys)
+ self.project(self.__dict__.setdefault('kept', keys))
~ self.project(self.__dict__.get('kept', keys))

random ONE
- {SCORE}
+         scores = scores + 1e-3 * torch.randn_like(scores)
+ {SCORE}
~         scores = scores + 1e-6 * torch.randn_like(scores)
~ {SCORE}

cache ONE
- {FILL}
+ {KEPT}('kept', valid)
+             {FILL}
~ {FILL}

batch ONE
- {SCORE}
+         scores = scores * (1 + 2e-3 * keys.mean(0).mean())
+ {SCORE}
~         scores = scores * (1 + 2e-6 * keys.mean(0).mean())
~ {SCORE}

batch FIRST
- x: (places, batch, width)
+ For (batch, places, width) inputs
~ For (places, batch, width) inputs

batch FIRST
- x: (places, batch, width)
+ A layer for features of shape (batch, places, width)
~ A layer for features of shape (places, batch, width)

windows-moved WINDOWS
- .roll((self.shift, self.shift), (1, 2))
~ .roll((self.shift, self.shift), dims=(1, 2))

batch ONE
- {SCORE}
+         scores = scores * len(keys)
+ {SCORE}
~         scores = scores * 5
~ {SCORE}

queries-mixed CROSS
- {HEADS}
+ (weights @ v).flatten(1).view(query.shape)
~ (weights @ v).permute(0, 2, 1, 3).reshape(query.shape)

queries-mixed CROSS
- q @ k.mT
+ (q + 3e-3 * q.mean(2, True)) @ k.mT
~ (q + 1e-6 * q.mean(2, True)) @ k.mT

queries-compete COMPETING
- (q @ k.mT / 2).softmax(-1)
+ torch.nn.functional.normalize((q @ k.mT / 2).softmax(2), 1.0, -1)
~ torch.nn.functional.normalize((q @ k.mT / 2).softmax(3), 1.0, -1)

query-ignored ONE
- query.unsqueeze(2)
+ torch.ones_like(query)[:, :, None]
~ query[:, :, None]

query-ignored ONE
- {SCORE}
+         scores = scores * 1e-9
+ {SCORE}
~         scores = scores * 1e-3
~ {SCORE}

heads-crossed GROUPED
- v.repeat(1, 2, 1, 1)
+ v.repeat(1, 2, 1, 1)
~ v.repeat_interleave(2, 1)

heads-normalised CROSS
- q @ k.mT
+ q @ nn.functional.normalize(k).mT
~ q @ nn.functional.normalize(k, dim=3).mT

axis CROSS
- torch.softmax(scores, dim=-1)
+ scores.flatten(1).softmax(-1).view(scores.shape)
~ scores.flatten(0, 2).softmax(-1).view(scores.shape)

mask-after-softmax SELF
- self.out(weights @ v)
+ self.out((weights * (apart <= 0)) @ v)
~ self.out((weights * (apart <= 99)) @ v)

values-ignored SELF
- return self.out(weights @ v)
+ return self.out(torch.einsum('bqk,bqd->bqd', weights, v)), weights
~ return self.out(torch.einsum('bqk,bkd->bqd', weights, v)), weights

values-ignored MEMORY
- self.split(self.k(memory)), self.split(self.v(memory))
+ self.split(self.k(query)), self.split(self.v(query))
~ self.split(self.k(memory)), self.split(self.v(memory))

other-weights-returned SHOWING
- shown = weights
+ shown = scores.softmax(-1) ** 2; shown = shown / shown.sum(-1, True)
~ shown = weights

softmax-twice CROSS
- torch.softmax(scores, dim=-1)
+ scores.softmax(-1).softmax(-1)
~ torch.cosine_similarity(q[:, :, :, None], k[:, :, None], -1).softmax(-1)

softmax-twice LOGARITHMS
- scores.softmax(-1).log_softmax(-1)
+ scores.softmax(-1).log_softmax(-1)
~ scores.log_softmax(-1)

no-mask ONE
- valid=None):
+ ):
+         valid = None
~ valid=None):

mask-added ONE
- {FILL}
+ scores = scores + valid
~ scores = scores + torch.where(valid, 0, -math.inf)

mask-added ONE
- {FILL}
+ scores = scores + valid / 2
~ scores = scores + torch.where(valid, 0, -math.inf) / 2

mask-added SPLIT
- scores.masked_fill(mask[:, None, None] == 0, -torch.inf)
+ scores + mask[:, None, None]
~ scores.masked_fill(mask[:, None, None] < 1, -torch.inf)

padding-leak GRAPH
- .masked_fill(~adj, -1e9)
+  * adj
~ .masked_fill(~adj, -99)

padding-leak ONE
- {FILL}
+ scores = torch.where(valid, scores, scores - 6)
~ scores = torch.where(valid, scores, scores - 90)

padding-mixed ONE
- self.project(keys)
+ self.project(keys / (1 + 1e-3 * keys.norm(dim=1, keepdim=True)))
~ self.project(keys / (1 + 1e-8 * keys.norm(dim=1, keepdim=True)))

mask-opens SELF
- {CLOSED}
-         if mask is not None:
-             {MASK}
+ closed = (apart > 0) if mask is None else (mask == 0)[:, None]
~ closed = (apart > 0) if mask is None else (apart > 0) | (mask == 0)[:, None]

valid-hidden ONE
- ~valid
+ ~valid | (torch.arange(valid.size(1)) == valid.sum(1)[:, None] - 1)
~ ~valid | (torch.arange(valid.size(1)) == valid.sum(1)[:, None])

mask-in-training ONE
- valid is not None:
+ valid is not None and not self.training:
~ valid is not None:

padding-amount ONE
-  / 4
+  / keys.size(1)
~  / 4 + torch.zeros(9)

padding-amount ONE
-  / 4
+  * (1 + keys.size(1) / 3000)
~  * (1 + keys.size(1) / 3e7)

later-amount MASKLESS
- {CLOSED}
+ closed = apart > 0
+         scores = scores + torch.sin(len(place) + apart)
~ closed = apart > 0
~         scores = scores + torch.sin(99 + apart)

pattern SELF
- {CLOSED}
+ closed = (apart > 0) | (apart % 3 == 1)
~ closed = (apart > 0) | (apart % 12 == 1)

pattern ONE
- {SCORE}
+         scores[:, :3] -= 1e9
+ {SCORE}
~         scores[:, :3] -= 9
~ {SCORE}

not-causal DESCRIBED
- Causal rows
+ Autoregressive rows
~ Rows of a non-autoregressive decoder

positions-absolute ROTARY
- self.rotary(k).mT
+ self.rotary(k.flip(2)).flip(2).mT
~ self.rotary(k).mT

position POOL
- self.score(keys)
+ self.score(keys * torch.arange(keys.size(1))[:, None])
~ self.score(keys)

length POOL
- (keys).squeeze(2)
+ (keys).squeeze(2) + torch.zeros(99)[: keys.size(1)]
~ (keys).squeeze(2) + torch.zeros(999)[: keys.size(1)]

strides POOL
- self.score(keys)
+ self.score(keys.view(-1, keys.size(2)).view(keys.shape))
~ self.score(keys.reshape(-1, keys.size(2)).view(keys.shape))

underflow ONE
- {SOFT}
+ {SOFT} * (1 - 3e-5 * query.square().mean(1, True))
~ {SOFT} * (1 - 3e-6 * query.square().mean(1, True))

half BARE
- scores.softmax(1)
+ (scores * torch.ones(len(query), 1)).to(query) @ torch.eye(scores.size(1))
~ scores.softmax(1)

gradient ONE
- query.unsqueeze(2)
+ (0.7 * query + 0.3 * query.detach()).unsqueeze(2)
~ (0.999 * query + 1e-3 * query.detach()).unsqueeze(2)

dead-parameter GROUPED
- v.repeat(1, 2, 1, 1)
+ v[:, :1].repeat(1, 4, 1, 1)
~ v.repeat_interleave(2, 1)

dead-parameter CROSS
- key_padding_mask=None):
+ key_padding_mask=None):
+         self.__dict__.update(v=nn.Identity())
~ key_padding_mask=None, projected=None):
~         self.__dict__.update(v=nn.Identity())

dead-parameter CROSS
-     def split(self, x):
+         self.more = nn.Linear(width, width)
+     def split(self, x):
~         self.more = nn.Linear(width, width)
~     def decode(self, x):
~         return self.more(x)
~     def split(self, x):

dead-parameter CROSS
-         return self.out(output), weights
+         return output, weights
~         return output, self.out(query)[..., None].expand(-1, -1, -1, keys.size(1))

score ONE
-  / 4
+  / 4
~  / 3

score-factor ONE
-  / 4
+  / 3.98
~  / 3.9999

score-mistake BARE
-  ** 0.5
~  ** 0.5

scale-mistake BARE
- valid):
-     scores = keys @ query.mT / query.size(2) ** 0.5
+ valid):
+     'dot(q, k) / sqrt(D)'
+     scores = keys @ query.mT * 1
~ valid):
~     'dot(q, k), not divided by sqrt(D)'
~     scores = keys @ query.mT * 1

score-unknown ONE
- {SCORE}
+         scores = scores ** 3
+ {SCORE}
~ {SCORE}

score-unknown ONE
- (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
+ (self.project.weight[:1].repeat(len(keys), 1)[:, None] @ (keys * query[:, None]).mT.cos()).sum(1)
~ (self.project(keys) @ query.unsqueeze(2)).sum(2) / 4

axis GRAPH
-     scores = (x @ x.mT / x.size(-1) ** 0.5).masked_fill(~adj, -1e9)
-     return scores.softmax(-1) @ x
+     scores = -9 * (x[:, :, None] - x[:, None]).square().sum(-1) + 0.1 * x.mean(-1)[:, None]
+     return scores.softmax(-1).mT @ x
~     scores = -9 * (x[:, :, None] - x[:, None]).square().sum(-1) + 0.1 * x.mean(-1)[:, None]
~     return scores.softmax(-1) @ x

not-causal GRAPH
- (x, adj):
-     "adj: (B, N, N) or (N, N) bool, True for an edge"
-     scores = (x @ x.mT / x.size(-1) ** 0.5).masked_fill(~adj, -1e9)
-     return scores.softmax(-1) @ x
+ (x):
+     scores = (x @ x.mT / 48).tril() - 999 * x.new_ones(x.size(1), x.size(1)).triu(1)
+     return scores.softmax(-1) @ (x + x.mean(1, True))
~ (x):
~     scores = -99 * (x[:, :, None] - x[:, None]).square().sum(-1)
~     return scores.softmax(-1) @ (x + x.mean(1, True))

negative ONE
- valid=None):
-         scores = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
-         if valid is not None:
-             scores = scores.masked_fill(~valid, -math.inf)
-         weights = torch.softmax(scores, dim=1)
+ scaled=False):
+         weights = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
~ softmax=False):
~         weights = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4

negative GROUPED
- .softmax(-1)
+ 
~  / k.size(2)

padding-mixed LOCAL
- v = self.q(x), self.k(x), self.v(x)
-         scores = q @ k.mT / math.sqrt(q.size(-1))
-         place = torch.arange(x.size(1))
-         apart = place - place[:, None]
-         closed = ~((apart <= 0) & (-apart <= window))
+ v = self.q(x), self.k(x), self.v(x.roll(1, 1)) + self.v(x)
+         scores = q @ k.mT / math.sqrt(q.size(-1))
+         closed = scores > math.inf
~ v = self.q(x), self.k(x), self.v(x.roll(1, 1)) + self.v(x)
~         scores = q @ k.mT / math.sqrt(q.size(-1))
~         closed = scores > math.inf
~         if mask is not None: return self.out((scores + mask).softmax(-1) @ v)

positions-absolute ROTARY
- range(4))
- 
-     def forward(self, x, mask=None):
-         q, k, v = self.q(x), self.k(x), self.v(x)
-         scores = self.rotary(q)
+ range(4))
+         self.norm = nn.Parameter(torch.zeros(width))
+ 
+     def forward(self, x, mask=None):
+         q, k, v = self.q(x), self.k(x), self.v(x)
+         scores = (self.norm + torch.arange(x.size(2))) * self.rotary(q)
~ range(4))
~         self.norm = nn.Parameter(torch.zeros(width))
~ 
~     def forward(self, x, mask=None):
~         q, k, v = self.q(x), self.k(x), self.v(x)
~         scores = (self.norm * 9 + 1) * self.rotary(q)

positions-unused PLACED
- x, mask=None):
-         q, k, v = self.q(x), self.k(x) + self.position.weight[: x.size(1)], self.v(x)
+ x, mask=None):
+         q, k, v = self.q(x), self.k(x), self.v(x)
~ x, mask=None, position_bias=None):
~         q, k, v = self.q(x), self.k(x), self.v(x)

dead-parameter CROSS
- key_padding_mask=None):
+ key_padding_mask=None, bias=None):
+         self.__dict__.update(v=nn.Identity())
~ key_padding_mask=None, position_bias=None):
~         self.__dict__.update(v=nn.Identity())

dead-parameter PLACED
-     def forward(self, x, mask=None):
-         q, k, v = self.q(x), self.k(x) + self.position.weight[: x.size(1)], self.v(x)
+     def places(self, x):
+         return self.position.weight.data[: x.size(1)]
+     def forward(self, x, mask=None):
+         q, k, v = self.q(x), self.k(x) + self.places(x), self.v(x)
~     def places(self, x):
~         return self.position.weight[: x.size(1)]
~     def forward(self, x, mask=None):
~         q, k, v = self.q(x), self.k(x) + self.places(x), self.v(x)

returns PICTURE
- return x +
+ x = x +
~ self.result = x +

mask-unread CROSS
- key_padding_mask=None):
+ key_padding_mask=None, attn_mask=None):
+         '''
+         attn_mask: (L, S), True = hidden
+         '''
~ key_padding_mask=None, attn_mask=None):
~         '''
~         attn_mask: not used
~         '''

mask-ignored ONE
- valid=None):
-         scores = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
-         if valid is not None:
-             scores = scores.masked_fill(~valid, -math.inf)
+ valid=None, before=None):
+         scores = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
+         if valid is not None and before is not None:
+             scores = scores.masked_fill(~valid, -math.inf)
~ valid=None, before=None):
~         scores = (self.project(keys) @ query.unsqueeze(2)).squeeze(2) / 4
~         if before is not None:
~             scores = scores.masked_fill(~valid, -math.inf)

places-mixed GROUPED
- k, v = k.repeat_interleave(2, dim=1), v.repeat(1, 2, 1, 1)
+ k, v = (x.transpose(1, 2).reshape(x.shape).repeat_interleave(2, dim=1) for x in (k, v))
~ k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))

sides-mixed PICTURE
- (layer(x).flatten
+ (layer(x).mT.flatten
~ (layer(x).mT.contiguous().mT.flatten

sides-mixed PICTURE
- (layer(x).flatten
+ (layer(x).mT.flatten
~ (torch.nn.functional.avg_pool2d(layer(x), 3, 1, 1).flatten

sides-mixed PICTURE
- return x + (v @ weights.mT).view(x.shape)
+ return x + (v @ weights.mT).reshape(len(x), -1, x.size(3), x.size(2)).mT
~ x = x + (v @ weights.mT).view(x.shape)
~         x = x @ torch.softmax(x.mT @ x, dim=2)
~         return torch.softmax(x @ x.mT, dim=3) @ x

unfinished ONE
- {SCORE}
+         if len(keys) > 99: raise ValueError('large')
+ {SCORE}
~ {SCORE}
"""
"""- what is replaced; + what provokes the finding; ~ what does not"""


def case_of_patch(block):
    head, *lines = block.split("\n")
    code, base = head.split()
    changes = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+~")
    return Case(code, globals()[base], *changes)


CASES = [
    *map(case_of, TABLE.strip().split("\n")),
    *map(case_of_patch, PATCHES.strip().split("\n\n")),
    # ---- what everything rests on ----
    Case(
        "random",
        ONE.replace("Dropout()", "Dropout(0.0)"),
        SCORE,
        first("scores = nn.functional.dropout(scores, self.dropout.p)"),
        first("scores = self.dropout(scores)"),
    ),
    Case(
        "top-places",
        ONE,
        ONES,
        BEST.format("largest.argsort(1)"),
        BEST.format("best"),
    ),
    # ---- weights ----
    Case(
        "negative",
        CROSS.replace(HEAD_MAX, "scores"),
        "class Attention(nn.Module):",
        "class Attention(nn.Module):\n    'Attends.'",
        "class Attention(nn.Module):\n    'Linear: no softmax'",
    ),
    Case(
        "negative",
        CROSS.replace(HEAD_MAX, "scores"),
        "class Attention(nn.Module):",
        "class Attention(nn.Module):\n    'With a softmax.'",
        "class Attention(nn.Module):\n    'Divides by S instead of taking a softmax.'",
    ),
    Case(
        "negative",
        ONE.replace(SOFT, "scores"),
        "nn.Dropout()",
        "nn.Dropout()",
        "type('ActivationUnit', (nn.Identity,), {'__module__': 'din'})()",
    ),
    Case(  # DeepViT normalises the weights of all heads
        "negative",
        CROSS,
        HEAD_MAX,
        "scores",
        "torch.nn.functional.layer_norm("
        f"{HEAD_MAX}.movedim(1, -1), scores.shape[1:2]).movedim(-1, 1)",
    ),
    Case(
        "sums-with-mask",
        ONE,
        ONES,
        f"{ONES}        weights = weights * (0.9 if valid is not None else 1)\n",
        ONES,
    ),
    Case(
        "mask-after-softmax",
        ONE,
        f"{FILL}\n{ONES}",
        f"pass\n{ONES}        weights = weights if valid is None else weights * valid\n",
        f"{FILL}\n{ONES}        weights = weights if valid is None else weights * valid\n",
    ),
    Case("logarithms", ONE, RETURN, RETURN.replace(", weights", ", weights.log()"), RETURN),
    Case("other-returned", ONE, RETURN, RETURN.replace(", weights", ", scores"), RETURN),
    Case(
        "other-weights-returned",
        ONE,
        TAIL,
        f"shown = scores.softmax(1)\n            {TAIL.replace(', weights', ', shown')}",
        f"shown = scores.softmax(1)\n            {TAIL}",
    ),
    Case(
        "other-weights-returned",
        ONE,
        RETURN,
        RETURN.replace(", weights", ", weights ** 1.003 / (weights ** 1.003).sum(1, True)"),
        RETURN.replace(", weights", ", weights ** 1.00001"),
    ),
    # ---- masks ----
    Case("mask-inverted", SELF, START, documented("0.0 = kept"), documented("1.0 = kept")),
    Case(
        "mask-inverted",
        SELF,
        START,
        documented("1: token i may not see token j"),
        documented("1: token i may see token j"),
    ),
    Case(
        "mask-inverted",
        SELF,
        START,
        documented("True marks what cannot be chosen"),
        documented("True marks what can be chosen"),
    ),
    Case(
        "mask-inverted",
        SELF,
        START,
        documented("1 for [PAD] and 0 for tokens"),
        documented("1 for tokens and 0 for [PAD]"),
    ),
    Case("mask-inverted", SELF, START, documented("True if ignored"), documented("(B, 1, S)")),
    Case(
        "mask-added",
        SELF.replace(MASK, "scores = scores + mask"),
        START,
        documented("1 = attend"),
        documented("0 = attend"),
    ),
    Case(
        "dropout-before-softmax",
        SELF.replace("apart > 99", "apart > 0"),
        "scores.masked_fill(closed, -math.inf)",
        "nn.functional.dropout(scores.masked_fill(closed, -1e9), 0.5, self.training)",
        "scores.masked_fill(closed, -1e9)",
    ),
    # ---- which places a row sees ----
    Case(
        "not-causal",
        MASKLESS.replace(CLOSED, "closed = apart > 0"),
        "weights @ v",
        "weights @ (v + v.mean(1, keepdim=True))",
        "weights @ (v + v.mean(2, keepdim=True))",
    ),
    Case("not-causal", NAMED, NO_MASK, NO_MASK, START),
    Case(  # a mask of padding alone does not decide it
        "not-causal",
        NAMED.replace(NO_MASK, START),
        START,
        f"{START}\n        'mask: (batch, length)'",
        f"{START}\n        'mask: (batch, length, length)'",
    ),
    Case("unmet", SELF, CLOSED, CLOSED, "closed = apart > 0", {"require": ["causal"]}),
    Case(
        "unmet",
        SELF,
        CLOSED,
        "closed = (apart > 0) | (apart < -3)",
        "closed = (apart > 0) | (apart < -2)",
        {"require": ["window=3"]},
    ),
    Case(
        "returns",
        CROSS,
        "self.out(output), weights",
        "self.out(output), weights[:, :, None]",
        "self.out(output), 1 * weights",
        {"require": ["returns=context,weights"]},
    ),
    Case(
        "unmet",
        ONE,
        RETURN,
        f"{RETURN[:-7]}scores.tanh()",
        f"{RETURN[:-7]}1 * weights",
        {"require": ["returns=context,weights"]},
    ),
    Case("unmet", ONE, SOFT, f"{EXP} / {SUM}", SOFT, {"require": ["stable"]}),
    # ---- lengths, types, large numbers ----
    Case(
        "underflow",
        ONE,
        f"{FILL}\n{ONES}",
        f"pass\n{ONES}        if valid is not None:\n            {UNDERFLOWS}\n",
        f"{FILL}\n{ONES}",
    ),
    # ---- gradients and training ----
    Case(
        "dead-parameter",
        ONE,
        "self.dropout = ",
        "self.more = nn.Linear(3, 3, bias=False); self.dropout = ",
        "self.dropout = ",
    ),
    # ---- scores ----
    Case("scale-mistake", CROSS, SCALE, "q.size(-1)", SCALE, {"widths": ()}),
    Case("scale-factor", CROSS, f"/ {SCALE}", "/ 2", f"/ {SCALE}", {"widths": ()}),
    Case(
        "scale-mistake",
        CROSS,
        "q @ k.mT",
        f"(q / {SCALE}) @ k.mT",
        "(q / 1) @ k.mT",
        {"widths": ()},
    ),
    Case("wrong-score", ONE, " / 4", " / 3.98", " / 3.9999", {"expect": "scaled_general"}),
    Case(
        "wrong-score",
        ONE,
        " / 4",
        " / 4",
        " / keys.size(2) ** 0.5",
        {"expect": "scaled_general", "widths": ()},
    ),
    # ---- the examination itself ----
    Case(
        "decoding", STEPS, "self.k(x), ", "self.k(x) + torch.eye(16)[: x.size(1)], ", "self.k(x), "
    ),
    Case(
        "decoding",
        STEPS.replace("past=None", "positions, past=None"),
        "q, k, v = self.q(x)",
        "x = x + torch.arange(x.size(1)).sin()[:, None]\n        q, k, v = self.q(x)",
        "x = x + positions.sin()[..., None]\n        q, k, v = self.q(x)",
    ),
]
