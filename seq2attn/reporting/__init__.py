"""The report: runs or a comparison in one HTML file that opens from disk and needs no network."""
