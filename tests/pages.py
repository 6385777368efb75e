"""What the tests of exported models share: models of every mechanism, and what PyTorch computes
with them.
"""

import itertools
import random
from dataclasses import replace

import numpy as np
import torch
from inline import ROOT, read_json
from models import CPU, seeded
from tables import rows

from seq2attn.build import build_model, build_task
from seq2attn.config import load_config
from seq2attn.data.vocabulary import EOS
from seq2attn.inference.changes import Changes
from seq2attn.inference.predictor import Predictor, output_bound
from seq2attn.parts import HISTORIES, NORMALISERS, SCORES, WINDOWS

CONFIGS = ROOT / "configs"
LOGITS, WEIGHTS = 1e-4, 1e-4  # how closely PyTorch and what runs its graphs agree
SMALL = ("model.hidden=12", "task.alphabet=abcdefghij")
BAHDANAU = """
mechanisms.yaml model.attention.score=additive model.bidirectional=true model.initial_state=bridge
""".strip()
MORE = f"""
luong | mechanisms.yaml model.decoder=luong model.decoder.input_feeding=true
  model.attention.history=shift
pointer | mechanisms.yaml model.decoder=pointer model.attention.mask_padding=false
  model.attention.score=additive model.attention.window=local_p
  model.attention.scalable_softmax=true
hard_monotonic | mechanisms.yaml model.decoder=hard_monotonic model.attention.score=additive
two layers | scaled.yaml model.layers=2
rnn | mechanisms.yaml model.cell=rnn model.attention.score=cosine
lstm, both ways, two layers | {BAHDANAU} model.cell=lstm model.layers=2
  model.attention.window=local_p model.attention.history=location_coverage
local_m | mechanisms.yaml model.attention.scalable_softmax=true model.attention.window=local_m
unmasked | chapter/additive.yaml model.attention.scalable_softmax=true
one of each | {BAHDANAU} model.cell=lstm model.decoder=luong model.decoder.input_feeding=true
  model.attention.window=local_p model.attention.history=location_coverage
  model.attention.scalable_softmax=true
small transformer | transformer.yaml model.layers=1 model.dropout=0.5
zeros | scaled.yaml model.initial_state=zeros model.source_eos=true
"""
MECHANISMS = {
    **{name: f"{name}.yaml" for name in "dot scaled general additive none transformer".split()},
    **{
        f"{registry.kind} {name}": f"mechanisms.yaml model.attention.{registry.kind}={name}"
        for registry in (SCORES, NORMALISERS, WINDOWS, HISTORIES)
        for name in registry.names()
        if (registry, name) != (SCORES, "none")
    },
    **dict(rows(MORE)),
}


def make_predictor(words, seed=1):
    """The model of a config as it is drawn, with larger weights, none 0, and no liking for `<eos>`:
    answers differ.
    """
    file, *overrides = words.split()
    config = load_config(CONFIGS / file, [*overrides, *SMALL, f"seed={seed}"])
    task = build_task(config)
    model = build_model(config, task)
    drawn = seeded(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.mul_(1.5) if parameter.any() else parameter.normal_(
                    std=0.3, generator=drawn
                )
    return Predictor(model, task, source_eos=config.model.source_eos, device=CPU)


def make_shown(name):
    """The model of one of `MECHANISMS`, or of a file and its overrides, with what the catalogue
    says of its parts.
    """
    from seq2attn.pages.page import PageModel, parts_of

    words = MECHANISMS.get(name, name)
    file, *overrides = words.split()
    parts = parts_of(load_config(CONFIGS / file, [*overrides, *SMALL]))
    return PageModel(name, make_predictor(words), {}, ["abcde"], None, parts)


def random_texts(predictor, count, seed=0, longest=40):
    drawn = random.Random(seed)
    symbols = predictor.task.source_vocabulary.symbols
    return ["".join(drawn.choices(symbols, k=drawn.randint(1, longest))) for _ in range(count)]


def in_pytorch(predictor, text, changes=None):
    """tokens, logits (T, V) and weights (T, S), None without attention, of one answer."""
    (answer,), cache = replace(predictor, changes=changes or Changes()).run_with_cache([text])
    return {
        "tokens": list(answer.output_ids),
        "logits": cache.string(0)["logits"],
        "weights": answer.weights,
    }


def random_changes(predictor, text, seed, attends=True, forces=True):
    """Some changes of each kind, at steps and positions that the decoding of `text` is likely to
    have.

    forces: whether weights can be set.
    """
    drawn = random.Random(seed)
    padding = drawn.choice([0, 0, 3])
    width = len(predictor.task.source_vocabulary.encode(text)) + predictor.source_eos + padding
    tokens = predictor.task.target_vocabulary

    def cell():
        return drawn.randrange(min(width, 12) + 1), drawn.randrange(width)

    steps = range(drawn.choice([0, 0, 1, 2]))
    write = {drawn.randrange(10): tokens.tokens[drawn.randrange(2, len(tokens))] for _ in steps}
    if not attends:
        return Changes(write=write, padding=padding)
    force = {}
    for _ in range(drawn.choice([0, 1, 1, 3]) if forces else 0):
        step, position = cell()
        left = 1 - sum(weight for (at, _), weight in force.items() if at == step)
        force[step, position] = drawn.choice([0.0, left, left * drawn.random()])
    return Changes(
        force=force,
        ban=[
            drawn.choice([cell(), drawn.randrange(width)])
            for _ in range(drawn.choice([0, 0, 1, 3]))
        ],
        temperature=drawn.choice([1.0, 1.0, 0.5, 0.7, 2.0, 10.0]),
        write=write,
        padding=padding,
        mask_padding=drawn.choice([None, True, False]),
    )


def requests_of(name, predictor, texts=3, longest=12):
    """Random texts for a model of this name; the first of them next with changes of each kind that
    it takes.
    """
    attends, forces = name != "none", name != "hard_monotonic"
    requests = []
    for number, text in enumerate(random_texts(predictor, texts, longest=longest)):
        requests.append((text, None))
        if number < 40:
            requests.append((text, random_changes(predictor, text, number + 4, attends, forces)))
        if number == 0:  # masked or not, as the config says
            requests.append((text, Changes(padding=2)))
        if number == 0 and attends and forces:  # which changes what later steps begin with
            held = {0: predictor.task.target_vocabulary.tokens[3]}
            for weight in (1.0, 0.0):
                requests.append((text, Changes(write=held, force={(0, 0): weight})))
    return requests


def assert_agreement(name, predictor, found, **counts):
    """What was found for these requests is what PyTorch computes."""
    expected = [in_pytorch(predictor, *one) for one in requests_of(name, predictor, **counts)]
    most = 3 if "by_key" in name else None  # each step sharpens, which multiplies rounding
    logits, weights = largest_differences(found, expected, most)
    print(name, f"logits {logits:.1e} weights {weights:.1e}", sep="  ")
    assert logits < LOGITS
    assert weights < WEIGHTS


def for_page(predictor, text, changes=None):
    """The same request as the page's `Model.decode` takes it, in JSON."""
    changes = changes or Changes()
    vocabulary = predictor.task.target_vocabulary
    ids = predictor.task.source_vocabulary.encode(text)
    return {
        "ids": [*ids, 2] if predictor.source_eos else ids,
        "bound": output_bound(predictor.task, len(ids)),
        "force": [
            [f"{step},{position}", weight] for (step, position), weight in changes.force.items()
        ],
        "ban": [
            ",".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in changes.ban
        ],
        "write": list(changes.written(vocabulary).items()),
        "temperature": changes.temperature,
        "padding": changes.padding,
        "mask": changes.mask_padding,
    }


class OnnxLoop:
    """The graphs of a folder made by `seq2attn export`, run by onnxruntime as its README says."""

    def __init__(self, folder):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.manifest = read_json(folder / "manifest.json")
        self.graphs = {
            name: onnxruntime.InferenceSession(
                folder / f"{name}.onnx", options, ["CPUExecutionProvider"]
            )
            for name in self.manifest["graphs"]
        }

    def call(self, name, inputs):
        graph = self.graphs[name]
        given = {one.name: inputs[one.name] for one in graph.get_inputs()}
        outputs = [one.name for one in graph.get_outputs()]
        return dict(zip(outputs, graph.run(None, given), strict=True))

    def read(self, name, inputs, length):
        """Outputs by position, and the state after the real tokens."""
        order = list(range(len(inputs)))
        if name.endswith("backward"):
            order = order[:length][::-1] + order[length:]
        state = {
            one.name: np.zeros(one.shape, np.float32)
            for one in self.graphs[name].get_inputs()
            if one.name.startswith("state.")
        }
        outputs = inputs.copy()
        for count, position in enumerate(order, start=1):
            first = np.array(count == 1)
            result = self.call(name, {"input": inputs[position], "first": first, **state})
            outputs[position] = result["output"]
            state = {key: result[f"{key}.next"] for key in state}
            if count == length:
                last = list(state.values())
        return outputs, last

    def decode(self, request):
        """tokens, logits and weights of a request as `for_page` makes it."""
        manifest = self.manifest
        force = dict(request["force"])
        write = dict(request["write"])
        length = len(request["ids"])
        tokens = [*request["ids"], *[manifest["pad"]] * request["padding"]]
        real = np.arange(len(tokens))[None] < length
        inputs = {"source": np.array([tokens]), "valid": real}
        below = [np.array([token]) for token in tokens]
        final = []
        for names in manifest["layers"]:
            read = [self.read(name, below, length) for name in names]
            below = [
                np.concatenate(parts, axis=1)
                for parts in zip(*(outputs for outputs, _ in read), strict=True)
            ]
            final += read[-1][1]
        inputs["states"] = np.stack(below, axis=1)  # which a Transformer's graph does not take
        inputs |= {f"final.{k}": one for k, one in enumerate(final)}
        kept = self.call("prepare", inputs)
        masked = manifest["mask_padding"] if request["mask"] is None else request["mask"]
        token = manifest["sos"]
        emitted = []
        logits = []
        weights = []
        for step in range(request["bound"]):
            cells = [f"{step},{position}" for position in range(len(tokens))]
            banned = [not {str(k), cell}.isdisjoint(request["ban"]) for k, cell in enumerate(cells)]
            forced = [force.get(cell, np.nan) for cell in cells]
            change = {
                "change.banned": np.array([[banned]]),
                "change.forced": ~np.isnan([[forced]]),
                "change.weights": np.nan_to_num(np.array([[forced]], np.float32)),
                "change.temperature": np.full((1, 1, 1), request["temperature"], np.float32),
                "change.valid": np.array([real if masked else np.ones_like(real)]),
            }
            result = self.call("step", {"token": np.array([token]), **kept, **change})
            kept |= {key.removesuffix(".next"): one for key, one in result.items()}
            logits.append(result["logits"][0, 0])
            if manifest["attends"]:
                weights.append(result["weights"][0, 0])
            token = write.get(step, int(result["choices"].argmax()))
            emitted.append(token)
            if token == manifest["eos"]:
                break
        return {"tokens": emitted, "logits": logits, "weights": weights or None}


def largest_differences(found, expected, most=None):
    """The largest absolute differences of logits and weights in the first `most` steps. Raises
    AssertionError where outputs differ, unless the two best symbols of the first step that differs
    are so close that rounding decides; what follows it is then left out.
    """
    largest = {"logits": 0.0, "weights": 0.0}
    for one, other in zip(found, expected, strict=True):
        compared = slice(most)
        pairs = itertools.zip_longest(one["tokens"][:most], other["tokens"][:most])
        for step, (mine, theirs) in enumerate(pairs):
            if mine != theirs:
                second, best = np.sort(other["logits"][step][EOS:])[-2:]
                assert best - second < 1e-5  # rounding adds up over 64 steps
                compared = slice(step + 1)
                break
        assert (one["weights"] is None) == (other["weights"] is None)
        for name, before in largest.items():
            if one[name] is not None:
                apart = np.abs(np.array(one[name][compared]) - other[name][compared]).max()
                largest[name] = max(before, float(apart))
    return largest.values()
