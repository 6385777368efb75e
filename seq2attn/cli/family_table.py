"""Results by family of strings and by length, on a terminal."""

from __future__ import annotations

from seq2attn.cli.output import note, print_table
from seq2attn.inference.results import Evaluation


def show_families(results: Evaluation) -> None:
    """Exact match: a row for each family, a column for each length, and which family is the worst."""
    worst = results.worst()
    columns = {
        "exact match": [f"{name} (worst)" if worst and name == worst.family else name for name in results.families]
    }
    for length in results.lengths:
        cells = [results.get("exact_match", length, family) for family in results.families]
        trained = any(row and row.trained for row in cells)
        columns[f"{length}{'' if trained else '*'}"] = ["" if row is None else f"{row.value:.3f}" for row in cells]
    print_table(columns, right=list(columns)[1:], wrap=False)
    if worst is not None:
        note(f"worst: {worst.family} at length {worst.length}, {worst}")
    if not all(row.trained for row in results.rows):
        note("* never seen in training")
    note("--json has every measure with its intervals")
