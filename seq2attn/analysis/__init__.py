"""Analyses of attention: seeded functions that return an `Analysis`, one idea a file."""
