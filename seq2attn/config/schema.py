"""Every key of a config: type, bounds, default and meaning.

The models are frozen and refuse unknown keys. A part with settings of its own (a task, a score, a window, ...) is a
`Choice`, written as its name alone or as a mapping of its name and options. Combinations are checked in `rules.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from seq2attn import parts
from seq2attn.config.families import parse_families
from seq2attn.config.lengths import parse_lengths
from seq2attn.errors import Problem, Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Choice, Entry, Registry


@dataclass(frozen=True)
class Part:
    """How pydantic reads and writes a `Choice` from `registry`; a mapping without a name means the part `default`."""

    registry: Registry
    default: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(_write_choice)
        )

    def read(self, value: Any) -> Choice:
        """`"location"` or `{"name": "location", "kernel": 7}` -> the choice, with every problem reported together."""
        if isinstance(value, Choice):
            value = {"name": value.name, **value.options}
        mapping = value if isinstance(value, Mapping) else {"name": value}
        options = {key: _in_normal_form(given) for key, given in mapping.items() if key != "name"}
        name = mapping.get("name", self.default)
        try:
            if not isinstance(name, str):
                found = "nothing" if name is None else "a list" if isinstance(name, list) else shown(name)
                raise Seq2AttnError(
                    f"expected the name of a {self.registry.kind}, or its name and options; found {found}"
                )
            entry = self.registry.get(name)
        except Seq2AttnError as error:
            raise _choice_error([Problem("name" if mapping is value else "", str(error))]) from error
        problems = [Problem(key, text) for key, given in options.items() if (text := self._problem(entry, key, given))]
        if problems:
            raise _choice_error(problems)
        for key, given in options.items():
            if entry.options[key].type is float and given is not None:
                options[key] = float(given)
        return Choice(entry.name, {**entry.defaults(), **options})

    def _problem(self, entry: Entry, key: str, value: Any) -> str | None:
        if key in entry.options:
            return entry.options[key].problem(value)
        kind = self.registry.kind
        owners = [owner.name for owner in self.registry.owners(key)]
        if owners:
            return (
                f"has no effect with {kind} {entry.name!r}; set the {kind} to {' or '.join(owners)}, or leave this out"
            )
        guess = did_you_mean(key, entry.options)
        return f"unknown option of {kind} {entry.name!r}; {guess}allowed: {', '.join(entry.options) or 'none'}"


def _in_normal_form(value: Any) -> Any:
    """Text in Unicode's normal form C, so that an alphabet has one character for a letter and its accent."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def _choice_error(problems: list[Problem]) -> PydanticCustomError:
    text = "; ".join(str(problem) for problem in problems)
    return PydanticCustomError("choice", "{text}", {"text": text, "problems": problems})


def _write_choice(choice: Choice) -> Any:
    """The choice as a config writes it: its name alone where the part has no options."""
    return {"name": choice.name, **choice.options} if choice.options else choice.name


MOST_WATCHED = 20  # strings
Size = Annotated[int, Field(ge=1, le=65_536)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _name_in(registry: Registry) -> AfterValidator:
    """Accept a name or synonym of `registry`; keep the name."""

    def resolve(name: str) -> str:
        try:
            return registry.get(name).name
        except Seq2AttnError as error:
            raise PydanticCustomError("name", "{message}", {"message": str(error)}) from error

    return AfterValidator(resolve)


def _lengths(value: Any) -> Any:
    """Accept `[3, 5]`, `"1-12"` and `["1-8", 12]`."""
    try:
        return None if value is None else parse_lengths(value if isinstance(value, list | tuple) else [value])
    except Seq2AttnError as error:
        raise PydanticCustomError("lengths", "{m}", {"m": str(error)}) from error


def _families(value: Any) -> Any:
    """Accept `[random, unary]`, `unary` and `all`."""
    try:
        return parse_families(value if isinstance(value, list | tuple) else [value])
    except Seq2AttnError as error:
        raise PydanticCustomError("families", "{m}", {"m": str(error)}) from error


def _texts(value: Any) -> Any:
    """Accept `hello` and `[hello, world]`; each in Unicode's normal form C, and once."""
    if value is None or not isinstance(value, str | list | tuple):
        return value
    texts = [_in_normal_form(one) for one in ([value] if isinstance(value, str) else value)]
    if not 1 <= len(texts) <= MOST_WATCHED:
        raise PydanticCustomError("texts", "{m}", {"m": f"expected 1 to {MOST_WATCHED} strings, found {len(texts)}"})
    return tuple(one for place, one in enumerate(texts) if one not in texts[:place])


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


class AttentionConfig(_Section):
    """The attention of a recurrent decoder."""

    score: Annotated[Choice, Part(parts.SCORES, "scaled")] = parts.SCORES.choose("scaled")
    """the score function; `seq2attn list` shows the formulas; `none` is no attention"""
    mask_padding: bool = True
    """give padding the weight 0; false repeats a common mistake, for study"""
    scalable_softmax: bool = False
    """scores times ln n, n the number of allowed keys: attention stays as sharp on long sources (Nakanishi 2025)"""
    window: Annotated[Choice, Part(parts.WINDOWS, "global")] = parts.WINDOWS.choose("global")
    """which keys may be attended to: global, local_m or local_p"""
    history: Annotated[Choice, Part(parts.HISTORIES, "none")] = parts.HISTORIES.choose("none")
    """how scores depend on past weights: none, location, coverage, location_coverage or shift"""


class ModelConfig(_Section):
    """The encoder-decoder: what every architecture has."""

    architecture: str
    hidden: Size = 96
    """D, width of the encoder's states (of each direction) and of the decoder's"""
    source_eos: bool = True
    """end the source with <eos>, so that the encoder knows where the string stops"""


class RecurrentConfig(ModelConfig):
    """A recurrent encoder, and a recurrent decoder with attention."""

    architecture: Annotated[str, _name_in(parts.ARCHITECTURES)] = "gru"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    embedding: Size = 32
    """E, width of the character embeddings"""
    padding_embedding: Literal["learned", "zero"] = "learned"
    """the vector of <pad>, which encoders without a mask read: learned, or zero (fixed, as PyTorch's padding_idx)"""
    cell: Annotated[Choice, Part(parts.CELLS, "gru")] = parts.CELLS.choose("gru")
    """the recurrent cell of encoder and decoder: gru, lstm or rnn"""
    layers: Annotated[int, Field(ge=1, le=8)] = 1
    """cells on top of each other, in the encoder and in the decoder"""
    dropout: Share = 0.0
    """share of each layer's output to the next that is dropped in training"""
    bidirectional: bool = False
    """read the source in both directions; keys and values are then 2D wide"""
    initial_state: Annotated[Choice, Part(parts.INITIAL_STATES, "bridge")] = parts.INITIAL_STATES.choose("bridge")
    """the decoder's first state: zeros, last or bridge"""
    decoder: Annotated[Choice, Part(parts.DECODERS, "bahdanau")] = parts.DECODERS.choose("bahdanau")
    """the order of attention and recurrence: bahdanau or luong"""
    attention: AttentionConfig = AttentionConfig()
    """the attention"""


class TransformerConfig(ModelConfig):
    """A Transformer encoder and decoder."""

    architecture: Literal["transformer"] = "transformer"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """layers of the encoder, and of the decoder"""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """heads of each attention; must divide model.hidden"""
    feedforward: Size = 384
    """width of each layer's feed-forward layer"""
    dropout: Share = 0.0
    """share of each sublayer's output that is dropped in training"""


ARCHITECTURES: dict[str, type[ModelConfig]] = {"gru": RecurrentConfig, "transformer": TransformerConfig}


def architecture_of(model: Any) -> str:
    """The architecture of a value of `model`; an unknown one is read as the default."""
    name = model.get("architecture") if isinstance(model, Mapping) else getattr(model, "architecture", None)
    return name if isinstance(name, str) and name in ARCHITECTURES else "gru"


class TrainingConfig(_Section):
    """How the model is trained."""

    steps: Annotated[int, Field(ge=1, le=100_000_000)] | None = 1500
    """optimiser steps; null: as many as `epochs` take"""
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """passes through the training set, instead of `steps`, for a task that has one"""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """B, strings per step"""
    word_dropout: Share = 0.0
    """share of the decoder's input characters that are replaced by <pad> in training"""
    encoder_reset: Share = 0.0
    """share of the encoder's states that are replaced by noise in training, each as a whole"""
    decoder_reset: Share = 0.0
    """the same for the decoder's states, so that it cannot count steps"""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    """Adam's peak learning rate"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """decoupled: each step shrinks every weight by learning rate x this (AdamW, Loshchilov & Hutter 2019); 0: Adam"""
    coverage_weight: Annotated[float, Field(ge=0)] = 0.0
    """weight of the coverage loss, sum_j min(alpha_tj, C_tj) per token, with any history (See et al. 2017, eq. 12, 13)"""
    label_smoothing: Share = 0.0
    """share of the target's probability that is spread over the whole vocabulary (Szegedy et al. 2016, section 7)"""
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    """gradients are clipped to this norm; null: no clipping"""
    compile: bool = False
    """compile the training step with torch.compile, a minute or more; for long trainings that the C does not do, and GPUs"""
    schedule: Annotated[str, _name_in(parts.SCHEDULES)] = "cosine"
    """learning-rate schedule after the warm-up"""
    warmup: Annotated[int, Field(ge=0)] = 0
    """steps over which the learning rate rises linearly from 0"""
    log_every: Annotated[int, Field(ge=1)] = 10
    """steps between two lines of metrics.jsonl"""
    evaluate_every: Annotated[int, Field(ge=1)] = 500
    """steps (with `epochs`, epochs; then 1 by default) between two evaluations; each also writes a checkpoint"""
    validation_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """strings per length in those evaluations"""
    watched: Annotated[tuple[str, ...] | None, BeforeValidator(_texts)] = None
    """strings whose attention is recorded, as [hello, world]; null: hello, and two of the task's own"""
    snapshots: Annotated[int, Field(ge=0, le=10_000)] = 20
    """about how many times: after 0, 1, 2, 4, ... steps and then this many times, evenly spaced; 0: never"""
    snapshot_weights: bool = False
    """keep the model's weights with each of them: checkpoints step-0, step-1, ..., for --checkpoint"""
    target: Annotated[float, Field(gt=0, le=1)] | None = None
    """stop early once greedy exact match at every trained length of `evaluation.lengths`, or on the dev set, reaches this"""
    patience: Annotated[int, Field(ge=1)] | None = None
    """stop early after this many evaluations in a row without a better one; null: never"""

    @model_validator(mode="before")
    @classmethod
    def _count_in_epochs(cls, values: Any) -> Any:
        """With epochs, other defaults."""
        if isinstance(values, dict) and values.get("epochs") is not None:
            return {"steps": None, "evaluate_every": 1, **values}
        return values


class EvaluationConfig(_Section):
    """Defaults of `eval`, and what training reports."""

    lengths: Annotated[tuple[Annotated[int, Field(le=100_000)], ...] | None, BeforeValidator(_lengths)] = None
    """string lengths, as [3, 5, 7] or "1-12"; null: every trained length"""
    samples: Annotated[int, Field(ge=1, le=100_000_000)] = 1000
    """strings per length, and per family"""
    families: Annotated[tuple[str, ...], BeforeValidator(_families)] = (parts.RANDOM,)
    """kinds of strings to measure: [random, unary], or all; `seq2attn list families` shows them"""


class Config(_Section):
    """Everything that determines a run, except the machine."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """determines weights and batches: on one machine, the same seed gives bit-identical weights"""
    task: Annotated[Choice, Part(parts.TASKS, "reverse")] = parts.TASKS.choose("reverse")
    """the task; `seq2attn list tasks` shows what each one does"""
    model: Annotated[
        Annotated[RecurrentConfig, Tag("gru")] | Annotated[TransformerConfig, Tag("transformer")],
        Discriminator(architecture_of),
    ] = RecurrentConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @property
    def score_name(self) -> str:
        """The attention's score function: that of a Transformer is `scaled` by definition."""
        return self.model.attention.score.name if isinstance(self.model, RecurrentConfig) else "scaled"

    @property
    def data_files(self) -> dict[str, str]:
        """The data files that the task names: option -> path."""
        options = self.task.options
        return {name: options[name] for name in parts.TASKS.get(self.task.name).files if options[name] is not None}

    @property
    def trained_lengths(self) -> range | None:
        """The source lengths that occur in training; None if the task's options do not say."""
        options = self.task.options
        if not {"min_length", "max_length"} <= options.keys():
            return None
        return range(options["min_length"], options["max_length"] + 1)

    @property
    def evaluation_lengths(self) -> tuple[int, ...]:
        """`evaluation.lengths`, or every trained length."""
        return self.evaluation.lengths or tuple(self.trained_lengths or ())

    def is_trained(self, length: int) -> bool:
        """Whether sources of this length occur in training; True if the task does not say."""
        return self.trained_lengths is None or length in self.trained_lengths
