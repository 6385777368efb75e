"""Tries the plug-ins of a config once before training: one tiny step of the whole model, and the task at every length."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2attn.build import build_model
from seq2attn.config import Config
from seq2attn.config.plugin_errors import check_hint, chosen_parts, is_own, plugin_error, suspects_error
from seq2attn.data.batches import Batch, append_eos
from seq2attn.data.padding import valid_mask
from seq2attn.data.tasks import Task, check_task
from seq2attn.data.vocabulary import SOS, SPECIAL
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.greedy import greedy_decode
from seq2attn.model.interface import Model
from seq2attn.training.losses import training_losses
from seq2attn.training.snapshots import watched_examples
from seq2attn.training.step import TrainingStep
from seq2attn.training.watching import Watch

SOURCE_LENGTHS, TARGET_LENGTHS = (5, 3, 1), (2, 3, 1)  # of the strings of the tiny step


def check_plugins(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in cannot be trained, evaluated or resumed exactly.

    The model is made anew and thrown away, and torch's generators are left as they are: what training then
    computes does not depend on this. Does nothing for a config without such parts.
    """
    parts = chosen_parts(config)
    if not parts:
        return
    devices = [device] if device.type == "cuda" else []
    try:
        if is_own(type(task)):
            check_task(task, config.evaluation_lengths)
            watched_examples(task)
        if any(part.kind != "task" for part in parts):
            with torch.random.fork_rng(devices=devices):
                _try_model(config, task, device)
    except Exception as error:
        explained = plugin_error(error) or suspects_error(error, config, "one tiny step of training")
        if explained is None:
            raise
        raise Seq2AttnError(explained.message, hint=explained.hint) from error


def _try_model(config: Config, task: Task, device: torch.device) -> None:
    model = build_model(config, task).to(device)
    batch = _tiny_batch(config, task).to(device)
    unsaved = {name: tensor.clone() for name, tensor in model.named_buffers() if name not in model.state_dict()}
    step = TrainingStep(model, config, device)
    watch = Watch(model, torch.get_default_dtype())
    with watch.attached():
        total = training_losses(step.forward(batch, 0), batch, config.training).total
        norm = step.gradients(total)
    if not torch.isfinite(total + norm):
        watch.look_at_gradients()
        parts = [watch.culprit.part] if watch.culprit and watch.culprit.part else chosen_parts(config)
        first = f"; {watch.culprit.tensor} is the first tensor that is not finite" if watch.culprit else ""
        message = f"the loss of one tiny step of training is {total.item()}{first}"
        raise Seq2AttnError(message, hint=check_hint(parts))
    _check_buffers(config, model, unsaved)
    step.update(config.training.learning_rate)
    model.eval()
    one, other = (_decoded(model, batch, seed) for seed in (1, 2))
    if not all(map(torch.equal, one, other)):
        raise Seq2AttnError(
            f"in evaluation the model is random, with {', '.join(map(str, chosen_parts(config)))}",
            hint="Draw random numbers, as dropout does, in training only: if self.training. "
            f"{check_hint(chosen_parts(config))}",
        )


def _tiny_batch(config: Config, task: Task) -> Batch:
    """Strings of several lengths, so that there is padding, whatever the task would draw."""
    random = torch.Generator().manual_seed(0)

    def draw(lengths: tuple[int, ...], symbols: int) -> tuple[Tensor, Tensor]:
        counts = torch.tensor(lengths)
        ids = torch.randint(len(SPECIAL), len(SPECIAL) + symbols, (len(lengths), max(lengths)), generator=random)
        return ids * valid_mask(counts, max(lengths)), counts

    source, source_lengths = draw(SOURCE_LENGTHS, len(task.source_vocabulary.symbols))
    target, target_lengths = draw(TARGET_LENGTHS, len(task.target_vocabulary.symbols))
    start = torch.full((len(target), 1), SOS)
    output = append_eos(target, target_lengths)
    if config.model.source_eos:
        source, source_lengths = append_eos(source, source_lengths), source_lengths + 1
    return Batch(source, source_lengths, torch.cat([start, target], dim=1), output, target_lengths, None)


def _check_buffers(config: Config, model: Model, unsaved: dict[str, Tensor]) -> None:
    """Refuse a buffer that training changes and checkpoints do not save."""
    now = dict(model.named_buffers())
    for name, before in unsaved.items():
        if not torch.equal(before, now[name]):
            raise Seq2AttnError(
                f"training changes the buffer {name}, which checkpoints leave out: a resumed run would not be the same",
                hint=f"Register it without persistent=False. {check_hint(chosen_parts(config))}",
            )


def _decoded(model: Model, batch: Batch, seed: int) -> list[Tensor]:
    """Logits of teacher forcing, and attention weights of a few steps of greedy decoding where there are any."""
    torch.manual_seed(seed)
    with torch.no_grad():
        logits = model(batch.source, batch.source_lengths, batch.decoder_input, batch.decoder_lengths).logits
        decoding = greedy_decode(model, batch.source, batch.source_lengths, max_steps=3, keep_weights=True)
    real = valid_mask(batch.decoder_lengths, logits.size(1))
    return [logits[real], decoding.tokens, *([] if decoding.weights is None else [decoding.weights])]
