"""The parameter ledger: how many parameters each part of a model has."""

import re

from torch import nn

PARTS = {  # patterns of parameter names; the first match counts
    r"encoder\.embedding|source_embedding": "encoder embedding",
    r"encoder\.layers\.\d+\.(backward_)?cell": "encoder cells",
    r"initial_state": "initial state",
    r"decoder\.attention|.*\.(self_attn|multihead_attn)": "attention",
    r"decoder\.embedding|target_embedding": "decoder embedding",
    r"decoder\.cell": "decoder cells",
    r"decoder\.combine": "attentional vector",
    r"(encoder|decoder)(\.\d|_norm)": "feed-forward and norms",
    r"encoder": "other encoder layers",  # of a plug-in's
    r"(decoder\.)?output": "output layer",
    r"": "other parts",  # of a plug-in's
}


def parameter_ledger(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters of each part, by its name in `PARTS`, and their `total`.

    Every parameter is in exactly one part. Parts without parameters are left out, except attention.
    """
    counts = dict.fromkeys(PARTS.values(), 0)
    for name, parameter in model.named_parameters():
        label = next(label for pattern, label in PARTS.items() if re.match(pattern, name))
        counts[label] += parameter.numel()
    ledger = {label: count for label, count in counts.items() if count or label == "attention"}
    ledger["total"] = sum(counts.values())
    return ledger
