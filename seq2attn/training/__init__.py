"""Training: session, loop, optimiser step, records, signals."""
