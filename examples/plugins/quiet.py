"""A normaliser that may attend to nothing."""

import torch

from seq2attn import Normaliser, register


@register("quiet", formula="exp(e_j) / (1 + sum exp(e_i))")
class Quiet(Normaliser):
    """May attend to nothing."""

    sums_to_one = False

    def normalise(self, scores):  # (B, L, S)
        nothing = torch.zeros_like(scores[..., :1])  # (B, L, 1)
        return torch.softmax(torch.cat([scores, nothing], dim=-1), dim=-1)[..., :-1]  # (B, L, S)
