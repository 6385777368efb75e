"""Figures from plain records: nothing here knows a model, so a figure can be drawn again from saved JSON."""
