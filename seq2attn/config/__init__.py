"""From YAML and `--set` to a frozen, checked `Config`. Imports no torch."""

from seq2attn.config.load import check_config, dump_config, flat_values, load_config
from seq2attn.config.schema import Config, RecurrentConfig, TrainingConfig, TransformerConfig

__all__ = [
    "Config", "RecurrentConfig", "TrainingConfig", "TransformerConfig", "check_config",
    "dump_config", "flat_values", "load_config",
]  # fmt: skip
