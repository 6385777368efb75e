"""Activation patching: how much each row of a quantity contributes to an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.inference.answer import Answer, axes_for
from seq2attn.inference.cache import Cache
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.trained_model import TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class PatchMap:
    """The effects of the rows of a quantity on an answer."""

    quantity: str
    answer: Answer
    """to the string as it is"""
    other: Answer
    """to the string that rows are taken from"""
    effect: NDArray[np.floating] = field(repr=False)
    """(P, T) by how much ln p of each of the answer's symbols falls, in nats: a row for each
    patched step or position, a column for each step"""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the effects into `ax`, by default a new figure's, and return it; those below 0 look
        like 0.
        """
        from seq2attn.plotting.attention import draw_map

        answer, rows = self.answer, self.answer.output_symbols
        if self.quantity == "encoder.states":
            rows = answer.source_symbols
        drawn = AttentionMap(
            answer.source,
            answer.output,
            answer.output_symbols,
            rows[: len(self.effect)],
            tuple(map(tuple, self.effect.tolist())),
        )
        ax = axes_for(ax)
        title = f"{self.quantity} of {self.other.source!r} in {answer.source!r}"
        draw_map(ax, drawn, title=title, largest=max(float(self.effect.max()), 1.0))
        ax.set(xlabel="ln p lost at", ylabel="patched at")
        ax.figure.colorbar(ax.collections[0], ax=ax, label="nats")
        return ax


def patch_map(model: TrainedModel, text: str, other: str, quantity: str) -> PatchMap:
    """Answer `text` with each row of `quantity` in turn taken from the model that reads `other`
    (Meng et al. 2022).

    quantity: as in `patch` of `predict`. Every step reads what the unpatched model wrote. Rows that
    one of the two strings lacks are left out.
    """
    answer, cache = model.run_with_cache(text)
    other_answer, source = model.run_with_cache(other)
    symbols = cache["logits"].argmax(axis=1)  # (T,)
    tokens = model.task.target_vocabulary.tokens
    write = {step: tokens[symbol] for step, symbol in enumerate(symbols)}

    def log_p(cache: Cache) -> NDArray[np.floating]:
        logs = torch.from_numpy(cache["logits"]).log_softmax(dim=1)  # (T, V)
        return logs.numpy()[np.arange(len(symbols)), symbols]

    effects = []
    for index, row in enumerate(source[quantity][: len(cache[quantity])]):
        patch = {(quantity, index): row}
        patched = model.run_with_cache(text, patch=patch, write=write)[1]
        effects.append(log_p(cache) - log_p(patched))
    return PatchMap(quantity, answer, other_answer, np.array(effects))
