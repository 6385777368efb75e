"""Values -> YAML that `yaml_reader` reads back to the same."""

from __future__ import annotations

from typing import Any

import yaml

from seq2attn.config.yaml_reader import plain_value


def write_yaml(value: Any, *, flow: bool = False, width: int = 110) -> str:
    """`value` as YAML, keys in their own order; flow: in one line, as `[1, 2]`."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=width
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes text that would be read as something else: PyYAML leaves `0123456789` bare, which is no number to it."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(plain_value(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)
