"""The computations of a model as functions of named tensors, to be exported as graphs.

Shapes: a batch of one string, S source positions, E the width of an embedding, W of a state.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seq2attn.data.tasks.strings import StringTask
from seq2attn.data.vocabulary import EOS, PAD, SOS, SPECIAL, Vocabulary
from seq2attn.inference.changes import set_weights
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.model.cells import Cell, State
from seq2attn.model.decoder import Reverser
from seq2attn.model.encoder import Encoded, RecurrentEncoder
from seq2attn.model.interface import Model
from seq2attn.model.points import At, Hook, Rank, named_hooks, places
from seq2attn.torch_private import tree_leaves_with_path, tree_map_with_path

Tensors = dict[str, Tensor]
Nested = dict[str, Any]
"""tensors by name, also in tuples and dicts, such as a memory and a state"""


class Function(NamedTuple):
    """A function of named tensors. Its next call takes the `state.*` that it returns."""

    name: str
    call: Callable[[Tensors], Tensors]
    inputs: Tensors
    """example values"""


@torch.no_grad()
def functions(model: Model, source: Tensor, steps: int) -> list[Function]:
    """Return the functions that decode with a model, in the order in which they are called.

    source: ids (1, S) of the string in their example inputs. steps: how many output positions come
        before the one that the example inputs of `step` are for.

    A recurrent encoder has a function for each of its cells, `encoder_*`. `prepare` returns the
    first `state.*` of `step`, and the `memory.*` that each step takes.
    """
    encoder = _encoder(model.encoder, source) if _has_cells(model) else []
    return [*encoder, _prepare(model, source), _step(model, source, steps)]


def right_answer(task: StringTask, length: int) -> Function:
    """Return the rule of a task as a function of ids of a source without `<eos>`, (1, S), and its
    length (1,): ids of the target (1, L), padded on the right, and its length (1,). The page tells
    by it whether a model's answer is right.

    length: S of the example source.
    """

    def answer(source: Tensor, lengths: Tensor) -> Nested:
        solved = task.solve(source, lengths)
        return {"target": solved.target, "target_lengths": solved.target_lengths}

    # numbers of symbols: some equal ones beside each other, others apart, in no order
    symbols = torch.arange(length) ** 2 // 3 % len(task.source_vocabulary.symbols)
    source = symbols.unsqueeze(0) + len(SPECIAL)  # (1, S)
    return _function("answer", answer, {"source": source, "lengths": torch.tensor([length])})


# ---- nested values, such as {"memory": Memory(...)}, as named tensors, such as memory.keys ----


def _function(name: str, compute: Callable[..., Nested], example: Nested) -> Function:
    """Return what `compute` does as a function of named tensors.

    example: example values of its arguments by name, nested as it takes them. It returns values by
        name, nested in any way.
    """

    def call(tensors: Tensors) -> Tensors:
        # `get`: what is None in the example has no tensor, and stays None
        given = tree_map_with_path(lambda path, _: tensors.get(_name(path)), example)
        return _named(compute(**given))

    return Function(name, call, _named(example))


def _named(values: Nested) -> Tensors:
    """Return tensors and numbers, as tensors, by names such as `memory.keys` and `state.cell.0`."""
    tensors = {}
    for path, leaf in tree_leaves_with_path(values):
        if leaf is not None:
            tensors[_name(path)] = torch.as_tensor(leaf)
    return tensors


def _name(path: Any) -> str:
    """Return the path of a leaf in nested values, such as ("memory", "keys"), as memory.keys."""
    return ".".join(str(key).strip(".[]'") for key in path)


# ---- the encoder ----


def _has_cells(model: Any) -> bool:
    """Return whether the encoder is a loop over cells. A graph has no loops, so the page loops over
    the graph of each cell; other encoders are a graph as a whole.
    """
    return isinstance(model, Reverser) and type(model.encoder) is RecurrentEncoder


def _encoder(encoder: Any, source: Tensor) -> list[Function]:
    """Return for each layer and direction of a recurrent encoder the function that reads one token,
    bottom layer first.
    """
    functions = []
    embed = encoder.embedding
    inputs = source[:, 0]  # (1,): the first layer reads ids
    for number, layer in enumerate(encoder.layers):
        for direction, cell in (("forward", layer.cell), ("backward", layer.backward_cell)):
            if cell is not None:  # None: the encoder reads forwards only
                name = f"encoder_{number}_{direction}"
                functions.append(_encoder_cell(name, embed, cell, inputs))
        embed = nn.Identity()  # the next layer reads the outputs of this one
        inputs = torch.zeros(1, encoder.width)  # an example of these outputs
    return functions


def _encoder_cell(name: str, embed: nn.Module, cell: Cell, inputs: Tensor) -> Function:
    """Return the function that reads one token with a cell, without dropout. For the `first` token
    the cell begins with its own initial state, which may be learned, in place of the input `state`.

    embed: what the inputs go through first: the embedding for ids, nothing for states of the layer
        below.
    inputs: an example: ids (1,), or states (1, W).

    The function's inputs: `input` as this example, `first` () bool, and `state.*`; its outputs:
    `output` (1, width of the cell) and the next `state.*`.
    """

    def read(input: Tensor, first: Tensor, state: State) -> Nested:
        embedded = embed(input).unsqueeze(1)  # (1, 1, E)
        pairs = zip(cell.initial(1), state, strict=True)
        before = [torch.where(first, initial, tensor) for initial, tensor in pairs]
        output, after = cell(embedded, tuple(before))
        return {"output": output.squeeze(1), "state": after}

    example = {"input": inputs, "first": torch.tensor(True), "state": cell.initial(1)}
    return _function(name, read, example)


def _prepare(model: Any, source: Tensor) -> Function:
    """Return the function that computes the memory and first state of the decoder: from the states
    that the encoder's cells made, or, for an encoder without cells, from the source.

    Its inputs: `source` ids (1, S), `valid` (1, S), True = real token; with cells also `states`
    (1, S, W) and, in `final.*`, the last states, as `Encoded` has them. Its outputs: `memory.*` and
    `state.*`, of which each step takes them.
    """
    valid = torch.ones_like(source, dtype=torch.bool)
    example: Nested = {"source": source, "valid": valid}
    if _has_cells(model):
        example |= model.encoder(source, valid.sum(dim=1))._asdict()

    def prepare(source: Tensor, valid: Tensor, **encoded: Any) -> Nested:
        if encoded:  # by the encoder's cells
            memory, state = model.prepare(Encoded(**encoded), valid, source)
        else:
            memory, state = model.encode(source, valid.sum(dim=1))
        return {"memory": memory, "state": state}

    return _function("prepare", prepare, example)


# ---- one step of the decoder ----

OBSERVED = {
    "attention.query": "query",
    "attention.scores": "scores",
    "attention.normalised": "softmax",
    "attention.context": "context",
    "attention.allowed": "allowed",
    "attention.window.centre": "centre",
}
"""points that a model may have -> the outputs of a step that are their values"""


def _step(model: Model, source: Tensor, steps: int) -> Function:
    """Return the function that decodes one position, whose inputs `change.*` change the attention.

    Its example inputs are the state and the memory after `steps` positions. Besides logits
    (1, 1, V symbols), weights (1, 1, S; of a model without attention none) and state it returns
    `choices`, the logits with -inf for what is never written, and the values of `OBSERVED` before
    the changes.
    """
    memory, state = model.encode(source, torch.tensor([source.size(1)]))
    token = torch.tensor([SOS])  # (1,) at all positions: any token will do as an example
    _, state = model.steps(token.expand(1, steps), state, memory)
    observed = OBSERVED.keys() & places(model)

    def step(token: Tensor, state: Any, memory: Any, change: Tensors) -> Nested:
        """Decode one position, after `token` (1,), with the changes `change` of the attention.
        Return the outputs that `_step` names.
        """
        seen: dict[str, list[Tensor]] = defaultdict(list)

        def observe(value: Tensor, at: At) -> None:
            seen[OBSERVED[at.name]].append(value)

        # hooks of the rank RESET run before those of CHANGE, so that they see the values before the
        # changes; and they get these values, not copies, which would be further nodes of the graph
        observing = dict.fromkeys(observed, observe)
        hooks = _hooks(change) if change else {}  # {}: there is no attention
        with named_hooks(model, observing, Rank.RESET), named_hooks(model, hooks, Rank.CHANGE):
            decoded, after = model.step(token, state, memory)
        outputs = {"logits": decoded.logits, "state": after, "weights": decoded.weights}
        outputs["choices"] = model.choices(decoded.logits, memory)
        for name, values in seen.items():
            # a recurrent decoder (in a `Reverser`) has a module, and so a value, for each head,
            # which become one with an axis of heads; a Transformer has a value for each layer,
            # with such an axis, and the page shows the last layer
            if len(values) > 1 and isinstance(model, Reverser):
                outputs[name] = torch.stack(values, dim=1)
            else:
                outputs[name] = values[-1]
        return outputs

    change = _no_change(model, source.size(1))
    example = {"token": token, "state": state, "memory": memory, "change": change}
    return _function("step", step, example)


def force_reason(model: Model) -> str:
    """Return why the attention weights of a model cannot be set, as those of `hard_monotonic`;
    empty if they can, or if there are none.
    """
    weights = places(model).get("attention.weights", [])
    return weights[0].point.fixed if weights else ""


def _no_change(model: Model, width: int) -> Tensors:
    """Return values of the inputs `change.*` of a step, for a source of `width` positions, that
    change nothing: all positions valid, none banned, temperature 1, and no weight forced. A model
    without attention has no such inputs.
    """
    if "attention.weights" not in places(model):
        return {}
    nowhere = torch.zeros(1, 1, width, dtype=torch.bool)  # (B = 1, L = 1, S)
    change = {"valid": ~nowhere, "banned": nowhere, "temperature": torch.ones(1, 1, 1)}
    if not force_reason(model):  # nothing keeps the weights from being set
        change["forced"] = nowhere
        change["weights"] = torch.zeros(1, 1, width)
    return change


def _hooks(change: Tensors) -> dict[str, Hook]:
    """Return the hooks, by the name of their point, that make the changes which the inputs
    `change.*` describe. `_no_change` says what these are and their shapes; here they have their
    names without `change.`, and `forced` and `weights` are missing in a model whose weights cannot
    be set.
    """
    hooks: dict[str, Hook] = {
        "attention.valid": lambda valid, _: change["valid"].view_as(valid),
        "attention.allowed": lambda allowed, _: allowed & ~change["banned"],
        "attention.logits": lambda logits, _: logits / change["temperature"],
    }
    if "forced" in change:
        hooks["attention.weights"] = lambda weights, _: set_weights(
            weights, change["forced"], change["weights"]
        )
    return hooks


# ---- what a program must know to call them ----

LONGEST = 500  # symbols of the longest source for which the manifest gives the number of steps


def manifest(predictor: Predictor, names: Sequence[str]) -> dict[str, Any]:
    """Return vocabularies and settings of a model as plain JSON values; `export.md` says how to use
    them.

    names: of the graphs, of which those of encoder cells are also listed by layer.
    """
    layers = defaultdict(list)
    for name in names:
        if name.startswith("encoder_"):
            # encoder_0, of encoder_0_forward and, if it is bidirectional, encoder_0_backward
            layers[name.rpartition("_")[0]].append(name)
    model = predictor.model
    task = predictor.task
    return {
        "graphs": names,
        "source": _vocabulary(task.source_vocabulary),
        "target": _vocabulary(task.target_vocabulary),
        "pad": PAD,
        "sos": SOS,
        "eos": EOS,
        "source_eos": predictor.source_eos,  # True if `<eos>` ends the sources, too
        "attends": "attention.weights" in places(model),
        # without `<unk>` a model that copies writes no symbol that its vocabulary lacks
        "copies": model.copies and task.target_vocabulary.unknown,
        "force_reason": force_reason(model),  # why weights cannot be set; empty if they can
        # True unless a module that attends does not mask it; other modules lack the attribute
        "mask_padding": all(getattr(part, "mask_padding", True) for part in model.modules()),
        "layers": list(layers.values()),
        # of a source of 1 symbol, 2, ...: after how many steps to give up
        "most_steps": [output_bound(task, length) for length in range(1, LONGEST + 1)],
    }


def _vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what turns strings into ids and back: `tokens` has the text of each id; the rest are
    the arguments of `Vocabulary`.
    """
    return {
        "tokens": list(vocabulary.tokens),
        "symbols": vocabulary.symbols,
        "features": vocabulary.features,
        "separator": vocabulary.separator,
        "unknown": vocabulary.unknown,
        "normalise": vocabulary.normalise,
    }
