"""Strings on which attention slips, decoded with scores scaled as for shorter and longer ones.

    python examples/slipping.py location-one-direction-seed_5

With scalable softmax, scores are multiplied by the logarithm of the number of positions. Here that number is replaced by
another one: how many of 100 strings of each length are then right.
"""

import math

import torch
import typer

import seq2attn
from seq2attn.data.batches import generator

STRINGS = 100
LENGTHS = (8, 10, 12, 16, 20, 24, 26, 28, 30, 40)
SCALED_AS = (None, 20, 30)  # None: as the model does


def main(name: str, folder: str = "runs"):
    """Print a line for each length."""
    model = seq2attn.load(name, runs_dir=folder, checkpoint="last")
    task, source_eos = model.task, model.config.model.source_eos
    print("length", *("as they are" if length is None else f"as for {length}" for length in SCALED_AS), sep="\t")
    for length in LENGTHS:
        drawn = task.examples(generator(torch.device("cpu"), 0, "slipping", length), STRINGS, length)
        texts = [task.source_vocabulary.decode(row) for row in drawn.source.tolist()]
        counts = []
        for other in SCALED_AS:
            read = length + source_eos
            temperature = 1.0 if other is None else math.log(read) / math.log(other + source_eos)
            answers = model.predict(texts, weights=False, temperature=temperature)
            counts.append(sum(answer.correct for answer in answers))
        print(length, *counts, sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
