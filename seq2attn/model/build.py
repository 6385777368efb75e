"""Config -> objects. The only place that turns names into classes."""

from __future__ import annotations

import torch

from seq2attn import catalogue
from seq2attn.config import AttentionConfig, Config
from seq2attn.data.batches import TrainingData
from seq2attn.data.tasks import Task, check_task
from seq2attn.errors import Seq2AttnError
from seq2attn.model.attention import Attention, NoAttention
from seq2attn.model.encoder import Encoder
from seq2attn.model.histories import Coverage, History, Location, LocationCoverage
from seq2attn.model.initial_state import Bridge, Last, Zeros
from seq2attn.model.interface import Model
from seq2attn.model.reverser import Reverser
from seq2attn.model.scores import Score
from seq2attn.model.transformer import Transformer
from seq2attn.model.windows import LocalM, LocalP, Window

INITIAL_STATES = {"zeros": Zeros, "last": Last, "bridge": Bridge}


def build_model(config: Config) -> Model:
    """The model of `config` on the CPU, its weights drawn from `config.seed` and nothing else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return _build_transformer(config) if config.model.architecture == "transformer" else _build_reverser(config)


def _build_transformer(config: Config) -> Transformer:
    sizes = config.model.transformer
    return Transformer(
        len(build_task(config).source_vocabulary),
        config.model.hidden,
        layers=sizes.layers,
        heads=sizes.heads,
        feedforward=sizes.feedforward,
        dropout=sizes.dropout,
    )


def _build_reverser(config: Config) -> Reverser:
    model = config.model
    task = build_task(config)
    encoder = Encoder(
        len(task.source_vocabulary),
        model.embedding,
        model.hidden,
        bidirectional=model.bidirectional,
        reads_padding=not model.attention.mask_padding,
    )
    extra = {"input_feeding": True} if model.input_feeding else {}
    decoder = catalogue.DECODERS.get(model.decoder).load()(
        len(task.target_vocabulary), model.embedding, model.hidden, build_attention(config, encoder.width), **extra
    )
    return Reverser(encoder, INITIAL_STATES[model.initial_state](encoder, model.hidden), decoder)


def build_attention(config: Config, key_width: int) -> Attention | NoAttention:
    """The attention of `config`, for keys of this width."""
    attention = config.model.attention
    if attention.score == "none":
        return NoAttention()
    score = build_score(attention.score, config.model.hidden, key_width, attention.options)
    return Attention(
        score,
        window=_build_window(config),
        history=_build_history(attention, score.feature_width),
        scalable_softmax=attention.scalable_softmax,
        mask_padding=attention.mask_padding,
    )


def _build_window(config: Config) -> Window | None:
    attention, width = config.model.attention, config.model.hidden
    if attention.window == "local_m":
        is_reversed = attention.centre == "reversed"
        return LocalM(width, radius=attention.radius, reversed=is_reversed, trailing=int(config.model.source_eos))
    return LocalP(width, radius=attention.radius) if attention.window == "local_p" else None


def _build_history(attention: AttentionConfig, feature_width: int) -> History | None:
    if attention.history in ("location", "location_coverage"):
        kind = Location if attention.history == "location" else LocationCoverage
        return kind(feature_width, filters=attention.filters, kernel=attention.kernel)
    return Coverage(feature_width) if attention.history == "coverage" else None


def build_score(name: str, query_width: int, key_width: int, options: dict[str, object]) -> Score:
    """A score by its name. One that a plug-in brought is tried once, so that its mistakes are told here."""
    score = construct_score(name, query_width, key_width, options)
    if not type(score).__module__.startswith("seq2attn."):
        _try_once(name, score)
    return score


def construct_score(name: str, query_width: int, key_width: int, options: dict[str, object]) -> Score:
    """A score by its name, as it is, whether it works or not."""
    cls = catalogue.SCORES.get(name).load()
    try:
        score = cls(query_width, key_width, **options)
    except Exception as error:
        given = ", ".join([str(query_width), str(key_width), *(f"{key}={value!r}" for key, value in options.items())])
        hint = "Its constructor takes (query_width, key_width, **options) and calls super().__init__ first."
        if options:
            hint += " Or does it not take these values of model.attention.options?"
        raise Seq2AttnError(
            f"score {name!r} cannot be made: {cls.__name__}({given}) raised {type(error).__name__}: {error}", hint=hint
        ) from error
    assert isinstance(score, Score)
    return score


def _try_once(name: str, score: Score) -> None:
    query, keys = torch.rand(2, 4, score.query_width), torch.rand(2, 3, score.key_width)
    try:
        with torch.no_grad():
            result = score(query, score.project(keys))
    except Exception as error:
        raise Seq2AttnError(
            f"score {name!r} failed on query {tuple(query.shape)} and keys {tuple(keys.shape)}: "
            f"{type(error).__name__}: {error}",
            hint="Its result is (B, L, S) for query (B, L, D) and keys (B, S, D); `seq2attn check --plugin FILE` says more.",
        ) from error
    if not isinstance(result, torch.Tensor) or result.shape != (2, 4, 3):
        found = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
        raise Seq2AttnError(
            f"score {name!r} returned {found} for query {tuple(query.shape)} and keys {tuple(keys.shape)}; "
            "expected (B, L, S) = (2, 4, 3)"
        )


def build_task(config: Config) -> Task:
    """The task of `config`. One that a plug-in brought is tried once, so that its mistakes are reported here."""
    options = config.task.model_dump(exclude={"name"})
    task: Task = catalogue.TASKS.get(config.task.name).load()(**options)
    if not type(task).__module__.startswith("seq2attn."):
        check_task(task)
    return task


def build_training_data(config: Config, device: torch.device) -> TrainingData:
    """The stream of training batches of `config`."""
    return TrainingData(
        task=build_task(config),
        source_eos=config.model.source_eos,
        batch_size=config.training.batch_size,
        word_dropout=config.training.word_dropout,
        seed=config.seed,
        device=device,
    )
