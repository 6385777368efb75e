"""A trained model again, from its config and its checkpoint's tensors alone: one string, one
position, one key at a time.

It uses nothing of `seq2attn.model` or `seq2attn.inference`. A state is a list of vectors (D,),
bottom layer first.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

PAD = 0
NONE = {}
"""no resets; otherwise of "" (the encoder forwards), "backward_" and "decoder": which states are
kept (L,), and the noise (L, W) of the others"""
PRIOR = [
    math.comb(10, d)
    * math.prod(0.1 + i for i in range(d))
    * math.prod(0.9 + i for i in range(10 - d))
    / math.factorial(10)
    for d in range(11)
]
"""beta-binomial: 10 draws, a = .1, b = .9, by rising factorials"""
HISTORY = "decoder.attention.history."
PARTS = {"gru": 1, "lstm": 2, "rnn": 1}  # vectors in a cell's state


def gates(kind, tensors, prefix, x, h):
    """The gates of a cell, whose rows follow each other in its weights: of a GRU r, z and n, of an
    LSTM i, f, g and o.
    """
    read = tensors[f"{prefix}.weight_ih"] @ x + tensors[f"{prefix}.bias_ih"]
    recalled = tensors[f"{prefix}.weight_hh"] @ h + tensors[f"{prefix}.bias_hh"]
    if kind == "gru":
        (a, b, c), (d, e, f) = read.chunk(3), recalled.chunk(3)
        r = torch.sigmoid(a + d)
        return r, torch.sigmoid(b + e), torch.tanh(c + r * f)
    if kind == "lstm":
        i, f, g, o = (read + recalled).chunk(4)
        return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    return (torch.tanh(read + recalled),)


def cell_step(kind, tensors, prefix, x, state):
    found = gates(kind, tensors, prefix, x, state[0])
    if kind == "gru":
        _, z, n = found
        return [(1 - z) * n + z * state[0]]
    if kind == "lstm":
        i, f, g, o = found
        c = f * state[1] + i * g
        return [o * torch.tanh(c), c]
    return [*found]


def reset(state, resets, which, position, start=0):
    """The state before `position`: as it is, or the noise from number `start` on."""
    if which not in resets or resets[which][0][position]:
        return state
    noise = resets[which][1][position].double()
    width = len(state[0])
    return [noise[start + number * width :][:width] for number in range(len(state))]


def normalised(name, scores):
    """The weights of keys that may all be attended to."""
    if name == "sigmoid":
        return [1 / (1 + math.exp(-(score - math.log(len(scores))))) for score in scores]
    if name == "softmax":
        return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()
    largest = max(scores, default=0.0)
    alpha = {"sparsemax": 2.0, "entmax15": 1.5}[name]
    low = (alpha - 1) * largest - 1
    high = (alpha - 1) * largest
    # entmax's definition: the threshold at which the weights sum to 1, by bisection
    for _ in range(100):
        threshold = (low + high) / 2
        weights = [
            max(0.0, (alpha - 1) * score - threshold) ** (1 / (alpha - 1)) for score in scores
        ]
        low, high = (threshold, high) if sum(weights) > 1 else (low, threshold)
    return weights


def near(numbers, j, reach, ring=False):
    """The numbers at j - reach, ..., j + reach; outside 0, or on a ring those at the other end."""
    size = len(numbers)
    places = range(j - reach, j + reach + 1)
    found = [numbers[k % size] if ring or 0 <= k < size else 0.0 for k in places]
    return torch.tensor(found, dtype=torch.float64)


def filtered(kernel, channels, j, ring=False):
    """What filters (F, channels, width) find around j: (F,)."""
    reach = kernel.size(2) // 2
    return sum(kernel[:, c] @ near(numbers, j, reach, ring) for c, numbers in enumerate(channels))


class Source(NamedTuple):
    """An encoded string."""

    keys: list[Tensor]
    first: list[Tensor]
    """the decoder's first state"""
    ids: list[int]


class Step(NamedTuple):
    """The decoder between two positions."""

    state: list[Tensor]
    position: int
    past: list[list[float]]
    """the weights of all steps so far"""
    fed: Tensor
    queries: list[Tensor]
    """those of all steps so far"""
    written: tuple[tuple[int, list[float], list[Tensor]], ...] = ()
    """of `hard_monotonic`, of each step: the token before it, attention's weights, the
    probabilities (V,) at each key"""


class Textbook:
    """The model of `config` with these tensors, named as in checkpoints."""

    def __init__(self, config, tensors):
        self.model = config.model
        self.tensors = {name: tensor.double() for name, tensor in tensors.items()}
        self.attention = self.model.attention
        self.history = self.attention.history.name
        self.cell = self.model.cell.name
        self.parts = PARTS[self.cell]

    # ---- encoder ----

    def encode(self, source, resets=NONE):
        width = self.model.hidden
        inputs = [self.tensors["encoder.embedding.weight"][token] for token in source]
        final = []
        for layer in range(self.model.layers):
            prefix = f"encoder.layers.{layer}"
            outputs = []
            for direction in ("", "backward_") if self.model.bidirectional else ("",):
                state = [torch.zeros(width, dtype=torch.float64) for _ in range(self.parts)]
                read = []
                for position, x in enumerate(reversed(inputs) if direction else inputs):
                    state = reset(state, resets, direction, position, layer * width * self.parts)
                    cell = f"{prefix}.{direction}cell"
                    state = cell_step(self.cell, self.tensors, cell, x, state)
                    read.append(state[0])
                outputs.append(read[::-1] if direction else read)
            final += state
            inputs = [torch.cat(halves) for halves in zip(*outputs, strict=True)]
        return Source(inputs, self._first_state(final), source)

    def _first_state(self, final):
        kind = self.model.initial_state.name
        if kind == "last":
            return final
        if kind == "zeros":
            return [torch.zeros_like(one) for one in final]
        mapped = torch.tanh(self._layer("initial_state.map", final[-self.parts]))
        return list(mapped.chunk(len(final)))

    def _layer(self, name, x):
        """W x + b of this layer, or W x where it has no bias."""
        return self.tensors[f"{name}.weight"] @ x + self.tensors.get(f"{name}.bias", 0)

    # ---- decoder ----

    def begin(self, source):
        return Step(source.first, 0, [], torch.zeros(self.model.hidden, dtype=torch.float64), [])

    def step(self, token, step, source):
        """Logits (V,), the attention weights, and what follows."""
        x = self.tensors["decoder.embedding.weight"][token]
        top = -self.parts
        weights = None
        past = step.past
        fed = step.fed
        kind = self.model.decoder.name
        if kind == "hard_monotonic":
            state = self._advance(x, step.state)
            _, weights = self._attend(state[top], step, source)
            emitted = [self._emission(state[top], self._value(key)) for key in source.keys]
            written = (*step.written, (token, weights, emitted))
            logits, priors = self._over_all_alignments(written)
            past, queries = [*past, weights], [*step.queries, state[top]]
            return logits, priors, Step(state, step.position + 1, past, fed, queries, written)
        if kind == "bahdanau":
            context, weights = self._attend(step.state[top], step, source)
            state = self._advance(torch.cat([x, context]), step.state)
            features = torch.cat([state[top], context])
        else:
            inputs = torch.cat([x, fed]) if self.model.decoder.input_feeding else x
            state = self._advance(inputs, step.state)
            context, weights = self._attend(state[top], step, source)
            both = torch.cat([context, state[top]])
            fed = features = torch.tanh(self._layer("decoder.combine", both))
        logits = self._layer("decoder.output", features)
        if kind == "pointer":
            (share,) = self._layer(
                "decoder.generate", torch.cat([context, state[top], x])
            ).sigmoid()
            most = max(1.0, sum(weights))  # `sigmoid`'s may sum to more
            copied = [weight / most for weight in weights]
            chances = (share + (1 - share) * (1 - sum(copied))) * torch.softmax(logits, 0)
            for token_read, weight in zip(source.ids, copied, strict=True):
                chances[token_read] += (1 - share) * weight
            logits = chances.log()
        if weights is not None:
            past = [*past, weights]
        query = step.state[top] if kind == "bahdanau" else state[top]
        return logits, weights, Step(state, step.position + 1, past, fed, [*step.queries, query])

    def _emission(self, s, h):
        mixed = self._layer("decoder.combine_state", s) + self._layer("decoder.combine_value", h)
        return torch.softmax(self._layer("decoder.output", torch.tanh(mixed)), 0)

    def _over_all_alignments(self, written):
        """log P(y_t | y_<t), and P(a_t | y_<t), from the joint probability of each alignment a_1,
        ..., a_t and y_<t.
        """
        order = self.model.decoder.order
        totals = [0.0] * len(written[0][1])
        places = range(len(totals))
        steps = len(written)
        monotone = itertools.combinations_with_replacement(places, steps)
        for alignment in monotone if order else itertools.product(places, repeat=steps):
            probability = 1.0
            for t, place in enumerate(alignment):
                token, weights, _ = written[t]
                if t and token != PAD:
                    probability *= float(written[t - 1][2][alignment[t - 1]][token])
                weights = [max(weight, 2.0**-1022) for weight in weights]
                probability *= weights[place] / sum(
                    weights[alignment[t - 1] if order and t else 0 :]
                )
            totals[alignment[-1]] += probability
        priors = [total / sum(totals) for total in totals]
        return sum(
            prior * one for prior, one in zip(priors, written[-1][2], strict=True)
        ).log(), priors

    def _advance(self, x, state):
        after = []
        for layer in range(self.model.layers):
            prefix = "decoder.cell" if self.model.layers == 1 else f"decoder.cell.cells.{layer}"
            before = state[layer * self.parts :][: self.parts]
            own = cell_step(self.cell, self.tensors, prefix, x, before)
            after += own
            x = own[0]
        return after

    def _attend(self, query, step, source):
        if self.attention.score.name == "none":
            return query[:0], None
        scores = self._own_scores(query, step, len(source.keys))
        if scores is None:
            features = self._features(step.past, len(source.keys))
            scores = [self._score(query, key, features[j]) for j, key in enumerate(source.keys)]
        allowed, factors = self._window(query, step.position, len(source.keys))
        count = sum(allowed)
        if self.attention.scalable_softmax:
            scores = [score * math.log(max(1, count)) for score in scores]
        inside = list(itertools.compress(scores, allowed))
        shares = iter(normalised(self.attention.normaliser.name, inside))
        weights = [
            next(shares) * factor if one else 0.0
            for one, factor in zip(allowed, factors, strict=True)
        ]
        moving = self.history in ("shift", "shift_by_key")
        if moving:
            weights = self._shifted(weights, step.past, allowed, source.keys)
        if self.history == "monotonic":
            weights = self._expected(scores, step.past, allowed)
        values = [self._value(key) for key in source.keys]
        context = sum(weight * value for weight, value in zip(weights, values, strict=True))
        if moving and self.attention.history.rereading:
            by_key = self.history == "shift_by_key"
            again = 0.0
            for weight, *before in zip(weights, *step.past, strict=True) if step.past else []:
                again += weight * sum(before) * (8 * (1 - before[-1]) if by_key else 1)
            context = torch.cat([context, torch.tensor([again], dtype=torch.float64)])
        return context, weights

    def _score(self, s, h, features):
        name = self.attention.score.name
        prefix = "decoder.attention.score."
        if name in ("additive", "key_value"):
            query, key = self._layer(f"{prefix}query_map", s), self._layer(f"{prefix}key_map", h)
        if name == "additive":
            inner = query + key if features is None else query + key + features
            return float(self._layer(f"{prefix}v", torch.tanh(inner)))
        if name == "key_value":
            score = query @ key / math.sqrt(len(key))
        elif name == "cosine":
            strength = self.tensors[f"{prefix}log_strength"].exp()
            score = s @ h / (max(s.norm(), 1e-12) * max(h.norm(), 1e-12)) * strength
        else:
            mapped = self._layer(f"{prefix}map", h) if "general" in name else h
            score = s @ mapped / (math.sqrt(len(s)) if "scaled" in name else 1)
        return float(score if features is None else score + features[0])

    def _value(self, key):
        name = "decoder.attention.score.value_map"
        return self._layer(name, key) if f"{name}.weight" in self.tensors else key

    def _window(self, query, position, size):
        """Which keys are inside, and the factor of each weight."""
        window = self.attention.window
        if window.name == "global":
            return [True] * size, [1.0] * size
        radius = window.radius
        if window.name == "local_m":
            last = size - self.model.source_eos - 1
            centre = last - position if window.centre == "reversed" else position
            return [abs(j - centre) <= radius for j in range(size)], [1.0] * size
        prefix = "decoder.attention.window."
        mapped = torch.tanh(self._layer(f"{prefix}map", query))
        centre = (size - 1) * float(self._layer(f"{prefix}v", mapped).sigmoid())
        apart = [abs(j - centre) for j in range(size)]
        factors = [math.exp(-(one**2) / (2 * (radius / 2) ** 2)) for one in apart]
        return [one <= radius for one in apart], factors

    def _features(self, past, size):
        """What the history gives each key's score."""
        name = self.history
        if name in ("none", "shift", "shift_by_key", "monotonic"):
            return [None] * size
        last = past[-1] if past else [0.0] * size
        total = [sum(column) for column in zip(*past, strict=True)] if past else [0.0] * size
        if name == "coverage":
            located = [near(total, j, 0) for j in range(size)]
        else:
            channels = {"location": [last], "location_coverage": [last, total]}[name]
            kernel = self.tensors[f"{HISTORY}convolution.weight"]  # (filters, channels, width)
            located = [filtered(kernel, channels, j) for j in range(size)]
        return [self._layer(f"{HISTORY}map", one) for one in located]

    def _own_scores(self, query, step, size):
        """The scores of a history that makes them itself."""
        name = self.history
        if name == "gaussian":
            read = [self._layer(f"{HISTORY}map", one) for one in [*step.queries, query]]
            share, precision, _ = read[-1].exp().chunk(3)
            means = sum(one.exp().chunk(3)[2] for one in read)
            return [
                math.log(sum(share * torch.exp(-precision * (means - j) ** 2)))
                for j in range(1, size + 1)
            ]
        if name != "dynamic_convolution":
            return None
        last = step.past[-1] if step.past else [1.0] + [0.0] * (size - 1)
        hidden = torch.tanh(self._layer(f"{HISTORY}hidden", query))
        static = self.tensors[f"{HISTORY}static.weight"]  # (filters, width)
        dynamic = self._layer(f"{HISTORY}dynamic", hidden).view(*static.shape[::-1])
        filters = torch.cat([static, dynamic.T])
        scores = []
        for j in range(size):
            located = filtered(filters.unsqueeze(1), [last], j)
            energy = self._layer(f"{HISTORY}v", torch.tanh(self._layer(f"{HISTORY}map", located)))
            ahead = sum(PRIOR[d] * last[j - d] for d in range(min(j, 10) + 1))
            scores.append(float(energy) + math.log(max(ahead, 1e-6)))
        return scores

    def _expected(self, scores, past, allowed):
        """The probability that each key is the one at which a step stops, from where the last step
        stopped.
        """
        bias = float(self.tensors[f"{HISTORY}bias"])
        size = len(scores)
        last = past[-1] if past else [1.0] + [0.0] * (size - 1)
        stop = [
            inside / (1 + math.exp(-score - bias))
            for score, inside in zip(scores, allowed, strict=True)
        ]
        passed = lambda k, j: math.prod(1 - stop[i] for i in range(k, j))  # noqa: E731
        return [sum(last[k] * passed(k, j) * stop[j] for k in range(j + 1)) for j in range(size)]

    def _shifted(self, weights, past, allowed, keys):
        """The previous weights, moved around the source, or at first those of the softmax;
        sharpened.
        """
        size = len(weights)
        moved = [0.0] * size
        for j in range(size if past else 0):  # the key that the weight leaves
            shares = self._distances(j, past, keys).softmax(0).tolist()
            for d, share in enumerate(shares, start=-(len(shares) // 2)):
                if allowed[(j + d) % size]:
                    moved[(j + d) % size] += share * past[-1][j]
        gamma = 1 + math.log(1 + math.exp(float(self.tensors[f"{HISTORY}power"])))
        if sum(moved) > 0.5:
            gamma *= self.attention.history.evaluation_power
            weights = moved
        sharp = [one**gamma for one in weights]
        return [one / sum(sharp) for one in sharp] if sum(sharp) else sharp

    def _distances(self, j, past, keys):
        """The logits of the distances by which the weight leaves key j."""
        logits = self.tensors[f"{HISTORY}logits"]
        if self.history == "shift":
            return 8 * logits
        total = [sum(column) for column in zip(*past, strict=True)]
        channels = [past[-1], total, past[-2] if len(past) > 1 else [0.0] * len(keys)]
        by_past = filtered(self.tensors[f"{HISTORY}by_past"], channels, j, ring=True)
        return 4 * (logits + self.tensors[f"{HISTORY}by_key"] @ keys[j] + by_past)

    # ---- whole strings ----

    def teacher_forced(self, source, inputs, resets=NONE):
        """Logits and weights at each position, for these decoder inputs, `<sos>` included."""
        encoded = self.encode(source, resets)
        step = self.begin(encoded)
        logits = []
        weights = []
        for position, token in enumerate(inputs):
            step = step._replace(state=reset(step.state, resets, "decoder", position))
            one, attended, step = self.step(token, step, encoded)
            logits.append(one)
            weights.append(attended)
        return logits, weights
