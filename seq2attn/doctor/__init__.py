"""Examines attention that seq2attn did not make: what is wrong with it, and which score it uses."""
