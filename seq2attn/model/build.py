"""Config -> objects. The only place that turns names into classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from seq2attn import catalogue
from seq2attn.config import Config, RecurrentConfig, TransformerConfig
from seq2attn.data.batches import TrainingData
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.model.attention import Attention, NoAttention
from seq2attn.model.encoder import Encoder
from seq2attn.model.interface import Model
from seq2attn.model.reverser import Reverser
from seq2attn.model.scores import Score
from seq2attn.model.transformer import Transformer
from seq2attn.model.windows import LocalM, Window


def build_model(config: Config) -> Model:
    """The model of `config` on the CPU, its weights drawn from `config.seed` and nothing else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if isinstance(config.model, RecurrentConfig):
            return _build_reverser(config, config.model)
        return _build_transformer(config, config.model)


def _build_transformer(config: Config, model: TransformerConfig) -> Transformer:
    return Transformer(
        len(build_vocabulary(config)),
        model.hidden,
        layers=model.layers,
        heads=model.heads,
        feedforward=model.feedforward,
        dropout=model.dropout,
    )


def _build_reverser(config: Config, model: RecurrentConfig) -> Reverser:
    vocabulary_size = len(build_vocabulary(config))
    encoder = Encoder(
        vocabulary_size,
        model.embedding,
        model.hidden,
        bidirectional=model.bidirectional,
        reads_padding=not model.attention.mask_padding,
    )
    attention = build_attention(model, encoder.width)
    decoder = catalogue.DECODERS.make(model.decoder, vocabulary_size, model.embedding, model.hidden, attention)
    return Reverser(encoder, catalogue.INITIAL_STATES.make(model.initial_state, encoder, model.hidden), decoder)


def build_attention(model: RecurrentConfig, key_width: int) -> Attention | NoAttention:
    """The attention of `model`, for keys of this width."""
    attention = model.attention
    if attention.score.name == "none":
        return NoAttention()
    score = build_score(attention.score.name, model.hidden, key_width, attention.score.options)
    return Attention(
        score,
        window=_build_window(model),
        history=catalogue.HISTORIES.make(attention.history, score.feature_width),
        scalable_softmax=attention.scalable_softmax,
        mask_padding=attention.mask_padding,
    )


def _build_window(model: RecurrentConfig) -> Window | None:
    window = model.attention.window
    if window.name == "local_m":
        is_reversed = window.options["centre"] == "reversed"
        radius = window.options["radius"]
        return LocalM(model.hidden, radius=radius, reversed=is_reversed, trailing=int(model.source_eos))
    made: Window | None = catalogue.WINDOWS.make(window, model.hidden)
    return made


def build_score(name: str, query_width: int, key_width: int, options: Mapping[str, Any]) -> Score:
    """A score by its name. One from a plug-in is called once, so that its mistakes are reported here."""
    score: Score = catalogue.SCORES.make(catalogue.SCORES.choose(name, **options), query_width, key_width)
    if not type(score).__module__.startswith("seq2attn."):
        _try_once(name, score)
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
    """The task of `config`."""
    task: Task = catalogue.TASKS.get(config.task.name).load()()
    return task


def build_vocabulary(config: Config) -> Vocabulary:
    """The vocabulary of `config`."""
    return Vocabulary(config.task.options["alphabet"])


def build_training_data(config: Config, device: torch.device) -> TrainingData:
    """The stream of training batches of `config`."""
    options = config.task.options
    return TrainingData(
        task=build_task(config),
        alphabet_size=len(options["alphabet"]),
        min_length=options["min_length"],
        max_length=options["max_length"],
        source_eos=config.model.source_eos,
        batch_size=config.training.batch_size,
        word_dropout=config.training.word_dropout,
        seed=config.seed,
        device=device,
    )
