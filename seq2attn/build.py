"""Models and tasks from configs: the only place that turns names into classes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2attn.config import Config, RecurrentConfig, TransformerConfig
from seq2attn.data.stream import EpochData, TrainingData
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import EOS, PAD, UNK, Vocabulary, abridged
from seq2attn.errors import Seq2AttnError
from seq2attn.model.attention import Attends, Attention, Heads, NoAttention
from seq2attn.model.cells import Cells
from seq2attn.model.decoder import PointerDecoder, Reverser
from seq2attn.model.interface import Loss, Model
from seq2attn.model.transformer import Transformer


def build_model(config: Config, task: Task | None = None) -> Model:
    """Return the model of `config` on the CPU, its weights initialised from `config.seed`. Torch's
    generator of the CPU is afterwards as it was.

    task: the task of `config`, if it is already built. Raises `Seq2AttnError` if the decoder needs
    one vocabulary and the task has two.
    """
    task = task or build_task(config)
    source, target = task.source_vocabulary, task.target_vocabulary
    model: Model
    with torch.random.fork_rng(devices=[]):  # not those of GPUs: weights are drawn on the CPU
        torch.manual_seed(config.seed)
        if isinstance(config.model, TransformerConfig):
            # `hidden` is given by position, and the other two are no arguments of Transformer
            options = config.model.model_dump(exclude={"architecture", "source_eos", "hidden"})
            model = Transformer(len(source), len(target), config.model.hidden, **options)
        else:
            model = _build_recurrent(config.model, source, target)
    model.unknown = target.unknown  # whether there is an `<unk>`
    return model


def _same(source: Vocabulary, target: Vocabulary) -> Tensor:
    """Return which symbols of two vocabularies are the same, (V of the source, V of the target):
    1.0 where the ids of row and column stand for the same symbol, otherwise 0.0.

    `<eos>` is the same in both, and so is `<unk>` if both have one. A symbol that the target lacks
    is the same as the target's `<unk>`, if it has one. Nothing is the same as `<pad>` or `<sos>`.
    """
    same = torch.zeros(len(source), len(target))
    same[EOS, EOS] = 1
    if source.unknown and target.unknown:  # whether a vocabulary has an `<unk>`
        same[UNK, UNK] = 1
    for symbol, row in source.ids.items():
        column = target.ids.get(symbol, UNK if target.unknown else None)
        if column is not None:
            same[row, column] = 1
    return same


def _build_recurrent(model: RecurrentConfig, source: Vocabulary, target: Vocabulary) -> Reverser:
    """Return the recurrent model of this config for these vocabularies. Its parts are made in a
    fixed order, since each draws its first weights from the same generator. Raises `Seq2AttnError`
    if the decoder needs one vocabulary and these are two.
    """
    cells = Cells(
        lambda input_width: model.cell.make(input_width, model.hidden),
        width=model.hidden,
        layers=model.layers,
        dropout=model.dropout,
        bidirectional=model.bidirectional,
    )
    encoder = model.encoder.make(len(source), model.embedding, cells)
    attention = _build_attention(model, encoder.width)
    decoder = model.decoder.make(len(target), model.embedding, attention, cells)
    if decoder.needs_one_vocabulary and source.tokens != target.tokens:
        raise Seq2AttnError(
            f"model.decoder: {model.decoder.name!r} needs one vocabulary, but the sources use "
            f"{abridged(source.symbols)} and the targets {abridged(target.symbols)}",
            hint="Choose another decoder, or give the task one Vocabulary with all symbols.",
        )
    if isinstance(decoder, PointerDecoder):  # which copies symbols from source to target
        decoder.same = _same(source, target)
    initial_state = model.initial_state.make(encoder, decoder.cell)
    if model.padding_embedding == "zero":  # otherwise `<pad>` has a vector like any symbol
        for embedding in (encoder.embedding, decoder.embedding):
            embedding.padding_idx = PAD  # the vector of `<pad>` then has no gradient: it stays 0
            embedding.weight.data[PAD] = 0.0
    return Reverser(encoder, initial_state, decoder)


def _build_attention(model: RecurrentConfig, key_width: int) -> Attends:
    """Return what a decoder attends with, to encoder states of width `key_width`: nothing, one
    attention, or several heads, each with queries and keys of `hidden // heads` numbers.
    """
    heads = model.attention.heads
    if model.attention.score.name == "none":
        return NoAttention()
    if heads == 1:
        return _build_head(model, model.hidden, key_width)
    width = model.hidden // heads
    attentions = [_build_head(model, width, width) for _ in range(heads)]
    return Heads(model.hidden, key_width, attentions)


def _build_head(model: RecurrentConfig, query_width: int, key_width: int) -> Attention:
    """Return an attention, the only one of a decoder or one of its heads, made of the parts that
    the config names, for queries and keys of these widths.
    """
    attention = model.attention
    # the score first: it says how many features of each key it takes from the history
    score = attention.score.make(query_width, key_width)
    return Attention(
        score,
        normaliser=attention.normaliser.make(),
        window=attention.window.make(query_width, model.source_eos),
        history=attention.history.make(query_width, key_width, score.feature_width),
        scalable_softmax=attention.scalable_softmax,
        mask_padding=attention.mask_padding,
    )


def build_task(config: Config, learned: Mapping[str, Any] | None = None) -> Task:
    """Return the task of `config`.

    learned: what a run keeps of a task that reads files (`Task.learned`); None: they are opened, as
        for a config that the user named.
    """
    return config.task.make() if learned is None else config.task.make(learned=learned)


def build_losses(config: Config) -> dict[str, Loss]:
    """Return what training minimises, by name."""
    return {part.name: part.make() for part in config.training.losses}


def build_training_data(
    config: Config, device: torch.device, task: Task | None = None
) -> TrainingData:
    """Return the stream of training batches of `config`: `EpochData` if the task has a finite
    training set, otherwise examples drawn without end.

    task: the task of `config`, if it is already built.

    Raises `Seq2AttnError` if a loss needs to know which source position each output copies, and the
    task does not.
    """
    task = task or build_task(config)
    aligned = [name for name, loss in build_losses(config).items() if loss.needs_alignment]
    if aligned and not task.is_aligned:
        raise Seq2AttnError(
            f"training.losses: {aligned[0]!r} needs the source position of each output, which task "
            f"{config.task.name!r} does not know; leave it out"
        )
    stream = TrainingData if task.training_set is None else EpochData
    return stream(
        task,
        source_eos=config.model.source_eos,
        batch_size=config.training.batch_size,
        word_dropout=config.training.word_dropout,
        seed=config.seed,
        device=device,
    )
