"""Homework: write two attentions, each with a mask.

Replace both `raise` lines. Try a function with

    seq2attn check --attention homework.py:scaled --call "attention(query[:, 0], keys, valid)" --require returns=context,weights --require stable --allow empty-row --expect scaled
    seq2attn check --attention homework.py:cosine --call "attention(query[:, 0], keys, valid)" --require returns=context,weights --require stable --allow empty-row --expect "dot(s, h) / (norm(s) * norm(h))"

until it says `passed`: repair the first `fault` or `error`, and run it again. A `care` or `note`
loses no point. Hand in one file, named after you, such as `anna.py`. One point a function.
"""

import torch

Tensor = torch.Tensor


def scaled(query: Tensor, keys: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with the scaled dot product, s · h / √D.

    query: (B, D), the s of each of B strings.
    keys: (B, S, D), the h of each of their S positions; also what is averaged.
    valid: (B, S), True = a position of the string, False = padding, which must get no weight. Each
        string has a position.
    Returns the context (B, D) and the weights (B, S). Scores may be large: they must not overflow,
    as a plain exp does.
    """
    raise NotImplementedError("scaled is not written yet")


def cosine(query: Tensor, keys: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with the cosine of s and h, s · h / (|s| |h|): the same shapes."""
    raise NotImplementedError("cosine is not written yet")
