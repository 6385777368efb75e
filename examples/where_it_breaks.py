"""Where a run's answers to strings of each family first go wrong, and what attention did there.

    python examples/where_it_breaks.py reverse-location-seed_1 80

For each family, of 50 strings: how many are right; how many first went wrong by attention (its
largest weight left the ideal position), by a wrong letter although attention was right, by an early
<eos>, or by no <eos> at the end; the median step of the first wrong position of attention, its
distance from the right one, and the mean largest weight before it.
"""

from collections import Counter
from statistics import fmean, median

import torch
import typer

import seq2attn
from seq2attn.data.batches import generator
from seq2attn.parts import FAMILIES

STRINGS = 50


def first_mistake(prediction, answer):
    """Its kind, and where attention was wrong: (step, distance), or None."""
    looked = [max(range(len(row)), key=row.__getitem__) for row in prediction.weights]
    for step, (letter, place) in enumerate(zip(answer.text, answer.alignment, strict=True)):
        if step >= len(prediction.output):
            return "early <eos>", None
        if looked[step] != place:
            return "attention", (step, looked[step] - place)
        if prediction.output[step] != letter:
            return "wrong letter", None
    right = prediction.finished and len(prediction.output) == len(answer.text)
    return ("right" if right else "no <eos>"), None


def main(name: str, length: int, folder: str = "runs"):
    """Print a line for each family."""
    model = seq2attn.load(name, runs_dir=folder, checkpoint="last")
    task = model.task
    for family in FAMILIES.names():
        drawn = task.family(
            family, generator(torch.device("cpu"), 0, "example", family), STRINGS, length
        )
        texts = [task.source_vocabulary.decode(row) for row in drawn.source.tolist()]
        kinds, steps, distances, sharp = Counter(), [], [], []
        for text, prediction in zip(texts, model.predict(texts), strict=True):
            kind, place = first_mistake(prediction, task.answer(text))
            kinds[kind] += 1
            before = prediction.weights[: place[0] if place else length]
            sharp += [max(row) for row in before]
            if place is not None:
                steps.append(place[0])
                distances.append(place[1])
        found = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        lost = (
            f"; attention lost at step {median(steps):.0f}, by {Counter(distances).most_common(3)}"
            if steps
            else ""
        )
        print(f"{family}: {found}; largest weight {fmean(sharp or [0]):.3f}{lost}")


if __name__ == "__main__":
    typer.run(main)
