"""The models that a page shows: those of runs, with their weights through training, and untrained
ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from seq2attn.build import build_model, load_task
from seq2attn.config.schema import AttentionConfig, Config, RecurrentConfig
from seq2attn.data.batches import generator
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.strings import StringTask
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.predictor import Predictor, symbols_of
from seq2attn.inference.trained_model import TrainedModel, load_run
from seq2attn.model.histories import History
from seq2attn.parts import (
    ARCHITECTURES,
    DECODERS,
    ENCODERS,
    HISTORIES,
    NORMALISERS,
    SCORES,
    WINDOWS,
)
from seq2attn.plotting.attention import Snapshot, choose_evenly
from seq2attn.runs.checkpoint import MODEL, load_checkpoint
from seq2attn.runs.logs import read_attention
from seq2attn.runs.run import Run

CPU = torch.device("cpu")
EXAMPLES = 5
"""strings that a page offers, besides those that the user names"""
WORDS = ("hello", "attention", "banana", "level", "mississippi")


@dataclass(frozen=True)
class PageModel:
    """One model of a page."""

    name: str
    predictor: Predictor
    about: Mapping[str, str]
    """what the page says about it, such as its score"""
    examples: Sequence[str]
    """strings to begin with"""
    snapshots: Mapping[str, Mapping[str, Tensor]] | None = None
    """label -> weights, as in `state_dict`, in the order of training; None: only those of the
    predictor"""
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """the parts of its attention by kind: name, formula and summary, as the catalogue has them"""
    config: Config | None = None
    """to train it in the page"""
    title: str = ""
    """the heading of a page of this model alone, such as `reverse with scaled attention`; empty:
    its name"""


def run_models(
    runs: Sequence[Run], checkpoint: str = "best", examples: Sequence[str] = (), snapshots: int = 8
) -> list[PageModel]:
    """Load the models of one run or two.

    checkpoint: which weights to load: `best`, `last` or `step-N`.
    examples: strings to begin with, before those that the task draws; of a run on a file, before
        those whose attention it has recorded.
    snapshots: the maximum number of earlier weights to show, where the run kept them
        (`training.snapshot_weights`).

    Raises `Seq2AttnError` if two models read or write different symbols, since they get the same
    string, and for a string in `examples` that they cannot read.
    """
    models = []
    for run in runs:
        trained = load_run(run, checkpoint, "cpu")
        config = trained.config
        recorded = read_attention(run)
        texts = list(examples)
        if not config.data_files:
            texts = _examples(trained.task, examples)
        elif recorded:  # a run on a file keeps no other strings
            _, maps = recorded[-1]
            texts += [attention.source for attention in maps]
        # before `float`: checkpoints are loaded for a model of the dtype that they have
        weights = _snapshots(trained, recorded, snapshots)
        trained.module.float()  # the page computes in float32, whatever the dtype of the run
        shown = _shown(run.name, config, trained.predictor, texts)
        about = {"run": run.name, **shown.about, "trained": f"{trained.step:,} steps"}
        models.append(replace(shown, about=about, snapshots=weights))
    _check(models, examples)
    return models


def untrained_models(
    configs: Mapping[str, Config], examples: Sequence[str] = ()
) -> list[PageModel]:
    """Build the models of one config or two, to be trained in the page.

    configs: by the name that the page shows.
    examples: strings to begin with, before those that the task draws.

    Raises `Seq2AttnError` if two models read or write different symbols, or cannot learn from the
    same batches, and for a string in `examples` that they cannot read.
    """
    models = []
    for name, config in configs.items():
        task = load_task(config)
        predictor = Predictor(build_model(config, task), task, config.model.source_eos, CPU)
        shown = _shown(name, config, predictor, _examples(task, examples))
        models.append(replace(shown, config=config))
    _check(models, examples)
    for first, second in pairwise(configs.values()):
        if (first.task, first.training.batch_size) != (second.task, second.training.batch_size):
            raise Seq2AttnError(
                "two configs that are trained on one page get the same batches: "
                "task and training.batch_size must be equal",
                hint="Set them for both, such as --set training.batch_size=32.",
            )
    return models


def _check(models: Sequence[PageModel], examples: Sequence[str]) -> None:
    """Raise `Seq2AttnError` if two models do not fit together, or cannot read an example."""
    for first, second in pairwise(models):
        # without the last value, whether sources end with <eos>: the page adds it for each model
        if symbols_of(first.predictor)[:-1] != symbols_of(second.predictor)[:-1]:
            raise Seq2AttnError(
                f"{first.name} and {second.name} do not fit on one page: their vocabularies differ",
                hint="Make a page of each.",
            )
    for text in examples:  # `encode` raises; one model's vocabulary is that of both
        models[0].predictor.task.source_vocabulary.encode(text)


def _snapshots(
    trained: TrainedModel, recorded: Sequence[Snapshot], count: int
) -> dict[str, dict[str, Tensor]]:
    """Return the model's weights through training by label, such as "after 100 steps": those of
    `trained` last, and before them at most `count` of those that the run kept.

    recorded: attention maps through training, by which the steps are chosen: attention changes by
        about as much from each to the next.
    """
    model = trained.module
    maps = dict(recorded)  # step -> attention maps
    kept = [step for step in trained.run.kept_steps() if step < trained.step]
    steps = [*kept, trained.step]
    # where the maps of a step were not recorded, nothing is taken to have changed
    candidates = [(step, maps.get(step, ())) for step in steps]
    *earlier, _ = choose_evenly(candidates, count + 1)  # the last one is always `trained` itself
    snapshots = {}
    for step, _ in earlier:
        path = trained.run.checkpoint(f"step-{step}")
        snapshots[_label(step)] = load_checkpoint(path, model).part(MODEL)
    snapshots[_label(trained.step)] = model.state_dict()
    return snapshots


def _label(step: int) -> str:
    return "after 1 step" if step == 1 else f"after {step:,} steps"


def _shown(name: str, config: Config, predictor: Predictor, examples: Sequence[str]) -> PageModel:
    """Return a model with what its config and the catalogue say about it.

    name: what the page calls it. examples: strings to begin with.
    """
    score = config.score_name
    about = {
        "task": config.task.name,
        "score": score,
        "width": f"{config.model.hidden:,}",
        "parameters": f"{sum(map(Tensor.numel, predictor.model.parameters())):,}",
    }
    how = "without attention" if score == "none" else f"with {score} attention"
    title = f"{config.task.name} {how}"
    return PageModel(name, predictor, about, examples, parts=parts_of(config), title=title)


def parts_of(config: Config) -> dict[str, dict[str, str]]:
    """Return what the catalogue says about the parts that make a model attend, by kind: name,
    formula and summary, from which the page explains a step; of a window its radius, too, empty if
    it has none. The kind `scalable` has no formula, and is there only if the model has it.
    """
    model = config.model
    if not isinstance(model, RecurrentConfig):  # a Transformer: its formula in the score's place
        return {"score": _describe(ARCHITECTURES.get("transformer"))}
    attention = model.attention
    score = SCORES.get(attention.score.name)
    history = HISTORIES.get(attention.history.name)
    own_scores = getattr(history.load(), "scores", History.scores)  # the history none has no class
    # some histories compute the scores themselves, and the score function that the config names is
    # not used: then show the history in its place
    if own_scores is not History.scores:
        score, history = history, HISTORIES.get("none")
    chosen = {
        "encoder": ENCODERS.get(model.encoder.name),
        "score": score,
        "normaliser": NORMALISERS.get(attention.normaliser.name),
        "window": WINDOWS.get(attention.window.name),
        "history": history,
        "decoder": DECODERS.get(model.decoder.name),
    }
    parts = {kind: _describe(part) for kind, part in chosen.items()}
    parts["window"]["radius"] = str(getattr(attention.window, "radius", ""))
    if attention.scalable_softmax:
        summary = AttentionConfig.model_fields["scalable_softmax"].description or ""
        parts["scalable"] = {"name": "scalable softmax", "summary": summary}
    return parts


def _describe(part: Any) -> dict[str, str]:
    return {"name": part.name, "formula": part.formula, "summary": part.summary}


def _examples(task: Task, first: Sequence[str]) -> list[str]:
    """Return `first`, then, for a task on strings, those of `WORDS` that it has all letters of and
    that are not too long for it, then strings that the task draws: `EXAMPLES` in all, or all of
    `first` if these are more. Fewer, if some are the same.
    """
    vocabulary = task.source_vocabulary
    # of any other task: a set that no word is made of
    letters = set(vocabulary.symbols) if isinstance(task, StringTask) else set()
    texts = list(first)
    texts += [word for word in WORDS if len(word) <= task.max_length and letters.issuperset(word)]
    drawn = task.examples(generator(CPU, "page"), EXAMPLES)
    for ids, length in zip(drawn.source.tolist(), drawn.source_lengths.tolist(), strict=True):
        texts.append(vocabulary.decode(ids[:length]))
    return list(dict.fromkeys(texts))[: max(EXAMPLES, len(first))]
