"""Combinations of values that cannot work, each with the reason and what to change."""

from collections.abc import Iterator, Mapping

from seq2attn.config.schema import AttentionConfig, Config, RecurrentConfig, TransformerConfig
from seq2attn.errors import Problem
from seq2attn.parts import LETTERS, NORMALISERS, SCORES

COLUMNS = ("source_column", "target_column", "features_column")
_SCORE = "model.attention.score"


def combination_problems(config: Config) -> Iterator[Problem]:
    """Yield a problem for every combination that cannot work, under the key to change."""
    model = config.model
    # the options of a task are those of its files, or those of the strings that it draws
    yield from _files(config) if config.task.entry.files else _lengths(config)
    yield from _training(config)
    if isinstance(model, TransformerConfig):
        yield from _heads("model", model.hidden, model.heads)
        yield from _transformer(config)
    else:
        yield from _heads("model.attention", model.hidden, model.attention.heads)
        yield from _recurrent(model)
        if not model.encoder.entry.is_recurrent:
            yield from _encoder(config, model)
        if config.score_name == "none":
            yield from _no_attention(config, model)


def _problem(key: str, message: str, *rests_on: str) -> Problem:
    """Return a problem of `key`, which changes of the keys `rests_on` would also solve."""
    return Problem(key, message, rests_on=rests_on)


def _conflicts(reasons: Mapping[str, str], key: str, name: str) -> Iterator[Problem]:
    """Yield a problem under each key of `reasons`: it conflicts with the part `name` at `key`.

    reasons: key -> what its value does beside that part, such as "has no effect". name: as a
    sentence says it, such as "attention score 'none'".
    """
    for conflicting, reason in reasons.items():
        yield _problem(conflicting, f"{reason}, with {name}; change one of them", key)


def _lengths(config: Config) -> Iterator[Problem]:
    """Yield the problems of a task that draws its strings: of their lengths and symbols, and of a
    target for lengths that are not measured.
    """
    task = dict(config.task)
    shortest, longest = task.get("min_length"), task.get("max_length")
    # a task without such options determines its lengths in another way
    if shortest is None or longest is None:
        return
    if shortest > longest:
        yield _problem(
            "task.min_length",
            f"{shortest} is above task.max_length, {longest}; change one of them",
            "task.max_length",
        )
    # (the default of `alphabet` is LETTERS, and a task may lack it)
    if task.get("symbols") and task.get("alphabet") not in (None, LETTERS):
        yield _problem(
            "task.symbols", "is set, and so is task.alphabet; set one of them", "task.alphabet"
        )
    # null: every trained length, for which one can stand here
    measured = config.evaluation.lengths or [shortest]
    trained = any(shortest <= length <= longest for length in measured)
    # the target is for trained lengths that are measured
    if config.training.target is not None and not trained:
        yield _problem(
            "training.target",
            f"no length of evaluation.lengths lies within {shortest}-{longest}; add one, or drop "
            "the target",
            "task",
            "task.min_length",
            "task.max_length",
            "evaluation.lengths",
        )


def _training(config: Config) -> Iterator[Problem]:
    """Yield the problems of `training`: its steps or epochs, its warm-up, and its losses."""
    training = config.training
    steps, epochs = training.steps, training.epochs
    # Only tasks that draw their strings have one of these options. Another task, such as one of a
    # plug-in, may draw its strings, too, which only the task itself knows.
    is_drawn = not dict(config.task).keys().isdisjoint(("max_length", "max_digits"))
    if (steps is None) == (epochs is None):
        message = "set either this or training.steps, and the other to null"
        yield _problem("training.epochs", message, "training.steps")
    if epochs is not None and is_drawn:
        yield _problem(
            "training.epochs",
            f"task {config.task.name!r} draws its examples without end; set training.steps instead",
            "task",
        )
    if steps is not None and training.warmup > steps:
        yield _problem(
            "training.warmup",
            f"{training.warmup} is above training.steps, {steps}; change one of them",
            "training.steps",
        )
    losses = [loss.name for loss in training.losses]
    if len(set(losses)) < len(losses):
        message = f"each loss may be there once; found {', '.join(losses)}"
        yield _problem("training.losses", message)


def _files(config: Config) -> Iterator[Problem]:
    """Yield the problems of a task that reads files of pairs: a file that is not named, a column
    that is used twice, and fewer columns in a line than those used.
    """
    task = dict(config.task)
    for name, use in (("train", "to train on"), ("dev", "to measure on during training")):
        if name in task and task[name] is None:  # a task may have other options for its files
            yield _problem(
                f"task.{name}",
                f"is missing: name the file of pairs {use}, such as --set task.{name}={name}.tsv",
                "task",
            )
    columns: dict[int | str, str] = {}  # a column, by number or name -> the key that names it
    for name in COLUMNS:
        column = task.get(name)
        if column in columns:
            message = f"{column} is also {columns[column]}; name another column"
            yield _problem(f"task.{name}", message, columns[column])
        elif column is not None:
            columns[column] = f"task.{name}"
    last = max([column for column in columns if isinstance(column, int)], default=0)
    width = task.get("columns")  # how many columns a line has
    if width is not None and width < last:
        message = f"{width} is below the last column that is used, {last}; change one of them"
        yield _problem("task.columns", message, *columns.values())


def _heads(section: str, width: int, heads: int) -> Iterator[Problem]:
    """Yield a problem if the heads of an attention cannot share its width equally.

    section: the key above `heads`.
    """
    if width % heads:
        yield _problem(
            "model.hidden",
            f"{width} is not a multiple of {section}.heads, {heads}; change one of them",
            f"{section}.heads",
        )


def _recurrent(model: RecurrentConfig) -> Iterator[Problem]:
    """Yield the problems of attention in a recurrent model: a score that needs queries and keys of
    equal width where they differ, and a chosen normaliser, not the default one, that has no effect,
    since the history makes the weights.
    """
    attention = model.attention
    score, history = attention.score.entry, attention.history.entry
    # (several heads project query and keys to one width)
    if score.equal_widths and model.bidirectional and attention.heads == 1:
        others = [entry.name for entry in SCORES if not entry.equal_widths and entry.name != "none"]
        yield _problem(
            _SCORE,
            f"{score.name!r} needs encoder and decoder states of equal width, but a bidirectional "
            f"encoder's are 2 x {model.hidden} wide and the decoder's {model.hidden}; use one of "
            f"{', '.join(others)}, or set model.bidirectional to false",
            "model.bidirectional",
        )
    normaliser = attention.normaliser.name
    if history.makes_weights and normaliser != NORMALISERS.default:
        yield _problem(
            "model.attention.normaliser",
            f"{normaliser!r} cannot work with history {history.name!r}, which makes its own "
            "weights; leave it out, or choose another history",
            "model.attention.history",
        )


def _encoder(config: Config, model: RecurrentConfig) -> Iterator[Problem]:
    """Yield a problem for each key that an encoder without recurrence cannot obey."""
    keys = []
    if model.bidirectional:
        keys.append("model.bidirectional")
    if config.training.encoder_reset:
        keys.append("training.encoder_reset")
    name = f"encoder {model.encoder.name!r}, which has no recurrent layers"
    yield from _conflicts(dict.fromkeys(keys, "has no effect"), "model.encoder", name)


def _no_attention(config: Config, model: RecurrentConfig) -> Iterator[Problem]:
    """Yield a problem for each key that cannot work, or has no effect, without attention."""
    reasons = {}
    for name, field in AttentionConfig.model_fields.items():
        # (an option of attention that is left at its default is not a mistake)
        if name != "score" and getattr(model.attention, name) != field.default:
            reasons[f"model.attention.{name}"] = "has no effect"
    if any(loss.entry.needs_attention for loss in config.training.losses):
        reasons["training.losses"] = "reads attention weights"
    if config.training.decoder_reset:
        reasons["training.decoder_reset"] = "destroys all that is known of the source"
    if model.decoder.entry.needs_attention:
        reasons["model.decoder"] = "cannot work"
    if model.initial_state.name == "zeros":
        reasons["model.initial_state"] = "leaves the decoder no way to see the source"
    yield from _conflicts(reasons, _SCORE, "attention score 'none'")


def _transformer(config: Config) -> Iterator[Problem]:
    """Yield a problem for each key that a Transformer cannot obey."""
    resets = ("encoder_reset", "decoder_reset")
    keys = [f"training.{key}" for key in resets if getattr(config.training, key)]
    name = "architecture 'transformer', which has no recurrent state"
    yield from _conflicts(dict.fromkeys(keys, "has no effect"), "model.architecture", name)
