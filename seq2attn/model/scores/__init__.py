"""Score functions e(s, h): how well a query matches a key.

Your own score is one class in one file::

    import torch
    from seq2attn.model.scores import Score, register

    @register("distance", formula="-|s - h|^2", equal_widths=True)
    class Distance(Score):
        def forward(self, query, keys):          # (B, L, D), (B, S, D)
            return -torch.cdist(query, keys) ** 2  # (B, L, S)

`seq2attn train --plugin FILE --set model.attention.score=distance` uses it, `seq2attn check --plugin FILE` checks
it against the contract that all built-in scores satisfy.
"""

from seq2attn.model.scores.base import Score
from seq2attn.registry import register

__all__ = ["Score", "register"]
