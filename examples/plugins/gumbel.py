"""Hard attention by the Gumbel trick, with straight-through gradients (Jang et al. 2017)."""

import torch

from seq2attn import Normaliser, register


@register("gumbel", formula="one-hot of argmax(e + noise); the gradient is the softmax's")
class Gumbel(Normaliser):
    """All weight on one key: in training drawn with the softmax's probabilities.

    temperature: of the softmax whose gradient is used
    """

    gradient = "straight_through"

    def __init__(self, *, temperature: float = 1.0):
        super().__init__()
        self.temperature = temperature

    def normalise(self, scores):  # (..., S)
        if self.training:
            uniform = torch.rand_like(scores).clamp(1e-9, 1 - 1e-9)
            scores = scores - torch.log(-torch.log(uniform))
        soft = torch.softmax(scores / self.temperature, dim=-1)
        hard = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard + soft - soft.detach()
