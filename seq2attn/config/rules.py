"""Combinations of values that cannot work, each with the reason and what to change."""

from __future__ import annotations

import math

from seq2attn import catalogue
from seq2attn.config.schema import Config, RecurrentConfig, TransformerConfig
from seq2attn.errors import Problem

MOST_RECORDS = 1_000_000  # lines of metrics.jsonl: some 0.5 GB with TensorBoard's events
MOST_EVALUATIONS = 10_000  # each with a picture and a checkpoint
_ATTENTION = "model.attention"
_SCORE = f"{_ATTENTION}.score"


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key that would have to change."""
    if isinstance(config.model, RecurrentConfig):
        return [
            *_common_problems(config),
            *_width_problems(config.model),
            *_no_attention_problems(config, config.model),
        ]
    return [*_common_problems(config), *_transformer_problems(config, config.model)]


def _common_problems(config: Config) -> list[Problem]:
    problems = []
    training, options, trained = config.training, config.task.options, config.trained_lengths
    if trained is not None and options["min_length"] > options["max_length"]:
        message = f"{options['min_length']} is above task.max_length, {options['max_length']}; swap or change them"
        problems.append(Problem("task.min_length", message, rests_on=("task.max_length",)))
    if trained is None and config.evaluation.lengths is None:
        message = (
            f"task {config.task.name!r} does not say which lengths it trains on; "
            "name those to evaluate, such as --set evaluation.lengths=3-10"
        )
        problems.append(Problem("evaluation.lengths", message, rests_on=("task",)))
    if training.warmup > training.steps:
        message = (
            f"{training.warmup} is above training.steps, {training.steps}; "
            f"warm up for less, such as --set training.warmup={training.steps // 10}"
        )
        problems.append(Problem("training.warmup", message, rests_on=("training.steps",)))
    if training.target is not None and not any(map(config.is_trained, config.evaluation_lengths)):
        message = (
            f"no length of evaluation.lengths lies within {options['min_length']}-{options['max_length']}, "
            "so the target could never be reached; add a trained length or drop the target"
        )
        rests_on = ("task", "task.min_length", "task.max_length", "evaluation")
        problems += [Problem("training.target", message, rests_on=rests_on)] if trained is not None else []
    for key, most in (("log_every", MOST_RECORDS), ("evaluate_every", MOST_EVALUATIONS)):
        every = getattr(training, key)
        if training.steps > every * most:
            message = (
                f"{every} makes more than {most:,} records of training.steps, {training.steps}; "
                f"set it to {math.ceil(training.steps / most)} or more"
            )
            problems.append(Problem(f"training.{key}", message, rests_on=("training.steps",)))
    return problems


def _width_problems(model: RecurrentConfig) -> list[Problem]:
    """What needs encoder and decoder states of equal width."""
    if not model.bidirectional:
        return []
    problems = []
    score = catalogue.SCORES.get(model.attention.score.name)
    if score.equal_widths:
        others = [entry.name for entry in catalogue.SCORES if not entry.equal_widths and entry.name != "none"]
        message = (
            f"{score.name!r} needs queries and keys of equal width, but a bidirectional encoder's keys are "
            f"2 x {model.hidden} wide and the decoder's queries {model.hidden}; "
            f"use {', '.join(others[:-1])} or {others[-1]}, or set model.bidirectional to false"
        )
        problems.append(Problem(_SCORE, message, rests_on=("model.bidirectional",)))
    if model.initial_state.name == "last":
        message = (
            f"'last' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
            f"2 x {model.hidden} wide and the decoder's {model.hidden}; "
            "use bridge or zeros, or set model.bidirectional to false"
        )
        problems.append(Problem("model.initial_state", message, rests_on=("model.bidirectional",)))
    return problems


def _no_attention_problems(config: Config, model: RecurrentConfig) -> list[Problem]:
    """What the attention score `none` leaves without effect."""
    attention = model.attention
    if attention.score.name != "none":
        return []
    no_weights = "attention score 'none' has no weights"
    checks = (
        (
            f"{_ATTENTION}.window",
            attention.window.name != "global",
            f"{no_weights} for this to act on; set it to global",
        ),
        (f"{_ATTENTION}.history", attention.history.name != "none", f"{no_weights} for this to act on; set it to none"),
        (
            f"{_ATTENTION}.scalable_softmax",
            attention.scalable_softmax,
            f"{no_weights} for this to act on; set it to false",
        ),
        (f"{_ATTENTION}.mask_padding", not attention.mask_padding, f"{no_weights} for this to act on; set it to true"),
        (
            "training.coverage_weight",
            config.training.coverage_weight,
            f"{no_weights} to cover the source with; set it to 0",
        ),
        (
            "training.decoder_reset",
            config.training.decoder_reset,
            "attention score 'none' keeps the source in the decoder's state alone; set it to 0",
        ),
        (
            "model.bidirectional",
            model.bidirectional,
            "with attention score 'none' nothing would use the forward direction (the bridge reads the backward one); "
            "set model.bidirectional to false, or choose another score",
        ),
        (
            "model.initial_state",
            model.initial_state.name == "zeros",
            "'zeros' with attention score 'none' leaves the decoder no way to see the source; "
            "use last or bridge, or another score",
        ),
    )
    return [Problem(path, message, rests_on=(_SCORE,)) for path, wrong, message in checks if wrong]


def _transformer_problems(config: Config, model: TransformerConfig) -> list[Problem]:
    problems = []
    if model.hidden % model.heads:
        message = f"{model.hidden} is not a multiple of model.heads, {model.heads}; change one of them"
        problems.append(Problem("model.hidden", message, rests_on=("model.heads",)))
    for key, why in (
        ("coverage_weight", "coverage is summed over a recurrent decoder's steps"),
        ("encoder_reset", "it has no recurrent state to reset"),
        ("decoder_reset", "it has no recurrent state to reset"),
    ):
        value = getattr(config.training, key)
        if value:
            message = (
                f"{value} does not go with architecture 'transformer': {why}; set it to 0, or model.architecture to gru"
            )
            problems.append(Problem(f"training.{key}", message, rests_on=("model.architecture",)))
    return problems
