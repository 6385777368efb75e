"""What was measured, as plain records: evaluations, metrics, statistics, maps."""
