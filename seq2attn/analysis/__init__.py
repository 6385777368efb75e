"""Analyses of attention that need no training: seeded functions that return an `Analysis`, one idea
per file.
"""
