"""Where a model's parameters are."""

from __future__ import annotations

from torch import nn

PARTS = (  # by the start of a parameter's name; the first that fits counts it
    ("encoder.embedding", "encoder embedding"),
    ("encoder.", "encoder GRU"),
    ("initial_state.", "initial state"),
    ("decoder.attention.", "attention"),
    ("decoder.embedding", "decoder embedding"),
    ("decoder.output", "output layer"),
    ("decoder.", "decoder GRU"),
)


def parameter_ledger(model: nn.Module) -> dict[str, int]:
    """Parameters by part, attention's own counted apart, and their total. Every parameter is in exactly one part."""
    ledger = {label: 0 for _, label in PARTS}
    for name, parameter in model.named_parameters():
        label = next(label for start, label in PARTS if name.startswith(start))
        ledger[label] += parameter.numel()
    ledger["total"] = sum(ledger.values())
    return ledger
