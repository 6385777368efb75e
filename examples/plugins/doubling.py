"""A task on numbers, which draws its own pairs from the given generator alone."""

from functools import partial

import torch

from seq2attn import Solution, Task, Vocabulary, register


@register("doubling", formula="target = 2 x source")
class Doubling(Task):
    """058 -> 116

    digits: most in training
    """

    def __init__(self, *, digits: int = 6):
        self.source_vocabulary = self.target_vocabulary = Vocabulary("0123456789")
        self.min_length, self.max_length = 2, digits

    def examples(self, random, count, length=None):
        draw = partial(torch.randint, generator=random, device=random.device)
        sizes = draw(self.min_length, self.max_length + 1, (count,)).tolist()
        pairs = []
        for size in sizes if length is None else [length] * count:
            source = "".join(map(str, draw(10, (size,)).tolist()))
            pairs.append((source, self.answer(source).text))
        return self.encode(pairs, random.device)

    def answer(self, text):
        return Solution(str(2 * int(text)).zfill(len(text)))

    def target_length(self, source_length):
        return source_length + 1
