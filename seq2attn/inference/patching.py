"""Activation patching: what each row of a quantity does for an answer."""

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
    """What the rows of a quantity do for an answer: `effect` is by how much ln p of each of the
    answer's symbols falls, in nats, where a row is taken from another string, (P, T): a row for
    each patched step or position, a column for each step.
    """

    quantity: str
    answer: Answer
    """to the string as it is"""
    other: Answer
    effect: NDArray[np.floating] = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the effects into `ax`, by default a new figure's, and return it; those below 0 look
        like 0.
        """
        from seq2attn.plotting.attention import draw_map

        answer, effect = self.answer, self.effect.tolist()
        rows = answer.source_symbols if self.quantity == "encoder.states" else answer.output_symbols
        drawn = AttentionMap(
            answer.source,
            answer.output,
            answer.output_symbols,
            rows[: len(effect)],
            tuple(map(tuple, effect)),
        )
        ax, most = axes_for(ax), max(float(self.effect.max()), 1.0)
        title = f"{self.quantity} of {self.other.source!r} in {answer.source!r}"
        draw_map(ax, drawn, title=title.replace("$", r"\$"), most=most)
        ax.set(xlabel="ln p lost at", ylabel="patched at")
        ax.figure.colorbar(ax.collections[0], ax=ax, label="nats")
        return ax


def patch_map(model: TrainedModel, text: str, other: str, quantity: str) -> PatchMap:
    """Answer `text` with each row of `quantity` in turn taken from the model that reads `other`
    (Meng et al. 2022).

    quantity: as in `patch` of `predict`. Every step reads what the unpatched model wrote. Rows that
    one of the two strings lacks are left out.
    """
    (answer, cache), (answered, source) = map(model.run_with_cache, (text, other))
    symbols = cache["logits"].argmax(axis=1)  # (T,)
    write = {
        step: model.task.target_vocabulary.tokens[symbol] for step, symbol in enumerate(symbols)
    }

    def log_p(computed: Cache) -> NDArray[np.floating]:
        return (
            torch.from_numpy(computed["logits"])
            .log_softmax(dim=1)
            .numpy()[np.arange(len(symbols)), symbols]
        )

    patches = [
        {(quantity, index): row}
        for index, row in enumerate(source[quantity][: len(cache[quantity])])
    ]
    patched = [log_p(model.run_with_cache(text, patch=patch, write=write)[1]) for patch in patches]
    return PatchMap(quantity, answer, answered, log_p(cache) - np.array(patched))
