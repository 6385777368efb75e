"""Results by family of strings and by length, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from seq2attn.cli.output import interval, note, print_table
from seq2attn.inference.results import LengthResult, worst_place


def show_families(results: Sequence[LengthResult]) -> None:
    """Exact match: a row for each family, a column for each length, and which family is the worst."""
    found = {(one.family, one.length): one for one in results}
    lengths = sorted({one.length: one.trained for one in results}.items())
    worst = worst_place({place: one.exact_match.value for place, one in found.items()})
    families = list(dict.fromkeys(one.family for one in results))
    columns = {"exact match": [f"{name} (worst)" if worst and name == worst[0] else name for name in families]}
    for length, trained in lengths:
        cells = [found.get((family, length)) for family in families]
        columns[f"{length}{'' if trained else '*'}"] = [
            "" if one is None else f"{one.exact_match.value:.3f}" for one in cells
        ]
    print_table(columns, right=list(columns)[1:], wrap=False)
    if worst is not None:
        note(f"worst: {worst[0]} at length {worst[1]}, {interval(found[worst].exact_match)}")
    if not all(trained for _, trained in lengths):
        note("* never seen in training")
    note("--json has every measure with its intervals")
