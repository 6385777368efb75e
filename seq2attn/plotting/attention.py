"""Heat maps of attention weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seq2attn.errors import Seq2AttnError
from seq2attn.plotting.style import HEAT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seq2attn.prediction import Prediction

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
    image = panel.imshow(prediction.weights, cmap=HEAT, vmin=0.0, vmax=1.0, aspect="equal")
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


def _labels(symbols: Sequence[str]) -> list[str]:
    return [_SYMBOLS.get(symbol, symbol).replace("$", r"\$") for symbol in symbols]


def _short(text: str, limit: int = 24) -> str:
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return text.replace("$", r"\$")
