"""A comparison as tables on a terminal, or as tab-separated lines in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2attn.cli.output import note, on_terminal, print_table, stdout, with_interval, write_rows
from seq2attn.comparison.exporting import cell
from seq2attn.inference.results import worst_place

if TYPE_CHECKING:
    from seq2attn.comparison.ranking import Ranked
    from seq2attn.comparison.results import Comparison, GroupResult, LengthSummary
    from seq2attn.inference.statistics import Estimate, Spread

WORD_BY_WORD = ("over_words_low", "over_words_high", "words_better", "words_worse", "p")
# of the columns, the same in every group
WIDTHS = {
    "family": 10,
    "length": 6,
    "mean ± sd": 13,
    "published": 9,
    "worst": 5,
    "best": 5,
    "interval": 11,
    "difference": 23,
}


def show(comparison: Comparison) -> None:
    """Print a comparison. In a pipe, there is one row for each group and length."""
    if not on_terminal():
        write_rows(*_tsv(comparison))
    elif comparison.groups:
        _show_to_people(comparison, stdout())


def _show_to_people(comparison: Comparison, console: Console) -> None:
    rows = [row for group in comparison.groups for row in group.lengths]
    empty = {name for name in ("published", "difference") if all(getattr(row, name) is None for row in rows)}
    if not comparison.has_families:
        empty.add("family")
    if all(row.spread.count == 1 for row in rows):
        empty |= {"worst", "best", "interval"}
    columns = [name for name in WIDTHS if name not in empty]
    gap = 3 if sum(WIDTHS[name] + 3 for name in columns) <= console.width else 1
    console.print()
    console.print(Text(f"{comparison.name}: {comparison.metric_label}", style="bold"))
    console.print("mean over seeds ± standard deviation; 95 % intervals\n", style="dim")
    heading = _grid(columns, gap)
    ends = {"worst": "least", "best": "most"} if comparison.metric == "entropy" else {}
    if rows and rows[0].length is None:
        ends = {"length": ""}
    heading.add_row(*(Text(ends.get(name, name), style="dim") for name in columns))
    console.print(heading)
    for group in comparison.groups:
        baseline = "the baseline" if group.baseline is None else f"against {group.baseline}"
        console.print(Text(group.label, style="bold").append(f"  {baseline}", style="not bold dim"))
        console.print(Text(_about(group), style="dim"))
        table = _grid(columns, gap)
        for row in group.lengths:
            cells = _cells(row)
            table.add_row(*(cells[name] for name in columns))
        console.print(table)
        worst = None if comparison.metric == "entropy" else worst_place(group.least)
        if worst is not None:
            text = f"worst family: {worst[0]}, {group.least[worst]:.3f} at length {worst[1]} with its worst seed"
            console.print(Text(text, style="bold"))
    _show_ranking(comparison, console)
    _show_words(comparison)
    if not all(row.trained for row in rows):
        note("* never seen in training")
    for group in comparison.groups:
        if len(group.trials) < group.planned:
            note(f"{group.label}: {len(group.trials)} of {group.planned} trials; the others failed")


def _show_ranking(comparison: Comparison, console: Console) -> None:
    ranking = comparison.ranking
    if not ranking:
        return
    mean = "" if comparison.groups[0].lengths[0].length is None else ", mean over the lengths"
    console.print(Text(f"\nranking: {comparison.metric_label}{mean}", style="bold"))
    grid = Table.grid(padding=(0, 3, 0, 0), pad_edge=False)
    for justify in ("right", "left", "left", "left"):
        grid.add_column(justify=justify, overflow="fold")
    if any(ranked.difference for ranked in ranking):
        grid.add_row(*(Text(name, style="dim") for name in ("", "group", "mean", "behind the best")))
    for ranked in ranking:
        behind = ranked.difference
        cells = [str(ranked.rank), ranked.group, with_interval(*_ends(ranked.spread))]
        cells.append("" if behind is None else with_interval(*_ends(behind), "+"))
        grid.add_row(*map(Text, cells))
    console.print(grid)
    console.print(Text(_verdict(ranking)))


def _show_words(comparison: Comparison) -> None:
    """Of runs on pairs: how each group differs from its baseline on the same words."""
    found = {group.label: group.word_by_word for group in comparison.groups if group.word_by_word is not None}
    if not found:
        return
    stdout().print(Text("\nword by word, against the baseline", style="bold"))
    print_table(
        {
            "group": list(found),
            "WER": [_over_words(one.wer) for one in found.values()],
            "SER": [_over_words(one.ser) for one in found.values()],
            "better": [f"{one.only_other:,}" for one in found.values()],
            "worse": [f"{one.only_one:,}" for one in found.values()],
            "p": [f"{one.p_value:.3f}" for one in found.values()],
        },
        right=("better", "worse", "p"),
        optional=("SER",),
        wrap=False,
    )
    note(
        "intervals over words, for these models; better: words that more seeds of the group get right than of its "
        "baseline; p: McNemar's exact test of these words"
    )


def _over_words(estimate: Estimate) -> str:
    return with_interval(estimate.value, estimate.low, estimate.high, "+")


def _ends(spread: Spread) -> tuple[float, float | None, float | None]:
    return spread.mean, spread.low, spread.high


def _verdict(ranking: tuple[Ranked, ...]) -> str:
    """Which group is the best, and whether these seeds show it."""
    best = " and ".join(ranked.group for ranked in ranking if ranked.rank == 1)
    near = [ranked.group for ranked in ranking if ranked.rank > 1 and ranked.may_be_best]
    if all(ranked.spread.count == 1 for ranked in ranking):
        return f"Best: {best}. With one seed each, the order may be chance; more seeds would show it."
    if near:
        return f"Best: {best}. These seeds do not show that it is better than {', '.join(near)}."
    return f"Best: {best}."


def _grid(columns: list[str], gap: int) -> Table:
    grid = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
    for name in columns:
        grid.add_column(justify="right", width=WIDTHS[name], no_wrap=True)
    return grid


def _about(group: GroupResult) -> str:
    """`10 seeds, 75,069 parameters, loss 0.0027 (published 0.0016), 31,000 tokens/s`"""
    count = len(group.trials)
    parts = [f"{count} seed{'' if count == 1 else 's'}", f"{group.parameters:,} parameters"]
    if group.loss is not None:
        published = "" if group.published_loss is None else f" (published {group.published_loss:.4f})"
        parts.append(f"loss {group.loss.mean:.4f}{published}")
    if group.tokens_per_second is not None:
        parts.append(f"{group.tokens_per_second:,.0f} tokens/s")
    return ", ".join(parts)


def _cells(row: LengthSummary) -> dict[str, str]:
    spread = row.spread
    change = row.difference
    deviation = "" if spread.deviation is None else f" ± {spread.deviation:.3f}"
    interval = "" if spread.low is None else f"{spread.low:.3f}-{spread.high:.3f}"
    return {
        "family": row.family,
        "length": f"{row.key.upper() if row.length is None else row.length}{'' if row.trained else '*'}",
        "mean ± sd": f"{spread.mean:.3f}{deviation}",
        "published": "" if row.published is None else f"{row.published:.3f}",
        "worst": f"{row.values[row.worst_seed]:.3f}",
        "best": f"{row.values[row.best_seed]:.3f}",
        "interval": interval,
        "difference": "" if change is None else with_interval(change.mean, change.low, change.high, "+"),
    }


def _tsv(comparison: Comparison) -> tuple[list[str], Iterator[list[str]]]:
    keys = list(comparison.groups[0].values) if comparison.groups else []
    family = ["family"] if comparison.has_families else []
    header = ["group", *keys, *family, "length", "trained", "seeds", "mean", "sd", "low", "high"]
    header += ["worst", "worst_seed", "best", "best_seed"]
    header += ["baseline", "difference", "difference_low", "difference_high", "published"]
    header += [
        "rank",
        "overall",
        "overall_low",
        "overall_high",
        "loss",
        "published_loss",
        "parameters",
        "tokens_per_second",
    ]
    places = {ranked.group: ranked for ranked in comparison.ranking}
    on_words = any(group.word_by_word is not None for group in comparison.groups)
    header += WORD_BY_WORD if on_words else ()
    return header, (
        [
            *_tsv_row(group, [*keys, *family], row, places.get(group.label)),
            *(_tsv_words(group, row) if on_words else ()),
        ]
        for group in comparison.groups
        for row in group.lengths
    )


def _tsv_words(group: GroupResult, row: LengthSummary) -> list[str]:
    """The fields of `WORD_BY_WORD`, with the interval of this row's error rate."""
    found = group.word_by_word
    if found is None:
        return [""] * len(WORD_BY_WORD)
    rate: Estimate = getattr(found, row.metric)
    return [*map(_number, (rate.low, rate.high)), str(found.only_other), str(found.only_one), _number(found.p_value)]


def _tsv_row(group: GroupResult, keys: list[str], row: LengthSummary, place: Ranked | None) -> list[str]:
    spread, difference = row.spread, row.difference
    differences = [difference.mean, difference.low, difference.high] if difference else [None, None, None]
    loss = group.loss.mean if group.loss else None
    values = {**group.values, "family": row.family}
    return [
        *(group.label, *(cell(values[key]) for key in keys), row.key, "yes" if row.trained else "no"),
        *(str(spread.count), *map(_number, (spread.mean, spread.deviation, spread.low, spread.high))),
        *(_number(row.values[row.worst_seed]), str(row.worst_seed)),
        *(_number(row.values[row.best_seed]), str(row.best_seed)),
        *(group.baseline or "", *map(_number, (*differences, row.published))),
        *(("", "", "", "") if place is None else (str(place.rank), *map(_number, _ends(place.spread)))),
        *map(_number, (loss, group.published_loss)),
        *(str(group.parameters), "" if group.tokens_per_second is None else f"{group.tokens_per_second:.0f}"),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
