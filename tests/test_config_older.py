"""Configs as release 0.1 wrote them: a run holds every key with its value, whatever was chosen."""

import pytest

from seq2attn.config import check_config, dump_config, load_config, value_at
from seq2attn.errors import ConfigError

GRU = """\
seed: 3
task:
  name: duplicate
  alphabet: abcdef
  min_length: 2
  max_length: 4
model:
  architecture: gru
  embedding: 8
  hidden: 16
  bidirectional: true
  initial_state: zeros
  decoder: luong
  input_feeding: true
  source_eos: false
  attention:
    score: additive
    options:
      width: 8
    mask_padding: false
    scalable_softmax: true
    window: local_m
    radius: 3
    centre: reversed
    history: location
    filters: 4
    kernel: 3
  transformer:
    layers: 2
    heads: 4
    feedforward: 384
    dropout: 0.0
training:
  steps: 200
  batch_size: 32
  word_dropout: 0.1
  encoder_reset: 0.2
  decoder_reset: 0.3
  learning_rate: 0.01
  weight_decay: 0.4
  coverage_weight: 0.5
  clip_norm: null
  schedule: linear
  warmup: 7
  log_every: 11
  evaluate_every: 100
  validation_samples: 20
  target: 0.9
evaluation:
  lengths:
  - 2
  - 4
  samples: 50
"""

GRU_NOW = {
    "seed": 3,
    "task": {"name": "duplicate", "alphabet": "abcdef", "min_length": 2, "max_length": 4},
    "model": {
        "embedding": 8,
        "hidden": 16,
        "bidirectional": True,
        "initial_state": "zeros",
        "decoder": {"name": "luong", "input_feeding": True},
        "source_eos": False,
        "attention": {
            "score": {"name": "additive", "width": 8},
            "mask_padding": False,
            "scalable_softmax": True,
            "window": {"name": "local_m", "radius": 3, "centre": "reversed"},
            "history": {"name": "location", "filters": 4, "kernel": 3},
        },
    },
    "training": {
        "steps": 200,
        "batch_size": 32,
        "word_dropout": 0.1,
        "encoder_reset": 0.2,
        "decoder_reset": 0.3,
        "learning_rate": 0.01,
        "weight_decay": 0.4,
        "coverage_weight": 0.5,
        "clip_norm": None,
        "schedule": "linear",
        "warmup": 7,
        "log_every": 11,
        "evaluate_every": 100,
        "validation_samples": 20,
        "target": 0.9,
    },
    "evaluation": {"lengths": [2, 4], "samples": 50},
}

DEFAULT = """\
seed: 1
task:
  name: reverse
  alphabet: abcdefghijklmnopqrstuvwxyz
  min_length: 1
  max_length: 12
model:
  architecture: gru
  embedding: 32
  hidden: 96
  bidirectional: false
  initial_state: bridge
  decoder: bahdanau
  input_feeding: false
  source_eos: true
  attention:
    score: scaled
    options: {}
    mask_padding: true
    scalable_softmax: false
    window: global
    radius: 2
    centre: monotonic
    history: none
    filters: 8
    kernel: 5
  transformer:
    layers: 2
    heads: 4
    feedforward: 384
    dropout: 0.0
training:
  steps: 1500
  batch_size: 64
  word_dropout: 0.0
  encoder_reset: 0.0
  decoder_reset: 0.0
  learning_rate: 0.003
  weight_decay: 0.0
  coverage_weight: 0.0
  clip_norm: 1.0
  schedule: cosine
  warmup: 0
  log_every: 10
  evaluate_every: 500
  validation_samples: 100
  target: null
evaluation:
  lengths: null
  samples: 1000
"""

TRANSFORMER = (
    DEFAULT.replace("architecture: gru", "architecture: transformer")
    .replace("layers: 2", "layers: 3")
    .replace("heads: 4", "heads: 2")
    .replace("feedforward: 384", "feedforward: 100")
    .replace("dropout: 0.0\ntraining", "dropout: 0.25\ntraining")
    .replace("initial_state: bridge", "initial_state: last")  # of no effect, and was accepted
)

TRANSFORMER_NOW = {
    "model": {"architecture": "transformer", "layers": 3, "heads": 2, "feedforward": 100, "dropout": 0.25},
}


@pytest.fixture
def load(tmp_path):
    """`load(text, *overrides)` -> the config of a file with that text."""

    def call(text, *overrides):
        (tmp_path / "a.yaml").write_text(text)
        return load_config(tmp_path / "a.yaml", overrides)

    return call


@pytest.mark.parametrize(
    ("text", "values"),
    [(GRU, GRU_NOW), (DEFAULT, {}), (TRANSFORMER, TRANSFORMER_NOW)],
    ids=["every value changed", "every value at its default", "transformer"],
)
def test_the_config_of_an_older_run_keeps_its_meaning(load, text, values):
    config = load(text)
    assert config == check_config(values)
    assert load(dump_config(config)) == config


@pytest.mark.parametrize(
    ("text", "overrides", "values"),
    [
        (DEFAULT, ["model.attention.window=local_p"], {"model.attention.window": "local_p"}),
        (DEFAULT, ["model.attention.window=local_m", "model.attention.radius=1"], {"model.attention.window.radius": 1}),
        (
            DEFAULT,
            ["model.attention.kernel=7", "model.attention.history=location"],
            {"model.attention.history.kernel": 7},
        ),
        (DEFAULT, ["model.attention.radius=2"], {"model.attention.window": "global"}),  # its default: no effect
        (DEFAULT, ["model.decoder=luong", "model.input_feeding=true"], {"model.decoder.input_feeding": True}),
        (
            DEFAULT,
            ["model.attention.options={width: 4}", "model.attention.score=additive"],
            {"model.attention.score.width": 4},
        ),
        (
            GRU,
            ["model.attention.history=none"],
            {"model.attention.history": "none", "model.attention.window.radius": 3},
        ),
        (GRU, ["model.attention.score=general"], {"model.attention.score": "general"}),
        (GRU, ["model.attention.score=additive"], {"model.attention.score.width": 8}),
        (GRU, ["model.attention.options.width=4"], {"model.attention.score.width": 4}),
        (DEFAULT, ["model.architecture=transformer"], {"model.layers": 2, "model.heads": 4}),
        (DEFAULT, ["model.architecture=transformer", "model.transformer.layers=3"], {"model.layers": 3}),
        (TRANSFORMER, ["model.layers=1"], {"model.layers": 1, "model.heads": 2}),
        (TRANSFORMER, ["model.transformer.layers=1"], {"model.layers": 1, "model.heads": 2}),
        (TRANSFORMER, ["model.transformer={heads: 1}"], {"model.layers": 2, "model.heads": 1}),
        (DEFAULT, ["model.transformer.layers=2"], {"model.layers": 1}),  # a Transformer's default: no effect
    ],
)
def test_overrides_of_an_older_config(load, text, overrides, values):
    config = load(text, *overrides)
    assert {key: value_at(config, key) for key in values} == values


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("radius: 2", "radius: 4", "model.attention.window.radius", "has no effect with window 'global'"),
        ("filters: 8", "filters: 4", "model.attention.history.filters", "has no effect with history 'none'"),
        ("input_feeding: false", "input_feeding: true", "model.decoder.input_feeding", "has no effect with decoder"),
        ("layers: 2", "layers: 3", "model.transformer.layers", "has no effect with architecture 'gru'; set model.arch"),
        ("options: {}", "options: {width: 3}", "model.attention.score.width", "has no effect with score 'scaled'"),
        ("layers: 2", "depth: 2", "model.depth", "unknown key; allowed here: architecture, attention, "),
        ("radius: 2", "radius: x", "model.attention.window.radius", "has no effect with window 'global'"),
        (
            "radius: 2",
            "radii: 2",
            "model.attention.radii",
            "unknown key; did you mean 'model.attention.window.radius'? ",
        ),
    ],
)
def test_a_setting_without_effect_is_reported_with_its_line(load, tmp_path, old, new, path, message):
    text = DEFAULT.replace(old, new)
    with pytest.raises(ConfigError) as caught:
        load(text)
    (problem,) = caught.value.problems
    line = next(number for number, line in enumerate(text.splitlines(), 1) if new in line)
    assert (problem.path, problem.where) == (path, f"{tmp_path / 'a.yaml'}:{line}")
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "written", "called"),
    [
        (
            "model: {attention: {window: {name: local_m, radius: 2}, radius: 3}}",
            "model.attention.radius",
            "model.attention.window.radius",
        ),
        (
            "model: {architecture: transformer, layers: 2, transformer: {layers: 2}}",
            "model.transformer.layers",
            "model.layers",
        ),
    ],
)
def test_the_same_setting_in_both_spellings_is_refused(load, text, written, called):
    with pytest.raises(ConfigError) as caught:
        load(text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.message) == (written, f"is now called {called}, which is written too; keep one")


def test_a_default_that_has_no_effect_is_accepted_in_the_old_spelling_only():
    assert check_config({}, ["model.attention.radius=2"]) == check_config({})
    with pytest.raises(ConfigError) as caught:
        check_config({}, ["model.attention.window.radius=2"])
    (problem,) = caught.value.problems
    assert (problem.path, problem.where) == ("model.attention.window.radius", "--set 'model.attention.window.radius=2'")
    assert problem.message.startswith("has no effect with window 'global'")
