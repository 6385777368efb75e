"""`dot`: s.h"""

from seq2attn.model.scores.multiplicative import MultiplicativeScore


class Dot(MultiplicativeScore):
    """s.h (Luong et al. 2015, eq. 8). Needs equal widths; has no parameters.

    For components of variance 1 the score's variance is D, which saturates the softmax at large D.
    """

    kernel = "product"
