"""Attention by hand: one step of the lesson, four scores of one pair, and queries, keys and values.

python examples/by_hand.py

Prints them, and compares each with what was computed on paper or in NumPy.
"""

import numpy as np
import torch

from seq2attn.model.attention import Attention
from seq2attn.model.scores import Additive, Dot, General, KeyValue, Scaled

# ---- one step of docs/lesson.md ----

keys = torch.tensor([[[2.0, 0, 0, 0], [0, 2, 0, 0], [1, 1, 2, 0]]])  # (B, S, D) = (1, 3, 4)
query = torch.tensor([[[2.0, 1, 0, 0]]])  # (B, L, D) = (1, 1, 4)
attention = Attention(Scaled(4, 4))
attended = attention(query, attention.prepare(keys, torch.ones(1, 3, dtype=torch.bool)))
weights = [round(weight, 3) for weight in attended.weights.flatten().tolist()]
context = [round(number, 3) for number in attended.context.flatten().tolist()]
print(weights, context)
assert (weights, context) == ([0.506, 0.186, 0.307], [1.32, 0.68, 0.614, 0.0])

# ---- four scores of one pair ----

s = torch.tensor([[[1.0, 0.0, 2.0, -1.0]]])  # (B, L, D) = (1, 1, 4)
h = torch.tensor([[[2.0, 1.0, 0.0, 1.0]]])  # (B, S, D) = (1, 1, 4)

general = General(4, 4)  # width of queries, width of keys
shift = torch.eye(4).roll(1, dims=0)  # row i has its 1 in column i - 1: W h = (1, 2, 1, 0)
general.map.weight.data = shift
additive = Additive(4, 4)
additive.query_map.weight.data = additive.key_map.weight.data = torch.eye(4)
additive.v.weight.data = torch.ones(1, 4)  # tanh(3) + tanh(1) + tanh(2) + tanh(0)

scores = {"dot": Dot(4, 4), "scaled": Scaled(4, 4), "general": general, "additive": additive}
found = {name: round(score(s, score.project(h)).item(), 4) for name, score in scores.items()}
print(found)
assert found == {"dot": 1.0, "scaled": 0.5, "general": 3.0, "additive": 2.7207}

# ---- queries, keys and values: four words attend to one another ----

words = ["the", "cat", "sat", "down"]
x = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
w_q = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
w_k = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
w_v = np.array([[0.0, 2.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 3.0]])

by_hand = []
for word in x:
    e = np.array([(w_q @ word) @ (w_k @ other) / np.sqrt(3) for other in x])
    alpha = np.exp(e) / np.exp(e).sum()
    by_hand.append(sum(a * (w_v @ other) for a, other in zip(alpha, x, strict=True)))

score = KeyValue(3, 3).double()
score.query_map.weight.data = torch.from_numpy(w_q)
score.key_map.weight.data = torch.from_numpy(w_k)
score.value_map.weight.data = torch.from_numpy(w_v)
attention = Attention(score)
states = torch.from_numpy(x).unsqueeze(0)  # (1, 4, 3)
attended = attention(states, attention.prepare(states, torch.ones(1, 4, dtype=torch.bool)))
assert np.allclose(attended.context[0].detach().numpy(), np.array(by_hand))
for word, weights in zip(words, attended.weights[0].detach().numpy(), strict=True):
    print(f"{word:>5}", weights.round(3))  # a row per word: where it looks
