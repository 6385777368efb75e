"""From YAML and `--set` to a frozen, checked `Config`. Imports no torch."""

from seq2attn.config.load import (
    Overrides,
    check_config,
    dump_config,
    flat_values,
    load_config,
    override_list,
    value_at,
)
from seq2attn.config.schema import (
    AttentionConfig,
    Config,
    ModelConfig,
    RecurrentConfig,
    TrainingConfig,
    TransformerConfig,
)

__all__ = [
    "AttentionConfig", "Config", "ModelConfig", "Overrides", "RecurrentConfig", "TrainingConfig",
    "TransformerConfig", "check_config", "dump_config", "flat_values", "load_config", "override_list",
    "value_at",
]  # fmt: skip
