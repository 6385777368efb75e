"""The leaderboard's table, in Markdown, and its picture, from what `compare --json` printed.

seq2attn compare configs/experiments/leaderboard.yaml --json > leaderboard.json python
examples/leaderboard.py leaderboard.json --plot leaderboard.png --times
configs/experiments/leaderboard.yaml

A cell has the exact match at each length, worst of seeds and families, as far as it is not .00;
then the worst family at the first length below .99. --times trains each mechanism twice for a
moment, and gives the CPU seconds of 1,200 steps.
"""

import json
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import typer
import yaml

import seq2attn

SHORT, MORE, STEPS = 40, 100, 1200


def seconds(experiment: Path) -> list[float]:
    """CPU seconds of `STEPS` steps of each model of the experiment, from `MORE` steps, on its first
    task.
    """
    found, settings = [], yaml.safe_load(experiment.read_text())
    models = settings["vary"]["model"]
    for model in [models[0], *models]:  # the first time in vain: it imports
        spent = []
        for steps in (SHORT, SHORT + MORE):
            changed = {"model": model, "task": settings["vary"]["task"][0], "training.steps": steps}
            changed |= {
                "training.evaluate_every": steps,
                "training.warmup": 10,
                "training.snapshots": 0,
            }
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                seq2attn.train(
                    experiment.parent / settings["configs"], changed, runs_dir=folder, device="cpu"
                )
                spent.append(time.process_time() - start)
        found.append((spent[1] - spent[0]) * STEPS / MORE)
    return found[1:]


def main(file: Path, plot: str = "", times: str = ""):
    """Print a row for each mechanism, in the order of the mean over tasks and lengths."""
    trials = [
        row for row in json.loads(file.read_text())["trials"] if row["metric"] == "exact_match"
    ]
    tasks = list(dict.fromkeys(row["task"] for row in trials))
    lengths = sorted({row["length"] for row in trials})
    worst, parameters = {}, {}
    for row in trials:
        task, _, mechanism = row["group"].partition(", ")
        cell = mechanism, task, row["length"]
        worst[cell] = min(worst.get(cell, (2.0, "")), (row["value"], row["family"]))
        parameters[mechanism] = row["parameters"]
    values = {
        mechanism: [
            worst.get((mechanism, task, length), (np.nan, ""))[0]
            for task in tasks
            for length in lengths
        ]
        for mechanism in parameters
    }
    ranked = sorted(values, key=lambda mechanism: -np.nanmean(values[mechanism]))
    spent = dict(
        zip(parameters, seconds(Path(times)) if times else [np.nan] * len(parameters), strict=True)
    )
    print("| mechanism | parameters | CPU s |", " | ".join(tasks), "|")
    print("|---" * (3 + len(tasks)) + "|")
    for mechanism in ranked:
        cells = []
        for task in tasks:
            found = [
                worst[mechanism, task, length]
                for length in lengths
                if (mechanism, task, length) in worst
            ]
            below = next((f" {family}" for value, family in found if value < 0.99), "")
            texts = [f"{value:.2f}".removeprefix("0") for value, _ in found]
            while texts[1:] and texts[-1] == ".00":
                texts.pop()
            cells.append(" ".join(texts) + below)
        print(
            f"| {mechanism} | {parameters[mechanism]:,} | {spent[mechanism]:.0f} |",
            " | ".join(cells),
            "|",
        )
    if plot:
        figure, axes = plt.subplots(figsize=(7, 0.24 * len(ranked) + 1), layout="constrained")
        image = axes.imshow(
            [values[mechanism] for mechanism in ranked],
            cmap="viridis",
            vmin=0,
            vmax=1,
            aspect="auto",
        )
        axes.set_yticks(range(len(ranked)), ranked, fontsize=8)
        axes.set_xticks(range(len(tasks) * len(lengths)), lengths * len(tasks), fontsize=8)
        for index, task in enumerate(tasks):
            axes.text((index + 0.5) * len(lengths) - 0.5, -0.8, task, ha="center")
            axes.axvline((index + 1) * len(lengths) - 0.5, color="white")
        axes.set_xlabel("length of the source (trained on 3 to 8)")
        figure.colorbar(image, label="exact match, worst of seeds and families")
        figure.savefig(plot, dpi=60)


if __name__ == "__main__":
    typer.run(main)
