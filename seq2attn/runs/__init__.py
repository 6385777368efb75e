"""Run directories and what is in them."""
