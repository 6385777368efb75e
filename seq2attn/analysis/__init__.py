"""What can be known about attention before anything is trained: an analysis a file, theory beside measurement.

Each is a plain function of numbers, seeded by a number, that returns a frozen dataclass of plain values.
"""
