"""By which distance `shift_by_key` moves on from which key, read from the trained p of a run, with
a picture of one string.

python examples/distances.py by-key-flip-... by-key-recopy-... --length 12 --plot distances.png
"""

from collections import defaultdict

import matplotlib.pyplot as plt
import numpy as np
import torch
import typer

import seq2attn
from seq2attn.data.batches import generator
from seq2attn.model.histories import ShiftByKey


def signed(distance):
    """-1, 0, +1"""
    return f"{distance:+d}" if distance else "0"


def moves(model, text):
    """For each step but the first: p (2 reach + 1,) of the key that is left, its symbol, how often
    it has been read, and the likeliest distance of the move before (none: attention had just
    begun).
    """
    history, kept = model.module.decoder.attention.history, []
    compute = history.distribution

    def distribution(step, lengths):
        kept.append(compute(step, lengths))  # (B, 2 reach + 1, S)
        return kept[-1]

    history.distribution = distribution
    weights = model.run_with_cache(text)[1]["attention.weights"]  # (T, S)
    del history.distribution
    keys, before = weights.argmax(axis=1), "none"
    for t in range(1, len(keys)):
        left = keys[t - 1]
        p = kept[t][0, :, left].detach().numpy()
        yield p, text[left], round(float(weights[:t, left].sum())), before
        before = signed(p.argmax() - history.reach)


def load(name, folder):
    """The model of this run. Ends with a message if there is none, or if it has no distances."""
    try:
        model = seq2attn.load(name, runs_dir=folder, checkpoint="last", device="cpu")
    except seq2attn.Seq2AttnError as error:
        raise SystemExit(f"error: {error}") from None
    if not isinstance(getattr(model.module.decoder.attention, "history", None), ShiftByKey):
        raise SystemExit(f"error: run {name!r} was not trained with the history shift_by_key")
    return model


def main(
    names: list[str], folder: str = "runs", length: int = 12, strings: int = 50, plot: str = ""
):
    """Print for each run how often each move is the likeliest, by what it depends on, and the mean
    of its p.
    """
    figure, panels = plt.subplots(
        len(names), figsize=(7, 1.5 * len(names) + 0.5), layout="constrained", squeeze=False
    )
    for name, (panel,) in zip(names, panels, strict=True):
        model = load(name, folder)
        reach = model.module.decoder.attention.history.reach
        found = defaultdict(list)
        drawn = model.task.family(
            "random", generator(torch.device("cpu"), 0), strings, length
        ).source
        examples = [model.task.source_vocabulary.decode(row) for row in drawn.tolist()]
        for text in examples:
            for p, symbol, read, before in moves(model, text):
                move = signed(p.argmax() - reach)
                found[(symbol if symbol.isdigit() else "any", read, before, move)].append(p.max())
        print(name, "symbol", "read", "move before", "move", "steps", "p", sep="\t")
        for key, rows in sorted(found.items(), key=str):
            print("", *key, len(rows), f"{np.mean(rows):.3f}", sep="\t")
        steps = list(moves(model, examples[0]))
        panel.imshow(
            np.stack([p for p, *_ in steps], axis=1), cmap="Greys", vmin=0, vmax=1, aspect="auto"
        )
        panel.set_xticks(range(len(steps)), [symbol for _, symbol, *_ in steps])
        panel.set_yticks(range(2 * reach + 1), map(signed, range(-reach, reach + 1)), fontsize=7)
        task = model.config.task
        panel.set_title(
            f"{task.name}{', reversed' * getattr(task, 'reverse', False)}: {examples[0]}",
            loc="left",
            fontsize=9,
        )
    figure.supylabel("distance")
    figure.supxlabel("symbol at the key that attention leaves, step by step")
    if plot:
        figure.savefig(plot, dpi=120)


if __name__ == "__main__":
    typer.run(main)
