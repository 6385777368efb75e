"""Every key of a config: type, bounds, default and meaning.

The models are frozen and refuse unknown keys. A part with settings of its own (a task, a score, a window, ...) is a
`Choice`, written as its name alone or as a mapping of its name and options. What single values cannot show (combinations)
is in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)
from pydantic_core import PydanticCustomError

from seq2attn import catalogue
from seq2attn.config.lengths import parse_lengths
from seq2attn.config.parts import Part
from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Choice, Registry

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
    if value is None:
        return None
    parts = value if isinstance(value, list | tuple) else [value]
    try:
        return parse_lengths(parts)
    except Seq2AttnError as error:
        raise PydanticCustomError("lengths", "{m}", {"m": str(error)}) from error


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
    """How the decoder looks at the source."""

    score: Annotated[Choice, Part(catalogue.SCORES, "scaled")] = catalogue.SCORES.choose("scaled")
    """the score function; `seq2attn list` shows the formulas; `none` is no attention"""
    mask_padding: bool = True
    """give padding the weight 0; false repeats a common mistake, for study"""
    scalable_softmax: bool = False
    """scores times ln n, n the keys that may be attended to: as sharp on long sources as on short ones (Nakanishi 2025)"""
    window: Annotated[Choice, Part(catalogue.WINDOWS, "global")] = catalogue.WINDOWS.choose("global")
    """which keys may be attended to: global, local_m or local_p"""
    history: Annotated[Choice, Part(catalogue.HISTORIES, "none")] = catalogue.HISTORIES.choose("none")
    """what scores know of past weights: none, location, coverage or location_coverage"""


class ModelConfig(_Section):
    """The encoder-decoder: what every architecture has."""

    architecture: str
    hidden: Size = 96
    """D, width of the encoder's states (of each direction) and of the decoder's"""
    source_eos: bool = True
    """end the source with <eos>, so that the encoder knows where the string stops"""


class RecurrentConfig(ModelConfig):
    """A recurrent encoder, and a recurrent decoder with attention."""

    architecture: Annotated[str, _name_in(catalogue.ARCHITECTURES)] = "gru"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    embedding: Size = 32
    """E, width of the character embeddings"""
    cell: Annotated[Choice, Part(catalogue.CELLS, "gru")] = catalogue.CELLS.choose("gru")
    """the recurrent cell of encoder and decoder: gru, lstm or rnn"""
    layers: Annotated[int, Field(ge=1, le=8)] = 1
    """cells on top of each other, in the encoder and in the decoder"""
    dropout: Share = 0.0
    """share of each layer's output to the next that is blanked out in training"""
    bidirectional: bool = False
    """read the source in both directions; keys and values are then 2D wide"""
    initial_state: Annotated[Choice, Part(catalogue.INITIAL_STATES, "bridge")] = catalogue.INITIAL_STATES.choose(
        "bridge"
    )
    """the decoder's first state: zeros, last or bridge"""
    decoder: Annotated[Choice, Part(catalogue.DECODERS, "bahdanau")] = catalogue.DECODERS.choose("bahdanau")
    """the order of attention and recurrence: bahdanau or luong"""
    attention: AttentionConfig = AttentionConfig()
    """the attention"""


class TransformerConfig(ModelConfig):
    """A Transformer encoder and decoder."""

    architecture: Literal["transformer"] = "transformer"
    """the kind of encoder and decoder: gru (recurrent) or transformer"""
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """of the encoder, and of the decoder"""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """of each attention; they share model.hidden between them"""
    feedforward: Size = 384
    """width of each layer's inner layer"""
    dropout: Share = 0.0
    """share of each sublayer's output that is blanked out in training"""


ARCHITECTURES: dict[str, type[ModelConfig]] = {"gru": RecurrentConfig, "transformer": TransformerConfig}


def architecture_of(model: Any) -> str:
    """Which member of the union a value of `model` means; one with an unknown architecture is read as the default's."""
    name = model.get("architecture") if isinstance(model, Mapping) else getattr(model, "architecture", None)
    return name if isinstance(name, str) and name in ARCHITECTURES else "gru"


class TrainingConfig(_Section):
    """The recipe."""

    steps: Annotated[int, Field(ge=1, le=100_000_000)] = 1500
    """optimiser steps"""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """B, strings a step"""
    word_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of the decoder's input characters that are blanked out in training"""
    encoder_reset: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of the encoder's states that are replaced by noise in training, each as a whole; 0: none"""
    decoder_reset: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """the same of the decoder's: it cannot count steps then, and has to go by what it reads"""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-3
    """Adam's, at its highest"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """decoupled: each step takes learning rate x this share off every weight (AdamW, Loshchilov & Hutter 2019); 0: Adam"""
    coverage_weight: Annotated[float, Field(ge=0)] = 0.0
    """weight of the coverage loss, sum_j min(alpha_tj, C_tj) a token, with any history or none (See et al. 2017, eq. 12
    and 13)"""
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0
    """gradients are scaled down to this norm; null: never"""
    schedule: Annotated[str, _name_in(catalogue.SCHEDULES)] = "cosine"
    """how the learning rate goes after the warm-up"""
    warmup: Annotated[int, Field(ge=0)] = 0
    """steps over which the learning rate rises linearly from 0"""
    log_every: Annotated[int, Field(ge=1)] = 10
    """steps between two lines of metrics.jsonl"""
    evaluate_every: Annotated[int, Field(ge=1)] = 500
    """steps between two evaluations; each also writes a checkpoint"""
    validation_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """strings a length in those evaluations"""
    target: Annotated[float, Field(gt=0, le=1)] | None = None
    """stop early once greedy exact match at every trained length of `evaluation.lengths` reaches this"""


class EvaluationConfig(_Section):
    """What `eval` measures when not told otherwise, and what training reports."""

    lengths: Annotated[tuple[Annotated[int, Field(le=100_000)], ...] | None, BeforeValidator(_lengths)] = None
    """string lengths, as [3, 5, 7] or "1-12"; null: every trained length"""
    samples: Annotated[int, Field(ge=1, le=100_000_000)] = 1000
    """strings a length"""


class Config(_Section):
    """Everything that decides a run, except for the machine it runs on."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """decides weights and batches: same seed, same machine, bit-identical weights"""
    task: Annotated[Choice, Part(catalogue.TASKS, "reverse")] = catalogue.TASKS.choose("reverse")
    """what is to be learned; `seq2attn list tasks` shows what each task does"""
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
    def trained_lengths(self) -> range | None:
        """The source lengths that occur in training; None for a task that does not say."""
        options = self.task.options
        if not {"min_length", "max_length"} <= options.keys():
            return None
        return range(options["min_length"], options["max_length"] + 1)

    @property
    def evaluation_lengths(self) -> tuple[int, ...]:
        """`evaluation.lengths`, or every trained length."""
        return self.evaluation.lengths or tuple(self.trained_lengths or ())

    def is_trained(self, length: int) -> bool:
        """Whether sources of this length occur in training; of a task that does not say, all count as trained."""
        return self.trained_lengths is None or length in self.trained_lengths
