import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from seq2attn import parts
from seq2attn.config import (
    Part,
    check_config,
    dump_config,
    flat_values,
    load_config,
    value_at,
)
from seq2attn.config.schema import all_keys
from seq2attn.config.words import parse_lengths
from seq2attn.errors import ConfigError, Problem, Seq2AttnError, did_you_mean, shown

CONFIGS = Path(__file__).parent.parent / "configs"


def nested(dotted, value):
    """`nested("a.b", 1)` -> `{"a": {"b": 1}}`."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    return value


def problems(values, *overrides):
    with pytest.raises(ConfigError) as caught:
        check_config(values, overrides)
    return {problem.path: problem.message for problem in caught.value.problems}


# ---- schema ----


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("model.embedding", 32),
        ("model.hidden", 96),
        ("model.attention.score", "scaled"),
        ("model.attention.mask_padding", True),
        ("training.batch_size", 64),
        ("training.learning_rate", 0.003),
        ("training.clip_norm", 1.0),
        ("training.schedule", "cosine"),
        ("task.name", "reverse"),
        ("task.alphabet", "abcdefghijklmnopqrstuvwxyz"),
    ],
)
def test_defaults_match_the_specification(key, expected):
    assert value_at(check_config({}), key) == expected


@pytest.mark.parametrize(
    ("key", "written", "kept"),
    [
        ("model.attention.score", "scaled_dot", "scaled"),
        ("model.attention.score", "concat", "additive"),
        ("model.attention.score", "bahdanau", "additive"),
        ("model.attention.score", "multiplicative", "general"),
        ("training.learning_rate", 1, 1.0),
        ("training.clip_norm", None, None),
        ("training.target", 1, 1.0),
        ("evaluation.lengths", [7, 3, 5], [3, 5, 7]),
        ("evaluation.lengths", "1-3", [1, 2, 3]),
        ("evaluation.lengths", ["1-3", 12], [1, 2, 3, 12]),
        ("evaluation.lengths", 4, [4]),
        ("model.hidden", 1, 1),
        ("model.hidden", 65_536, 65_536),
        ("seed", 2**63 - 1, 2**63 - 1),
        ("task.alphabet", "é ☃", "é ☃"),
    ],
)
def test_values_are_normalised(key, written, kept):
    found = value_at(check_config(nested(key, written)), key)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.hidden", "64", "expected a whole number, found '64'"),
        ("model.hidden", 64.0, "expected a whole number, found 64.0"),
        ("model.hidden", True, "expected a whole number, found True"),
        ("model.hidden", None, "expected a whole number, found nothing"),
        ("model.hidden", 0, "must be at least 1, found 0"),
        ("model.hidden", 65_537, "must be at most 65,536, found 65537"),
        ("model.embedding", -1, "must be at least 1, found -1"),
        ("model.bidirectional", "yes", "expected true or false, found 'yes'"),
        ("model.bidirectional", 1, "expected true or false, found 1"),
        ("model", [1], "expected keys and values (a mapping), found a list"),
        ("model", None, "expected keys and values (a mapping), found nothing"),
        ("model.attention", "dot", "expected keys and values (a mapping), found 'dot'"),
        ("model.attention.score", [], "expected the name of a score, or its name and options; found a list"),
        ("model.attention.score", None, "expected the name of a score, or its name and options; found nothing"),
        ("model.attention.window", 3, "expected the name of a window, or its name and options; found 3"),
        ("model.attention.window", {"name": 3}, "expected the name of a window, or its name and options; found 3"),
        ("model.architecture", "gruu", "unknown architecture 'gruu'; did you mean 'gru'? allowed: gru, transformer"),
        ("model.architecture", None, "expected the name of an architecture; found nothing"),
        ("model.architecture", ["gru"], "expected the name of an architecture; found a list"),
        (
            "model.attention.window",
            {"name": ["global"]},
            "expected the name of a window, or its name and options; found a list",
        ),
        ("model.cell", "gur", "unknown cell 'gur'; did you mean 'gru'? allowed: gru, lstm, rnn"),
        ("model.layers", 9, "must be at most 8, found 9"),
        ("model.dropout", 1.0, "must be below 1, found 1.0"),
        ("task.min_length", 0, "must be at least 1, found 0"),
        ("task.max_length", 100_001, "must be at most 100,000, found 100001"),
        ("task.max_length", "12", "expected a whole number, found '12'"),
        ("seed", -1, "must be at least 0, found -1"),
        ("seed", 2**63, f"must be below {2**63:,}, found {2**63}"),
        ("training.learning_rate", "3e-3", "expected a number, found '3e-3'"),
        ("training.learning_rate", 0, "must be above 0, found 0"),
        ("training.learning_rate", float("inf"), "must be a finite number, found inf"),
        ("training.learning_rate", float("nan"), "must be a finite number, found nan"),
        ("training.clip_norm", 0.0, "must be above 0, found 0.0"),
        ("training.target", 1.5, "must be at most 1, found 1.5"),
        ("task.alphabet", "", "must not be empty"),
        ("task.alphabet", 123, "expected text, found 123; put it in quotes"),
        ("task.alphabet", "abca", "repeats 'a'"),
        ("task.alphabet", "\u00e3a\u0303", "repeats '\u00e3' (U+00E3)"),
        ("task.alphabet", "a\nb", "contains a line end, '\\n'"),
        ("evaluation.lengths", [], "no length given"),
        ("evaluation.lengths", [0], "'0' is out of range"),
        ("evaluation.lengths", [True], "True is not a length"),
        ("evaluation.lengths", {"a": 1}, "{'a': 1} is not a length"),
        ("evaluation.lengths", 3.0, "3.0 is not a length"),
        ("training.schedule", "cosin", "unknown schedule 'cosin'; did you mean 'cosine'? allowed: cosine, "),
        ("task", {"name": "Reverse"}, "unknown task 'Reverse'; did you mean 'reverse'? allowed: reverse, "),
        ("task", {"name": "translate"}, "unknown task 'translate'; allowed: reverse, "),
        ("task", "Reverse", "unknown task 'Reverse'; did you mean 'reverse'? allowed: reverse, "),
        ("model.attention.score", "bilinaer", "unknown score 'bilinaer'; did you mean 'bilinear'? allowed: dot, "),
    ],
)
def test_an_invalid_value_is_reported_under_its_key(key, value, message):
    found = problems(nested(key, value))
    assert list(found) == [key]
    assert found[key].startswith(message)


def test_a_long_alphabet_is_shortened_in_the_message():
    message = problems(nested("task.alphabet", "".join(map(chr, range(20_000, 30_001)))))["task.alphabet"]
    assert message.startswith("must have at most 10,000 characters, found 10,001")
    assert len(message) < 150


@pytest.mark.parametrize(
    ("key", "guess"),
    [
        ("model.hiden", "did you mean 'hidden'? allowed here: architecture, attention, "),
        ("modle", "did you mean 'model'? allowed here: evaluation, model, seed, task, training"),
        ("hidden", "did you mean 'model.hidden'? allowed here: evaluation, model, seed, task, training"),
        ("model.score", "did you mean 'model.attention.score'? "),
        ("model.kernel", "did you mean 'model.attention.history.kernel'? "),
        ("model.attention.max_length", "did you mean 'task.max_length'? "),
        ("training.zzz", "allowed here: batch_size, clip_norm, "),
    ],
)
def test_an_unknown_key_suggests_a_similar_one(key, guess):
    found = problems(nested(key, 1))
    assert list(found) == [key]
    assert found[key].startswith(f"unknown key; {guess}")


def test_a_config_cannot_be_changed():
    config = check_config({})
    for section, key in ((config, "seed"), (config.model, "hidden"), (config.model.attention, "score")):
        with pytest.raises(ValidationError):
            setattr(section, key, getattr(section, key))


def test_every_key_is_documented():
    assert [path for path, field in all_keys() if not field.description] == []


def test_every_option_is_documented():
    options = {(e.name, name): one for kind in parts.EXTENSIBLE for e in kind for name, one in e.meanings.items()}
    assert options and [place for place, meaning in options.items() if not meaning] == []


def test_evaluation_and_training_lengths():
    config = check_config({"task": {"min_length": 3, "max_length": 5}})
    assert config.evaluation_lengths == (3, 4, 5)
    assert [length for length in range(1, 8) if config.is_trained(length)] == [3, 4, 5]
    assert config.trained_lengths == range(3, 6)
    assert check_config({"evaluation": {"lengths": [2, 9]}}).evaluation_lengths == (2, 9)


def test_the_score_of_a_transformer_is_scaled():
    assert check_config({"model": {"attention": {"score": "dot"}}}).score_name == "dot"
    assert check_config({"model": {"architecture": "transformer"}}).score_name == "scaled"


# ---- choices ----


@pytest.mark.parametrize(
    ("written", "choice"),
    [
        ("none", Part("none")),
        ("location", Part("location", {"filters": 8, "kernel": 5})),
        ({"name": "location"}, Part("location", {"filters": 8, "kernel": 5})),
        ({"name": "location", "kernel": 7}, Part("location", {"filters": 8, "kernel": 7})),
        ({"kernel": 7, "name": "location_coverage"}, Part("location_coverage", {"filters": 8, "kernel": 7})),
        ({}, Part("none")),
    ],
)
def test_a_choice_is_a_name_or_a_name_and_options(written, choice):
    config = check_config(attention(history=written))
    assert config.model.attention.history == choice
    assert check_config(attention(history=choice)) == config


def test_a_choice_without_options_is_dumped_as_its_name():
    config = check_config(attention(history={"name": "location", "kernel": 7}))
    found = config.model_dump(mode="json")["model"]["attention"]
    assert found["window"] == "global"
    assert found["history"] == {"name": "location", "filters": 8, "kernel": 7}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "reverse"),
        ("task.name", "reverse"),
        ("task.max_length", 12),
        ("model.attention.score", {"name": "additive", "width": 8}),
        ("model.attention.score.name", "additive"),
        ("model.attention.score.width", 8),
        ("model.attention.window", "local_m"),
        ("model.attention.window.radius", 2),
        ("model.attention.mask_padding", True),
        ("model.cell", "gru"),
        ("evaluation.lengths", [1, 2]),
        ("evaluation", {"lengths": [1, 2], "samples": 1000, "families": ["random"]}),
    ],
)
def test_the_value_at_a_dotted_key(key, value):
    score = {"name": "additive", "width": 8}
    config = check_config({**attention(score=score, window="local_m"), "evaluation": {"lengths": "1-2"}})
    assert value_at(config, key) == value


@pytest.mark.parametrize(
    "key", ["modle", "model.hiden", "model.heads", "seed.more", "task.radius", "model.attention.history.kernel"]
)
def test_a_dotted_key_without_a_value(key):
    with pytest.raises(KeyError):
        value_at(check_config({}), key)


def test_a_transformer_has_no_recurrent_keys():
    config = check_config({"model": {"architecture": "transformer", "heads": 2}})
    assert value_at(config, "model.heads") == 2
    for key in ("model.attention.score", "model.cell", "model.head"):
        with pytest.raises(KeyError):
            value_at(config, key)


def test_every_value_of_a_config_by_its_dotted_key():
    found = flat_values(check_config(attention(score={"name": "additive", "width": 8})))
    assert (found["seed"], found["task"], found["task.max_length"]) == (1, "reverse", 12)
    assert (found["model.attention.score"], found["model.attention.score.width"]) == ("additive", 8)
    assert "model.attention.score.name" not in found
    assert found["training.clip_norm"] == 1.0


# ---- combinations ----

BIDIRECTIONAL = {"bidirectional": True, "hidden": 8}
TRANSFORMER = {"architecture": "transformer"}
FOREIGN = "has no effect with architecture 'transformer'; set the architecture to gru, or leave this out"
LACKS = "has no effect with architecture 'transformer', which has no recurrent state; set it to 0, or model.arch"


def attention(**values):
    return {"model": {"attention": values}}


COMBINATIONS = [
    ({"model": {**TRANSFORMER, "attention": {"window": "local_p"}}}, "model.attention", FOREIGN),
    ({"model": {**TRANSFORMER, "decoder": "luong"}}, "model.decoder", FOREIGN),
    ({"model": {**TRANSFORMER, "embedding": 32}}, "model.embedding", FOREIGN),
    (
        {"model": TRANSFORMER, "training": {"coverage_weight": 0.5}},
        "training.coverage_weight",
        LACKS,
    ),
    ({"model": TRANSFORMER, "training": {"encoder_reset": 0.2}}, "training.encoder_reset", LACKS),
    ({"model": TRANSFORMER, "training": {"decoder_reset": 0.2}}, "training.decoder_reset", LACKS),
    (
        {**attention(score="none"), "training": {"decoder_reset": 0.2}},
        "training.decoder_reset",
        "attention score 'none' stores the source only in the decoder's state, which a reset destroys; set it to 0",
    ),
    (
        {"model": {**TRANSFORMER, "hidden": 30}},
        "model.hidden",
        "30 is not a multiple of model.heads, 4; change one of them",
    ),
    (
        {"model": {"heads": 2}},
        "model.heads",
        "has no effect with architecture 'gru'; set the architecture to transformer, or leave this out",
    ),
    (
        attention(score="none", window="local_m"),
        "model.attention.window",
        "attention score 'none' has no weights, so this has no effect; set it to global",
    ),
    (attention(score="none", history="coverage"), "model.attention.history", "attention score 'none' has no weights"),
    (
        attention(score="none", scalable_softmax=True),
        "model.attention.scalable_softmax",
        "attention score 'none' has no weights",
    ),
    (
        attention(score="none", mask_padding=False),
        "model.attention.mask_padding",
        "attention score 'none' has no weights, so this has no effect; set it to true",
    ),
    (
        {**attention(score="none"), "training": {"coverage_weight": 1.0}},
        "training.coverage_weight",
        "attention score 'none' has no weights, so this has no effect",
    ),
    (
        {"model": {"decoder": {"input_feeding": True}}},
        "model.decoder.input_feeding",
        "has no effect with decoder 'bahdanau'; set the decoder to luong, or leave this out",
    ),
    (
        attention(history={"name": "location", "kernel": 4}),
        "model.attention.history.kernel",
        "must be odd, so that it is symmetric; found 4",
    ),
    (
        attention(window={"name": "local_m", "centre": "left"}),
        "model.attention.window.centre",
        "must be monotonic or reversed, found 'left'",
    ),
    (
        attention(window={"radius": 3}),
        "model.attention.window.radius",
        "has no effect with window 'global'; set the window to local_m or local_p, or leave this out",
    ),
    (
        attention(window={"name": "local_p", "centre": "reversed"}),
        "model.attention.window.centre",
        "has no effect with window 'local_p'; set the window to local_m, or leave this out",
    ),
    (
        attention(history={"name": "coverage", "filters": 3}),
        "model.attention.history.filters",
        "has no effect with history 'coverage'; set the history to location or location_coverage, or leave this out",
    ),
    ({"task": {"min_length": 9, "max_length": 3}}, "task.min_length", "9 is above task.max_length, 3"),
    ({"task": {"min_length": 13}}, "task.min_length", "13 is above task.max_length, 12"),
    (
        {"training": {"warmup": 6, "steps": 5}},
        "training.warmup",
        "6 is above training.steps, 5; warm up for less, such as --set training.warmup=0",
    ),
    (
        {"training": {"target": 0.9}, "evaluation": {"lengths": [13, 20]}},
        "training.target",
        "no length of evaluation.lengths lies within 1-12",
    ),
    (
        {"model": {**BIDIRECTIONAL, "attention": {"score": "dot"}}},
        "model.attention.score",
        "'dot' needs queries and keys of equal width, but a bidirectional encoder's keys are 2 x 8 wide and the "
        "decoder's queries 8; use general, scaled_general, additive or key_value, or set model.bidirectional to false",
    ),
    ({"model": {**BIDIRECTIONAL, "attention": {"score": "scaled_dot"}}}, "model.attention.score", "'scaled' needs"),
    (
        {"model": {**BIDIRECTIONAL, "attention": {"score": "general"}, "initial_state": "last"}},
        "model.initial_state",
        "'last' needs encoder and decoder states of equal width",
    ),
    (
        {"model": {"attention": {"score": "none"}, "bidirectional": True}},
        "model.bidirectional",
        "with attention score 'none' the forward direction is not used",
    ),
    (
        {"model": {"attention": {"score": "none"}, "initial_state": "zeros"}},
        "model.initial_state",
        "'zeros' with attention score 'none' leaves the decoder no way to see the source",
    ),
]


@pytest.mark.parametrize(("values", "key", "message"), COMBINATIONS)
def test_an_invalid_combination_is_reported_under_the_key_to_change(values, key, message):
    found = problems(values)
    assert list(found) == [key]
    assert found[key].startswith(message)


@pytest.mark.parametrize(
    "values",
    [
        {"task": {"min_length": 3, "max_length": 3}},
        {"training": {"warmup": 5, "steps": 5}},
        {"training": {"target": 0.9}, "evaluation": {"lengths": [12, 20]}},
        {"evaluation": {"lengths": [13]}},
        {"model": {"bidirectional": True, "attention": {"score": "general"}}},
        {"model": {"bidirectional": True, "attention": {"score": "additive"}, "initial_state": "zeros"}},
        {"model": {"attention": {"score": "none"}, "initial_state": "last"}},
        {"model": {"attention": {"score": "dot"}, "initial_state": "last"}},
        {"model": {**TRANSFORMER, "layers": 1, "heads": 2}},
        {"model": {"decoder": {"name": "luong", "input_feeding": True}, "cell": "lstm", "layers": 2, "dropout": 0.1}},
        {
            "model": {
                "decoder": {"name": "luong", "input_feeding": True},
                "attention": {"window": {"name": "local_p", "radius": 4}},
            }
        },
        attention(
            window={"name": "local_m", "centre": "reversed", "radius": 1},
            history={"name": "location_coverage", "kernel": 7},
        ),
    ],
)
def test_valid_combinations_are_accepted(values):
    check_config(values)


@pytest.mark.parametrize(
    ("score", "name", "value"),
    [
        ("additive", "width", 3),
        ("concat", "width", None),
        ("general", "initial_std", 0.1),
        ("general", "initial_std", 1),
    ],
)
def test_score_options_are_accepted(score, name, value):
    config = check_config({"model": {"attention": {"score": {"name": score, name: value}}}})
    assert config.model.attention.score.keywords[name] == value


@pytest.mark.parametrize(
    ("score", "name", "value", "message"),
    [
        ("dot", "width", 3, "has no effect with score 'dot'; set the score to additive, or leave this out"),
        ("dot", "height", 3, "unknown key; allowed here: none"),
        ("concat", "widht", 3, "unknown key; did you mean 'width'? allowed here: width"),
        ("additive", "width", 0, "must be at least 1, found 0"),
        ("additive", "width", 3.0, "expected a whole number, found 3.0"),
        ("additive", "width", True, "expected a whole number, found True"),
        ("general", "initial_std", "wide", "expected a number, found 'wide'"),
        ("general", "initial_std", -0.1, "must be above 0, found -0.1"),
        ("general", "initial_std", 0, "must be above 0, found 0"),
        ("general", "initial_std", float("inf"), "must be a finite number, found inf"),
        ("general", "initial_std", float("nan"), "must be a finite number, found nan"),
    ],
)
def test_invalid_score_options_are_reported(score, name, value, message):
    found = problems(attention(score={"name": score, name: value}))
    assert list(found) == [f"model.attention.score.{name}"]
    assert found[f"model.attention.score.{name}"].startswith(message)


def test_all_problems_are_reported_together():
    values = {
        "seed": -1,
        "typo": 1,
        "task": {"min_length": 9, "max_length": 3},
        "training": {"steps": "many", "warmup": 10**9},
        "model": {"hidden": 0, "initial_state": "zeros", "attention": {"score": "none"}},
    }
    # not training.warmup: training.steps, which it depends on, is invalid
    assert set(problems(values)) == {
        "seed",
        "typo",
        "task.min_length",
        "training.steps",
        "model.hidden",
        "model.initial_state",
    }


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ({"task": {"min_length": 20, "max_length": "x"}}, {"task.max_length"}),
        ({"task": []}, {"task"}),
        ({"model": {"bidirectional": "x", "attention": {"score": "dot"}}}, {"model.bidirectional"}),
        ({"model": {"bidirectional": True, "attention": {"score": "dto"}}}, {"model.attention.score"}),
        ({"model": {"bidirectional": True, "attention": 5}}, {"model.attention"}),
        ({"training": {"target": 0.5}, "evaluation": {"lengths": [50], "samples": 0}}, {"evaluation.samples"}),
        (attention(score={"name": "nne", "width": 3}), {"model.attention.score"}),
        ({"model": {"architecture": "transfomer", "heads": 2}}, {"model.architecture"}),
        (
            {"model": {"bidirectional": True, "attention": {"score": {"name": "dot", "width": 3}}}},
            {"model.attention.score", "model.attention.score.width"},
        ),
    ],
)
def test_combinations_with_invalid_values_are_not_checked(values, paths):
    assert set(problems(values)) == paths


# ---- files ----


def write(path, text):
    path.write_text(text)
    return path


def test_keys_missing_in_a_file_get_their_defaults(tmp_path):
    config = load_config(write(tmp_path / "a.yaml", "seed: 5\nmodel: {hidden: 8}\n"))
    assert (config.seed, config.model.hidden, config.model.embedding) == (5, 8, 32)


def test_problems_of_a_file_have_line_numbers(tmp_path):
    path = write(tmp_path / "a.yaml", "seed: x\nmodel:\n  hiden: 8\n  attention:\n    score: {width: 3}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["training.steps=0"])
    assert {problem.path: problem.where for problem in caught.value.problems} == {
        "seed": f"{path}:1",
        "model.hiden": f"{path}:3",
        "training.steps": "--set 'training.steps=0'",
    } | {"model.attention.score.width": f"{path}:5"}
    first, *lines = str(caught.value).splitlines()
    assert first == f"{path}: 4 problems"
    assert f"  seed ({path}:1): expected a whole number, found 'x'" in lines
    assert lines[-1] == "`seq2attn inspect CONFIG` shows every key with its value."


def test_an_invalid_combination_has_the_line_of_a_key_that_it_rests_on(tmp_path):
    path = write(tmp_path / "a.yaml", "seed: 1\nmodel:\n  bidirectional: true\n")  # and the default score, scaled
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert [(problem.path, problem.where) for problem in caught.value.problems] == [
        ("model.attention.score", f"{path}:3")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "{path}: empty"),
        ("# nothing\n", "{path}: empty"),
        ("- seed\n", "{path}: expected keys and values (a mapping), found a list"),
        ("seed\n", "{path}: expected keys and values (a mapping), found 'seed'"),
        ("5\n", "{path}: expected keys and values (a mapping), found 5"),
    ],
)
def test_a_file_without_keys_is_refused(tmp_path, text, message):
    path = write(tmp_path / "a.yaml", text)
    with pytest.raises(Seq2AttnError) as caught:
        load_config(path)
    assert caught.value.message == message.format(path=path)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"task": {"alphabet": " #'\"é☃:"}, "evaluation": {"lengths": "1-4"}},
        {"task": {"alphabet": "0123456789"}},
        {"task": {"alphabet": "1e5"}},
        {"task": {"alphabet": "0"}, "training": {"clip_norm": None, "learning_rate": 1e-9}},
        {"task": {"alphabet": "~"}, "model": {"attention": {"score": {"name": "additive", "width": 7}}}},
        {"seed": 2**63 - 1, "training": {"target": 0.5}},
    ],
)
def test_a_dumped_config_is_read_back_equal(tmp_path, values):
    config = check_config(values)
    path = tmp_path / "a.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config


@pytest.mark.parametrize(
    "path", sorted(set(CONFIGS.rglob("*.yaml")) - set(CONFIGS.glob("experiments/*"))), ids=lambda path: path.name
)
def test_every_shipped_config_is_valid(path):
    assert json.loads(load_config(path).model_dump_json())["seed"] >= 0


def test_there_are_shipped_configs():
    assert (CONFIGS / "scaled.yaml").is_file()


# ---- overrides ----


@pytest.mark.parametrize(
    ("overrides", "key", "expected"),
    [
        (["seed=7"], "seed", 7),
        (["seed=7", "seed=8"], "seed", 8),
        ([" seed = 7 "], "seed", 7),
        (["model.attention.score=additive"], "model.attention.score", "additive"),
        (["training.learning_rate=3e-3"], "training.learning_rate", 0.003),
        (["training.clip_norm=null"], "training.clip_norm", None),
        (["training.clip_norm="], "training.clip_norm", None),
        (["evaluation.lengths=[3, 5]"], "evaluation.lengths", [3, 5]),
        (["evaluation.lengths=3-5"], "evaluation.lengths", [3, 4, 5]),
        (["task.alphabet='a=b'"], "task.alphabet", "a=b"),
        (['task.alphabet="ab "'], "task.alphabet", "ab "),
        (["task.alphabet=' ab'"], "task.alphabet", " ab"),
        (["task.alphabet=aa\u0303"], "task.alphabet", "a\u00e3"),
        (["model={embedding: 4}"], "model.hidden", 96),
        (["model={embedding: 4}", "model.hidden=5"], "model.embedding", 4),
    ],
)
def test_an_override_replaces_the_value_of_the_file(overrides, key, expected):
    values = {"seed": 1, "model": {"hidden": 64}}
    assert value_at(check_config(values, overrides), key) == expected
    assert values == {"seed": 1, "model": {"hidden": 64}}


def test_an_override_fills_a_section_that_the_file_leaves_empty():
    assert check_config({"model": None}, ["model.hidden=5"]).model.hidden == 5


@pytest.mark.parametrize(
    ("written", "overrides", "choice"),
    [
        ("global", ["{}=local_m", "{}.radius=3"], {"name": "local_m", "radius": 3}),
        ("global", ["{}.radius=3", "{}=local_m"], {"name": "local_m", "radius": 3}),
        ("global", ["{}.radius=3", "{}.name=local_m"], {"name": "local_m", "radius": 3}),
        ("local_p", ["{}.radius=3"], {"name": "local_p", "radius": 3}),
        (None, ["{}.radius=3", "{}=local_m"], {"name": "local_m", "radius": 3}),
        ({"name": "local_p", "radius": 4}, ["{}.radius=3"], {"name": "local_p", "radius": 3}),
        ({"name": "local_p", "radius": 4}, ["{}=local_m"], {"name": "local_m", "radius": 4}),  # both have a radius
        ({"name": "local_p", "radius": 4}, ["{}={{name: global}}"], "global"),
        ({"name": "local_p", "radius": 4}, ["{}={{name: local_m}}"], "local_m"),  # all of it, as written
    ],
)
def test_an_override_of_a_choice_or_its_options(written, overrides, choice):
    key = "model.attention.window"
    config = check_config(attention(window=written), [override.format(key) for override in overrides])
    assert value_at(config, key) == choice


@pytest.mark.parametrize(
    ("window", "overrides"),
    [
        ("global", ["model.attention.window.radius=3"]),
        ({"name": "local_p", "radius": 4}, ["model.attention.window=global"]),
    ],
)
def test_no_setting_is_dropped(window, overrides):
    assert list(problems(attention(window=window), *overrides)) == ["model.attention.window.radius"]


def test_overrides_are_a_text_a_list_or_a_mapping():
    expected = check_config({"training": {"learning_rate": 1e-5}})
    for overrides in (
        "training.learning_rate=1e-5",
        ["training.learning_rate=1e-5"],
        {"training.learning_rate": 1e-5},
    ):
        assert check_config({}, overrides) == expected
    window = {"name": "local_m", "radius": 3}
    config = check_config({}, {"model.attention.window": window, "task.alphabet": "no", "training.clip_norm": None})
    assert (value_at(config, "model.attention.window"), config.training.clip_norm) == (window, None)
    assert config.task.keywords["alphabet"] == "no"


def test_an_override_keeps_the_other_keys():
    config = check_config({"model": {"hidden": 64, "attention": {"score": "dot"}}}, ["model.embedding=4"])
    assert (config.model.hidden, config.model.embedding, config.score_name) == (64, 4, "dot")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "expected KEY=VALUE with a dotted key, such as model.hidden=64"),
        ("=3", "expected KEY=VALUE"),
        ("model..hidden=3", "expected KEY=VALUE"),
        (".".join("a" * 21) + "=1", "expected KEY=VALUE"),
        ("seed.more=3", "seed has no keys below it"),
        ("seed=[", "value:1: not YAML"),
        ("seed=!!str 3", "value:1: found the tag"),
        ("task.alphabet=ab ", "YAML drops the spaces at the start and end of this value"),
        ("task.alphabet=  ab", "YAML drops the spaces at the start and end of this value"),
    ],
)
def test_an_invalid_override_is_quoted(override, message):
    with pytest.raises(ConfigError) as caught:
        check_config({"seed": 1}, [override])
    (problem,) = caught.value.problems
    assert problem.message.startswith(message)
    assert problem.where == f"--set {shown(override)}"


def test_invalid_overrides_and_values_are_reported_together(tmp_path):
    path = write(tmp_path / "a.yaml", "model:\n  hidden: 0\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["seed", "model.embedding=0", "training.steps=5"])
    assert [(problem.path, problem.where) for problem in caught.value.problems] == [
        ("", "--set 'seed'"),
        ("model.hidden", f"{path}:2"),
        ("model.embedding", "--set 'model.embedding=0'"),
    ]


def test_a_replaced_value_is_not_reported(tmp_path):
    path = write(tmp_path / "a.yaml", "model:\n  hidden: 8\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["model={hidden: 0}"])
    assert [problem.where for problem in caught.value.problems] == ["--set 'model={hidden: 0}'"]


# ---- lengths ----


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([3], (3,)),
        ([7, "3", 5, 3], (3, 5, 7)),
        (["3-5"], (3, 4, 5)),
        (["3,5"], (3, 5)),
        (["3,", "5,", "7"], (3, 5, 7)),
        (["1-2,9", 4], (1, 2, 4, 9)),
        ([" 3 - 4 , 6 "], (3, 4, 6)),
        (["6-6"], (6,)),
        ([100_000], (100_000,)),
    ],
)
def test_syntax_of_lengths(parts, expected):
    assert parse_lengths(parts) == expected


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "no length given; allowed: whole numbers from 1 to 100,000 and ranges of them such as 3-10"),
        ([0], "'0' is out of range; allowed: "),
        (["0-3"], "'0-3' is out of range"),
        ([-3], "'-3' is not a length; allowed: "),
        ([100_001], "'100001' is out of range"),
        (["9999999999"], "'9999999999' is not a length"),
        (["10-3"], "'10-3' counts down; write 3-10"),
        (["abc"], "'abc' is not a length"),
        (["3,,5"], "'' is not a length"),
        ([""], "'' is not a length"),
        (["3-"], "'3-' is not a length"),
        (["3-5-7"], "'3-5-7' is not a length"),
        (["3.0"], "'3.0' is not a length"),
        (["٣"], "'٣' is not a length"),
        ([3.0], "3.0 is not a length"),
        ([True], "True is not a length"),
        ([None], "None is not a length"),
        ([[3]], "[3] is not a length"),
    ],
)
def test_invalid_lengths_are_reported(parts, message):
    with pytest.raises(Seq2AttnError) as caught:
        parse_lengths(parts)
    assert str(caught.value).startswith(message)


# ---- error messages ----


def test_an_error_has_message_hint_and_exit_code():
    error = Seq2AttnError("what", hint="what next")
    assert (str(error), error.message, error.hint, error.exit_code) == ("what\nwhat next", "what", "what next", 2)
    assert str(Seq2AttnError("what")) == "what"
    assert Seq2AttnError("what", exit_code=1).exit_code == 1


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.b", "wrong"), "a.b: wrong"),
        (Problem("a.b", "wrong", "f:3"), "a.b (f:3): wrong"),
        (Problem("", "wrong", "f:3"), "wrong (f:3)"),
    ],
)
def test_a_problem_as_text(problem, text):
    assert str(problem) == text


def test_singular_and_plural_of_problems():
    assert str(ConfigError("f", [Problem("a", "wrong")])) == "f: 1 problem\n  a: wrong"
    assert str(ConfigError("f", [Problem("a", "x"), Problem("b", "y")])) == "f: 2 problems\n  a: x\n  b: y"


def test_only_a_close_match_is_suggested():
    assert did_you_mean("SCALD", ["dot", "scaled"]) == "did you mean 'scaled'? "
    assert did_you_mean("zebra", ["dot", "scaled"]) == ""


def test_a_long_value_is_shortened():
    assert shown("abc") == "'abc'"
    assert shown("x" * 100) == "'" + "x" * 56 + "..."
    assert len(shown("x" * 58)) == len(shown("x" * 59)) == 60
