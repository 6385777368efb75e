"""Every key of a config: type, bounds, default and meaning.

The models are frozen and refuse unknown keys. What single values cannot show (combinations) is in `rules.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from seq2attn import catalogue
from seq2attn.config.lengths import parse_lengths
from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Registry


def _name_in(registry: Registry[Any]) -> AfterValidator:
    """Accept a name or synonym of `registry`; keep the name."""

    def resolve(name: str) -> str:
        try:
            return str(registry.get(name).name)
        except Seq2AttnError as error:
            raise PydanticCustomError("name", "{message}", {"message": str(error)}) from error

    return AfterValidator(resolve)


def _check_alphabet(alphabet: str) -> str:
    repeated = sorted({character for character in alphabet if alphabet.count(character) > 1})
    if repeated:
        raise PydanticCustomError("alphabet", "{m}", {"m": f"repeats {', '.join(map(repr, repeated))}"})
    line_ends = [character for character in alphabet if len(f"a{character}b".splitlines()) > 1]
    if line_ends:
        raise PydanticCustomError("alphabet", "{m}", {"m": f"contains a line end, {line_ends[0]!r}"})
    return alphabet


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


class TaskConfig(_Section):
    """What is to be learned."""

    name: Annotated[str, _name_in(catalogue.TASKS)] = "reverse"
    """reverse, copy, sort or duplicate; `seq2attn list` shows what each does"""
    alphabet: Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_check_alphabet)] = (
        "abcdefghijklmnopqrstuvwxyz"
    )
    """the characters, each once, in the order of their ids"""
    min_length: Annotated[int, Field(ge=1, le=100_000)] = 1
    """shortest training string, characters"""
    max_length: Annotated[int, Field(ge=1, le=100_000)] = 12
    """longest training string, characters; lengths are uniform between the two"""


class AttentionConfig(_Section):
    """How the decoder looks at the source."""

    score: Annotated[str, _name_in(catalogue.SCORES)] = "scaled"
    """the score function; `seq2attn list` shows the formulas; `none` is no attention"""
    options: dict[str, Any] = Field(default_factory=dict)
    """settings of that score function, such as additive's `width`"""
    mask_padding: bool = True
    """give padding the weight 0; false repeats a common mistake, for study"""
    scalable_softmax: bool = False
    """scores times ln n, n the keys that may be attended to: as sharp on long sources as on short ones (Nakanishi 2025)"""
    window: Annotated[str, _name_in(catalogue.WINDOWS)] = "global"
    """which keys may be looked at: global, local_m or local_p"""
    radius: Annotated[int, Field(ge=1, le=100_000)] = 2
    """R, positions that a window reaches to each side of its centre"""
    centre: Annotated[str, _name_in(catalogue.CENTRES)] = "monotonic"
    """how local_m's centre moves: monotonic or reversed"""
    history: Annotated[str, _name_in(catalogue.HISTORIES)] = "none"
    """what scores know of past weights: none, location, coverage or location_coverage"""
    filters: Annotated[int, Field(ge=1, le=1024)] = 8
    """convolutional features that location makes"""
    kernel: Annotated[int, Field(ge=1, le=1001)] = 5
    """positions that each of them looks at; odd"""


class TransformerConfig(_Section):
    """What only the architecture `transformer` has."""

    layers: Annotated[int, Field(ge=1, le=64)] = 2
    """of the encoder, and of the decoder"""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """of each attention; they share model.hidden between them"""
    feedforward: Annotated[int, Field(ge=1, le=65_536)] = 384
    """width of each layer's inner layer"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of each sublayer's output that is blanked out in training"""


class ModelConfig(_Section):
    """The encoder-decoder."""

    architecture: Annotated[str, _name_in(catalogue.ARCHITECTURES)] = "gru"
    """the kind of encoder and decoder: gru or transformer"""
    embedding: Annotated[int, Field(ge=1, le=65_536)] = 32
    """E, width of the character embeddings"""
    hidden: Annotated[int, Field(ge=1, le=65_536)] = 96
    """D, width of the encoder's states (of each direction) and of the decoder's"""
    bidirectional: bool = False
    """read the source in both directions; keys and values are then 2D wide"""
    initial_state: Annotated[str, _name_in(catalogue.INITIAL_STATES)] = "bridge"
    """the decoder's first state: zeros, last or bridge"""
    decoder: Annotated[str, _name_in(catalogue.DECODERS)] = "bahdanau"
    """the order of attention and recurrence: bahdanau or luong"""
    input_feeding: bool = False
    """luong: the GRU also reads what was attended to before"""
    source_eos: bool = True
    """end the source with <eos>, so that the encoder knows where the string stops"""
    attention: AttentionConfig = AttentionConfig()
    """the attention"""
    transformer: TransformerConfig = TransformerConfig()
    """the Transformer's own sizes"""


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
    """Everything that decides a run, but for the machine it runs on."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """decides weights and batches: same seed, same machine, same bytes"""
    task: TaskConfig = TaskConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _combinations(self) -> Config:
        from seq2attn.config.rules import combination_problems

        problems = combination_problems(self)
        if problems:
            text = "; ".join(str(problem) for problem in problems)
            raise PydanticCustomError("combination", "{text}", {"text": text, "problems": problems})
        return self

    @property
    def evaluation_lengths(self) -> tuple[int, ...]:
        """`evaluation.lengths`, or every trained length."""
        return self.evaluation.lengths or tuple(range(self.task.min_length, self.task.max_length + 1))

    def is_trained(self, length: int) -> bool:
        """Whether strings of `length` characters occur in training."""
        return self.task.min_length <= length <= self.task.max_length
