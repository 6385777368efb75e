"""Teacher-forced accuracy, exact match and entropy at a length, with the trained scores multiplied
by each of some factors.

python examples/temperature.py 10 width-kept-hidden_96-scaled-seed_1 ... --factors "1 2 5"
"""

import typer

import seq2attn


def main(length: int, names: list[str], folder: str = "runs", factors: str = "0.2 0.5 1 2 5"):
    """Print a line for each run and factor."""
    for name in names:
        model = seq2attn.load(name, runs_dir=folder)
        for factor in map(float, factors.split()):
            hook = model.module.decoder.attention.score.register_forward_hook(
                lambda part, given, e, by=factor: e * by
            )
            found = model.evaluate([length])
            hook.remove()
            values = (
                found.get(metric, length).value
                for metric in ("teacher_forced", "exact_match", "entropy")
            )
            print(name, factor, *(f"{value:.3f}" for value in values), sep="\t")


if __name__ == "__main__":
    typer.run(main)
