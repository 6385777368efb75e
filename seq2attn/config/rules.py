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
_SCORE = "model.attention.score"
_OPTIONS = "model.attention.options"
_EXPECTED = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key that would have to change."""
    return [*_task_problems(config), *_model_problems(config), *_option_problems(config)]


def _task_problems(config: Config) -> list[Problem]:
    problems = []
    task = config.task
    if task.min_length > task.max_length:
        message = f"{task.min_length} is above task.max_length, {task.max_length}; swap or change them"
        problems.append(Problem("task.min_length", message, rests_on=("task.max_length",)))
    if config.training.warmup > config.training.steps:
        message = f"{config.training.warmup} is above training.steps, {config.training.steps}; warm up for less"
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
            "use general or additive, or set model.bidirectional to false"
        )
        problems.append(Problem(_SCORE, message, rests_on=("model.bidirectional",)))
    if model.bidirectional and model.initial_state == "last":
        message = (
            f"'last' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
            f"2 x {model.hidden} wide and the decoder's {model.hidden}; "
            "use bridge, or set model.bidirectional to false"
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
