"""`scaled`: s.h / sqrt(D)"""

import math

from torch import Tensor

from seq2attn.model.scores.multiplicative import MultiplicativeScore


class Scaled(MultiplicativeScore):
    """s.h / sqrt(D) (Vaswani et al. 2017, eq. 1). Needs equal widths; has no parameters."""

    kernel = "product"

    def project(self, keys: Tensor) -> Tensor:
        return keys / math.sqrt(self.key_width)
