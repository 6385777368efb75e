"""The report: runs in one HTML file that opens from disk. Nothing in it asks a network."""
