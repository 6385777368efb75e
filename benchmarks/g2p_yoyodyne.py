"""The same words in yoyodyne (Wiemerslage et al. 2024) and here: error rates and seconds of one
training each.

Its soft-attention LSTM corresponds to our `bahdanau` with `additive` and `cell: lstm`. Sizes,
dropout, label smoothing, epochs, batches, learning rate, schedule, clipping and the epochs between
two evaluations are those of configs/pairs/small.yaml; its decoder and its word dropout, which
yoyodyne lacks, are not used. Both keep the checkpoint with the best result on the dev file,
yoyodyne's under teacher forcing, as it does by itself. Both decode greedily, and the same code
counts errors.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import seq2attn
from benchmarks.__main__ import machine, table
from benchmarks.g2p import Job
from seq2attn.config import Config
from seq2attn.data.format import Pair
from seq2attn.results.answers import align

Predict = Callable[[str], Sequence[str]]
"""From a source to the symbols of the output."""


def ours(config: Config, folder: Path) -> Predict:
    """Trained as by `seq2attn train`."""
    model = seq2attn.load(seq2attn.train(config, runs_dir=folder))
    return lambda source: model.predict([source])[0].output.split()


def theirs(config: Config, folder: Path) -> Predict:
    """Trained by Lightning, as by `yoyodyne fit`."""
    import lightning  # type: ignore[import-not-found]
    from lightning.pytorch.callbacks import ModelCheckpoint  # type: ignore[import-not-found]
    from torch.optim.lr_scheduler import CosineAnnealingLR
    from yoyodyne import data, models  # type: ignore[import-not-found]
    from yoyodyne.models.modules import LSTMEncoder  # type: ignore[import-not-found]

    training, model = config.training, config.model
    lightning.seed_everything(config.seed, verbose=False)
    files = {"train": config.data_files["train"], "val": config.data_files["dev"]}
    words = data.DataModule(
        model_dir=str(folder), target_sep=" ", batch_size=training.batch_size, **files
    )
    network = models.SoftAttentionLSTMModel(
        source_encoder=LSTMEncoder(
            bidirectional=True,
            dropout=model.dropout,
            embedding_size=model.embedding,
            hidden_size=model.hidden,
        ),
        decoder_dropout=model.dropout,
        embedding_size=model.embedding,
        decoder_hidden_size=model.hidden,
        label_smoothing=dict(training.losses[0])["label_smoothing"],
        optimizer=partial(torch.optim.Adam, lr=training.learning_rate),
        scheduler=partial(CosineAnnealingLR, T_max=training.epochs),
        target_vocab_size=words.target_vocab_size,
        vocab_size=words.vocab_size,
    )
    best = ModelCheckpoint(folder, monitor="val_accuracy", mode="max")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=training.epochs,
        gradient_clip_val=training.clip_norm,
        check_val_every_n_epoch=training.evaluate_every,
        num_sanity_val_steps=0,
        callbacks=[best],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(network, words)
    network.load_state_dict(torch.load(best.best_model_path, weights_only=False)["state_dict"])
    network.eval()
    mapper = data.mappers.Mapper(words.index)

    def predict(source: str) -> Sequence[str]:
        symbols = mapper.encode_source(words.parser.source_symbols(source))
        batch = data.Batch(data.batches.PaddedTensor.from_tensor(symbols.unsqueeze(0)))
        with torch.no_grad():
            found: Sequence[str] = mapper.decode_target(network(batch).argmax(dim=1)[0])
        return found

    return predict


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.g2p_yoyodyne", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="as for benchmarks.g2p")
    parser.add_argument(
        "--language",
        default="ice",
        metavar="NAME",
        help="one of the low-resource ones; default: ice",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in ("lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    torch.set_num_threads(1)
    changed = ("model.cell=lstm", "model.decoder=bahdanau", "training.word_dropout=0")
    job = Job(options.folder, Path(), "low", options.language, options.seed, changed)
    rows = []
    for name, train in (("yoyodyne", theirs), ("seq2attn", ours)):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            predict = train(job.config, Path(folder))
            row: dict[str, Any] = {
                "": name,
                "language": options.language,
                "seconds": time.perf_counter() - started,
            }
            for split in ("dev", "test"):
                row |= rates(split, job.file(split), predict) if job.file(split).exists() else {}
        rows.append(row)
    print("  ".join(f"{key} {value}" for key, value in machine().items()))
    print(table(rows))


def rates(split: str, file: Path, predict: Predict) -> dict[str, float]:
    """WER and SER in % on a file."""
    pairs: list[Pair] = [tuple(line.split("\t")) for line in file.read_text().splitlines()]  # type: ignore[misc]
    edits = [
        sum(edit.is_error for edit in align(right.split(), predict(source)))
        for source, right in pairs
    ]
    symbols = sum(len(right.split()) for _, right in pairs)
    return {
        f"{split} WER": 100 * sum(map(bool, edits)) / len(edits),
        f"{split} SER": 100 * sum(edits) / symbols,
    }


if __name__ == "__main__":
    main()
