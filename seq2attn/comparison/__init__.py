"""Comparing configs: a grid of trials, trained in parallel and measured over seeds. Imports no
torch at the top.
"""
