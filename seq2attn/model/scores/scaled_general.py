"""`scaled_general`: s W h / sqrt(D)"""

import math

from torch import Tensor

from seq2attn.model.scores.general import General


class ScaledGeneral(General):
    """s W h / sqrt(D), D the query's width: `general` with the factor of Vaswani et al. 2017."""

    kernel = "product"

    def project(self, keys: Tensor) -> Tensor:
        return super().project(keys) / math.sqrt(self.query_width)
