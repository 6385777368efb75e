"""The same training steps in JoeyNMT (Kreutzer et al. 2019) and yoyodyne (Wiemerslage et al. 2024),
if they are installed.

JoeyNMT's recurrent decoder corresponds to our `luong`: it steps, then attends. Its attention
"luong" is our score `general`, its "bahdanau" our `additive`. Its encoder must be bidirectional (it
fails with one direction), its sources end with <eos>, and our models are configured like that here.
yoyodyne's soft-attention GRU corresponds to our `bahdanau` with `additive`; it projects encoder
states and query together, at every step. Width, batches, optimiser and clipping are the same. Each
takes a step as its own training loop does; yoyodyne's without its logging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.measure import interleaved, median, ratio
from benchmarks.training import CPU, RATE, Unit, our_step
from seq2attn.build import build_training_data
from seq2attn.data.batches import Batch

ATTENTION = {"general": "luong", "additive": "bahdanau"}  # ours -> JoeyNMT's
BOTH_WAYS: dict[str, Any] = {"source_eos": True, "bidirectional": True}
UNITS = {
    "joeynmt": tuple(
        Unit(score, decoder="luong", input_feeding=feeding, batch=batch, **BOTH_WAYS)
        for batch in (64, 512)
        for score in ATTENTION
        for feeding in (False, True)
    ),
    "yoyodyne": tuple(Unit("additive", batch=batch, **BOTH_WAYS) for batch in (64, 512)),
}


def installed() -> list[str]:
    return [peer for peer in UNITS if find_spec(peer) is not None]


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One record per unit of each installed peer: milliseconds per step of both, and the ratio."""
    torch.set_num_threads(1)
    records = []
    for peer in installed():
        for unit in UNITS[peer][:2] if quick else UNITS[peer]:
            data = build_training_data(unit.config(), CPU)
            steps = {
                "ours": our_step(unit, data.batches()),
                "peer": STEPS[peer](unit, data.batches()),
            }
            found = interleaved(steps, repeats=5 if quick else 11)
            records.append(
                {
                    "unit": unit.describe(),
                    "ms": 1e3 * median(found["ours"]),
                    "peer": peer,
                    "peer_ms": 1e3 * median(found["peer"]),
                    "times_peer": ratio(found["peer"], found["ours"]),
                }
            )
    return records


def joey_step(unit: Unit, batches: Iterator[Batch]) -> Callable[[], object]:
    """The step of its `TrainManager`: `_train_step`, then clipping, update and zeroing."""
    from joeynmt.batch import Batch as JoeyBatch  # type: ignore[import-not-found]
    from joeynmt.builders import build_gradient_clipper, build_optimizer  # type: ignore[import-not-found]
    from joeynmt.model import build_model  # type: ignore[import-not-found]
    from joeynmt.vocabulary import Vocabulary  # type: ignore[import-not-found]

    letters = unit.config().task.alphabet
    vocabulary = Vocabulary(list(letters), _specials())
    common = {
        "rnn_type": "gru",
        "hidden_size": unit.hidden,
        "embeddings": {"embedding_dim": 32},
        "type": "recurrent",
    }
    encoder = {**common, "bidirectional": True}
    decoder = {
        **common,
        "attention": ATTENTION[unit.score],
        "input_feeding": unit.input_feeding,
        "init_hidden": "zeros",
    }
    model = build_model({"encoder": encoder, "decoder": decoder}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    optimiser = build_optimizer({"optimizer": "adam", "learning_rate": RATE}, model.parameters())
    clip = build_gradient_clipper({"clip_grad_norm": 1.0, "clip_grad_val": None})

    def step() -> None:
        ours = next(batches)
        target = torch.cat([ours.decoder_input[:, :1], ours.decoder_output], dim=1)  # (B, L + 1)
        batch = JoeyBatch(
            src=ours.source + 1,
            src_length=ours.source_lengths,
            src_prompt_mask=None,
            trg=target + 1,
            trg_prompt_mask=None,
            indices=torch.arange(len(target)),
            device=CPU,
            pad_index=vocabulary.pad_index,
            eos_index=vocabulary.eos_index,
        )
        model.train()
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, normalization="batch")
        loss.backward()
        loss.item(), correct.item()
        clip(model.parameters())
        optimiser.step()
        model.zero_grad()

    return step


def _specials() -> SimpleNamespace:
    """JoeyNMT's defaults."""
    return SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        unk_id=0,
        pad_id=1,
        bos_id=2,
        eos_id=3,
        sep_id=None,
        lang_tags=[],
    )


def yoyo_step(unit: Unit, batches: Iterator[Batch]) -> Callable[[], object]:
    """`BaseModel.training_step` without its logging, and what Lightning does after it."""
    from yoyodyne import models  # type: ignore[import-not-found]
    from yoyodyne.data import batches as yoyo  # type: ignore[import-not-found]
    from yoyodyne.models.modules import GRUEncoder  # type: ignore[import-not-found]

    sizes = {"dropout": 0.0, "embedding_size": 32, "hidden_size": unit.hidden}
    model = models.SoftAttentionGRUModel(
        source_encoder=GRUEncoder(bidirectional=True, **sizes),
        decoder_dropout=0.0,
        embedding_size=32,
        decoder_hidden_size=unit.hidden,
        compute_accuracy=False,
        target_vocab_size=32,
        vocab_size=32,
    ).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

    def step() -> None:
        ours = next(batches)
        source, target = (
            yoyo.PaddedTensor.from_tensor(ids) for ids in (ours.source, ours.decoder_output)
        )
        batch = yoyo.Batch(source, target=target)
        loss = model.loss_func(*model._align(model(batch), batch.target.tensor))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        loss.item()

    return step


STEPS = {"joeynmt": joey_step, "yoyodyne": yoyo_step}
