"""Combinations of values that cannot work, each with the reason and what to change."""

from __future__ import annotations

from collections.abc import Iterator

from seq2attn.config.schema import AttentionConfig, Config, RecurrentConfig, TransformerConfig
from seq2attn.errors import Problem
from seq2attn.parts import DECODERS, HISTORIES, LETTERS, NORMALISERS, SCORES, TASKS

COLUMNS = ("source_column", "target_column", "features_column")
_ATTENTION = "model.attention"
_SCORE = f"{_ATTENTION}.score"
Rule = tuple[str, object, str, *tuple[str, ...]]
"""the key to change, whether it is wrong, the message, and the other keys that the verdict depends
on"""


def combination_problems(config: Config) -> list[Problem]:
    """Every combination in `config` that cannot work, under the key to change."""
    model = config.model
    rules = [
        *(_files(config) if TASKS.get(config.task.name).files else _lengths(config)),
        *_training(config),
    ]
    key, heads = (
        ("model", model.heads)
        if isinstance(model, TransformerConfig)
        else (_ATTENTION, model.attention.heads)
    )
    message = f"{model.hidden} is not a multiple of {key}.heads, {heads}; change one of them"
    rules.append(("model.hidden", model.hidden % heads, message, f"{key}.heads"))
    if isinstance(model, TransformerConfig):
        rules += _transformer(config, model)
    else:
        rules += [_widths(model), _normaliser(model), *_no_attention(config, model)]
    return [
        Problem(key, message, rests_on=tuple(others))
        for key, wrong, message, *others in rules
        if wrong
    ]


def _lengths(config: Config) -> Iterator[Rule]:
    options = dict(config.task)
    shortest, longest = options.get("min_length"), options.get("max_length")
    if shortest is None or longest is None:  # the task itself says them
        return
    message = f"{shortest} is above task.max_length, {longest}; change one of them"
    yield "task.min_length", shortest > longest, message, "task.max_length"
    both = options.get("symbols") and options.get("alphabet") not in (None, LETTERS)
    yield "task.symbols", both, "is set, and so is task.alphabet; set one of them", "task.alphabet"
    measured = config.evaluation.lengths or [shortest]
    unreachable = config.training.target is not None and not any(
        shortest <= one <= longest for one in measured
    )
    message = f"no length of evaluation.lengths lies within {shortest}-{longest}; add one, or drop the target"
    others = ("task", "task.min_length", "task.max_length", "evaluation.lengths")
    yield "training.target", unreachable, message, *others


def _training(config: Config) -> Iterator[Rule]:
    training = config.training
    steps, epochs, warmup = training.steps, training.epochs, training.warmup
    message = "is set, and so is training.steps; set one of them to null"
    yield "training.epochs", steps is not None and epochs is not None, message, "training.steps"
    message = "is null, and so is training.epochs; set one of them"
    yield "training.steps", steps is None and epochs is None, message, "training.epochs"
    message = (
        f"task {config.task.name!r} draws its examples without end; set training.steps instead"
    )
    yield (
        "training.epochs",
        epochs is not None and "max_length" in dict(config.task),
        message,
        "task",
    )
    message = f"{warmup} is above training.steps, {steps}; change one of them"
    yield "training.warmup", steps is not None and warmup > steps, message, "training.steps"
    useless = training.snapshot_weights and not training.snapshots
    message = "has no effect with training.snapshots 0; change one of them"
    yield "training.snapshot_weights", useless, message, "training.snapshots"


def _files(config: Config) -> Iterator[Rule]:
    """What a task that reads its pairs from files needs."""
    options = dict(config.task)
    for name, use in (("train", "to train on"), ("dev", "to measure on during training")):
        message = f"is missing: name the file of pairs {use}, such as --set task.{name}={name}.tsv"
        yield f"task.{name}", options.get(name, "") is None, message, "task"
    columns = {f"task.{name}": options[name] for name in COLUMNS if options.get(name) is not None}
    for index, (key, number) in enumerate(columns.items()):
        same = [other for other in list(columns)[:index] if columns[other] == number]
        yield key, same, f"{number} is also {' and '.join(same)}; name another column", *same
    most, last = options.get("columns"), max(columns.values(), default=0)
    message = f"{most} is below the last column that is used, {last}; change one of them"
    yield "task.columns", most is not None and most < last, message, *columns


def _widths(model: RecurrentConfig) -> Rule:
    """What needs encoder and decoder states of equal width, of a bidirectional encoder."""
    score, width = SCORES.get(model.attention.score.name), model.hidden
    others = ", ".join(
        entry.name for entry in SCORES if not entry.equal_widths and entry.name != "none"
    )
    message = f"{score.name!r} needs encoder and decoder states of equal width, but a bidirectional encoder's are "
    message += f"2 x {width} wide and the decoder's {width}; use one of {others}, or set model.bidirectional to false"
    wrong = (
        model.bidirectional and score.equal_widths and model.attention.heads == 1
    )  # heads project both
    return _SCORE, wrong, message, "model.bidirectional"


def _normaliser(model: RecurrentConfig) -> Rule:
    name, history = model.attention.normaliser.name, HISTORIES.get(model.attention.history.name)
    message = f"{name!r} cannot work with history {history.name!r}, which makes its own weights; "
    message += "leave it out, or choose another history"
    wrong = history.own_weights and name != NORMALISERS.default
    return f"{_ATTENTION}.normaliser", wrong, message, f"{_ATTENTION}.history"


def _no_attention(config: Config, model: RecurrentConfig) -> Iterator[Rule]:
    """What has no effect, or cannot work, with the attention score `none`."""
    if config.score_name != "none":
        return
    for name, field in AttentionConfig.model_fields.items():
        changed = name != "score" and getattr(model.attention, name) != field.default
        yield (
            f"model.attention.{name}",
            changed,
            "has no effect with attention score 'none'; leave it out",
            _SCORE,
        )
    decoder = DECODERS.get(model.decoder.name)
    needs_attention = decoder.needs_attention or getattr(
        decoder.implementation, "needs_attention", False
    )
    one_sided = (
        model.bidirectional and model.layers == 1
    )  # a second layer reads both directions of the first
    for key, wrong, reason in (
        ("training.coverage_weight", config.training.coverage_weight, "has no effect"),
        (
            "training.decoder_reset",
            config.training.decoder_reset,
            "destroys all that is known of the source",
        ),
        ("model.bidirectional", one_sided, "trains a forward direction that nothing reads"),
        ("model.decoder", needs_attention, "cannot work"),
        (
            "model.initial_state",
            model.initial_state.name == "zeros",
            "leaves the decoder no way to see the source",
        ),
    ):
        yield key, wrong, f"{reason}, with attention score 'none'; change one of them", _SCORE


def _transformer(config: Config, model: TransformerConfig) -> Iterator[Rule]:
    for key in ("encoder_reset", "decoder_reset"):
        message = "has no effect with architecture 'transformer', which has no recurrent state; leave it out"
        yield f"training.{key}", getattr(config.training, key), message, "model.architecture"
