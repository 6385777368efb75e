"""A history that changes a built-in one: distances depend on the query, too. What a config should
set is handed on, here `reach`."""

from torch import nn

from seq2attn import register
from seq2attn.model.histories import ShiftByKey


@register("drifting", formula="shift_by_key, p_j = softmax(4 (b + V s + W h_j + ...))")
class Drifting(ShiftByKey):
    """Distances depend on the query, too."""

    def __init__(self, query_width, key_width, feature_width, *, reach: int = 3):
        super().__init__(query_width, key_width, feature_width, reach=reach)
        self.by_query = nn.Linear(query_width, 2 * reach + 1, bias=False)

    def distribution(self, step, lengths):
        moves = self.by_query(step.query).mT  # (B, 1, query_width) -> (B, 2 reach + 1, 1)
        moved = step._replace(prepared=step.prepared + moves)
        return super().distribution(moved, lengths)  # (B, 2 reach + 1, S)
