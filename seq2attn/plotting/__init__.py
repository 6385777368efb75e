"""Figures from plain records: so that they can be drawn again from saved JSON."""
