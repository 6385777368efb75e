"""Training: the optimiser's steps, what is written down of them, and how they are shown."""
