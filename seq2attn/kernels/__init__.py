"""A faster form of `model.forward` for training: on a CPU the recurrences in C, elsewhere cells and
softmax by PyTorch's fused operations, and everything else by the model's formulas.

Only training uses it, and compares it with the formulas as it goes. Without this package the
formulas do all the work.
"""

from seq2attn.kernels.faster import faster_form, prefers_cpu
from seq2attn.kernels.function import SWITCH, describe, why_slow

__all__ = ["SWITCH", "describe", "faster_form", "prefers_cpu", "why_slow"]
