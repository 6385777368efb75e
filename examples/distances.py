"""By which distance `shift_by_key` moves on from which key, read from the trained p of a run, with a picture of one string.

python examples/distances.py by-key-flip-... by-key-recopy-... --length 12 --plot distances.png
"""

from collections import defaultdict

import matplotlib.pyplot as plt
import numpy as np
import torch
import typer

import seq2attn
from seq2attn.data.batches import generator


def moves(model, text):
    """For each step but the first: p (2 reach + 1,) of the key that is left, its symbol, how often it has been read, and the
    distance of the move before (None: it was the first step).
    """
    history, kept = model.module.decoder.attention.history, []
    compute = history.distribution

    def distribution(step, lengths):
        kept.append(compute(step, lengths))  # (B, 2 reach + 1, S)
        return kept[-1]

    history.distribution = distribution
    weights = model.run_with_cache(text)[1]["attention.weights"]  # (T, S)
    del history.distribution
    keys, before = weights.argmax(axis=1), None
    for t in range(1, len(keys)):
        left = keys[t - 1]
        yield kept[t][0, :, left].detach().numpy(), text[left], round(float(weights[:t, left].sum())), before
        before = (keys[t] - left + history.reach) % weights.shape[1] - history.reach


def main(names: list[str], folder: str = "runs", length: int = 12, strings: int = 50, plot: str = ""):
    """Print for each run how often each move was made, by what it depends on, and the mean of its p."""
    figure, panels = plt.subplots(len(names), figsize=(7, 1.5 * len(names)), layout="constrained", squeeze=False)
    for name, (panel,) in zip(names, panels, strict=True):
        model = seq2attn.load(name, runs_dir=folder, checkpoint="last")
        reach = model.module.decoder.attention.history.reach
        found = defaultdict(list)
        drawn = model.task.family("random", generator(torch.device("cpu"), 0), strings, length).source
        examples = [model.task.source_vocabulary.decode(row) for row in drawn.tolist()]
        for text in examples:
            for p, symbol, read, before in moves(model, text):
                found[(symbol if symbol.isdigit() else "any", read, before)].append(p)
        print(name, "symbol", "read", "move before", "move", "steps", "p", sep="\t")
        for key, rows in sorted(found.items(), key=str):
            mean = np.mean(rows, axis=0)
            print("", *key, f"{mean.argmax() - reach:+d}", len(rows), f"{mean.max():.3f}", sep="\t")
        steps = list(moves(model, examples[0]))
        panel.imshow(np.stack([p for p, *_ in steps], axis=1), cmap="Greys", vmin=0, vmax=1, aspect="auto")
        panel.set_xticks(range(len(steps)), [symbol for _, symbol, *_ in steps])
        panel.set_yticks(range(2 * reach + 1), [f"{d:+d}" for d in range(-reach, reach + 1)])
        task = name.removeprefix("by-key-").split("-min_")[0] + ", reversed" * ("reverse_true" in name)
        panel.set_title(f"{task}: {examples[0]}", loc="left", fontsize=9)
    figure.supylabel("distance")
    figure.supxlabel("symbol at the key that attention leaves, step by step")
    if plot:
        figure.savefig(plot, dpi=120)


if __name__ == "__main__":
    typer.run(main)
