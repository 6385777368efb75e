"""From YAML and `--set` to a frozen, checked `Config`. Imports no torch."""

from seq2attn.config.loading import check_config, check_overrides, dump_config, load_config
from seq2attn.config.schema import (
    AttentionConfig,
    Config,
    EvaluationConfig,
    ModelConfig,
    TaskConfig,
    TrainingConfig,
)

__all__ = [
    "AttentionConfig",
    "Config",
    "EvaluationConfig",
    "ModelConfig",
    "TaskConfig",
    "TrainingConfig",
    "check_config",
    "check_overrides",
    "dump_config",
    "load_config",
]
