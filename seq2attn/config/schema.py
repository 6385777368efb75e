"""Every key of a config: type, bounds, default and meaning.

The models are frozen and refuse unknown keys. A part with settings of its own (a task, a score, a
window, ...) is written as its name alone or as a mapping of its name and options. Combinations are
checked in `rules.py`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    model_validator,
)
from pydantic.fields import FieldInfo

from seq2attn import parts
from seq2attn.errors import Seq2AttnError, quoted
from seq2attn.registry import Options, Registry, Section, composed

Size = Annotated[int, Field(ge=1, le=65_536)]
Share = Annotated[float, Field(ge=0, lt=1)]
Heads = Annotated[int, Field(ge=1, le=256)]
Count = Annotated[int, Field(ge=1, le=100_000_000)]
_LENGTHS = f"allowed: whole numbers from 1 to {parts.LONGEST:,} and ranges of them such as 3-10"


def _words(values: Any, what: str) -> Iterator[str]:
    """Yield the words of `7`, `"3,5"` and `["3,5", 7]`: `7`, then `3` and `5`, and so on. Raises
    `Seq2AttnError` for a value that is neither text nor a whole number.

    what: what a value should be, for the message.
    """
    if isinstance(values, str | dict) or not isinstance(values, Iterable):
        values = [values]  # a mapping, too, which is then refused as a whole
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise Seq2AttnError(f"{quoted(value)} is not {what}")
        yield from str(value).removesuffix(",").split(",")  # `3,` is the one word `3`


def parse_lengths(values: Iterable[object] | int | str) -> tuple[int, ...]:
    """Return `(3, 5, 6, 7, 10, 12)` for `[3, "5-7", "10,12"]`: sorted, without duplicates. A single
    length needs no list.

    Raises `Seq2AttnError` for anything except whole numbers from 1 and ranges of them, and for no
    length at all.
    """
    lengths: set[int] = set()
    for word in _words(values, f"a length; {_LENGTHS}"):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", word)
        first = int(match[1]) if match else 0  # no length, so that it is refused below
        last = int(match[2] or first) if match else 0
        if not 1 <= first <= last <= parts.LONGEST:
            raise Seq2AttnError(f"{quoted(word)} is not a length; {_LENGTHS}")
        lengths.update(range(first, last + 1))
    if not lengths:
        raise Seq2AttnError(f"no length given; {_LENGTHS}")
    return tuple(sorted(lengths))


def parse_families(values: Iterable[object] | str) -> tuple[str, ...]:
    """Return `("random", "unary", "runs")` for `["unary,runs", "random"]`: in the order of
    `seq2attn list`, without duplicates. `all` is every family.

    Raises `Seq2AttnError` for anything else, and for no family at all.
    """
    names = parts.FAMILIES.names()
    chosen: set[str] = set()
    for word in _words(values, "the name of a family of strings"):
        name = word.strip()
        chosen.update(names if name == "all" else [parts.FAMILIES.get(name).name])
    if not chosen:
        raise Seq2AttnError(f"no family given; allowed: all, {', '.join(names)}")
    return tuple(name for name in names if name in chosen)


Lengths = Annotated[tuple[int, ...], BeforeValidator(parse_lengths)]
Families = Annotated[tuple[str, ...], BeforeValidator(parse_families)]


def _texts(value: Any) -> Any:
    """Return the texts of `hello` and `[hello, world]` in Unicode's normal form C, each once; other
    values as they are, for pydantic to refuse.
    """
    texts = [value] if isinstance(value, str) else value
    # a list of YAML, or a tuple of Python
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        return tuple(dict.fromkeys(map(composed, texts)))
    return value


class AttentionConfig(Section):
    """The attention of a recurrent decoder."""

    score: Annotated[Options, parts.SCORES] = parts.SCORES.choose()
    """the score function; `seq2attn list` shows the formulas; `none` means no attention"""
    heads: Heads = 1
    """attentions at once, each of projections of width model.hidden / heads"""
    mask_padding: bool = True
    """give padding the weight 0; false repeats a common mistake, for study"""
    scalable_softmax: bool = False
    """scores times ln n, n the number of allowed keys: attention stays as sharp on long sources
    (Nakanishi 2025)"""
    normaliser: Annotated[Options, parts.NORMALISERS] = parts.NORMALISERS.choose()
    """what makes weights of scores: softmax, sparsemax, entmax15 or sigmoid"""
    window: Annotated[Options, parts.WINDOWS] = parts.WINDOWS.choose()
    """which keys may be attended to: global, local_m or local_p"""
    history: Annotated[Options, parts.HISTORIES] = parts.HISTORIES.choose()
    """how attention depends on its past: none, location, coverage, shift, ...; `seq2attn list
    histories` shows them"""


class ModelConfig(Section):
    """The encoder-decoder: what every architecture has."""

    architecture: str
    hidden: Size = 96
    """D, width of the encoder's states (of each direction) and of the decoder's"""
    source_eos: bool = True
    """end the source with <eos>, so that the encoder knows where the string stops"""


class RecurrentConfig(ModelConfig):
    """An encoder, and a recurrent decoder with attention."""

    architecture: Literal["gru"] = "gru"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    embedding: Size = 32
    """E, width of the character embeddings"""
    padding_embedding: Literal["learned", "zero"] = "learned"
    """the vector of <pad>, which encoders without a mask read: learned, or zero (fixed, as
    PyTorch's padding_idx)"""
    encoder: Annotated[Options, parts.ENCODERS] = parts.ENCODERS.choose()
    """what maps the source to states: recurrent, or one of your own"""
    cell: Annotated[Options, parts.CELLS] = parts.CELLS.choose()
    """the recurrent cell of encoder and decoder: gru, lstm or rnn"""
    layers: Annotated[int, Field(ge=1, le=8)] = 1
    """layers on top of each other, in the encoder and in the decoder"""
    dropout: Share = 0.0
    """share of embeddings, of each layer's output to the next and of the last one's that is dropped
    in training"""
    bidirectional: bool = False
    """read the source in both directions; keys and values are then 2D wide"""
    initial_state: Annotated[Options, parts.INITIAL_STATES] = parts.INITIAL_STATES.choose()
    """the decoder's first state: zeros, last or bridge"""
    decoder: Annotated[Options, parts.DECODERS] = parts.DECODERS.choose()
    """the order of attention and recurrence; `seq2attn list decoders` shows them"""
    attention: AttentionConfig = AttentionConfig()
    """the attention"""


class TransformerConfig(ModelConfig):
    """A Transformer encoder and decoder."""

    architecture: Literal["transformer"] = "transformer"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """layers of the encoder, and of the decoder"""
    heads: Heads = 4
    """heads of each attention; must divide model.hidden"""
    feedforward: Size = 384
    """width of each layer's feed-forward layer"""
    dropout: Share = 0.0
    """share of each sublayer's output, of weights, and inside each feed-forward layer that is
    dropped in training"""


ARCHITECTURES = Registry("architecture", "model", key="architecture")
ARCHITECTURES.add(replace(parts.ARCHITECTURES.get("gru"), options=RecurrentConfig))
ARCHITECTURES.add(replace(parts.ARCHITECTURES.get("transformer"), options=TransformerConfig))


class TrainingConfig(Section):
    """How the model is trained."""

    steps: Count | None = 1500
    """optimiser steps; null: as many as `epochs` take"""
    epochs: Count | None = None
    """passes through the training set, instead of `steps`, for a task that has one"""
    batch_size: Count = 64
    """B, strings per step"""
    word_dropout: Share = 0.0
    """share of the decoder's input characters that are replaced by <pad> in training"""
    encoder_reset: Share = 0.0
    """share of the encoder's states that are replaced by noise in training, each as a whole"""
    reset_first: bool = True
    """whether that includes the initial state of each direction; false: a string's ends stay
    recognisable"""
    decoder_reset: Share = 0.0
    """encoder_reset for the decoder's states, so that it cannot count steps"""
    learning_rate: PositiveFloat = 3e-3
    """Adam's peak learning rate"""
    weight_decay: NonNegativeFloat = 0.0
    """decoupled: each step shrinks every weight by learning rate x this (AdamW, Loshchilov & Hutter
    2019); 0: Adam"""
    losses: Annotated[tuple[Options, ...], parts.LOSSES] = (parts.LOSSES.choose(),)
    """a loss, or a list of them, whose weighted sum is minimised; `seq2attn list losses` shows them
    """
    clip_norm: PositiveFloat | None = 1.0
    """gradients are clipped to this norm; null: no clipping"""
    schedule: Annotated[Options, parts.SCHEDULES] = parts.SCHEDULES.choose()
    """learning-rate schedule after the warm-up"""
    warmup: NonNegativeInt = 0
    """steps over which the learning rate rises linearly from 0"""
    log_every: Count = 10
    """steps between two lines of metrics.jsonl"""
    evaluate_every: Count = 500
    """steps (with `epochs`, epochs; then 1 by default) between two evaluations; each also writes a
    checkpoint"""
    validation_samples: Count = 100
    """strings per length in those evaluations"""
    watched: Annotated[
        tuple[str, ...] | None, Field(min_length=1, max_length=20), BeforeValidator(_texts)
    ] = None
    """strings whose attention is recorded, as [hello, world]; null: hello, and two of the task's
    own"""
    snapshots: Annotated[int, Field(ge=0, le=10_000)] = 20
    """about how many times: after 0, 1, 2, 4, ... steps and then this many times, evenly spaced; 0:
    never"""
    snapshot_weights: bool = False
    """keep the model's weights with each of them: checkpoints step-0, step-1, ..., for --checkpoint
    """
    target: Annotated[float, Field(gt=0, le=1)] | None = None
    """stop early once greedy exact match at every trained length of `evaluation.lengths`, or on the
    dev set, reaches this"""
    select: Literal["wer", "ser", "loss"] = "wer"
    """which rate of the dev set is lowest at the best checkpoint of a run on pairs; on a tie, the
    lowest loss"""
    patience: Count | None = None
    """stop early after this many evaluations in a row without a better one; null: never"""

    @model_validator(mode="before")
    @classmethod
    def _count_in_epochs(cls, values: Any) -> Any:
        """If epochs are counted, `steps` defaults to none and `evaluate_every` to 1."""
        if isinstance(values, dict) and values.get("epochs") is not None:
            return {"steps": None, "evaluate_every": 1, **values}
        return values


class EvaluationConfig(Section):
    """Defaults of `eval`, and what training reports."""

    lengths: Lengths | None = None
    """string lengths, as [3, 5, 7] or "1-12"; null: every trained length"""
    samples: Count = 1000
    """strings per length, and per family"""
    families: Families = (parts.RANDOM,)
    """kinds of strings to measure: [random, unary], or all; `seq2attn list families` shows them"""


class Config(Section):
    """Everything that determines a run, except the machine."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """determines weights and batches: on one machine, the same seed gives bit-identical weights"""
    task: Annotated[Options, parts.TASKS] = parts.TASKS.choose()
    """the task; `seq2attn list tasks` shows what each one does"""
    model: Annotated[RecurrentConfig | TransformerConfig, ARCHITECTURES] = RecurrentConfig()
    """the encoder-decoder"""
    training: TrainingConfig = TrainingConfig()
    """how the model is trained"""
    evaluation: EvaluationConfig = EvaluationConfig()
    """the defaults of `eval`, and what training reports"""

    def __reduce__(self) -> Any:
        """Pickle the plain values: the classes of options are made at run time."""
        return Config.model_validate, (self.model_dump(mode="json"),)

    @property
    def score_name(self) -> str:
        """The attention's score function; that of a Transformer is `scaled` by definition."""
        if isinstance(self.model, TransformerConfig):
            return "scaled"
        return self.model.attention.score.name

    @property
    def data_files(self) -> dict[str, str]:
        """The path of each data file that the task names, by its option."""
        files = self.task.entry.files
        return {name: path for name, path in self.task if name in files and path is not None}


def all_keys(
    section: type[BaseModel] = Config, prefix: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every dotted key that has a value, with its field: those of every architecture, and the
    options of every part. A key that several of them have is yielded for each of them.

    section: the model whose keys these are. prefix: what comes before them, such as `model.`.
    """
    for name, field in section.model_fields.items():
        key = prefix + name
        registry = next((value for value in field.metadata if isinstance(value, Registry)), None)
        if registry is not None:  # the value chooses one of several sections
            # The value at the key of a part is its name. The model's architecture is not a part: it
            # is chosen by a key of its own, `model.architecture`.
            if registry.key == "name":
                yield key, field
            for entry in registry:
                yield from all_keys(entry.options, f"{key}.")
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from all_keys(field.annotation, f"{key}.")
        elif name != "name":  # of a part, yielded above
            yield key, field


PARTS = {registry.config_key: registry for registry in (*parts.EXTENSIBLE, parts.SCHEDULES)}
"""the keys that choose a part"""
