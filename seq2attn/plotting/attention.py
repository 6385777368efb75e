"""Heat maps of attention weights: one string, a sheet of several, or the same ones through training."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError, first_of, shown
from seq2attn.inference.maps import AttentionMap
from seq2attn.plotting.style import HEAT
from seq2attn.plotting.symbols import MISSING, drawable, drawable_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seq2attn.inference.predictor import Prediction

LARGEST_SIDE = 200  # rows or columns of one heat map
IDEAL = "#d55e00"
SIGNS = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"}
_MEANINGS = {
    "<eos>": "⏎  <eos>, the end of a string",
    "<pad>": "∅  <pad>, padding",
    "<sos>": "⊢  <sos>, the start",
    " ": "␣  space",
}

# lengths in inches
_SHEET = 10.0  # a line of maps is broken beyond this width
_STRIP = 13.0  # the maps of one string through training
_LARGEST_CELL, _SMALLEST_CELL, _LONG_SIDE = 0.30, 0.11, 6.5
_CHARACTER, _KEY = 0.085, 0.066  # of a title that is still to come, of the key
_TITLE = 10  # points
_LEFT, _TOP, _RIGHT, _BOTTOM = 0.32, 0.62, 0.15, 0.3  # around each map: labels and title
_MARGIN = 0.25  # left of all
_BAR = 0.95  # the colour bar with its labels
_LINE = 0.3  # a line of text


@dataclass(frozen=True)
class Panel:
    """One heat map of a sheet."""

    map: AttentionMap
    title: str
    title_width: int = 0
    """characters to reserve for a title, at least"""


def attention_figure(maps: Sequence[AttentionMap | Prediction], *, ideal: bool = False) -> Figure:
    """Heat maps side by side: rows are output tokens, columns source tokens, `<eos>` drawn as a return sign.

    ideal: outline the cells that the right answer copies. Raises `Seq2AttnError` for more than a figure can show, for
    predictions without weights, and where no ideal alignment is known.
    """
    drawn = [_with_weights(one) for one in maps]
    if not drawn:
        raise Seq2AttnError("there is no attention to draw", hint="A model without attention has no maps.")
    panels = [Panel(one, f"{_short(one.source)} → {_short(one.output)}") for one in drawn]
    cell = cell_size(drawn)
    lines: list[list[Panel]] = [[]]
    width = 0.0
    for panel in panels:
        needed = _width(panel, cell)
        if lines[-1] and width + needed > _SHEET:
            lines.append([])
            width = 0.0
        lines[-1].append(panel)
        width += needed
    return sheet(lines, cell, ideal=ideal)


def evolution_figure(
    snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], *, ideal: bool = False, largest: int = 5
) -> Figure:
    """The maps of the same strings through training: one line per string, one column per step, at most `largest` columns."""
    chosen = [snapshots[place] for place in spread(snapshots, largest)]
    lines = [
        [Panel(cropped(maps[line]), f"step {step:,}") for step, maps in chosen] for line in range(len(chosen[0][1]))
    ]
    longest = max(len(panel.map.source_symbols) for line in lines for panel in line)
    widest = (_STRIP / len(chosen) - _LEFT - _RIGHT) / longest
    cell = cell_size([panel.map for line in lines for panel in line])
    return sheet(lines, max(_SMALLEST_CELL, min(cell, widest)), ideal=ideal)


def frame_figure(step: int, maps: Sequence[AttentionMap], *, ideal: bool = False) -> Figure:
    """The maps at one step, on a sheet whose size depends on the sources alone: a frame of an animation."""
    panels = []
    for one in maps:
        rows = min(24, _answer_rows(one))
        before, after = _short(one.source), _short(one.output, rows)
        panels.append(Panel(cropped(one), f"{before} → {after}", title_width=len(before) + 3 + rows))
    cell = cell_size([panel.map for panel in panels])
    return sheet([panels], cell, ideal=ideal, heading=f"step {step:,}", signs=("<eos>",))


def cropped(one: AttentionMap) -> AttentionMap:
    """A map with as many rows as the right answer has, `<eos>` counted: longer output is cut off, the rows that shorter
    output lacks are blank.
    """
    rows = _answer_rows(one)
    missing = max(0, rows - len(one.weights))
    blank = (math.nan,) * len(one.source_symbols)  # is not drawn
    return replace(
        one,
        output_symbols=(*one.output_symbols[:rows], *("",) * missing),
        weights=(*one.weights[:rows], *(blank,) * missing),
    )


def _answer_rows(one: AttentionMap) -> int:
    """Tokens of the right answer, `<eos>` counted; as many as the source has where the ideal alignment is not known."""
    return len(one.ideal) + 1 if one.ideal else len(one.source_symbols)


def spread(snapshots: Sequence[tuple[int, Sequence[AttentionMap]]], largest: int) -> list[int]:
    """The indices of at most `largest` snapshots, the first and the last among them, such that the attention changes by
    about as much from each to the next.
    """
    count = len(snapshots)
    if count <= largest or largest == 1:
        return list(range(count))[-largest:]
    changes = (sum(map(_change, before, after)) for (_, before), (_, after) in itertools.pairwise(snapshots))
    changed = list(itertools.accumulate(changes, initial=0.0))
    chosen = [0]
    for place in range(1, largest - 1):
        possible = range(chosen[-1] + 1, count - (largest - place) + 1)
        wanted = changed[-1] * place / (largest - 1)
        chosen.append(min(possible, key=lambda index: abs(changed[index] - wanted)))
    return [*chosen, count - 1]


def _change(before: AttentionMap, after: AttentionMap) -> float:
    """How much of a row's weight is elsewhere, 0 to 1: the mean over the rows of the right answer that both have."""
    rows = list(zip(before.weights, after.weights, strict=False))[: _answer_rows(after)]
    return sum(abs(a - b) for row in rows for a, b in zip(*row, strict=True)) / (2 * len(rows))


def cell_size(maps: Sequence[AttentionMap]) -> float:
    """The side of a cell in inches: the same for all maps of a sheet."""
    longest = max(max(len(one.source_symbols), len(one.output_symbols)) for one in maps)
    if longest > LARGEST_SIDE:
        raise Seq2AttnError(f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string")
    return max(_SMALLEST_CELL, min(_LARGEST_CELL, _LONG_SIDE / longest))


def sheet(
    lines: Sequence[Sequence[Panel]], cell: float, *, ideal: bool, heading: str = "", signs: Sequence[str] = ()
) -> Figure:
    """Lines of panels, each at the same scale, with one colour bar and a key to the signs used and to `signs`."""
    from matplotlib.figure import Figure

    maps = [panel.map for line in lines for panel in line]
    if ideal and not any(one.ideal for one in maps):
        sources = first_of([repr(_short(source)) for source in dict.fromkeys(one.source for one in maps)])
        hint = (
            "Leave out --ideal. In Python, `predictor.attention_maps(texts)` makes maps that know what the task knows."
        )
        raise Seq2AttnError(f"there is no ideal alignment to outline: none is known for {sources}", hint=hint)
    tops = [_TOP + max(_label_inches(panel.map.source_symbols, cell) for panel in line) for line in lines]
    most_rows = [max(len(panel.map.output_symbols) for panel in line) for line in lines]
    heights = [top + _BOTTOM + cell * count for top, count in zip(tops, most_rows, strict=True)]
    key = _key(maps, ideal, signs)
    above, below = _LINE * bool(heading), _LINE * bool(key)
    maps_width = _MARGIN + max(sum(_width(panel, cell) for panel in line) for line in lines)
    width = max(maps_width + _BAR, _MARGIN + _LEFT + _KEY * len(key))
    height = max(sum(heights), 1.9) + above + below
    figure = Figure(figsize=(width, height))
    top = height - above
    image = None
    for line, line_height, line_top in zip(lines, heights, tops, strict=True):
        left = _MARGIN
        for panel in line:
            columns, rows = cell * len(panel.map.source_symbols), cell * len(panel.map.output_symbols)
            bottom = top - line_top - rows
            place = (
                (left + _LEFT + _label_inches(panel.map.output_symbols, cell)) / width,
                bottom / height,
                columns / width,
                rows / height,
            )
            axes = figure.add_axes(place, gid="attention")
            image = _heat_map(axes, panel, cell, ideal=ideal)
            if panel is line[0]:
                axes.set_ylabel("output", fontsize=8, color="0.35")
                axes.set_xlabel("source", fontsize=8, color="0.35")
                axes.xaxis.set_label_position("bottom")
            left += _width(panel, cell)
        top -= line_height
    bar = min(2.2, height - above - below - 0.9 - (tops[0] - _TOP))
    place = ((maps_width + 0.2) / width, (height - above - tops[0] - bar) / height, 0.13 / width, bar / height)
    colours = figure.colorbar(image, cax=figure.add_axes(place), ticks=[0, 0.5, 1])  # type: ignore[arg-type]
    colours.outline.set_visible(False)
    colours.ax.tick_params(length=0, labelsize=8)
    colours.set_label("attention weight", fontsize=8)
    if heading:
        figure.text((_MARGIN + _LEFT) / width, 1 - 0.24 / height, heading, fontsize=11, weight="bold")
    if key:
        figure.text((_MARGIN + _LEFT) / width, 0.12 / height, key, fontsize=8, color="0.35")
    if ideal:
        figure.text((_MARGIN + 0.08) / width, 0.1 / height, "□", fontsize=12, color=IDEAL)
    return figure


def _with_weights(one: AttentionMap | Prediction) -> AttentionMap:
    """The map, or that of a prediction."""
    found = one if isinstance(one, AttentionMap) else one.attention_map()
    if found is None or not found.weights:
        hint = "`predictor.attention_maps(texts)` makes maps; `predict` keeps weights only with keep_weights=True."
        raise Seq2AttnError(f"there is no attention to draw for {shown(one.source)}: it has no weights", hint=hint)
    return found


def _heat_map(axes: Any, panel: Panel, cell: float, *, ideal: bool) -> Any:
    from matplotlib.patches import Rectangle

    one = panel.map
    columns, rows = len(one.source_symbols), len(one.output_symbols)
    image = axes.pcolormesh(one.weights, cmap=HEAT, vmin=0.0, vmax=1.0, rasterized=max(columns, rows) > 60)
    axes.set_ylim(rows, 0)
    size = _label_size(cell)
    axes.set_xticks([place + 0.5 for place in range(columns)], _labels(one.source_symbols))
    axes.set_yticks([place + 0.5 for place in range(rows)], _labels(one.output_symbols))
    axes.xaxis.tick_top()
    for label, symbol in zip(axes.get_xticklabels(), one.source_symbols, strict=True):
        label.set_rotation(90 if _label_inches([symbol], cell) else 0)
    axes.tick_params(length=0, labelsize=size, pad=2)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        if "\n" in label.get_text():  # a code point in two lines
            label.set(fontsize=0.45 * size, linespacing=0.9)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(panel.title, fontsize=_TITLE, loc="left", pad=7)
    if ideal:
        for row, column in enumerate(one.ideal[:rows]):
            corner, side = (column + 0.06, row + 0.06), 0.88
            axes.add_patch(Rectangle(corner, side, side, fill=False, ec=IDEAL, lw=max(0.8, 5 * cell)))
    return image


def draw_map(axes: Axes, one: AttentionMap, *, ideal: bool = False) -> None:
    """Draw a map into axes of your own, in square cells."""
    box = axes.get_window_extent()
    columns, rows = len(one.source_symbols), len(one.output_symbols)
    cell = min(box.width / columns, box.height / rows) / axes.figure.dpi
    _heat_map(axes, Panel(one, ""), cell, ideal=ideal)
    axes.set_title(f"{_short(one.source)} → {_short(one.output)}", fontsize=_TITLE)
    axes.set_aspect("equal")
    axes.set_xlabel("source")
    axes.xaxis.set_label_position("bottom")
    axes.set_ylabel("output")


def map_inches(one: AttentionMap) -> tuple[float, float]:
    """The size of a figure for one map."""
    cell = 1.3 * cell_size([one])
    return max(2.4, 1.2 + cell * len(one.source_symbols)), max(2.0, 1.2 + cell * len(one.output_symbols))


def _width(panel: Panel, cell: float) -> float:
    from matplotlib.textpath import TextPath

    title = TextPath((0, 0), panel.title, size=_TITLE).get_extents().width / 72 if panel.title else 0.0
    labels = _label_inches(panel.map.output_symbols, cell)
    columns = cell * len(panel.map.source_symbols)
    return _LEFT + labels + _RIGHT + max(columns, _CHARACTER * panel.title_width, title)


def _label_size(cell: float) -> float:
    """Of the labels of rows and columns, in points."""
    return min(11.0, cell * 72 * 0.62)


def _label_inches(symbols: Sequence[str], cell: float) -> float:
    """How much longer than two characters the longest label is; combining characters take no place."""
    longest = max(sum(not unicodedata.combining(one) for one in SIGNS.get(symbol, symbol)) for symbol in symbols)
    return max(0, longest - 2) * _label_size(cell) * 0.6 / 72


def _key(maps: Sequence[AttentionMap], ideal: bool, signs: Sequence[str]) -> str:
    """What the signs of a sheet mean."""
    used = {symbol for one in maps for symbol in (*one.source_symbols, *one.output_symbols)} | set(signs)
    outlined = ["ideal alignment"] if ideal else []
    meanings = [meaning for symbol, meaning in _MEANINGS.items() if symbol in used]
    missing = [MISSING] if any("\n" in drawable(symbol) for symbol in used) else []
    return "      ".join([*outlined, *meanings, *missing])


def _labels(symbols: Sequence[str]) -> list[str]:
    return [SIGNS.get(symbol, drawable(symbol)).replace("$", r"\$") for symbol in symbols]


def _short(text: str, limit: int = 24) -> str:
    text = text.replace("\t", " ")  # before a source's features
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return drawable_text(text).replace("$", r"\$")
