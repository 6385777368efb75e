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
PARTS = {"gru": 1, "lstm": 2, "rnn": 1}  # vectors in a cell's state


def cell_step(kind, weights, x, state):
    """weights W, U, b, d, the gates' rows one after another."""
    read = weights["W"] @ x + weights["b"]
    recalled = weights["U"] @ state[0] + weights["d"]
    h = state[0]
    if kind == "rnn":
        return [torch.tanh(read + recalled)]
    if kind == "gru":
        (a, b, c) = read.chunk(3)
        (d, e, f) = recalled.chunk(3)
        r = torch.sigmoid(a + d)
        z = torch.sigmoid(b + e)
        n = torch.tanh(c + r * f)
        return [(1 - z) * n + z * h]
    i, f, g, o = (read + recalled).chunk(4)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return [torch.sigmoid(o) * torch.tanh(c), c]


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
    largest = max(scores, default=0.0)
    if name == "softmax":
        powers = [math.exp(score - largest) for score in scores]
        return [power / sum(powers) for power in powers]
    alpha = {"sparsemax": 2.0, "entmax15": 1.5}[name]
    low = (alpha - 1) * largest - 1
    high = (alpha - 1) * largest
    for _ in range(
        100
    ):  # entmax's definition: the threshold at which the weights sum to 1, by bisection
        threshold = (low + high) / 2
        weights = [
            max(0.0, (alpha - 1) * score - threshold) ** (1 / (alpha - 1)) for score in scores
        ]
        low, high = (threshold, high) if sum(weights) > 1 else (low, threshold)
    return weights


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
                weights = self._cell(f"{prefix}.{direction}cell")
                state = [torch.zeros(width, dtype=torch.float64) for _ in range(self.parts)]
                read = []
                for position, x in enumerate(reversed(inputs) if direction else inputs):
                    state = reset(state, resets, direction, position, layer * width * self.parts)
                    state = cell_step(self.cell, weights, x, state)
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
        h = final[-self.parts]
        mapped = torch.tanh(
            self.tensors["initial_state.map.weight"] @ h + self.tensors["initial_state.map.bias"]
        )
        return list(mapped.chunk(len(final)))

    def _cell(self, prefix):
        names = {"W": "weight_ih", "U": "weight_hh", "b": "bias_ih", "d": "bias_hh"}
        return {letter: self.tensors[f"{prefix}.{name}"] for letter, name in names.items()}

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
            after = Step(
                state,
                step.position + 1,
                [*past, weights],
                fed,
                [*step.queries, state[top]],
                written,
            )
            return logits, priors, after
        if kind == "bahdanau":
            context, weights = self._attend(step.state[top], step, source)
            state = self._advance(torch.cat([x, context]), step.state)
            features = torch.cat([state[top], context])
        else:
            inputs = torch.cat([x, fed]) if self.model.decoder.input_feeding else x
            state = self._advance(inputs, step.state)
            context, weights = self._attend(state[top], step, source)
            fed = features = torch.tanh(
                self.tensors["decoder.combine.weight"] @ torch.cat([context, state[top]])
            )
        logits = (
            self.tensors["decoder.output.weight"] @ features + self.tensors["decoder.output.bias"]
        )
        if kind == "pointer":
            own = self._own("decoder.generate.")
            share = torch.sigmoid(
                own["weight"][0] @ torch.cat([context, state[top], x]) + own["bias"][0]
            )
            copied = [
                weight / max(1.0, sum(weights)) for weight in weights
            ]  # `sigmoid`'s may sum to more
            chances = (share + (1 - share) * (1 - sum(copied))) * torch.softmax(logits, 0)
            for token_read, weight in zip(source.ids, copied, strict=True):
                chances[token_read] += (1 - share) * weight
            logits = chances.log()
        if weights is not None:
            past = [*past, weights]
        query = step.state[top] if kind == "bahdanau" else state[top]
        return logits, weights, Step(state, step.position + 1, past, fed, [*step.queries, query])

    def _emission(self, s, h):
        own = self._own("decoder.")
        mixed = (
            own["combine_state.weight"] @ s
            + own["combine_state.bias"]
            + own["combine_value.weight"] @ h
        )
        return torch.softmax(own["output.weight"] @ torch.tanh(mixed) + own["output.bias"], 0)

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
            own = cell_step(self.cell, self._cell(prefix), x, before)
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
        shares = iter(
            normalised(
                self.attention.normaliser.name,
                list(itertools.compress(scores, allowed)),
            )
        )
        weights = [
            next(shares) * factor if inside else 0.0
            for inside, factor in zip(allowed, factors, strict=True)
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
        own = self._own("decoder.attention.score.")
        if name == "additive":
            inner = own["query_map.weight"] @ s + own["key_map.weight"] @ h
            return float(
                own["v.weight"][0] @ torch.tanh(inner if features is None else inner + features)
            )
        if name in ("dot", "scaled"):
            score = s @ h / (math.sqrt(len(s)) if name == "scaled" else 1)
        elif name in ("general", "scaled_general"):
            score = (
                s @ (own["map.weight"] @ h) / (math.sqrt(len(s)) if name == "scaled_general" else 1)
            )
        elif name == "cosine":
            strength = own["log_strength"].exp() if "log_strength" in own else 1
            score = s @ h / (max(s.norm(), 1e-12) * max(h.norm(), 1e-12)) * strength
        else:
            assert name == "key_value"
            query = own["query_map.weight"] @ s
            key = own["key_map.weight"] @ h
            score = query @ key / math.sqrt(len(key))
        return float(score if features is None else score + features[0])

    def _value(self, key):
        own = self._own("decoder.attention.score.")
        return own["value_map.weight"] @ key if "value_map.weight" in own else key

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
        own = self._own("decoder.attention.window.")
        centre = (size - 1) * float(
            torch.sigmoid(own["v.weight"] @ torch.tanh(own["map.weight"] @ query))
        )
        inside = [abs(j - centre) <= radius for j in range(size)]
        return inside, [
            math.exp(-((j - centre) ** 2) / (2 * (radius / 2) ** 2)) for j in range(size)
        ]

    def _features(self, past, size):
        """What the history gives each key's score."""
        name = self.history
        own = self._own("decoder.attention.history.")
        if name in ("none", "shift", "shift_by_key", "monotonic"):
            return [None] * size
        last = past[-1] if past else [0.0] * size
        total = [sum(column) for column in zip(*past, strict=True)] if past else [0.0] * size
        if name == "coverage":
            return [own["map.weight"][:, 0] * one for one in total]
        channels = {"location": [last], "location_coverage": [last, total]}[name]
        kernel = own["convolution.weight"]  # (filters, channels, width)
        reach = kernel.size(2) // 2
        found = []
        for j in range(size):
            located = torch.zeros(kernel.size(0), dtype=torch.float64)
            for channel, numbers in enumerate(channels):
                for i in range(-reach, reach + 1):
                    if 0 <= j + i < size:
                        located = located + kernel[:, channel, i + reach] * numbers[j + i]
            found.append(own["map.weight"] @ located)
        return found

    def _own_scores(self, query, step, size):
        """The scores of a history that makes them itself."""
        name = self.history
        own = self._own("decoder.attention.history.")
        if name == "gaussian":
            read = [own["map.weight"] @ one + own["map.bias"] for one in [*step.queries, query]]
            share, precision, _ = read[-1].exp().chunk(3)
            means = sum(one.exp().chunk(3)[2] for one in read)
            return [
                math.log(sum(share * torch.exp(-precision * (means - j) ** 2)))
                for j in range(1, size + 1)
            ]
        if name != "dynamic_convolution":
            return None
        last = step.past[-1] if step.past else [1.0] + [0.0] * (size - 1)
        hidden = torch.tanh(own["hidden.weight"] @ query + own["hidden.bias"])
        kernel = own["static.weight"].size(1)
        count = own["static.weight"].size(0)
        filters = torch.cat(
            [own["static.weight"], (own["dynamic.weight"] @ hidden).view(kernel, count).T]
        )
        scores = []
        for j in range(size):
            places = [(i, j + i - kernel // 2) for i in range(kernel)]
            located = sum(filters[:, i] * last[k] for i, k in places if 0 <= k < size)
            energy = own["v.weight"][0] @ torch.tanh(own["map.weight"] @ located + own["map.bias"])
            ahead = sum(PRIOR[d] * last[j - d] for d in range(min(j, 10) + 1))
            scores.append(float(energy) + math.log(max(ahead, 1e-6)))
        return scores

    def _expected(self, scores, past, allowed):
        """The probability that each key is the one at which a step stops, from where the last step
        stopped.
        """
        bias = float(self.tensors["decoder.attention.history.bias"])
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
        own = self._own("decoder.attention.history.")
        size = len(weights)
        moved = [0.0] * size
        for j in range(size if past else 0):  # the key that the weight leaves
            logits = self._distances(own, j, past, keys)
            powers = [math.exp(logit) for logit in logits]
            radius = len(logits) // 2
            for d in range(-radius, radius + 1):
                if allowed[(j + d) % size]:
                    moved[(j + d) % size] += powers[d + radius] / sum(powers) * past[-1][j]
        gamma = 1 + math.log(1 + math.exp(float(own["power"])))
        settled = self.attention.history.evaluation_power
        sharp = (
            [one ** (settled * gamma) for one in moved]
            if sum(moved) > 0.5
            else [one**gamma for one in weights]
        )
        return [one / sum(sharp) for one in sharp] if sum(sharp) else sharp

    def _distances(self, own, j, past, keys):
        """The logits of the distances by which the weight leaves key j."""
        logits = own["logits"].tolist()
        size = len(keys)
        if self.history == "shift":
            return [8 * logit for logit in logits]
        total = [sum(column) for column in zip(*past, strict=True)]
        channels = [past[-1], total, past[-2] if len(past) > 1 else [0.0] * size]
        kernel = own["by_past"]  # (distances, channels, width)
        for d in range(len(logits)):
            logits[d] += float(own["by_key"][d] @ keys[j])
            for channel, numbers in enumerate(channels):
                for i in range(kernel.size(2)):
                    logits[d] += (
                        float(kernel[d, channel, i]) * numbers[(j + i - kernel.size(2) // 2) % size]
                    )
        return [4 * logit for logit in logits]

    def _own(self, prefix):
        return {
            name.removeprefix(prefix): one
            for name, one in self.tensors.items()
            if name.startswith(prefix)
        }

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
