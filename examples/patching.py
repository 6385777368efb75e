"""What one letter of the source changes, over many pairs: which encoder state each output reads.

python examples/patching.py RUN    (a run on `reverse`, such as that of configs/scaled.yaml)
"""

import random
import string
import sys

import matplotlib.pyplot as plt
import numpy as np

import seq2attn

LENGTH, PAIRS = 5, 200

model = seq2attn.load(sys.argv[1])
draw = random.Random(0)
words = ["".join(draw.choices(string.ascii_lowercase, k=LENGTH)) for _ in range(PAIRS)]
others = ["".join(draw.choices(string.ascii_lowercase, k=LENGTH)) for _ in range(PAIRS)]
maps = seq2attn.patch_map(model, words, others, "encoder.states")
whole = [found.effect[:LENGTH, :LENGTH] for found in maps if len(found.answer.output) == LENGTH]
effect = np.mean(whole, axis=0)  # (position, step)

figure, axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
image = axes.imshow(effect.T, cmap="viridis")
axes.set(xlabel="patched source position", ylabel="output step", xticks=range(LENGTH))
axes.set_title(f"fall of ln p, nats, mean of {len(whole)} pairs", fontsize=10)
figure.colorbar(image)
figure.savefig("patching.png", dpi=100)
print(effect.T.round(1))
