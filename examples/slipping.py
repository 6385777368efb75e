"""Strings on which attention slips, decoded with scores scaled as for shorter and longer ones.

    python examples/slipping.py location-one-direction-seed_5

With scalable softmax, scores are multiplied by the logarithm of the number of positions. Here that number is replaced by
another one: how many of 100 strings of each length are then right.
"""

import math
from pathlib import Path

import torch
import typer

from seq2attn.data.batches import generator
from seq2attn.inference.interventions import Changes
from seq2attn.runs.load import load_run
from seq2attn.runs.run import find_run

STRINGS = 100
LENGTHS = (8, 10, 12, 16, 20, 24, 26, 28, 30, 40)
SCALED_AS = (None, 20, 30)  # None: as the model does


def main(name: str, folder: str = "runs"):
    """Print a line for each length."""
    predictor = load_run(find_run(Path(folder), name), "last").predictor
    task = predictor.task
    print("length", *("as they are" if length is None else f"as for {length}" for length in SCALED_AS), sep="\t")
    for length in LENGTHS:
        drawn = task.examples(generator(torch.device("cpu"), 0, "slipping", length), STRINGS, length)
        texts = [task.source_vocabulary.decode(row) for row in drawn.source.tolist()]
        counts = []
        for other in SCALED_AS:
            read = length + predictor.source_eos
            temperature = 1.0 if other is None else math.log(read) / math.log(other + predictor.source_eos)
            answers = predictor.predict(texts, changes=Changes(temperature=temperature))
            right = (
                answer.finished and answer.output == task.answer(text).text for text, answer in zip(texts, answers)
            )
            counts.append(sum(right))
        print(length, *counts, sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
