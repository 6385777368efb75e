"""A run's trained model: strings in, answers with their attention out, and what it measures."""
