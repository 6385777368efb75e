"""Inference: decoding, evaluation, attention maps."""
