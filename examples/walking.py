r"""Plug-ins that change one thing in `shift_by_key`: what its distances depend on, and whether it
may walk past keys.

    seq2attn train -c configs/records/by-key.yaml --plugin examples/walking.py \
        --set model.attention.history=walk
"""

import torch
from torch import nn

import seq2attn
from seq2attn import register
from seq2attn.model.histories import Shift, ShiftByKey, arrived


@register(
    "shift_without",
    formula="shift_by_key, whose p does not depend on one of h_j, alpha_(t-1), C_t, alpha_(t-2)",
)
class ShiftWithout(ShiftByKey):
    """`shift_by_key` without one of its inputs.

    what: keys (h_j), last (alpha_(t-1)), total (C_t) or before (alpha_(t-2))
    """

    def __init__(self, query_width, key_width, feature_width, *, what: str = "keys"):
        super().__init__(query_width, key_width, feature_width)
        if what not in ("keys", "last", "total", "before"):
            raise seq2attn.Seq2AttnError(
                f"shift_without: what is keys, last, total or before, found {what!r}"
            )
        kept = [float(name != what) for name in ("last", "total", "before")]
        self.register_buffer("kept", torch.tensor(kept).view(1, 3, 1), persistent=False)
        self.uses_keys = what != "keys"

    def prepare(self, keys):  # (B, S, D)
        return super().prepare(keys * self.uses_keys)  # (B, 2 reach + 1, S)

    def distribution(self, step, lengths):
        partial = step._replace(past=step.past * self.kept)
        return super().distribution(partial, lengths)  # (B, 2 reach + 1, S)


@register(
    "walk",
    formula="moved = q m_1 + q m_2 + ... + m_hops, m_(k+1) = Move((1-q) m_k), "
    "q_j = sigmoid(4 (w h_j + b))",
)
class Walk(ShiftByKey):
    """Moves by the distance of the key, m_1 = Move(alpha_(t-1)), and on again from keys that do not
    want to be read.

    hops: how many moves a step makes at most; what it reaches last is read
    """

    def __init__(self, query_width, key_width, feature_width, *, hops: int = 6):
        super().__init__(query_width, key_width, feature_width)
        self.hops = hops
        self.wants = nn.Linear(key_width, 1)
        nn.init.zeros_(self.wants.weight)
        nn.init.constant_(self.wants.bias, 0.5)

    def prepare(self, keys):  # (B, S, D)
        wanted = torch.sigmoid(self.speed * self.wants(keys)).mT  # (B, 1, S)
        return super().prepare(keys), wanted  # (B, 2 reach + 1, S), (B, 1, S)

    def moved(self, step, lengths):
        distances, wanted = step.prepared
        p = self.distribution(step._replace(prepared=distances), lengths)  # (B, 2 reach + 1, S)
        here, read = arrived(p * step.past[:, :1], lengths), 0  # (B, 1, S)
        for _ in range(self.hops - 1):
            read = read + wanted * here
            here = arrived(p * (1 - wanted) * here, lengths)
        return read + here

    def extra_context(self, weights, step):
        # Counted eight times, as in shift_by_key, dedupe gets worse.
        return Shift.extra_context(self, weights, step)  # (B, 1, 1)
