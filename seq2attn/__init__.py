"""seq2attn: a laboratory bench for attention in recurrent sequence-to-sequence models."""

__version__ = "0.1.0"
