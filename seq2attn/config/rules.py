"""Combinations of values that cannot work, each with the reason and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seq2attn import parts
from seq2attn.config.schema import Config, RecurrentConfig, TransformerConfig
from seq2attn.errors import Problem

MOST_RECORDS = 1_000_000  # lines of metrics.jsonl: some 0.5 GB with TensorBoard's events
MOST_EVALUATIONS = 10_000  # each with a picture and a checkpoint
COLUMNS = ("source_column", "target_column", "features_column")
_SCORE = "model.attention.score"

Check = tuple[str, object, str, tuple[str, ...]]
"""the key to change, whether it is wrong, the message, and the other keys that the verdict depends on"""


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key to change."""
    model = config.model
    checks = [*_length_checks(config), *_training_checks(config), *_file_checks(config)]
    if isinstance(model, RecurrentConfig):
        checks += [*_width_checks(model), *(_no_attention_checks(config, model) if config.score_name == "none" else ())]
    else:
        checks += _transformer_checks(config, model)
    return [Problem(key, message, rests_on=rests_on) for key, wrong, message, rests_on in checks if wrong]


def _length_checks(config: Config) -> Iterable[Check]:
    trained = config.trained_lengths
    if parts.TASKS.get(config.task.name).files:
        return
    if trained is None:
        message = (
            f"task {config.task.name!r} does not say which lengths it trains on; "
            "name those to evaluate, such as --set evaluation.lengths=3-10"
        )
        yield "evaluation.lengths", config.evaluation.lengths is None, message, ("task",)
        return
    shortest, longest = trained.start, trained.stop - 1
    message = f"{shortest} is above task.max_length, {longest}; swap or change them"
    yield "task.min_length", shortest > longest, message, ("task.max_length",)
    unreachable = config.training.target is not None and not any(map(config.is_trained, config.evaluation_lengths))
    message = (
        f"no length of evaluation.lengths lies within {shortest}-{longest}, "
        "so the target could never be reached; add a trained length or drop the target"
    )
    yield "training.target", unreachable, message, ("task", "task.min_length", "task.max_length", "evaluation")


def _training_checks(config: Config) -> Iterable[Check]:
    training = config.training
    steps, warmup, total = training.steps, training.warmup, ("training.steps", "training.epochs")
    message = "training.steps and training.epochs are both set; set one of them to null"
    yield "training.epochs", steps is not None and training.epochs is not None, message, total
    message = "is null, and so is training.epochs; set one of them"
    yield "training.steps", steps is None and training.epochs is None, message, total
    message = f"task {config.task.name!r} draws its examples without end; set training.steps instead"
    yield "training.epochs", training.epochs is not None and config.trained_lengths is not None, message, ("task",)
    message = (
        f"{warmup} is above training.steps, {steps}; "
        f"warm up for less, such as --set training.warmup={(steps or 0) // 10}"
    )
    yield "training.warmup", steps is not None and warmup > steps, message, ("training.steps",)
    evaluations = "steps" if training.epochs is None else "epochs"
    message = "has no effect with training.snapshots 0; set that to 1 or more, or this to false"
    yield (
        "training.snapshot_weights",
        training.snapshot_weights and not training.snapshots,
        message,
        ("training.snapshots",),
    )
    for key, most, count in (("log_every", MOST_RECORDS, "steps"), ("evaluate_every", MOST_EVALUATIONS, evaluations)):
        every, length = getattr(training, key), getattr(training, count) or 0
        message = (
            f"{every} makes more than {most:,} records of training.{count}, {length}; "
            f"set it to {math.ceil(length / most)} or more"
        )
        yield f"training.{key}", length > every * most, message, (f"training.{count}",)


def _file_checks(config: Config) -> Iterable[Check]:
    """What a task that reads its pairs from files needs."""
    if not parts.TASKS.get(config.task.name).files:
        return
    options = config.task.options
    for name, use in (("train", "to train on"), ("dev", "to measure on during training")):
        message = f"is missing: name the file of pairs {use}, such as --set task.{name}={name}.tsv"
        yield f"task.{name}", name in options and options[name] is None, message, ("task",)
    columns = {name: options[name] for name in COLUMNS if options.get(name) is not None}
    for index, (name, number) in enumerate(columns.items()):
        other = next((one for one in list(columns)[:index] if columns[one] == number), None)
        message = f"{number} is also task.{other}; name another column"
        yield f"task.{name}", other is not None, message, (f"task.{other}",)
    most, last = options.get("columns"), max(columns.values(), default=0)
    message = f"{most} is below the last column that is used, {last}; set it to {last} or more, or to null"
    yield "task.columns", most is not None and most < last, message, tuple(f"task.{name}" for name in columns)


def _width_checks(model: RecurrentConfig) -> Iterable[Check]:
    """What needs encoder and decoder states of equal width."""
    score = parts.SCORES.get(model.attention.score.name)
    others = [entry.name for entry in parts.SCORES if not entry.equal_widths and entry.name != "none"]
    message = (
        f"{score.name!r} needs queries and keys of equal width, but a bidirectional encoder's keys are "
        f"2 x {model.hidden} wide and the decoder's queries {model.hidden}; "
        f"use {', '.join(others[:-1])} or {others[-1]}, or set model.bidirectional to false"
    )
    yield _SCORE, model.bidirectional and score.equal_widths, message, ("model.bidirectional",)
    message = (
        f"'last' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
        f"2 x {model.hidden} wide and the decoder's {model.hidden}; "
        "use bridge or zeros, or set model.bidirectional to false"
    )
    wrong = model.bidirectional and model.initial_state.name == "last"
    yield "model.initial_state", wrong, message, ("model.bidirectional",)


def _no_attention_checks(config: Config, model: RecurrentConfig) -> Iterable[Check]:
    """What has no effect, or cannot work, with the attention score `none`."""
    attention, training = model.attention, config.training
    for key, wrong, default in (
        ("model.attention.window", attention.window.name != "global", "global"),
        ("model.attention.history", attention.history.name != "none", "none"),
        ("model.attention.scalable_softmax", attention.scalable_softmax, "false"),
        ("model.attention.mask_padding", not attention.mask_padding, "true"),
        ("training.coverage_weight", training.coverage_weight, "0"),
    ):
        message = f"attention score 'none' has no weights, so this has no effect; set it to {default}"
        yield key, wrong, message, (_SCORE,)
    message = (
        "attention score 'none' stores the source only in the decoder's state, which a reset destroys; set it to 0"
    )
    yield "training.decoder_reset", training.decoder_reset, message, (_SCORE,)
    message = (
        "with attention score 'none' the forward direction is not used (the bridge reads the backward one); "
        "set model.bidirectional to false, or choose another score"
    )
    yield "model.bidirectional", model.bidirectional, message, (_SCORE,)
    message = f"decoder {model.decoder.name!r} cannot work with attention score 'none'; choose another score or decoder"
    yield "model.decoder", parts.DECODERS.get(model.decoder.name).declares("needs_attention"), message, (_SCORE,)
    message = (
        "'zeros' with attention score 'none' leaves the decoder no way to see the source; "
        "use last or bridge, or another score"
    )
    yield "model.initial_state", model.initial_state.name == "zeros", message, (_SCORE,)


def _transformer_checks(config: Config, model: TransformerConfig) -> Iterable[Check]:
    message = f"{model.hidden} is not a multiple of model.heads, {model.heads}; change one of them"
    yield "model.hidden", model.hidden % model.heads, message, ("model.heads",)
    for key, why in (
        ("coverage_weight", "coverage is summed over a recurrent decoder's steps"),
        ("encoder_reset", "it has no recurrent state to reset"),
        ("decoder_reset", "it has no recurrent state to reset"),
    ):
        value = getattr(config.training, key)
        message = f"{value} does not go with architecture 'transformer': {why}; "
        message += "set it to 0, or model.architecture to gru"
        yield f"training.{key}", value, message, ("model.architecture",)
