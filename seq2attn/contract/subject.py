"""What the rules of models are checked on: a small model with a few strings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.data.batches import Batch, make_batch, pad_pairs, valid_mask
from seq2attn.data.tasks import Task
from seq2attn.data.vocabulary import PAD, SPECIAL
from seq2attn.model.attention import Attention
from seq2attn.model.decoder import Reverser
from seq2attn.model.interface import Decoded

LENGTHS = ((5, 2), (3, 3), (1, 1))
"""of source and target of the strings that a model is checked on"""
EXTRA = 2  # columns of padding
GARBAGE = len(SPECIAL)  # the token that replaces padding
B, L = 3, 4  # strings, and outputs of the longest target with its `<eos>`


def differ(result: Tensor, expected: Tensor) -> bool:
    """Return True unless the two are equal up to rounding."""
    rtol, atol = (1e-8, 1e-10) if expected.dtype == torch.float64 else (1e-3, 1e-4)
    return not torch.allclose(result, expected, rtol, atol)


@dataclass(frozen=True)
class Subject:
    """A model whose parts are checked. Lengths: B strings of at most S tokens, L outputs."""

    model: Reverser
    """in evaluation mode"""
    batch: Batch
    """strings of several lengths"""
    classes: Sequence[type]
    """of the parts to check"""

    def parts(self, kind: Any = nn.Module) -> Iterator[Any]:
        """Yield the modules of the model that belong to these classes and are of this kind."""
        for part in self.model.modules():
            if type(part) in self.classes and isinstance(part, kind):
                yield part

    @property
    def width(self) -> int:
        """S"""
        return self.batch.source.size(1)

    @property
    def valid(self) -> Tensor:
        """(B, 1, S) True = real token"""
        return valid_mask(self.batch.source_lengths, self.width).unsqueeze(1)

    def draw(self, *shape: int) -> Tensor:
        """Draw normally distributed numbers of the model's type."""
        like = self.model.decoder.output.weight
        return torch.randn(shape, dtype=like.dtype, device=like.device)

    def results_of(self, decoded: Decoded) -> Tensor:
        """Return logits and weights side by side, (B, L, V + S), without weights on padding beyond
        the S tokens of the subject's own batch; of a model without attention logits alone,
        (B, L, V).
        """
        logits, weights, _ = decoded
        if weights is None:
            return logits
        return torch.cat([logits, weights[..., : self.width]], dim=2)

    def forward(self, batch: Batch | None = None) -> Tensor:
        """Return `results_of` teacher forcing on a batch, by default the subject's own: (B, L,
        V + S), with 0 past a row's end, where the model's are undefined.
        """
        batch = batch or self.batch
        results = self.results_of(self.model(batch))
        real = valid_mask(batch.decoder_lengths, results.size(1))
        return results.masked_fill(~real.unsqueeze(2), 0)

    def other_padding(self) -> Iterator[Batch]:
        """Yield the batch twice with the token `GARBAGE` as its padding: first with `EXTRA`
        positions of padding more, then as wide as it is.
        """
        batch = self.batch
        wider = pad(batch.source, (0, EXTRA))
        garbage = wider.masked_fill(~valid_mask(batch.source_lengths, wider.size(1)), GARBAGE)
        yield replace(batch, source=garbage)
        yield replace(batch, source=garbage[:, :-EXTRA])

    def backward(self) -> float:
        """Compute the gradients of the loss, and return the loss."""
        logits = self.model(self.batch).logits.mT  # (B, V, L)
        loss = cross_entropy(logits, self.batch.decoder_output, ignore_index=PAD)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())


def make_subject(
    config: Config, task: Task, classes: Sequence[type], dtype: torch.dtype, device: torch.device
) -> Subject:
    """Build a new model of `config` in evaluation mode, and random strings of the task's symbols
    with the lengths `LENGTHS`, so that there is padding. Torch's generator stays as it is:
    `build_model` forks it.

    classes: of the parts to check.
    """
    model = build_model(config, task).to(device, dtype).eval()
    assert isinstance(model, Reverser)
    for part in model.modules():
        if isinstance(part, Attention):
            # whatever the config says: without it results depend on padding, which rules forbid
            part.mask_padding = True
    random = Random(0)
    sources = range(len(SPECIAL), len(task.source_vocabulary))
    targets = range(len(SPECIAL), len(task.target_vocabulary))
    pairs = [(random.choices(sources, k=m), random.choices(targets, k=n)) for m, n in LENGTHS]
    batch = make_batch(pad_pairs(pairs, device), source_eos=config.model.source_eos)
    return Subject(model, batch, classes)
