"""Decode with a run of configs/scaled.yaml without seq2attn: NumPy and safetensors are enough.

python examples/read_checkpoint.py

Ids 0, 1 and 2 are <pad>, <sos> and <eos>; with pairs, 3 is <unk>; then come the symbols in the
order of the alphabet (`model.task.source_vocabulary.tokens`). Tensors are called as in
`model.module.state_dict()`, after `model.`.
"""

import numpy as np
from safetensors.numpy import load_file

tensors = load_file("runs/scaled-001/checkpoints/best.safetensors")
W = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}


def gru(cell, x, h):
    """Compute the next state (D,) of a GRU from an input and a state."""
    xs = np.split(W[f"{cell}.weight_ih"] @ x + W[f"{cell}.bias_ih"], 3)
    hs = np.split(W[f"{cell}.weight_hh"] @ h + W[f"{cell}.bias_hh"], 3)
    r, z = [1 / (1 + np.exp(-xs[gate] - hs[gate])) for gate in (0, 1)]
    return (1 - z) * np.tanh(xs[2] + r * hs[2]) + z * h


h, states, text, symbol = np.zeros(96), [], "", 1
for letter in "hello":
    h = gru("encoder.layers.0.cell", W["encoder.embedding.weight"][ord(letter) - 97 + 3], h)
    states.append(h)
keys = np.stack(states)  # (S, D)
while symbol != 2 and len(text) < 12:
    scores = np.exp(keys @ h / 96**0.5)
    context = scores / scores.sum() @ keys
    h = gru("decoder.cell", np.concatenate([W["decoder.embedding.weight"][symbol], context]), h)
    logits = W["decoder.output.weight"] @ np.concatenate([h, context]) + W["decoder.output.bias"]
    symbol = 2 + logits[2:].argmax()
    text += "" if symbol == 2 else chr(symbol - 3 + 97)
print(text)  # olleh
