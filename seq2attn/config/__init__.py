"""From YAML and `--set` to a frozen, checked `Config`. Imports no torch."""

from seq2attn.config.keys import flat_values, value_at
from seq2attn.config.loading import changes, check_config, check_overrides, dump_config, load_changed, load_config
from seq2attn.config.schema import (
    AttentionConfig,
    Config,
    EvaluationConfig,
    ModelConfig,
    RecurrentConfig,
    TrainingConfig,
    TransformerConfig,
)
from seq2attn.registry import Choice

__all__ = [
    "AttentionConfig",
    "Choice",
    "Config",
    "EvaluationConfig",
    "ModelConfig",
    "RecurrentConfig",
    "TrainingConfig",
    "TransformerConfig",
    "changes",
    "check_config",
    "check_overrides",
    "dump_config",
    "flat_values",
    "load_changed",
    "load_config",
    "value_at",
]
