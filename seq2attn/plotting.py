"""Figures from plain records: nothing here knows a model, so a figure can be drawn again from saved JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.evaluation import LengthResult
    from seq2attn.prediction import Prediction

COLOURS = "cividis"  # made for readers with any kind of colour vision (Nunez et al. 2018)
FORMATS = ("png", "svg", "pdf")
CELL = 0.32  # inches
LARGEST_SIDE = 200  # rows or columns of one heat map
_SYMBOLS = {"<eos>": "⏎", "<pad>": "∅", "<sos>": "⊢", " ": "␣"}


def attention_figure(predictions: Sequence[Prediction]) -> Figure:
    """Heat maps side by side: rows are output tokens, columns source tokens, `<eos>` drawn as a return sign.

    Raises `Seq2AttnError` where there are no weights, or more than a figure can show.
    """
    from matplotlib.figure import Figure

    for prediction in predictions:
        if prediction.weights is None:
            raise Seq2AttnError("there is no attention to draw: the model was trained with score 'none'")
        if max(len(prediction.source_symbols), len(prediction.output_symbols)) > LARGEST_SIDE:
            raise Seq2AttnError(f"a heat map shows at most {LARGEST_SIDE} characters a side; draw a shorter string")
    columns = min(4, len(predictions))
    rows = math.ceil(len(predictions) / columns)
    wide = max(len(prediction.source_symbols) for prediction in predictions)
    high = max(len(prediction.output_symbols) for prediction in predictions)
    size = (columns * (wide * CELL + 0.9) + 0.8, rows * (high * CELL + 1.2))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    image = None
    for panel, prediction in zip(panels, predictions, strict=False):
        image = _heat_map(panel, prediction)
    for panel in list(panels)[len(predictions) :]:
        panel.set_axis_off()
    assert image is not None
    figure.colorbar(image, ax=figure.axes, label="attention weight", fraction=0.05, aspect=20, shrink=0.8)
    return figure


def _heat_map(panel: Any, prediction: Prediction) -> Any:
    image = panel.imshow(prediction.weights, cmap=COLOURS, vmin=0.0, vmax=1.0, aspect="equal")
    panel.set_xticks(range(len(prediction.source_symbols)), _labels(prediction.source_symbols))
    panel.set_yticks(range(len(prediction.output_symbols)), _labels(prediction.output_symbols))
    panel.xaxis.tick_top()
    panel.tick_params(length=0, labelsize=11)
    for spine in panel.spines.values():
        spine.set_visible(False)
    panel.set_title(f"{_short(prediction.source)} → {_short(prediction.output)}", fontsize=10, pad=8)
    panel.set_xlabel("source", fontsize=8)
    panel.set_ylabel("output", fontsize=8)
    return image


def accuracy_figure(results: Sequence[LengthResult], title: str) -> Figure:
    """Accuracy by length with 95 % intervals; lengths outside training on a grey ground."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    panel = figure.subplots()
    lengths = [result.length for result in results]
    for values, label, marker, colour in (
        ([result.exact_match for result in results], "exact match (greedy)", "o", "#00429d"),
        ([result.character_accuracy for result in results], "characters (greedy)", "s", "#c2571a"),
        ([result.teacher_forced for result in results], "characters (teacher-forced)", "^", "#3c7d4c"),
    ):
        middle = [estimate.value for estimate in values]
        below = [estimate.value - estimate.low for estimate in values]
        above = [estimate.high - estimate.value for estimate in values]
        panel.errorbar(
            lengths, middle, [below, above], label=label, marker=marker, color=colour, ms=4, lw=1.2, capsize=2
        )
    for result in results:
        if not result.trained:
            panel.axvspan(result.length - 0.5, result.length + 0.5, color="0.92", lw=0, zorder=0)
    untrained = any(not result.trained for result in results)
    panel.set_xlabel("string length" + (" (grey: never seen in training)" if untrained else ""))
    panel.set_ylabel("accuracy")
    panel.set_ylim(-0.03, 1.03)
    panel.set_xticks(lengths if len(lengths) <= 20 else lengths[:: math.ceil(len(lengths) / 20)])
    panel.grid(axis="y", color="0.85", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8, loc="lower left")
    panel.set_title(title, fontsize=10, loc="left")
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's name says."""
    check_format(path)
    try:
        with warnings.catch_warnings():  # a character that the font lacks is drawn as a box
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(path, dpi=160)
    except OSError as error:
        raise Seq2AttnError(f"{path}: cannot be written: {error.strerror or error}", exit_code=1) from error


def check_format(path: Path) -> None:
    """Refuse a file name whose ending is no format for figures."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        guess = did_you_mean(ending, FORMATS)
        allowed = ", ".join(f".{name}" for name in FORMATS)
        raise Seq2AttnError(f"{path}: a figure's file name ends with one of {allowed}; {guess}".rstrip("; "))
    if not path.parent.is_dir():
        raise Seq2AttnError(f"{path}: there is no directory {path.parent}")


def _labels(symbols: Sequence[str]) -> list[str]:
    return [_SYMBOLS.get(symbol, symbol).replace("$", r"\$") for symbol in symbols]


def _short(text: str, limit: int = 24) -> str:
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return text.replace("$", r"\$")
