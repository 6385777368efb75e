"""The encoder-decoder. Knows tensors only: no files, no tasks, no training, no config."""
