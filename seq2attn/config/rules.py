"""Combinations of values that cannot work, each with the reason and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator

from seq2attn.config.schema import Config, RecurrentConfig, TransformerConfig
from seq2attn.errors import Problem
from seq2attn.parts import DECODERS, SCORES, TASKS

MOST_RECORDS = 1_000_000  # lines of metrics.jsonl: some 0.5 GB with TensorBoard's events
MOST_EVALUATIONS = 10_000  # each with a picture and a checkpoint
COLUMNS = ("source_column", "target_column", "features_column")
_SCORE = "model.attention.score"


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key to change."""
    model = config.model
    problems = [*(_files(config) if TASKS.get(config.task.name).files else _lengths(config)), *_training(config)]
    if isinstance(model, TransformerConfig):
        return [*problems, *_transformer(config, model)]
    problems += _widths(model) if model.bidirectional else ()
    return [*problems, *(_no_attention(config, model) if config.score_name == "none" else ())]


def _problem(key: str, message: str, *rests_on: str) -> Problem:
    """rests_on: the other keys that the verdict depends on."""
    return Problem(key, message, rests_on=rests_on)


def _lengths(config: Config) -> Iterator[Problem]:
    trained = config.trained_lengths
    if trained is None:
        if config.evaluation.lengths is None:
            message = f"task {config.task.name!r} does not say which lengths it trains on; "
            message += "name those to evaluate, such as --set evaluation.lengths=3-10"
            yield _problem("evaluation.lengths", message, "task")
        return
    shortest, longest = trained.start, trained.stop - 1
    if shortest > longest:
        message = f"{shortest} is above task.max_length, {longest}; swap or change them"
        yield _problem("task.min_length", message, "task.max_length")
    if config.training.target is not None and not any(map(config.is_trained, config.evaluation_lengths)):
        message = f"no length of evaluation.lengths lies within {shortest}-{longest}, "
        message += "so the target could never be reached; add a trained length or drop the target"
        yield _problem("training.target", message, "task", "task.min_length", "task.max_length", "evaluation.lengths")


def _training(config: Config) -> Iterator[Problem]:
    training = config.training
    steps, epochs, warmup = training.steps, training.epochs, training.warmup
    if steps is not None and epochs is not None:
        message = "training.steps and training.epochs are both set; set one of them to null"
        yield _problem("training.epochs", message, "training.steps")
    if steps is None and epochs is None:
        yield _problem("training.steps", "is null, and so is training.epochs; set one of them", "training.epochs")
    if epochs is not None and config.trained_lengths is not None:
        message = f"task {config.task.name!r} draws its examples without end; set training.steps instead"
        yield _problem("training.epochs", message, "task")
    if steps is not None and warmup > steps:
        message = f"{warmup} is above training.steps, {steps}; "
        message += f"warm up for less, such as --set training.warmup={steps // 10}"
        yield _problem("training.warmup", message, "training.steps")
    if training.snapshot_weights and not training.snapshots:
        message = "has no effect with training.snapshots 0; set that to 1 or more, or this to false"
        yield _problem("training.snapshot_weights", message, "training.snapshots")
    evaluations = "steps" if epochs is None else "epochs"
    for key, most, count in (("log_every", MOST_RECORDS, "steps"), ("evaluate_every", MOST_EVALUATIONS, evaluations)):
        every, length = getattr(training, key), getattr(training, count) or 0
        if length > every * most:
            message = f"{every} makes more than {most:,} records of training.{count}, {length}; "
            message += f"set it to {math.ceil(length / most)} or more"
            yield _problem(f"training.{key}", message, f"training.{count}")


def _files(config: Config) -> Iterator[Problem]:
    """What a task that reads its pairs from files needs."""
    options = config.task.keywords
    for name, use in (("train", "to train on"), ("dev", "to measure on during training")):
        if name in options and options[name] is None:
            message = f"is missing: name the file of pairs {use}, such as --set task.{name}={name}.tsv"
            yield _problem(f"task.{name}", message, "task")
    columns = {name: options[name] for name in COLUMNS if options.get(name) is not None}
    for index, (name, number) in enumerate(columns.items()):
        same = [other for other in list(columns)[:index] if columns[other] == number]
        if same:
            message = f"{number} is also task.{same[0]}; name another column"
            yield _problem(f"task.{name}", message, f"task.{same[0]}")
    most, last = options.get("columns"), max(columns.values(), default=0)
    if most is not None and most < last:
        message = f"{most} is below the last column that is used, {last}; set it to {last} or more, or to null"
        yield _problem("task.columns", message, *(f"task.{name}" for name in columns))


def _widths(model: RecurrentConfig) -> Iterator[Problem]:
    """What needs encoder and decoder states of equal width, of a bidirectional encoder."""
    score, width = SCORES.get(model.attention.score.name), model.hidden
    if score.equal_widths:
        others = [entry.name for entry in SCORES if not entry.equal_widths and entry.name != "none"]
        message = f"{score.name!r} needs queries and keys of equal width, but a bidirectional encoder's keys are "
        message += f"2 x {width} wide and the decoder's queries {width}; "
        message += f"use {', '.join(others[:-1])} or {others[-1]}, or set model.bidirectional to false"
        yield _problem(_SCORE, message, "model.bidirectional")
    if model.initial_state.name == "last":
        message = "'last' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
        message += f"2 x {width} wide and the decoder's {width}; "
        message += "use bridge or zeros, or set model.bidirectional to false"
        yield _problem("model.initial_state", message, "model.bidirectional")


def _no_attention(config: Config, model: RecurrentConfig) -> Iterator[Problem]:
    """What has no effect, or cannot work, with the attention score `none`."""
    attention, training, decoder = model.attention, config.training, model.decoder.name
    no_weights = "attention score 'none' has no weights, so this has no effect; set it to"
    bottleneck = "attention score 'none' stores the source only in the decoder's state, which a reset destroys"
    one_way = "with attention score 'none' the forward direction is not used (the bridge reads the backward one)"
    unusable = f"decoder {decoder!r} cannot work with attention score 'none'; choose another score or decoder"
    blind = "'zeros' with attention score 'none' leaves the decoder no way to see the source; use last or bridge"
    for key, wrong, message in (
        ("model.attention.window", attention.window.name != "global", f"{no_weights} global"),
        ("model.attention.history", attention.history.name != "none", f"{no_weights} none"),
        ("model.attention.scalable_softmax", attention.scalable_softmax, f"{no_weights} false"),
        ("model.attention.mask_padding", not attention.mask_padding, f"{no_weights} true"),
        ("training.coverage_weight", training.coverage_weight, f"{no_weights} 0"),
        ("training.decoder_reset", training.decoder_reset, f"{bottleneck}; set it to 0"),
        ("model.bidirectional", model.bidirectional, f"{one_way}; set it to false, or choose another score"),
        ("model.decoder", getattr(DECODERS.get(decoder).implementation, "needs_attention", False), unusable),
        ("model.initial_state", model.initial_state.name == "zeros", f"{blind}, or another score"),
    ):
        if wrong:
            yield _problem(key, message, _SCORE)


def _transformer(config: Config, model: TransformerConfig) -> Iterator[Problem]:
    if model.hidden % model.heads:
        message = f"{model.hidden} is not a multiple of model.heads, {model.heads}; change one of them"
        yield _problem("model.hidden", message, "model.heads")
    for key in ("coverage_weight", "encoder_reset", "decoder_reset"):
        if getattr(config.training, key):
            message = "has no effect with architecture 'transformer', which has no recurrent state; "
            yield _problem(
                f"training.{key}", f"{message}set it to 0, or model.architecture to gru", "model.architecture"
            )
