"""Heat maps of attention weights: one string, a sheet of several, or the same ones through
training.
"""

from __future__ import annotations

import io
import itertools
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError
from seq2attn.inference.maps import LARGEST_SIDE, AttentionMap
from seq2attn.plotting.style import HEAT, isolate_direction, render, sign
from seq2attn.runs.files import write_atomically
from seq2attn.text import first_of, quoted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = tuple[AttentionMap, str]  # with its title
Snapshot = tuple[int, Sequence[AttentionMap]]  # after a step of training
IDEAL = "#d55e00"
MOST_STEPS, MOST_FRAMES = 5, 12  # of training, in a still figure and in an animation
DPI, SECONDS, LAST_SECONDS = 100, 0.6, 2.0  # of an animation: each frame, and the last
_MEANINGS = {
    "<eos>": "<eos>, the end of a string",
    "<pad>": "padding",
    "<sos>": "<sos>, the start",
    " ": "space",
}

# lengths in inches
_SHEET = 10.0  # a line of maps is broken beyond this width
_STRIP = 13.0  # the maps of one string through training
_LARGEST_CELL, _SMALLEST_CELL = 0.30, 0.11
_LEFT, _ABOVE, _BELOW = (
    0.5,
    0.55,
    0.3,
)  # of a map: labels of rows; its title and labels of columns; "source"
_EDGE, _BAR = 0.3, 0.9  # key; colour bar
_TITLE, _KEY = 0.095, 0.068  # a character of a title, and of the key


def attention_figure(maps: Sequence[AttentionMap], *, ideal: bool = False) -> Figure:
    """Heat maps side by side: rows are output tokens, columns source tokens, `<eos>` drawn as a
    return sign.

    ideal: outline the cells that the right answer copies. Raises `Seq2AttnError` for more than a
    figure can show, and where no ideal alignment is known.
    """
    if not maps:
        raise Seq2AttnError(
            "there is no attention to draw", hint="A model without attention has no maps."
        )
    cell = _cell(maps)
    panels = [(one, _heading(one)) for one in maps]
    for most in range(len(panels), 0, -1):
        lines = [panels[start : start + most] for start in range(0, len(panels), most)]
        if sum(_LEFT + wide for wide in _widths(lines, cell)) <= _SHEET:
            break
    return _sheet(lines, cell, ideal=ideal)


def evolution_figure(snapshots: Sequence[Snapshot], *, ideal: bool = False) -> Figure:
    """The maps of the same strings through training: one line per string, one column for each of a
    few steps.
    """
    chosen = [snapshots[place] for place in choose_evenly(snapshots)]
    lines = [
        [(cropped(maps[place]), f"step {step:,}") for step, maps in chosen]
        for place in range(len(chosen[0][1]))
    ]
    return _sheet(
        lines, _cell([one for line in lines for one, _ in line], _STRIP / len(chosen)), ideal=ideal
    )


def save_animation(snapshots: Sequence[Snapshot], path: Path, *, ideal: bool = False) -> None:
    """Write a GIF of the maps, at most `MOST_FRAMES` steps, where attention changes, repeated
    endlessly.
    """
    from PIL import Image

    chosen = [snapshots[place] for place in choose_evenly(snapshots, MOST_FRAMES)]
    frames = [
        [(cropped(one), f"{_short(one.source)}, step {step:,}") for one in maps]
        for step, maps in chosen
    ]
    figure = _sheet([frames[-1]], _cell([one for one, _ in frames[-1]]), ideal=ideal)
    images = []
    for frame in frames:
        for axes, (one, title) in zip(
            figure.axes[1:], frame, strict=True
        ):  # the first axes are the colour bar's
            axes.clear()
            draw_map(axes, one, ideal=ideal, title=title)
        images.append(Image.open(io.BytesIO(render(figure, "png", DPI))).convert("RGB"))
    times = [int(1000 * SECONDS)] * (len(images) - 1) + [int(1000 * LAST_SECONDS)]
    made = io.BytesIO()
    images[0].save(made, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0)
    write_atomically(path, made.getvalue())


def draw_map(
    axes: Axes,
    one: AttentionMap,
    *,
    ideal: bool = False,
    title: str | None = None,
    most: float = 1.0,
) -> None:
    """Draw a map into axes, in square cells, as large as these allow.

    title: by default the source and its output. most: the value of the brightest cell.
    """
    from matplotlib.patches import Rectangle

    columns, rows, box = len(one.source_symbols), len(one.output_symbols), axes.get_window_extent()
    cell = min(box.width / columns, box.height / rows) / axes.figure.dpi  # inches
    axes.pcolormesh(one.weights, cmap=HEAT, vmin=0.0, vmax=most, rasterized=max(columns, rows) > 60)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", gid="attention")
    axes.set_xlabel("source", fontsize=8, color="0.35", loc="left")
    axes.set_ylabel("output", fontsize=8, color="0.35", loc="top")
    axes.set_xticks([place + 0.5 for place in range(columns)], map(_label, one.source_symbols))
    axes.set_yticks([place + 0.5 for place in range(rows)], map(_label, one.output_symbols))
    axes.xaxis.tick_top()
    for label, symbol in zip(axes.get_xticklabels(), one.source_symbols, strict=True):
        label.set_rotation(90 if _longest([symbol]) > 2 else 0)
    axes.tick_params(length=0, labelsize=min(11.0, 72 * 0.62 * cell), pad=2)
    axes.spines[:].set_visible(False)
    axes.set_title(_heading(one) if title is None else title, fontsize=10, loc="left", pad=7)
    for row, column in enumerate(one.ideal[:rows] if ideal else ()):
        corner, side = (column + 0.06, row + 0.06), 0.88
        axes.add_patch(Rectangle(corner, side, side, fill=False, ec=IDEAL, lw=max(0.8, 5 * cell)))


def cropped(one: AttentionMap, *, pad: bool = True) -> AttentionMap:
    """A map with as many rows as the right answer has, `<eos>` counted: longer output is cut off,
    the rows that shorter output lacks are blank, unless `pad` is false.
    """
    rows = _answer_rows(one)
    missing = max(0, rows - len(one.weights)) if pad else 0
    blank = (math.nan,) * len(one.source_symbols)  # is not drawn
    symbols = (*one.output_symbols[:rows], *("",) * missing)
    return replace(one, output_symbols=symbols, weights=(*one.weights[:rows], *(blank,) * missing))


def choose_evenly(snapshots: Sequence[Snapshot], largest: int = MOST_STEPS) -> list[int]:
    """The indices of at most `largest` snapshots, the first and the last among them, such that the
    attention changes by about as much from each to the next.
    """
    count = len(snapshots)
    if count <= largest or largest == 1:
        return list(range(count))[-largest:]
    changes = (
        sum(map(_change, before, after))
        for (_, before), (_, after) in itertools.pairwise(snapshots)
    )
    changed = list(itertools.accumulate(changes, initial=0.0))
    chosen = {0, count - 1}
    for place in range(1, largest - 1):
        wanted = changed[-1] * place / (largest - 1)
        chosen.add(min(set(range(count)) - chosen, key=lambda index: abs(changed[index] - wanted)))
    return sorted(chosen)


def _change(before: AttentionMap, after: AttentionMap) -> float:
    """How much of a row's weight is elsewhere, 0 to 1: the mean over the rows of the right answer
    that both have.
    """
    rows = list(zip(before.weights, after.weights, strict=False))[: _answer_rows(after)]
    return sum(abs(a - b) for row in rows for a, b in zip(*row, strict=True)) / (2 * len(rows))


def _answer_rows(one: AttentionMap) -> int:
    """Tokens of the right answer, `<eos>` counted; as many as the source has where the ideal
    alignment is not known.
    """
    return len(one.ideal) + 1 if one.ideal else len(one.source_symbols)


def _cell(maps: Sequence[AttentionMap], side: float = 6.5) -> float:
    """The side of a cell in inches, the same for all maps of a sheet. side: at most that of a map,
    if cells can be seen.
    """
    longest = max(max(len(one.source_symbols), len(one.output_symbols)) for one in maps)
    if longest > LARGEST_SIDE:
        raise Seq2AttnError(
            f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string"
        )
    return max(_SMALLEST_CELL, min(_LARGEST_CELL, side / longest))


def _widths(lines: Sequence[Sequence[Panel]], cell: float) -> list[float]:
    """The width of each column of maps: that of its widest map or title."""
    return [max(max(cell * len(one.source_symbols), _TITLE * len(title)) for one, title in filter(None, panels))
            for panels in itertools.zip_longest(*lines)]  # fmt: skip


def _longest(symbols: Iterable[str]) -> int:
    """Characters of the longest label, without combining ones."""
    return max(sum(not unicodedata.combining(part) for part in sign(symbol)) for symbol in symbols)


def _sheet(lines: Sequence[Sequence[Panel]], cell: float, *, ideal: bool) -> Figure:
    """Lines of maps with their titles, with one colour bar and a key to the signs used.

    Each map has its place in inches, so that all have one scale.
    """
    from matplotlib.figure import Figure

    maps = [one for line in lines for one, _ in line]
    if ideal and not any(one.ideal for one in maps):
        sources = first_of(
            [quoted(source, 24) for source in dict.fromkeys(one.source for one in maps)]
        )
        raise Seq2AttnError(f"there is no ideal alignment to outline: none is known for {sources}")
    used = {symbol for one in maps for symbol in (*one.source_symbols, *one.output_symbols)}
    outlined = ["orange: ideal alignment"] if ideal else []
    key = "      ".join(
        outlined + [f"{sign(one)}  {meaning}" for one, meaning in _MEANINGS.items() if one in used]
    )
    letter = 0.4 * cell  # of a label
    beside = _LEFT + letter * max(
        0, _longest(symbol for one in maps for symbol in one.output_symbols) - 2
    )
    above = _ABOVE + letter * max(
        1, _longest(symbol for one in maps for symbol in one.source_symbols) - 2
    )
    widths = [beside + wide for wide in _widths(lines, cell)]
    heights = [
        above + cell * max(len(one.output_symbols) for one, _ in line) + _BELOW for line in lines
    ]
    width, height = (
        max(sum(widths) + _BAR, _KEY * len(key)),
        max(sum(heights) + _EDGE * bool(key), 2.0),
    )
    figure = Figure(figsize=(width, height))

    def place(left: float, top: float, wide: float, high: float) -> Axes:
        """Axes at a place in inches, counted from the figure's upper left corner."""
        return figure.add_axes(
            (left / width, 1 - (top + high) / height, wide / width, high / height)
        )

    bar, top = place(sum(widths) + 0.1, above, 0.12, min(2.2, height - above - _EDGE)), 0.0
    for line, high in zip(lines, heights, strict=True):
        left = beside
        for (one, title), wide in zip(line, widths, strict=False):
            axes = place(
                left, top + above, cell * len(one.source_symbols), cell * len(one.output_symbols)
            )
            draw_map(axes, one, ideal=ideal, title=title)
            left += wide
        top += high
    figure.colorbar(axes.collections[0], cax=bar, ticks=[0, 0.5, 1]).outline.set_visible(False)
    bar.tick_params(length=0, labelsize=8)
    bar.set_ylabel("attention weight", fontsize=8)
    if key:
        figure.supxlabel(key, fontsize=8, color="0.35", x=0.01, ha="left")
    return figure


def _label(symbol: str) -> str:
    return sign(symbol).replace("$", r"\$")


def _heading(one: AttentionMap) -> str:
    return f"{_short(one.source)} → {_short(one.output)}"


def _short(text: str, limit: int = 24) -> str:
    return isolate_direction(text if len(text) <= limit else f"{text[: limit - 1]}…").replace(
        "$", r"\$"
    )
