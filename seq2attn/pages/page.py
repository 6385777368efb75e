"""Runs -> one HTML page that runs their models: their graphs as JSON, their weights, and a small
interpreter.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2attn.config.schema import AttentionConfig, Config, RecurrentConfig
from seq2attn.data.batches import generator
from seq2attn.data.tasks import StringTask, Task
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.ensemble import symbols_of
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.trained_model import load_run, new_model
from seq2attn.model.histories import History
from seq2attn.pages import asset, filled
from seq2attn.pages.folder import manifest
from seq2attn.pages.graphs import export_answer, export_graphs, export_training
from seq2attn.pages.training import training_settings
from seq2attn.parts import ARCHITECTURES, DECODERS, HISTORIES, NORMALISERS, SCORES, WINDOWS
from seq2attn.plotting.attention import choose_evenly
from seq2attn.runs.logs import read_attention
from seq2attn.runs.run import Run

if TYPE_CHECKING:
    import onnx

ENGINE = ("multiply.js", "operations.js", "model.js", "worker.js")
"""what runs models and trains them: in the page, and in its worker"""
SCRIPTS = [
    f"{name}.js"
    for name in [
        "view",
        "text",
        "explain",
        "step",
        "changes",
        "play",
        "tour",
        "link",
        "train",
        "page",
    ]
]
TYPES = {
    1: "float",
    2: "int",
    6: "int",
    7: "int",
    9: "bool",
    10: "float",
    11: "double",
}  # ONNX's, as in operations.js
NOT_FINITE = {
    "nan": "NaN",
    "inf": "Infinity",
    "-inf": "-Infinity",
}  # in JSON, for JavaScript's Number()
EXAMPLES = 5
SIDES = ("source", "target")
WORDS = ("hello", "attention", "banana", "level", "mississippi")


@dataclass(frozen=True)
class Shown:
    """One model of a page."""

    name: str
    predictor: Predictor
    about: Mapping[str, str]
    """what the page says of it, such as its score"""
    examples: Sequence[str]
    """strings to begin with"""
    snapshots: Mapping[str, Mapping[str, Tensor]] | None = None
    """label -> weights, as in `state_dict`, in the order of training; None: only those of the
    predictor"""
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """the parts of its attention by kind: name, formula and summary, as the catalogue has them"""
    config: Config | None = None
    """to train it in the page"""


def shown_runs(
    runs: Sequence[Run], checkpoint: str = "best", examples: Iterable[str] = (), snapshots: int = 8
) -> list[Shown]:
    """The models of one run or two.

    examples: strings to begin with, before those that the task draws. snapshots: how many weights
    through training to show at most, where the run kept them (`training.snapshot_weights`).

    Raises `Seq2AttnError` if two models read or write different symbols: they get the same string.
    """
    models = [_shown(run, checkpoint, list(examples), snapshots) for run in runs]
    _check(models, examples)
    return models


def untrained(configs: Mapping[str, Config], examples: Iterable[str] = ()) -> list[Shown]:
    """The models of one config or two by name, as they are drawn, to be trained in the page.

    Raises `Seq2AttnError` if two of them cannot learn from the same batches.
    """
    models = []
    for name, config in configs.items():
        predictor = new_model(config)[0].predictor
        texts = [*examples, *_examples(predictor.task)]
        models.append(
            Shown(name, predictor, _about(config, predictor), texts, None, parts_of(config), config)
        )
    _check(models, examples)
    for one, other in pairwise(configs.values()):
        if (one.task, one.training.batch_size) != (other.task, other.training.batch_size):
            raise Seq2AttnError(
                "two configs that are trained on one page get the same batches: task and training.batch_size must be equal",
                hint="Set them for both, such as --set task.max_length=6 --set training.batch_size=32.",
            )
    return models


def _check(models: Sequence[Shown], examples: Iterable[str]) -> None:
    for one, other in pairwise(models):
        for mine, theirs, side in zip(
            symbols_of(one.predictor), symbols_of(other.predictor), SIDES, strict=False
        ):
            if mine != theirs:
                message = f"{one.name} and {other.name} do not fit on one page: their {side} vocabularies differ"
                raise Seq2AttnError(message, hint="Make a page of each.")
    for text in examples:
        models[0].predictor.task.source_vocabulary.encode(text)


def render(models: Sequence[Shown]) -> str:
    """The page for one model or two, with its styles, scripts, graphs and weights inline."""
    style, engine, script = (
        asset("page.css"),
        "\n".join(map(asset, ENGINE)),
        "\n".join(map(asset, SCRIPTS)),
    )
    worker = "; worker-src blob:" if any(model.config for model in models) else ""
    parts = {
        "title": html.escape(" and ".join(model.name for model in models)),
        "style": style,
        "style_hash": _hash(style),
        "engine": engine,
        "script": script,
        "scripts": f"'{_hash(engine)}' '{_hash(script)}' 'wasm-unsafe-eval'{worker}",
        "data": _embedded({"models": [page_model(model) for model in models]}),
    }
    return filled("page.html", parts)


def page_model(shown: Shown) -> dict[str, Any]:
    """Graphs, manifest and weights of one model as JSON values. Raises `Seq2AttnError` for an
    operation the page lacks.
    """
    model = shown.predictor.model.to("cpu")
    exported = export_graphs(model)
    current = {
        name: tensor for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32
    }
    used = {one.name for graph in exported.graphs for one in graph.graph.initializer}
    weights = {name: tensor for name, tensor in current.items() if name in used}
    task = shown.predictor.task
    steps = export_training(model, shown.config, task) if shown.config else []
    missing, rule = _missing(*exported.graphs, *steps), export_answer(task)
    rule = None if rule is None or _missing(rule) else rule
    sources = [] if rule else [text.partition("\t")[0] for text in shown.examples]
    known = {text: task.answer(text) for text in sources}
    graphs = [*exported.graphs, *([rule] if rule else [])]
    if missing:
        raise Seq2AttnError(
            f"the page cannot run {shown.name}: it lacks the ONNX operation {', '.join(sorted(missing))}",
            hint="`seq2attn export` writes the model's graphs for any ONNX runtime.",
        )
    return {
        "name": shown.name,
        "about": dict(shown.about),
        "examples": list(shown.examples),
        **manifest(shown.predictor, exported),
        "parts": dict(shown.parts),
        "trained": [task.min_length, task.max_length],
        "answers": {
            text: task.target_vocabulary.encode(one.text) for text, one in known.items() if one
        },
        "graphs": {graph.graph.name: plain_graph(graph, set(weights)) for graph in graphs},
        "training": shown.config
        and {
            **training_settings(shown.config),
            **{graph.graph.name: plain_graph(graph, set()) for graph in steps},
        },
        "weights": [[name, list(tensor.shape)] for name, tensor in weights.items()],
        "snapshots": [
            {"label": label, "weights": _base64([tensors[name] for name in weights])}
            for label, tensors in (shown.snapshots or {"": current}).items()
        ],
    }


def operations() -> set[str]:
    """The ONNX operations that the page's interpreter knows."""
    table = asset("operations.js").partition("const OPERATIONS = {")[2]
    return set(re.findall(r"(?:^  |, )([A-Z]\w+)(?:: |\()", table, re.MULTILINE))


def _missing(*graphs: onnx.ModelProto) -> set[str]:
    """The operations in these graphs that it does not know."""
    return {node.op_type for graph in graphs for node in graph.graph.node} - operations()


def plain_graph(model: onnx.ModelProto, weights: set[str]) -> dict[str, Any]:
    """A graph as JSON values, with the shapes of its inputs; `weights`: the initializers that are
    kept elsewhere.
    """
    from onnx import helper, numpy_helper

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        if hasattr(value, "data_type"):  # a tensor
            array = numpy_helper.to_array(value)
            numbers = [NOT_FINITE.get(str(one), one) for one in array.flatten().tolist()]
            return {"type": TYPES[value.data_type], "shape": list(array.shape), "data": numbers}
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value

    def attributes(node: onnx.NodeProto) -> dict[str, Any]:
        return {one.name: plain(helper.get_attribute_value(one)) for one in node.attribute}

    graph = model.graph
    known = ["", *weights, *(value.name for value in [*graph.input, *graph.output])]
    numbers = {name: name for name in known}  # all other tensors get a number for a name

    def short(names: Iterable[str]) -> list[str]:
        return [numbers.setdefault(name, str(len(numbers))) for name in names]

    sizes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in graph.input
    }
    constants = [one for one in graph.initializer if one.name not in weights]
    return {
        "inputs": sizes,
        "outputs": [value.name for value in graph.output],
        "weights": [one.name for one in graph.initializer if one.name in weights],
        "constants": dict(
            zip(short(one.name for one in constants), map(plain, constants), strict=True)
        ),
        "nodes": [
            [node.op_type, short(node.input), short(node.output), attributes(node)]
            for node in graph.node
        ],
    }


def _shown(run: Run, checkpoint: str, examples: list[str], snapshots: int) -> Shown:
    trained = load_run(run, checkpoint, "cpu")
    config, task = run.config(), trained.predictor.task
    recorded = read_attention(run)
    of_files = [
        one.source for _, maps in recorded[-1:] for one in maps
    ]  # a run on files keeps no other strings
    more = of_files if config.data_files else _examples(task)
    about = _about(config, trained.predictor) | {"trained": f"{trained.step:,} steps"}
    kept = [step for step in run.kept_steps() if step < trained.step]
    maps = [one for one in recorded if one[0] in {*kept, trained.step}]
    if (
        len(kept) > snapshots
    ):  # where attention changes; without attention, early ones as dense as late ones
        places = [
            round(index * (len(kept) - 1) / max(1, snapshots - 1)) for index in range(snapshots)
        ]
        chosen = (
            [maps[place][0] for place in choose_evenly(maps, snapshots + 1)]
            if maps
            else [kept[place] for place in places]
        )
        kept = [step for step in chosen if step < trained.step][:snapshots]
    predictors = {step: load_run(run, f"step-{step}", "cpu").predictor for step in kept}
    predictors[trained.step] = trained.predictor
    weights = {
        f"after {step:,} step{'s' * (step != 1)}": predictor.model.state_dict()
        for step, predictor in predictors.items()
    }
    return Shown(run.name, trained.predictor, about, [*examples, *more], weights, parts_of(config))


def _about(config: Config, predictor: Predictor) -> dict[str, str]:
    parameters = sum(map(Tensor.numel, predictor.model.parameters()))
    described = {
        "task": config.task.name,
        "score": config.score_name,
        "width": f"{config.model.hidden:,}",
    }
    return described | {"parameters": f"{parameters:,}"}


def parts_of(config: Config) -> dict[str, dict[str, str]]:
    """What the catalogue says of the parts that make this model attend."""
    model = config.model
    if not isinstance(model, RecurrentConfig):
        chosen = {"score": ARCHITECTURES.get("transformer")}
    else:
        score, window, history = (
            model.attention.score,
            model.attention.window,
            model.attention.history,
        )
        chosen = {
            "score": SCORES.get(score.name),
            "normaliser": NORMALISERS.get(model.attention.normaliser.name),
        }
        chosen |= {"window": WINDOWS.get(window.name), "history": HISTORIES.get(history.name)}
        chosen |= {"decoder": DECODERS.get(model.decoder.name)}
        kind = chosen["history"].load()
        if kind is not None and kind.scores is not History.scores:
            chosen |= {"score": chosen["history"], "history": HISTORIES.get("none")}
    parts = {
        kind: {"name": one.name, "formula": one.formula, "summary": one.summary}
        for kind, one in chosen.items()
    }
    if isinstance(model, RecurrentConfig) and model.attention.scalable_softmax:
        summary = AttentionConfig.model_fields["scalable_softmax"].description or ""
        parts["scalable"] = {"name": "scalable softmax", "summary": summary}
    return parts


def _examples(task: Task) -> list[str]:
    """Words, if the task is one on strings in whose alphabet they can be written; otherwise strings
    that it draws.
    """
    vocabulary = task.source_vocabulary
    letters = set(vocabulary.symbols) if isinstance(task, StringTask) else set()
    words = [word for word in WORDS if len(word) <= task.max_length and set(word) <= letters]
    drawn = task.examples(generator(torch.device("cpu"), "page"), EXAMPLES)
    rows = zip(drawn.source.tolist(), drawn.source_lengths.tolist(), strict=True)
    return [*words, *(vocabulary.decode(row[:length]) for row, length in rows)][:EXAMPLES]


def _embedded(data: Any) -> str:
    """JSON that is safe inside a script tag: ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub(r"[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)


def _base64(tensors: Sequence[Tensor]) -> str:
    """float32 numbers, little-endian, one tensor after another."""
    array = torch.cat([tensor.detach().cpu().flatten() for tensor in tensors]).numpy()
    return base64.b64encode(array.astype("<f4").tobytes()).decode()


def _hash(text: str) -> str:
    """How the page's security policy names its only script and style: nothing else runs."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
