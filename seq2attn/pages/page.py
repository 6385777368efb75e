"""One HTML page that runs models, of runs or untrained ones: their graphs as JSON, their weights,
and a small interpreter.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from seq2attn.build import build_model, build_task
from seq2attn.config.schema import AttentionConfig, Config, RecurrentConfig
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.strings import StringTask
from seq2attn.display.console import say
from seq2attn.display.signs import SIGNS, weight_colour
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.predictor import Predictor, symbols_of
from seq2attn.inference.trained_model import TrainedModel, load_run
from seq2attn.model.histories import History
from seq2attn.model.interface import Model
from seq2attn.pages import asset, filled
from seq2attn.pages.functions import manifest
from seq2attn.pages.graphs import Graph, program_json
from seq2attn.pages.tracing import exporting, trace_answer, trace_model
from seq2attn.pages.training import CPU, training_graphs, training_settings
from seq2attn.parts import ARCHITECTURES, HISTORIES
from seq2attn.plotting.attention import Snapshot, choose_evenly
from seq2attn.runs.checkpoint import MODEL, load_checkpoint
from seq2attn.runs.run import Run, read_attention
from seq2attn.training.recorder import watched_strings

ENGINE = """
multiply tensors elements axes places products operations graph session text formula explanation
exam learner worker
""".split()
"""what runs models, trains and explains them: in the page, and in its worker"""
VIEW = "dom symbols pen map vector terms bars parts step answer maps view charts".split()
CONTROLS = """
state changes play seen samples stops pairs learning tour link train page
""".split()


# ---- the models ----


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


def run_models(
    runs: Sequence[Run], checkpoint: str = "best", examples: Sequence[str] = (), snapshots: int = 8
) -> list[PageModel]:
    """Load the models of one run or two, and return what a page shows of each.

    checkpoint: which weights to load: `best`, `last` or `step-N`.
    examples: strings to begin with, before those whose attention a training records.
    snapshots: the maximum number of earlier weights to show, where the run kept them
        (`training.snapshot_weights`).
    """
    models = []
    for run in runs:
        trained = load_run(run, checkpoint, "cpu")
        config = trained.config
        recorded = read_attention(run)
        texts = list(examples)
        if not config.data_files:
            texts += watched_strings(config, trained.task)
        elif recorded:  # a run on a file keeps no other strings; [-1][1]: maps of the last step
            texts += [attention.source for attention in recorded[-1][1]]
        # before `float`: checkpoints are loaded for a model of the dtype that they have
        weights = _snapshots(trained, recorded, snapshots)
        trained.module.float()  # the page computes in float32, whatever the dtype of the run
        about = {**_about(config, trained.module), "trained": f"{trained.step:,} steps"}
        parts = parts_of(config)
        unique = list(dict.fromkeys(texts))
        models.append(PageModel(run.name, trained.predictor, about, unique, weights, parts))
    return models


def untrained_models(
    configs: Mapping[str, Config], examples: Sequence[str] = ()
) -> list[PageModel]:
    """Build the models of one config or two, to be trained in the page.

    configs: by the name that the page shows.
    examples: strings to begin with, before those whose attention a training records.
    """
    models = []
    for name, config in configs.items():
        task = build_task(config)
        model = build_model(config, task)
        predictor = Predictor(model, task, config.model.source_eos, CPU)
        texts = list(dict.fromkeys([*examples, *watched_strings(config, task)]))  # each once
        about = _about(config, model)
        models.append(PageModel(name, predictor, about, texts, None, parts_of(config), config))
    return models


def _snapshots(
    trained: TrainedModel, recorded: Sequence[Snapshot], count: int
) -> dict[str, dict[str, Tensor]]:
    """Return the model's weights through training by label, such as "step 100": those of
    `trained` last, and before them at most `count` of those that the run kept.

    recorded: attention maps through training, by which the steps are chosen: attention changes by
        about as much from each to the next.
    """
    model = trained.module
    maps = dict(recorded)  # step -> attention maps
    kept = [step for step in trained.run.kept_steps() if step < trained.step]
    # where the maps of a step were not recorded, nothing is taken to have changed
    candidates = [(step, maps.get(step, ())) for step in [*kept, trained.step]]
    *earlier, _ = choose_evenly(candidates, count + 1)  # the last one is always `trained` itself
    snapshots = {}
    for step, _ in earlier:
        path = trained.run.checkpoint(f"step-{step}")
        snapshots[f"step {step:,}"] = load_checkpoint(path, model).part(MODEL)
    snapshots[f"step {trained.step:,}"] = model.state_dict()
    return snapshots


def _about(config: Config, model: Model) -> dict[str, str]:
    """Return what the page says about a model."""
    return {
        "task": config.task.name,
        "score": config.score_name,
        "width": f"{config.model.hidden:,}",
        "parameters": f"{sum(map(Tensor.numel, model.parameters())):,}",
    }


def parts_of(config: Config) -> dict[str, dict[str, str]]:
    """Return what the catalogue says about the parts that make a model attend, by kind: name,
    formula and summary, from which the page explains a step; of a window its radius, too, empty if
    it has none. The kind `scalable` has no formula, and is there only if the model has it.
    """
    model = config.model
    if not isinstance(model, RecurrentConfig):  # a Transformer: its formula in the score's place
        return {"score": _describe(ARCHITECTURES.get("transformer"))}
    attention = model.attention
    values = {**dict(model), **dict(attention)}
    chosen = {}
    for kind in ("encoder", "score", "normaliser", "window", "history", "decoder"):
        chosen[kind] = values[kind].entry
    history = chosen["history"]
    own_scores = getattr(history.load(), "scores", History.scores)  # the history none has no class
    # some histories compute the scores themselves, and the score function that the config names is
    # not used: then show the history in its place
    if own_scores is not History.scores:
        chosen |= {"score": history, "history": HISTORIES.get("none")}
    parts = {kind: _describe(part) for kind, part in chosen.items()}
    parts["window"]["radius"] = str(getattr(attention.window, "radius", ""))
    if attention.scalable_softmax:
        summary = AttentionConfig.model_fields["scalable_softmax"].description or ""
        parts["scalable"] = {"name": "scalable softmax", "summary": summary}
    return parts


def _describe(part: Any) -> dict[str, str]:
    return {"name": part.name, "formula": part.formula, "summary": part.summary}


# ---- the page ----


def _check(models: Sequence[PageModel]) -> None:
    """Raise `Seq2AttnError` if two models do not fit together, or cannot read an example."""
    for first, second in pairwise(models):
        # without the last value, whether sources end with <eos>: the page adds it for each model
        if symbols_of(first.predictor)[:-1] != symbols_of(second.predictor)[:-1]:
            raise Seq2AttnError(
                f"{first.name} and {second.name} do not fit on one page: their vocabularies differ",
                hint="Make a page of each.",
            )
        if first.config and second.config:  # both are trained in the page
            one, other = first.config, second.config
            if (one.task, one.training.batch_size) != (other.task, other.training.batch_size):
                raise Seq2AttnError(
                    "two configs that are trained on one page get the same batches: "
                    "task and training.batch_size must be equal",
                    hint="Set them for both, such as --set training.batch_size=32.",
                )
    for model in models:
        for text in model.examples:
            model.predictor.task.source_vocabulary.encode(text)  # raises


def render(models: Sequence[PageModel]) -> str:
    """Return the page, as HTML, for one model or two, with styles, scripts, graphs and weights
    inline. Says which model it exports, since that takes seconds.

    Raises `Seq2AttnError` if two models read or write different symbols, since they get the same
    string, or are to be trained on different batches; for an example that they cannot read; and as
    `model_json` does.
    """
    _check(models)
    described = []
    for model in models:
        say(f"exporting {model.name}")
        described.append(model_json(model))
    data = {
        "models": described,
        # of the weights 0, 1/255, ..., 1
        "colours": [weight_colour(level / 255) for level in range(256)],
        # what is shown in place of `<eos>`, of a space and so on
        "signs": SIGNS,
    }
    title = " and ".join(model.name for model in models)
    return assemble(html.escape(title), _embed(data), trains=any(model.config for model in models))


def assemble(title: str, data: str, *, trains: bool) -> str:
    """Return the page, as HTML, for data, JSON text that is safe in a script.

    Its security policy allows its two scripts and two styles, which are known by their hashes, and
    nothing else; the checksum of its data lets the page notice that it is damaged.

    title: text that is safe in HTML. trains: whether it may start a worker, in which it trains.
    """
    style = asset("view/page.css")
    waiting = asset("view/waiting.css")
    engine = script("engine", ENGINE)  # alone, since the worker runs it, too
    shown = script("view", VIEW) + script("controls", CONTROLS)
    # WebAssembly: the products of matrices in the engine are compiled C
    allowed = f"'{_hash(engine)}' '{_hash(shown)}' 'wasm-unsafe-eval'"
    if trains:
        allowed += "; worker-src blob:"  # ends the list of scripts, and begins that of workers
    return filled("view/page.html", {
        "title": title,
        "style": style,
        "waiting": waiting,
        "styles": f"'{_hash(waiting)}' '{_hash(style)}'",
        "engine": engine,
        "script": shown,
        "scripts": allowed,
        "data": data,
        "checksum": f"{zlib.adler32(data.encode()):08x}",
    })  # fmt: skip


def script(folder: str, names: Sequence[str]) -> str:
    """Return the files of a folder as one script."""
    return "\n".join(['"use strict";', *(asset(f"{folder}/{name}.js") for name in names)])


def model_json(page_model: PageModel) -> dict[str, Any]:
    """Return manifest, graphs and weights of one model as JSON values, which `Model` in JavaScript
    takes.

    Raises `Seq2AttnError` for an operation that the page's interpreter lacks, for a model that is
    to be trained in the page and cannot be (`training_graphs`), and as `trace_model` does.
    """
    predictor = page_model.predictor
    task = predictor.task
    traced = trace_model(predictor.model)
    hint = "`seq2attn export` writes the model's graphs for any ONNX runtime."
    with exporting(f"the page cannot run {page_model.name}", hint):
        graphs = {one.function.name: program_json(one) for one in traced}
    # before the graph of the task's rule is added: the manifest names only those of the model
    described = manifest(predictor, list(graphs))

    training = None
    if config := page_model.config:  # only a model that is trained in the page has one
        training = {**training_settings(config), "graphs": training_graphs(config, task)}
    if rule := answer_json(task):
        graphs["answer"] = rule  # by which the page computes right answers

    state = predictor.model.state_dict()
    used = {weight for graph in graphs.values() for weight in graph["weights"]}
    weights = [name for name in state if name in used]
    return {
        **described,
        "name": page_model.name,
        "about": page_model.about,
        "examples": page_model.examples,
        "parts": page_model.parts,
        "trained": [task.min_length, task.max_length],  # lengths of strings in training
        "graphs": graphs,
        "training": training,
        "weights": [[name, list(state[name].shape)] for name in weights],
        # a model without snapshots has a single one, which needs no label
        "snapshots": [
            {"label": label, "weights": _numbers(tensors, weights)}
            for label, tensors in (page_model.snapshots or {"": state}).items()
        ],
    }


def answer_json(task: Task) -> Graph | None:
    """Return the rule of a task, source -> target, as a graph; None for a task that has none, and
    for a rule that torch cannot export or the page cannot run: the page then does without.
    """
    if isinstance(task, StringTask):
        with contextlib.suppress(Seq2AttnError), exporting("the page cannot run this rule"):
            return program_json(trace_answer(task))
    return None


def _numbers(tensors: Mapping[str, Tensor], names: Sequence[str]) -> str:
    """Return weights after each other as little-endian float32, in base64."""
    numbers = torch.cat([tensors[name].detach().flatten().float() for name in names])
    return base64.b64encode(numbers.numpy().astype("<f4").tobytes()).decode()


def _embed(data: Any) -> str:
    """Return JSON that is safe inside a script tag: ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _hash(text: str) -> str:
    """Return the name of a script or style in the page's security policy: nothing else runs."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
