"""Heat maps of attention weights: one string, a sheet of several, or the same ones through training."""

from __future__ import annotations

import io
import itertools
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import Seq2AttnError, first_of, shown
from seq2attn.inference.maps import LARGEST_SIDE, AttentionMap
from seq2attn.plotting.style import HEAT, render, sign
from seq2attn.runs.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.inference.predictor import Prediction

Panel = tuple[AttentionMap, str]  # with its title
Snapshot = tuple[int, Sequence[AttentionMap]]  # after a step of training
IDEAL = "#d55e00"
DPI, SECONDS, LAST_SECONDS = 100, 0.6, 2.0  # of an animation: each frame, and the last
_MEANINGS = {
    "<eos>": "<eos>, the end of a string",
    "<pad>": "<pad>, padding",
    "<sos>": "<sos>, the start",
    " ": "space",
}

# lengths in inches
_SHEET = 10.0  # a line of maps is broken beyond this width
_STRIP = 13.0  # the maps of one string through training
_LARGEST_CELL, _SMALLEST_CELL, _LONG_SIDE = 0.30, 0.11, 6.5
_BESIDE, _ABOVE, _BAR = 0.55, 0.8, 0.9  # labels of rows; labels of columns and title; colour bar
_TITLE, _KEY = 0.095, 0.068  # a character of a title, and of the key


def attention_figure(maps: Sequence[AttentionMap | Prediction], *, ideal: bool = False) -> Figure:
    """Heat maps side by side: rows are output tokens, columns source tokens, `<eos>` drawn as a return sign.

    ideal: outline the cells that the right answer copies. Raises `Seq2AttnError` for more than a figure can show, for
    predictions without weights, and where no ideal alignment is known.
    """
    drawn = [_with_weights(one) for one in maps]
    if not drawn:
        raise Seq2AttnError("there is no attention to draw", hint="A model without attention has no maps.")
    cell = _cell(drawn)
    panels = [(one, _heading(one)) for one in drawn]
    for most in range(len(panels), 0, -1):
        lines = [panels[start : start + most] for start in range(0, len(panels), most)]
        if sum(cell * columns + _BESIDE for columns in _widths(lines, cell)) <= _SHEET:
            break
    return _sheet(lines, cell, ideal=ideal)


def evolution_figure(snapshots: Sequence[Snapshot], *, ideal: bool = False, largest: int = 5) -> Figure:
    """The maps of the same strings through training: one line per string, one column per step, at most `largest` columns."""
    chosen = [snapshots[place] for place in spread(snapshots, largest)]
    lines = [[(cropped(one), f"step {step:,}") for (step, _), one in zip(chosen, line, strict=True)]
             for line in zip(*(maps for _, maps in chosen), strict=True)]  # fmt: skip
    maps = [one for line in lines for one, _ in line]
    widest = (_STRIP / len(chosen) - _BESIDE) / max(len(one.source_symbols) for one in maps)
    return _sheet(lines, max(_SMALLEST_CELL, min(_cell(maps), widest)), ideal=ideal)


def save_animation(snapshots: Sequence[Snapshot], path: Path, *, ideal: bool = False) -> None:
    """Write a GIF of the maps, one frame per step, repeated endlessly."""
    from PIL import Image

    def frame(step: int, maps: Sequence[AttentionMap]) -> Figure:
        panels = [(cropped(one), _short(one.source)) for one in maps]
        cell = _cell([one for one, _ in panels])
        return _sheet([panels], cell, ideal=ideal, heading=f"step {step:,}", signs=("<eos>",))

    last = frame(*snapshots[-1])
    last.draw_without_rendering()
    places = [axes.get_position() for axes in last.axes]  # of every frame, so that nothing moves
    images = []
    for step, maps in snapshots:
        figure = frame(step, maps)
        figure.set_layout_engine("none")
        figure.set_size_inches(*last.get_size_inches())
        for axes, place in zip(figure.axes, places, strict=True):
            axes.set_axes_locator(None)  # type: ignore[arg-type]
            axes.set_position(place)
        images.append(Image.open(io.BytesIO(render(figure, "png", DPI))).convert("RGB"))
    times = [int(1000 * SECONDS)] * (len(images) - 1) + [int(1000 * LAST_SECONDS)]
    made = io.BytesIO()
    images[0].save(made, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0)
    write_atomically(path, made.getvalue())


def draw_map(axes: Axes, one: AttentionMap, *, ideal: bool = False, title: str | None = None, cell: float = 0) -> None:
    """Draw a map into axes, in square cells.

    title: by default the source and its output. cell: the side of a cell in inches; 0: as large as the axes allow.
    """
    from matplotlib.patches import Rectangle

    columns, rows = len(one.source_symbols), len(one.output_symbols)
    if not cell:
        box = axes.get_window_extent()
        cell = min(box.width / columns, box.height / rows) / axes.figure.dpi
    axes.pcolormesh(one.weights, cmap=HEAT, vmin=0.0, vmax=1.0, rasterized=max(columns, rows) > 60)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", xlabel="source", ylabel="output")
    axes.set_xticks([place + 0.5 for place in range(columns)], map(_label, one.source_symbols))
    axes.set_yticks([place + 0.5 for place in range(rows)], map(_label, one.output_symbols))
    axes.xaxis.tick_top()
    for label, symbol in zip(axes.get_xticklabels(), one.source_symbols, strict=True):
        label.set_rotation(90 if _longest([symbol]) > 2 else 0)
    axes.tick_params(length=0, labelsize=min(11.0, 72 * 0.62 * cell), pad=2)
    axes.spines[:].set_visible(False)
    axes.set_title(_heading(one) if title is None else title, fontsize=10, loc="left", pad=7)
    if ideal:
        for row, column in enumerate(one.ideal[:rows]):
            corner, side = (column + 0.06, row + 0.06), 0.88
            axes.add_patch(Rectangle(corner, side, side, fill=False, ec=IDEAL, lw=max(0.8, 5 * cell)))


def cropped(one: AttentionMap, *, pad: bool = True) -> AttentionMap:
    """A map with as many rows as the right answer has, `<eos>` counted: longer output is cut off, the rows that shorter
    output lacks are blank, unless `pad` is false.
    """
    rows = _answer_rows(one)
    missing = max(0, rows - len(one.weights)) if pad else 0
    blank = (math.nan,) * len(one.source_symbols)  # is not drawn
    symbols = (*one.output_symbols[:rows], *("",) * missing)
    return replace(one, output_symbols=symbols, weights=(*one.weights[:rows], *(blank,) * missing))


def spread(snapshots: Sequence[Snapshot], largest: int) -> list[int]:
    """The indices of at most `largest` snapshots, the first and the last among them, such that the attention changes by
    about as much from each to the next.
    """
    count = len(snapshots)
    if count <= largest or largest == 1:
        return list(range(count))[-largest:]
    changes = (sum(map(_change, before, after)) for (_, before), (_, after) in itertools.pairwise(snapshots))
    changed = list(itertools.accumulate(changes, initial=0.0))
    chosen = {0, count - 1}
    for place in range(1, largest - 1):
        wanted = changed[-1] * place / (largest - 1)
        chosen.add(min(set(range(count)) - chosen, key=lambda index: abs(changed[index] - wanted)))
    return sorted(chosen)


def _change(before: AttentionMap, after: AttentionMap) -> float:
    """How much of a row's weight is elsewhere, 0 to 1: the mean over the rows of the right answer that both have."""
    rows = list(zip(before.weights, after.weights, strict=False))[: _answer_rows(after)]
    return sum(abs(a - b) for row in rows for a, b in zip(*row, strict=True)) / (2 * len(rows))


def _answer_rows(one: AttentionMap) -> int:
    """Tokens of the right answer, `<eos>` counted; as many as the source has where the ideal alignment is not known."""
    return len(one.ideal) + 1 if one.ideal else len(one.source_symbols)


def _with_weights(one: AttentionMap | Prediction) -> AttentionMap:
    """The map, or that of a prediction."""
    made = one if isinstance(one, AttentionMap) else one.attention_map()
    if made is None or not made.weights:
        hint = "`predictor.attention_maps(texts)` makes maps; `predict` keeps weights only with keep_weights=True."
        raise Seq2AttnError(f"there is no attention to draw for {shown(one.source)}: it has no weights", hint=hint)
    return made


def _cell(maps: Sequence[AttentionMap]) -> float:
    """The side of a cell in inches: the same for all maps of a sheet."""
    longest = max(max(len(one.source_symbols), len(one.output_symbols)) for one in maps)
    if longest > LARGEST_SIDE:
        raise Seq2AttnError(f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string")
    return max(_SMALLEST_CELL, min(_LARGEST_CELL, _LONG_SIDE / longest))


def _widths(lines: Sequence[Sequence[Panel]], cell: float) -> list[float]:
    """The width of each column of maps in cells: that of its widest map or title."""
    return [max(max(len(one.source_symbols), _TITLE * len(title) / cell) for one, title in filter(None, panels))
            for panels in itertools.zip_longest(*lines)]  # fmt: skip


def _longest(symbols: Iterable[str]) -> int:
    """Characters of the longest label, without combining ones."""
    return max(sum(not unicodedata.combining(part) for part in sign(symbol)) for symbol in symbols)


def _sheet(
    lines: Sequence[Sequence[Panel]],
    cell: float,
    *,
    ideal: bool,
    heading: str = "",
    signs: Sequence[str] = (),
) -> Figure:
    """Lines of maps with their titles, with one colour bar and a key to the signs used and to `signs`.

    The axes of a column are as wide as its widest map, those of a line as high as its highest: so all have one scale.
    """
    from matplotlib.figure import Figure

    maps = [one for line in lines for one, _ in line]
    if ideal and not any(one.ideal for one in maps):
        sources = first_of([repr(_short(source)) for source in dict.fromkeys(one.source for one in maps)])
        hint = "Leave out --ideal. In Python, `predictor.attention_maps(texts)` makes maps that know the alignment."
        raise Seq2AttnError(f"there is no ideal alignment to outline: none is known for {sources}", hint=hint)
    columns = _widths(lines, cell)
    rows = [max(len(one.output_symbols) for one, _ in line) for line in lines]
    used = {symbol for one in maps for symbol in (*one.source_symbols, *one.output_symbols)} | set(signs)
    outlined = ["orange: ideal alignment"] if ideal else []
    key = "      ".join(outlined + [f"{sign(one)}  {meaning}" for one, meaning in _MEANINGS.items() if one in used])
    width = max(cell * sum(columns) + _BESIDE * len(columns) + _BAR, _KEY * len(key))
    height = cell * sum(rows) + _ABOVE * len(rows) + 0.3 * (bool(key) + bool(heading))
    letter = 0.4 * cell  # of a label
    width += letter * len(columns) * max(0, _longest(symbol for one in maps for symbol in one.output_symbols) - 2)
    height += letter * len(rows) * max(0, _longest(symbol for one in maps for symbol in one.source_symbols) - 2)
    figure = Figure(figsize=(width, max(height, 1.9)), layout="compressed")
    grid = figure.subplots(len(rows), len(columns), squeeze=False, width_ratios=columns, height_ratios=rows)
    for line, axes_of_line, most in zip(lines, grid, rows, strict=True):
        for axes, panel, wide in itertools.zip_longest(axes_of_line, line, columns):
            if panel is None:
                axes.remove()
                continue
            draw_map(axes, panel[0], ideal=ideal, title=panel[1], cell=cell)
            axes.set(xlim=(0, wide), ylim=(most, 0), gid="attention", anchor="NW")
            axes.set_xlabel("source" if axes is axes_of_line[0] else "", fontsize=8, color="0.35", loc="left")
            axes.set_ylabel("output" if axes is axes_of_line[0] else "", fontsize=8, color="0.35", loc="top")
    shrink = min(1.0, 2.2 / height)
    heat, ticks = figure.axes[0].collections[0], [0, 0.5, 1]
    bar = figure.colorbar(heat, ax=figure.axes, ticks=ticks, shrink=shrink, aspect=18, anchor=(0, 1))
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)
    bar.set_label("attention weight", fontsize=8)
    if heading:
        figure.suptitle(heading, fontsize=11, weight="bold", x=0.01, ha="left")
    if key:
        figure.supxlabel(key, fontsize=8, color="0.35", x=0.01, ha="left")
    return figure


def _label(symbol: str) -> str:
    return sign(symbol).replace("$", r"\$")


def _heading(one: AttentionMap) -> str:
    return f"{_short(one.source)} → {_short(one.output)}"


def _short(text: str, limit: int = 24) -> str:
    text = text.replace("\t", " ")  # before a source's features
    return (text if len(text) <= limit else f"{text[: limit - 1]}…").replace("$", r"\$")
