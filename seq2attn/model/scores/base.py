"""What every score is, and how one is made known."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from torch import Tensor, nn

from seq2attn import catalogue
from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Option, ScoreEntry


class Score(nn.Module):
    """e(s, h) for all queries and keys of a batch at once.

    Every score is made the same way, `Score(query_width, key_width, **options)`, and called the same way. It knows
    nothing of masks, softmax or values: `Attention` does that once for all.
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width
        self.value_width = key_width
        """of `values`"""
        self.feature_width = 1
        """of what `with_features` takes in"""

    def project(self, keys: Tensor) -> Tensor:
        """What of the score depends on the keys alone, computed once a sequence.

        keys (B, S, key_width) -> (B, S, anything), which `forward` is given as its `keys`. The default: the keys.
        """
        return keys

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, L, query_width), keys (B, S, ...) from `project` -> scores (B, L, S)."""

    def values(self, states: Tensor) -> Tensor:
        """What contexts are averages of: states (B, S, key_width) -> (B, S, value_width). The default: the states."""
        return states

    def with_features(self, query: Tensor, keys: Tensor, features: Tensor) -> Tensor:
        """`forward` with features (B, L, S, feature_width) of each key taken in. The default: added to the scores."""
        scores: Tensor = self(query, keys)
        return scores + features.squeeze(3)


ScoreType = TypeVar("ScoreType", bound=type[Score])


def register(
    name: str,
    *,
    formula: str,
    source: str = "",
    summary: str = "",
    synonyms: tuple[str, ...] = (),
    parameters: str = "?",
    equal_widths: bool = False,
) -> Callable[[ScoreType], ScoreType]:
    """Class decorator: make a score known under `name`.

    `equal_widths` refuses configs whose queries and keys differ in width. Keyword arguments of the constructor with a
    default of type bool, int, float or str become `model.attention.options`.
    """

    def decorate(cls: ScoreType) -> ScoreType:
        if not (isinstance(cls, type) and issubclass(cls, Score)):
            raise Seq2AttnError(
                f"@register({name!r}) stands on {cls!r}, which is no Score",
                hint="Write: from seq2attn.model.scores import Score; class Mine(Score): ...",
            )
        catalogue.SCORES.add(
            ScoreEntry(
                name,
                formula=formula,
                source=source,
                summary=summary or inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0],
                synonyms=synonyms,
                parameters=parameters,
                equal_widths=equal_widths,
                implementation=cls,
                options=_options(cls),
            )
        )
        return cls

    return decorate


def _options(cls: type[Score]) -> dict[str, Option]:
    parameters = list(inspect.signature(cls).parameters.values())[2:]
    return {
        parameter.name: Option(type(parameter.default), parameter.default, f"a {type(parameter.default).__name__}")
        for parameter in parameters
        if isinstance(parameter.default, bool | int | float | str)
    }
