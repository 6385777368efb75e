"""Strings and their batches: vocabularies, tasks, examples."""
