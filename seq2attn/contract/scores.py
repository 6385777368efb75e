"""Registered scores, as what any attention's scores are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from seq2attn.contract.subject import scores_of
from seq2attn.model.scores import Score
from seq2attn.parts import SCORES
from seq2attn.plugins import load_plugins

B, L, S, D = 8, 2, 5, 12  # rows, queries, keys and widths of a sample


@dataclass(frozen=True)
class KnownScore:
    """A score that can be made of any widths."""

    name: str
    equal_widths: bool
    """it needs keys as wide as queries"""
    is_built_in: bool
    sizes: Sequence[str]
    """its options that are numbers of components"""

    @property
    def has_size(self) -> bool:
        """Whether it can be made with a number of components"""
        return bool(self.sizes)

    def make(self, query_width: int, key_width: int, size: int | None = None) -> Score | None:
        """Return the score, with this number of components; None if it scores nothing."""
        options = dict.fromkeys(self.sizes, size) if size else {}
        return SCORES.make(SCORES.choose(self.name, **options), query_width, key_width)


def known_scores(plugins: Sequence[str] = ()) -> list[KnownScore]:
    """Return all registered scores, those among them that the files `plugins` register."""
    load_plugins(plugins)
    known = []
    for entry in SCORES:
        fields = entry.options.model_fields.items()
        # whole numbers, `int` or `int | None`, are taken for numbers of components
        sizes = [name for name, field in fields if "int" in str(field.annotation)]
        # (the package's own are registered by their names, those of plug-ins as classes)
        is_built_in = isinstance(entry.implementation, str)
        known.append(KnownScore(entry.name, entry.equal_widths, is_built_in, sizes))
    return known


def scored(name: str) -> tuple[Any, ...]:
    """Return queries (B, L, D), keys (B, S, D), the scores (B, L, S) that the registered score
    `name` gives them, with its default options and biases of 0, and a list of its parameters. All
    are drawn with seed 0.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        query, keys = torch.randn(B, L, D), torch.randn(B, S, D)
        score = SCORES.make(SCORES.choose(name), D, D)
        for parameter, tensor in score.named_parameters():
            if parameter.endswith("bias"):
                tensor.zero_()
        scores = scores_of(score, query, keys, torch.ones(B, 1, S, dtype=torch.bool))
        return query, keys, scores, list(score.parameters())
