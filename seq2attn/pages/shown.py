"""What a page shows of runs: their models, what is said of them, and strings to begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from seq2attn.config import Config, RecurrentConfig
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError
from seq2attn.pages.page import Shown
from seq2attn.runs.loading import Trained, load_trained
from seq2attn.runs.records import read_attention
from seq2attn.runs.run import Run

EXAMPLES = 4
GREETING = "hello"


def shown_runs(
    runs: Sequence[Run], checkpoint: str = "best", examples: Iterable[str] = (), snapshots: int = 8
) -> list[Shown]:
    """The models of one run or two.

    examples: strings to begin with, before those that the task draws. snapshots: how many weights through training to
    show at most, where the run kept them (`training.snapshot_weights`).

    Raises `Seq2AttnError` if two models read or write different symbols: they get the same string.
    """
    models = [_shown(run, checkpoint, list(examples), snapshots) for run in runs]
    for one, other in pairwise(models):
        for side in ("source", "target"):
            vocabularies = [vars(getattr(model.predictor.task, f"{side}_vocabulary")) for model in (one, other)]
            if vocabularies[0] != vocabularies[1]:
                raise Seq2AttnError(
                    f"{one.name} and {other.name} do not fit on one page: their {side} vocabularies differ",
                    hint="Make a page of each.",
                )
    return models


def _shown(run: Run, checkpoint: str, examples: list[str], snapshots: int) -> Shown:
    trained = load_trained(run, checkpoint, "cpu")
    config, task = run.config(), trained.predictor.task
    for text in examples:
        task.source_vocabulary.check(text)
    return Shown(
        run.name,
        trained.predictor,
        _about(config, trained.step),
        [*examples, *(_watched(run) if config.data_files else _drawn(task))],
        _through_training(run, trained, snapshots),
    )


def _through_training(run: Run, trained: Trained, count: int) -> dict[str, dict[str, Tensor]]:
    """Label -> weights: at most `count` of the kept ones, early ones as dense as late ones, and the trained ones last."""
    steps = [step for step in run.kept_steps() if step < trained.step]
    if len(steps) > count:
        steps = [steps[round(index * (len(steps) - 1) / max(1, count - 1))] for index in range(count)]
    found = {_after(step): load_trained(run, f"step-{step}", "cpu").predictor for step in steps}
    found[_after(trained.step)] = trained.predictor
    return {label: predictor.model.state_dict() for label, predictor in found.items()}


def _after(step: int) -> str:
    return f"after {step:,} step{'s' * (step != 1)}"


def _about(config: Config, step: int) -> dict[str, str]:
    model = config.model
    about = {"task": config.task.name, "score": config.score_name}
    if isinstance(model, RecurrentConfig):
        about |= {"decoder": model.decoder.name, "cell": model.cell.name}
        extra = {"window": model.attention.window.name, "history": model.attention.history.name}
        about |= {name: value for name, value in extra.items() if value not in ("global", "none")}
    else:
        about |= {"layers": str(model.layers), "heads": str(model.heads)}
        del about["score"]
    return about | {"width": str(model.hidden), "trained": f"{step:,} steps"}


def _watched(run: Run) -> list[str]:
    """The strings whose attention was recorded: a run on files keeps no others."""
    snapshots = read_attention(run)
    return [one.source for one in snapshots[-1][1]] if snapshots else []


def _drawn(task: Task) -> list[str]:
    """A few strings of the task, and a greeting if it can be written in its alphabet."""
    vocabulary = task.source_vocabulary
    symbols = set(vocabulary.symbols)
    first = [GREETING] if set(GREETING) <= symbols and not vocabulary.separator and vocabulary.features is None else []
    drawn = task.examples(generator(torch.device("cpu"), "page"), EXAMPLES)
    rows = zip(drawn.source.tolist(), drawn.source_lengths.tolist(), strict=True)
    return first + [vocabulary.decode(row[:length]) for row, length in rows]
