"""Combinations of values that make no sense, each with the reason and what to change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from seq2attn import catalogue
from seq2attn.errors import Problem, did_you_mean, shown
from seq2attn.registry import Option, ScoreEntry

if TYPE_CHECKING:
    from seq2attn.config.schema import Config

MOST_RECORDS = 1_000_000  # lines of metrics.jsonl: some 0.5 GB with TensorBoard's events
MOST_EVALUATIONS = 10_000  # each with a picture and a checkpoint
_ATTENTION = "model.attention"
_SCORE = f"{_ATTENTION}.score"
_OPTIONS = f"{_ATTENTION}.options"
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key that would have to change."""
    if config.model.architecture == "transformer":
        return [*_task_problems(config), *_transformer_problems(config), *_unused_problems(config)]
    return [
        *_task_problems(config),
        *_model_problems(config),
        *_attention_problems(config),
        *_unused_problems(config),
        *_option_problems(config),
    ]


def _task_problems(config: Config) -> list[Problem]:
    problems = []
    task = config.task
    if task.min_length > task.max_length:
        message = f"{task.min_length} is above task.max_length, {task.max_length}; swap or change them"
        problems.append(Problem("task.min_length", message, rests_on=("task.max_length",)))
    if config.training.warmup > config.training.steps:
        steps = config.training.steps
        message = (
            f"{config.training.warmup} is above training.steps, {steps}; "
            f"warm up for less, such as --set training.warmup={steps // 10}"
        )
        problems.append(Problem("training.warmup", message, rests_on=("training.steps",)))
    if config.training.target is not None and not any(map(config.is_trained, config.evaluation_lengths)):
        message = (
            f"no length of evaluation.lengths lies within {task.min_length}-{task.max_length}, "
            "so the target could never be reached; add a trained length or drop the target"
        )
        problems.append(Problem("training.target", message, rests_on=("task", "evaluation")))
    for key, most in (("log_every", MOST_RECORDS), ("evaluate_every", MOST_EVALUATIONS)):
        every = getattr(config.training, key)
        if config.training.steps > every * most:
            message = (
                f"{every} makes more than {most:,} records of training.steps, {config.training.steps}; "
                f"set it to {math.ceil(config.training.steps / most)} or more"
            )
            problems.append(Problem(f"training.{key}", message, rests_on=("training.steps",)))
    return problems


def _model_problems(config: Config) -> list[Problem]:
    problems = []
    model = config.model
    score = catalogue.SCORES.get(model.attention.score)
    if model.bidirectional and score.equal_widths:
        message = (
            f"{score.name!r} needs queries and keys of equal width, but a bidirectional encoder's keys are "
            f"2 x {model.hidden} wide and the decoder's queries {model.hidden}; "
            f"use {_any_of(_for_any_widths())}, or set model.bidirectional to false"
        )
        problems.append(Problem(_SCORE, message, rests_on=("model.bidirectional",)))
    if model.bidirectional and model.initial_state == "last":
        message = (
            f"'last' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
            f"2 x {model.hidden} wide and the decoder's {model.hidden}; "
            "use bridge or zeros, or set model.bidirectional to false"
        )
        problems.append(Problem("model.initial_state", message, rests_on=("model.bidirectional",)))
    if score.name == "none" and model.bidirectional:
        message = (
            "with attention score 'none' nothing would use the forward direction (the bridge reads the backward one); "
            "set model.bidirectional to false, or choose another score"
        )
        problems.append(Problem("model.bidirectional", message, rests_on=(_SCORE,)))
    if score.name == "none" and model.initial_state == "zeros":
        message = (
            "'zeros' with attention score 'none' leaves the decoder no way to see the source; "
            "use last or bridge, or another score"
        )
        problems.append(Problem("model.initial_state", message, rests_on=(_SCORE,)))
    return problems


def _attention_problems(config: Config) -> list[Problem]:
    problems = []
    model, attention = config.model, config.model.attention
    if attention.score == "none":
        plain_values = (("window", "global"), ("history", "none"), ("scalable_softmax", False), ("mask_padding", True))
        for key, plain in plain_values:
            if getattr(attention, key) != plain:
                message = f"attention score 'none' has no weights for this to act on; set it to {_yaml(plain)}"
                problems.append(Problem(f"{_ATTENTION}.{key}", message, rests_on=(_SCORE,)))
        if config.training.coverage_weight:
            message = "attention score 'none' has no weights to cover the source with; set it to 0"
            problems.append(Problem("training.coverage_weight", message, rests_on=(_SCORE,)))
        if config.training.decoder_reset:
            message = "attention score 'none' keeps the source in the decoder's state alone; set it to 0"
            problems.append(Problem("training.decoder_reset", message, rests_on=(_SCORE,)))
    if model.input_feeding and model.decoder != "luong":
        message = (
            f"decoder {model.decoder!r} feeds the context to its GRU anyway; input feeding is for luong: "
            "set model.decoder to luong, or this to false"
        )
        problems.append(Problem("model.input_feeding", message, rests_on=("model.decoder",)))
    if attention.kernel % 2 == 0:
        message = f"must be odd, so that it looks as far to the left as to the right; found {attention.kernel}"
        problems.append(Problem(f"{_ATTENTION}.kernel", message))
    return problems


def _unused_problems(config: Config) -> list[Problem]:
    """Settings that nothing would read: somebody expects them to do something."""
    attention = config.model.attention
    owners = {
        "radius": ("window", ("local_m", "local_p")),
        "centre": ("window", ("local_m",)),
        "filters": ("history", ("location", "location_coverage")),
        "kernel": ("history", ("location", "location_coverage")),
    }
    problems = []
    for key, (owner, names) in owners.items():
        changed = getattr(attention, key) != type(attention).model_fields[key].default
        if not changed or getattr(attention, owner) in names:
            continue
        message = f"has no effect with {owner} {getattr(attention, owner)!r}"
        if config.model.architecture == "transformer":
            message += f", and architecture 'transformer' has no other {owner}; leave this out"
        else:
            message += f"; set {_ATTENTION}.{owner} to {' or '.join(names)}, or leave this out"
        problems.append(Problem(f"{_ATTENTION}.{key}", message, rests_on=(f"{_ATTENTION}.{owner}",)))
    if config.model.architecture == "transformer":
        return problems
    sizes = config.model.transformer
    for key, field in type(sizes).model_fields.items():
        if getattr(sizes, key) != field.default:
            message = "has no effect with architecture 'gru'; set model.architecture to transformer, or leave this out"
            problems.append(Problem(f"model.transformer.{key}", message, rests_on=("model.architecture",)))
    return problems


def _transformer_problems(config: Config) -> list[Problem]:
    model = config.model
    heads = model.transformer.heads
    problems = []
    if model.hidden % heads:
        message = f"{model.hidden} is no multiple of model.transformer.heads, {heads}; change one of them"
        problems.append(Problem("model.hidden", message, rests_on=("model.transformer.heads",)))
    required = [
        (_SCORE, model.attention.score, "scaled", "its attention is the scaled dot product, by definition"),
        (_OPTIONS, model.attention.options, {}, "its attention has no options of its own"),
        (f"{_ATTENTION}.mask_padding", model.attention.mask_padding, True, "its layers always mask padding"),
        (f"{_ATTENTION}.window", model.attention.window, "global", "windows follow a GRU decoder's state step by step"),
        (
            f"{_ATTENTION}.history",
            model.attention.history,
            "none",
            "history is handed from step to step of a GRU decoder",
        ),
        (
            f"{_ATTENTION}.scalable_softmax",
            model.attention.scalable_softmax,
            False,
            "PyTorch's layers know a plain softmax",
        ),
        (
            "model.embedding",
            model.embedding,
            type(model).model_fields["embedding"].default,
            "its embeddings are as wide as all else, model.hidden",
        ),
        ("model.decoder", model.decoder, "bahdanau", "the arrangement is a GRU decoder's"),
        ("model.input_feeding", model.input_feeding, False, "input feeding is a GRU decoder's"),
        ("model.bidirectional", model.bidirectional, False, "its encoder reads in no direction, or in both"),
        (
            "training.coverage_weight",
            config.training.coverage_weight,
            0,
            "coverage is summed over a GRU decoder's steps",
        ),
        ("training.encoder_reset", config.training.encoder_reset, 0, "it has no recurrent state to reset"),
        ("training.decoder_reset", config.training.decoder_reset, 0, "it has no recurrent state to reset"),
    ]
    for path, found, wanted, why in required:
        if found != wanted:
            given = _yaml(found) if isinstance(found, bool) else shown(found)
            advice = f"set it to {_yaml(wanted)}, or model.architecture to gru"
            message = f"{given} does not go with architecture 'transformer': {why}; {advice}"
            problems.append(Problem(path, message, rests_on=("model.architecture",)))
    return problems


def _for_any_widths() -> list[str]:
    """The scores whose queries and keys may differ in width."""
    scores = [catalogue.SCORES.get(name) for name in catalogue.SCORES.names()]
    return [score.name for score in scores if not score.equal_widths and score.name != "none"]


def _any_of(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option_problems(config: Config) -> list[Problem]:
    attention = config.model.attention
    score = catalogue.SCORES.get(attention.score)
    return [
        problem
        for name, value in attention.options.items()
        if (problem := _option_problem(score, name, value)) is not None
    ]


def _option_problem(score: ScoreEntry, name: str, value: object) -> Problem | None:
    path = f"{_OPTIONS}.{name}"
    option = score.options.get(name)
    if option is None:
        allowed = ", ".join(score.options) or "none"
        guess = did_you_mean(name, score.options)
        return Problem(path, f"unknown option of score {score.name!r}; {guess}allowed: {allowed}", rests_on=(_SCORE,))
    if not _fits(option, value):
        expected = _EXPECTED[option.type]
        if option.default is None:
            expected += " above 0 or null" if option.type in (int, float) else " or null"
        message = f"expected {expected}, found {shown(value)} ({option.meaning})"
        return Problem(path, message, rests_on=(_SCORE,))
    return None


def _fits(option: Option, value: object) -> bool:
    """Built-in options, whose default is null, are sizes and so above 0; a plug-in's may be any finite number."""
    if value is None:
        return option.default is None
    if option.type is bool or isinstance(value, bool):
        return option.type is bool and isinstance(value, bool)
    if option.type is str:
        return isinstance(value, str)
    if not isinstance(value, int if option.type is int else int | float):
        return False
    return (0 if option.default is None else -math.inf) < value < math.inf
