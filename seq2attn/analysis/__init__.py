"""Analyses of attention that need no training, one per file: seeded functions that return frozen dataclasses."""
