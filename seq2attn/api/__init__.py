"""What `seq2attn.load`, `train`, `evaluate` and `compare` return and show in Python, in particular in a notebook."""
