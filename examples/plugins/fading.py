"""A history: coverage that fades, so that a position may be read again later."""

from torch import nn

from seq2attn import History, register


@register("fading", formula="w F_t, F_t = d F_{t-1} + alpha_{t-1}")
class Fading(History):
    """Fading coverage.

    decay: d, what is left after a step
    """

    limits = {"decay": (0, 1)}

    def __init__(self, query_width, key_width, feature_width, *, decay: float = 0.8):
        super().__init__(query_width, key_width, feature_width)
        self.decay = decay
        self.map = nn.Linear(1, feature_width, bias=False)

    def forward(self, step):  # step: query, past (B, 1, S), prepared, valid and allowed
        return self.map(step.past.mT).unsqueeze(1)  # (B, S, 1) -> (B, 1, S, feature_width)

    def update(self, weights, step):  # (B, 1, S)
        return self.decay * step.past + weights  # (B, 1, S)
