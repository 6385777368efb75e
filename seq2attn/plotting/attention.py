"""Heat maps of attention weights: of one string, of several, or of these through training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len

from seq2attn.display.signs import COLOUR_MAP, ORANGE, explain_signs, isolate_direction, sign
from seq2attn.errors import Seq2AttnError
from seq2attn.results.answers import LARGEST_SIDE, AttentionMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Snapshot = tuple[int, Sequence[AttentionMap]]
"""a step of training and the maps after it"""
MOST_STEPS = 5  # in a figure

# inches
SHEET = 11.0  # a line of maps is broken beyond this width
LARGEST_CELL, SMALLEST_CELL = 0.30, 0.11
LEFT = 0.5  # of a map: labels of its rows, of two letters
ABOVE = 0.55  # its title and labels of its columns, of two letters
BELOW = 0.3  # "source", and the key below all maps
BAR = 0.9  # beside all maps: the colour bar with its label
LETTER, KEY_LETTER = 0.095, 0.068  # of a title, and of the key


def attention_figure(maps: Sequence[AttentionMap], *, ideal: bool = False) -> Figure:
    """Draw heat maps side by side: rows are output tokens, columns source tokens.

    ideal: outline the cells that the right answer copies. Raises `Seq2AttnError` without maps, for
    a map that is too large, and for `ideal` if no ideal alignment is known.
    """
    if not maps:
        raise Seq2AttnError(
            "there is no attention to draw", hint="A model without attention has no maps."
        )
    return _sheet(maps, list(map(_heading, maps)), ideal=ideal)


def evolution_figure(snapshots: Sequence[Snapshot], *, ideal: bool = False) -> Figure:
    """Draw the maps of the same strings through training, cropped to the rows of the right answer:
    a line per string, a column for each of a few steps, which `choose_evenly` picks.

    ideal: as for `attention_figure`.
    """
    chosen = choose_evenly(snapshots)
    maps = []
    titles = []
    _, first = chosen[0]
    for string in range(len(first)):  # its index among the maps of each step
        for step, of_step in chosen:
            maps.append(cropped(of_step[string]))
            titles.append(f"step {step:,}")
    return _sheet(maps, titles, columns=len(chosen), ideal=ideal)


def draw_map(
    axes: Axes,
    attention: AttentionMap,
    *,
    ideal: bool = False,
    title: str = "",
    largest: float = 1.0,
) -> None:
    """Draw a map into axes, in square cells, as large as the axes allow.

    ideal: outline the cells that the right answer copies. title: by default the source and its
    output. largest: the weight that gets the brightest colour.
    """
    columns = len(attention.source_symbols)
    rows = len(attention.output_symbols)
    box = axes.get_window_extent()
    cell = min(box.width / columns, box.height / rows) / axes.figure.dpi  # inches

    axes.pcolormesh(
        attention.weights,
        cmap=COLOUR_MAP,
        vmin=0.0,
        vmax=largest,
        rasterized=max(columns, rows) > 60,  # cells as vectors would be slow
    )
    axes.set(
        xlim=(0, columns),
        ylim=(rows, 0),
        aspect="equal",
        anchor="N",
        gid="attention",  # by which tests tell maps from colour bars
    )

    axes.set_xlabel("source", fontsize=8, loc="left")
    axes.set_ylabel("output", fontsize=8, loc="top")
    axes.set_xticks(np.arange(columns) + 0.5, map(sign, attention.source_symbols), parse_math=False)
    axes.set_yticks(np.arange(rows) + 0.5, map(sign, attention.output_symbols), parse_math=False)
    axes.xaxis.tick_top()

    # labels of columns that are too long for a cell are written upwards
    for label, symbol in zip(axes.get_xticklabels(), attention.source_symbols, strict=True):
        label.set_rotation(90 if _letters([symbol]) > 2 else 0)
    # in points, of which an inch has 72: letters that fit into a cell, but are not too large
    size = min(11.0, 72 * 0.62 * cell)
    axes.tick_params(length=0, labelsize=size, pad=2)
    axes.spines[:].set_visible(False)
    axes.set_title(
        title or _heading(attention),
        fontsize=10,
        loc="left",
        parse_math=False,
    )
    if ideal:
        _outline_ideal(axes, attention, width=5 * cell)  # 1.5 points in the largest cells


def _outline_ideal(axes: Axes, attention: AttentionMap, width: float) -> None:
    """Outline the cells that the right answer copies. width: of the lines, in points."""
    from matplotlib.patches import Rectangle

    for row, column in enumerate(attention.ideal[: len(attention.weights)]):
        corner = (column + 0.06, row + 0.06)  # the line stays inside the cell, 1 wide and high
        axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, ec=ORANGE, lw=width))


def cropped(attention: AttentionMap) -> AttentionMap:
    """Return a map without the rows beyond those of the right answer, `<eos>` counted."""
    rows = _answer_rows(attention)  # a model may go on for long, early in training
    weights = attention.weights[:rows]
    return replace(attention, output_symbols=attention.output_symbols[:rows], weights=weights)


def choose_evenly(snapshots: Sequence[Snapshot], limit: int = MOST_STEPS) -> list[Snapshot]:
    """Return at most `limit` snapshots, the first and the last among them, such that attention
    changes by about as much from each to the next; with a limit of 1, only the last.
    """
    if len(snapshots) <= limit or limit == 1:
        return list(snapshots[-limit:])
    changed = [0.0]  # how much has changed since the first snapshot
    for (_, before), (_, after) in itertools.pairwise(snapshots):
        change = sum(map(_change, before, after))  # over the strings
        # a little more, to choose evenly also where nothing changes
        changed.append(changed[-1] + change + 2**-30)
    wanted = np.linspace(0, changed[-1], limit)  # (limit,) from the first to the last
    distances = np.abs(np.subtract.outer(wanted, changed))  # (limit, count)
    return [snapshots[index] for index in sorted(set(distances.argmin(axis=1)))]


def _change(before: AttentionMap, after: AttentionMap) -> float:
    """Return the share of a row's weight that has moved, the mean over the rows of the right answer
    that both have.
    """
    rows = min(_answer_rows(after), len(before.weights), len(after.weights))
    moved = np.subtract(after.weights[:rows], before.weights[:rows])
    return float(np.abs(moved).sum()) / (2 * rows)


def _answer_rows(attention: AttentionMap) -> int:
    """Return how many tokens the right answer has, `<eos>` counted; where the ideal alignment is
    not known, how many the source has.
    """
    return len(attention.ideal) + 1 if attention.ideal else len(attention.source_symbols)


# ---- the sheet ----


def _sheet(
    maps: Sequence[AttentionMap], titles: Sequence[str], *, columns: int = 0, ideal: bool
) -> Figure:
    """Draw maps at one scale in lines of `columns` maps, with a colour bar on their right and a key
    to the signs below. columns: 0 for as many as fit. All sizes are in inches.

    titles: one for each map. Raises `Seq2AttnError` as `attention_figure` does.
    """
    from matplotlib.figure import Figure

    if ideal and not any(attention.ideal for attention in maps):
        raise Seq2AttnError("no ideal alignment is known for these strings")
    sources = [attention.source_symbols for attention in maps]
    outputs = [attention.output_symbols for attention in maps]
    wide, high = max(map(len, sources)), max(map(len, outputs))
    if max(wide, high) > LARGEST_SIDE:
        raise Seq2AttnError(
            f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string"
        )
    # the side of a cell: as large as `columns` maps, or two, allow in a line
    fitting = SHEET / (columns or 2) / max(wide, high)
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, fitting))
    letter = 0.4 * cell  # the width of a letter that is 0.62 cells high
    # what labels take beside the cells: LEFT and ABOVE have room for two letters
    left = LEFT + letter * max(0, _letters(*outputs) - 2)
    # above, short labels are not turned: 1 letter is added for the height of their line
    above = ABOVE + letter * max(1, _letters(*sources) - 2)
    # of a map with its labels
    width = left + max(cell * wide, LETTER * max(map(len, titles)))
    height = above + cell * high + BELOW
    # (at least 1: a map that is wider than a sheet has a line of its own)
    columns = min(columns or int(SHEET / width) or 1, len(maps))

    notes = ["orange: ideal alignment"] if ideal else []
    key = "      ".join(notes + explain_signs({*itertools.chain(*sources, *outputs)}))
    total = max(height * math.ceil(len(maps) / columns) + BELOW, 2.0)  # 2: the bar with its label
    figure = Figure((max(width * columns + BAR, KEY_LETTER * len(key)), total))
    figure.supxlabel(
        key,
        fontsize=8,
        x=0.01,
        ha="left",
    )
    bar_height = min(2.2, total - above - BELOW)  # beside the first line of maps
    # 0.12 inches wide, 0.1 beside the maps
    bar = _place(figure, width * columns + 0.1, above, 0.12, bar_height)

    for index, attention in enumerate(maps):
        line, column = divmod(index, columns)
        axes = _place(
            figure,
            column * width + left,
            line * height + above,
            cell * len(attention.source_symbols),
            cell * len(attention.output_symbols),
        )
        draw_map(axes, attention, ideal=ideal, title=titles[index])

    bar.tick_params(labelsize=8)
    figure.colorbar(
        axes.collections[0],  # of the last map: all have one scale
        cax=bar,
        ticks=[0, 0.5, 1],
        label="attention weight",
    )
    return figure


def _place(figure: Figure, left: float, above: float, width: float, height: float) -> Axes:
    """Add axes of a size in inches, at distances in inches from the figure's left and top."""
    wide, high = figure.get_size_inches()
    below = high - above - height
    return figure.add_axes((left / wide, below / high, width / wide, height / high))


def _letters(*sides: Sequence[str]) -> int:
    """Return the length of the longest label; combining characters do not count."""
    return max(cell_len(sign(symbol)) for symbol in itertools.chain(*sides))


def _heading(attention: AttentionMap) -> str:
    """Return the title of a map: its source and output."""
    return f"{_short(attention.source)} → {_short(attention.output)}"


def _short(text: str) -> str:
    """Return a text of at most 24 characters, which keeps its direction beside others."""
    return isolate_direction(text if len(text) <= 24 else f"{text[:23]}…")
