"""How fast is it? Ratios measured side by side in one run: `python -m benchmarks --help`, or `make bench`."""
