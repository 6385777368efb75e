"""Trained models at work: decoding, evaluation, attention maps."""
