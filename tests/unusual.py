"""Attentions that are right, and unusual: of later models, and in forms that few people write."""

import math

import torch
from torch import nn
from torch.nn import functional as F

NEVER = -torch.inf


def masked_softmax(scores, valid):
    return scores.masked_fill(~valid, NEVER).softmax(-1)


# ---- several queries ----


class Heads(nn.Module):
    """Four heads of their own, with a mask of keys."""

    kv_heads = 4

    def __init__(self, width, causal=False):
        super().__init__()
        self.causal, self.size = causal, width // 4
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, self.kv_heads * self.size)
        self.value = nn.Linear(width, self.kv_heads * self.size)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (-1, self.size)).transpose(1, 2)  # (B, H, L, D)

    def scores(self, q, k):
        return q @ k.mT / math.sqrt(self.size)

    def weights(self, scores, key_padding_mask):
        if self.causal:
            later = torch.ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(later, NEVER)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None], NEVER)
        return scores.softmax(-1)

    def forward(self, query, keys, values, key_padding_mask=None):
        q = self.split(self.query(query))
        k, v = self.split(self.key(keys)), self.split(self.value(values))
        k, v = (x.repeat_interleave(4 // self.kv_heads, 1) for x in (k, v))
        weights = self.weights(self.scores(q, k), key_padding_mask)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Grouped(Heads):
    kv_heads = 2


class MultiQuery(Heads):
    kv_heads = 1


class PositionMajor(nn.Module):
    """One key for four heads, whose queries at a position follow each other, causal."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.memory = nn.Linear(width, width // 2)

    def forward(self, x):
        q = self.query(x).unflatten(-1, (4, -1)).flatten(1, 2)  # (B, 4 L, D)
        k, v = self.memory(x).chunk(2, dim=-1)
        later = torch.ones(x.size(1), x.size(1)).triu(1).bool().repeat_interleave(4, dim=0)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        context = scores.masked_fill(later, NEVER).softmax(-1) @ v
        return context.unflatten(1, (-1, 4)).flatten(2)


class SelfHeads(Heads):
    def forward(self, x, key_padding_mask=None):
        return super().forward(x, x, x, key_padding_mask)


class Causal(SelfHeads):
    def __init__(self, width):
        super().__init__(width, causal=True)


class Rotary(SelfHeads):
    def scores(self, q, k):
        return super().scores(self.rotated(q), self.rotated(k))

    def rotated(self, x):
        place = torch.arange(x.size(-2), dtype=x.dtype)[:, None]
        angle = place / 100 ** (torch.arange(0, x.size(-1), 2) / x.size(-1))
        even, odd = x[..., ::2], x[..., 1::2]
        turned = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
        return torch.cat(turned, -1).to(x.dtype)


class Alibi(Causal):
    def scores(self, q, k):
        place = torch.arange(k.size(-2))
        slopes = 2.0 ** -torch.arange(1, 5)
        distance = (place - place[:, None]).to(q.dtype)
        return super().scores(q, k) + slopes.to(q.dtype)[:, None, None] * distance


class Sliding(SelfHeads):
    """A row sees itself and the two places before it."""

    def weights(self, scores, key_padding_mask):
        place = torch.arange(scores.size(-1))
        apart = place[:, None] - place
        scores = scores.masked_fill((apart < 0) | (apart > 2), NEVER)
        return super().weights(scores, key_padding_mask)


class Wide(SelfHeads):
    """A window that is wider than short sequences."""

    def weights(self, scores, key_padding_mask):
        place = torch.arange(scores.size(-1))
        scores = scores.masked_fill((place[:, None] - place).abs() > 40, NEVER)
        return super().weights(scores, key_padding_mask)


class Sink(SelfHeads):
    """A score of 0, without a value, takes some of the weight."""

    def weights(self, scores, key_padding_mask):
        if key_padding_mask is not None:
            key_padding_mask = F.pad(key_padding_mask, (0, 1))
        return super().weights(F.pad(scores, (0, 1)), key_padding_mask)[..., :-1]


class SinkToken(nn.Module):
    """A learnt key and value stand before those that are given."""

    def __init__(self, width):
        super().__init__()
        self.key, self.value = nn.Parameter(torch.randn(1, width)), nn.Parameter(torch.randn(width))

    def forward(self, query, keys, values, valid=None):
        first = self.key.expand(len(keys), 1, -1)
        keys = torch.cat([first, keys], 1)
        values = torch.cat([self.value.expand(len(keys), 1, -1), values], 1)
        scores = query @ keys.mT / math.sqrt(keys.size(-1))
        if valid is not None:
            scores = scores.masked_fill(~F.pad(valid, (1, 0), value=True)[:, None], NEVER)
        return scores.softmax(-1) @ values


class Linear(nn.Module):
    """Weights are never computed: features of keys are multiplied with values first.

    In another_key_mask True = padding, but key_mask: True = token.
    """

    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def features(self, x):
        return F.elu(x.unflatten(-1, (4, -1))) + 1

    def forward(self, query, keys, values, key_mask=None):
        q, k = self.features(self.q(query)), self.features(self.k(keys))
        v = self.v(values).unflatten(-1, (4, -1))
        if key_mask is not None:
            k = k * key_mask[:, :, None, None]
        norm = torch.einsum("blhd,bhd->blh", q, k.sum(1))
        both = torch.einsum("bshd,bshm->bhdm", k, v)
        return torch.einsum("blhd,bhdm,blh->blhm", q, both, 1 / norm).flatten(2)


def log_space(query, keys, valid):
    """Weights are shares of logarithms, which are returned."""
    scores = (query @ keys.mT).masked_fill(~valid[:, None], NEVER)
    logs = scores - scores.logsumexp(-1, keepdim=True)
    return logs.exp() @ keys, logs


class Resampler(nn.Module):
    """Queries attend to the keys and to each other, as the latents of Flamingo do."""

    def __init__(self, width):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, keys, latents):
        places = torch.cat([keys, latents], dim=1)
        return self.attend(latents, places, places, need_weights=False)[0]


class Encoder(nn.TransformerEncoderLayer):
    def __init__(self, d_model, nhead):
        super().__init__(d_model, nhead, 2 * d_model, batch_first=True)


class Decoder(nn.TransformerDecoderLayer):
    def __init__(self, d_model, nhead):
        super().__init__(d_model, nhead, 2 * d_model, batch_first=True)


class Sigmoid(SelfHeads):
    def weights(self, scores, key_padding_mask):
        weights = torch.sigmoid(scores - 2)
        if key_padding_mask is not None:
            weights = weights.masked_fill(key_padding_mask[:, None, None], 0)
        return weights


class Additions(nn.Module):
    """The mask is a bias: 0 or -inf."""

    def forward(self, query, keys, attn_bias_mask):
        scores = query @ keys.mT + attn_bias_mask[:, None]
        return scores.softmax(-1) @ keys


class Nearest(nn.Module):
    """The block of keys with the largest mean score."""

    def __init__(self):
        super().__init__()
        self.block = 3

    def forward(self, query, keys):
        scores = query @ keys.mT
        blocks = torch.arange(keys.size(1)) // self.block
        of_block = nn.functional.one_hot(blocks).to(keys)  # (S, blocks)
        best = (scores @ of_block / of_block.sum(0)).argmax(-1, keepdim=True)
        return masked_softmax(scores, best == blocks) @ keys


class Distances(SelfHeads):
    """Scores of relative positions, from -(L - 1) to L - 1, are shifted by a view (Dai et al.)."""

    def scores(self, q, k):
        length = q.size(2)
        apart = torch.arange(1 - length, length)[:, None] / 9 * torch.ones(q.size(3))
        far = F.pad(q @ apart.sin().mT, (1, 0))  # (B, H, L, 2 L)
        shifted = far.view(*far.shape[:2], 2 * length, length)[:, :, 1:]
        return super().scores(q, k) + shifted.reshape(*far.shape[:3], -1)[..., :length]


def pointer(query, keys, mask=None):
    """Logits of the keys, beside the keys themselves."""
    keys = keys + 1
    logits = (keys @ query.unsqueeze(2)).squeeze(2)
    return keys, logits if mask is None else logits.masked_fill(mask, -1e9)


def interest(candidate, history, history_lengths=None):
    """The intensity of interest, which is not a softmax (Zhou et al. 2018)."""
    valid = torch.ones(history.shape[:2]).bool()
    if history_lengths is not None:
        valid = torch.arange(history.size(1)) < history_lengths[:, None]
    weights = (history @ candidate.unsqueeze(2)).squeeze(2).tanh() * valid
    return (weights.unsqueeze(1) @ history).squeeze(1)


class Memory(Causal):
    """The input is returned, too, for the next segment."""

    def forward(self, x):
        return super().forward(x), x.detach()


def stepwise(query, keys):
    """The centre of the weights moves forward with each query."""
    centre = query.mean(-1, keepdim=True).exp().cumsum(1)
    return (-((torch.arange(keys.size(1)) - centre) ** 2)).softmax(-1) @ keys


# ---- one query, or none ----


def by_hand(query, keys, valid):
    """exp and sum, with the maximum taken out"""
    scores = (keys @ query.unsqueeze(2)).squeeze(2).masked_fill(~valid, NEVER)
    shares = (scores - scores.amax(1, keepdim=True)).exp()
    return (shares / shares.sum(1, keepdim=True)).unsqueeze(1).bmm(keys).squeeze(1)


class Luong(nn.Module):
    """An LSTM's state (1, B, D), keys (S, B, D)"""

    def __init__(self, hidden_size):
        super().__init__()
        self.attn = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden, encoder_outputs):
        scores = (self.attn(encoder_outputs) * hidden).sum(2)
        return scores.t().softmax(1).unsqueeze(1)


class OfState(nn.Module):
    """An LSTM's state (h, c) of one layer"""

    def __init__(self, hidden_dim):
        super().__init__()
        self.map = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, hidden, enc_outputs, enc_mask=None):
        h, c = hidden
        query = self.map(h[-1] + c[-1])
        scores = torch.bmm(enc_outputs, query.unsqueeze(2)).squeeze(2)
        if enc_mask is not None:
            scores = scores.masked_fill(enc_mask == 0, NEVER)
        weights = scores.softmax(1)
        return torch.bmm(weights.unsqueeze(1), enc_outputs).squeeze(1), weights


class Configured(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        width = config.hidden_size
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        q, k, v = (self.split(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = self.dropout(scores.softmax(-1))
        context = (weights @ v).permute(0, 2, 1, 3).reshape(hidden_states.shape)
        return (context, weights) if output_attentions else (context,)


class Cross(nn.Module):
    """Image tokens attend to text."""

    def __init__(self, dim, context_dim, heads=4, dim_head=4):
        super().__init__()
        self.heads, inner = heads, heads * dim_head
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q, k, v = self.to_q(x), *self.to_kv(context).chunk(2, -1)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1) for t in (q, k, v)
        )
        scores = q @ k.mT * k.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask.repeat_interleave(self.heads, 0)[:, None], NEVER)
        output = scores.softmax(-1) @ v
        return self.to_out(output.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2))


class Located(nn.Module):
    """With features of the previous weights"""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.query, self.key = nn.Linear(query_dim, 12), nn.Linear(key_dim, 12)
        self.conv = nn.Conv1d(1, 12, 3, padding=1)
        self.v = nn.Linear(12, 1)

    def forward(self, query, memory, prev_alignment, mask=None):
        features = self.conv(prev_alignment.unsqueeze(1)).mT
        scores = self.v(torch.tanh(self.query(query).unsqueeze(1) + self.key(memory) + features))
        scores = scores.squeeze(-1)
        if mask is not None:
            scores = scores.masked_fill(~mask, NEVER)
        weights = scores.softmax(-1)
        return (weights.unsqueeze(1) @ memory).squeeze(1), weights


class Logits(nn.Module):
    """A pointer that returns scores, -inf where nothing may be pointed at."""

    def __init__(self, hidden_dim):
        super().__init__()
        self.key, self.query = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, 1, bias=False)

    def scores(self, queries, keys):
        sums = self.key(keys)[:, None] + self.query(queries)[:, :, None]
        return self.v(sums.tanh()).squeeze(-1)

    def forward(self, decoder_states, encoder_states, mask):
        return self.scores(decoder_states, encoder_states).masked_fill(~mask[:, None], NEVER)


class Mixed(Logits):
    """dec: (B, T, hidden_dim), enc: (S, B, hidden_dim), as a recurrent layer returns it;
    enc_lengths: (B,)
    """

    def forward(self, dec, enc, enc_lengths):
        keys = enc.transpose(0, 1)
        valid = torch.arange(len(enc)) < enc_lengths[:, None]
        return masked_softmax(self.scores(dec, keys), valid[:, None]) @ keys


class Newest(nn.Module):
    """memory: (B, M, dim), empty slots at the left; its ages are counted from the newest slot.
    memory_mask: bool (B, M), True = filled.
    """

    def __init__(self, dim, max_memory=50):
        super().__init__()
        self.key, self.age = nn.Linear(dim, dim), nn.Embedding(max_memory, dim)

    def forward(self, query, memory, memory_mask=None):
        ages = torch.arange(memory.size(1)).flip(0)
        scores = query @ (self.key(memory) + self.age(ages)).mT
        if memory_mask is not None:
            scores = scores.masked_fill(~memory_mask[:, None], torch.finfo(scores.dtype).min)
        return scores.softmax(-1) @ memory


class Segment(nn.Module):
    """w: (T, B, dim), mems: (M, B, dim) of the segment before, which may be empty."""

    def __init__(self, dim):
        super().__init__()
        self.query, self.both = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, w, mems):
        keys, values = self.both(torch.cat([mems, w])).transpose(0, 1).chunk(2, -1)
        scores = self.query(w).transpose(0, 1) @ keys.mT / math.sqrt(w.size(2))
        later = torch.ones(scores.shape[1:]).triu(1 + len(mems)) > 0
        return (scores.masked_fill(later, NEVER).softmax(-1) @ values).transpose(0, 1)


class Reduced(Segment):
    """Keys are made of the places of an image by a convolution with strides."""

    def __init__(self, dim):
        super().__init__(dim)
        self.reduce = nn.Conv2d(dim, dim, 2, 2)

    def forward(self, x, height, width):
        keys = self.reduce(x.mT.unflatten(2, (height, width))).flatten(2).mT
        keys, values = self.both(keys).chunk(2, -1)
        return (self.query(x) @ keys.mT / math.sqrt(x.size(2))).softmax(-1) @ values


class Covered(nn.Module):
    """Coverage goes through a layer, as wide as there are keys."""

    def __init__(self, width, length=9):
        super().__init__()
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, width)
        self.cover, self.v = nn.Linear(length, width), nn.Linear(width, 1)

    def forward(self, state, encoder_outputs, coverage, mask=None):
        sums = self.key(encoder_outputs) + (self.query(state) + self.cover(coverage))[:, None]
        scores = self.v(sums.tanh()).squeeze(2)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(1)
        return (weights[:, :, None] * encoder_outputs).sum(1), weights


class ByLength(nn.Module):
    """The batch is sorted by length, and put back; neighbours are joined last."""

    def __init__(self, feat_dim, heads=2):
        super().__init__()
        self.attend = nn.MultiheadAttention(feat_dim, heads, batch_first=True)
        self.conv = nn.Conv1d(feat_dim, feat_dim, 3, padding=1)

    def forward(self, feats, feat_lengths):
        lengths, order = feat_lengths.sort(descending=True)
        closed = torch.arange(feats.size(1)) >= lengths[:, None]
        x = feats[order]
        output = self.attend(x, x, x, key_padding_mask=closed)[0].masked_fill(closed[..., None], 0)
        return self.conv(output.mT).mT[order.argsort()]
