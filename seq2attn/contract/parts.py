"""Tries parts against their contract: any registered part alone, and before training those that a config chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from seq2attn.build import build_task
from seq2attn.config import Config, check_config
from seq2attn.config.plugins import described, foreign_parts, how_to_check, plugin_error
from seq2attn.config.schema import PARTS
from seq2attn.contract import models, tasks
from seq2attn.contract.models import make_trial
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, is_out_of_memory

MODELS: tuple[dict[str, Any], ...] = (
    {"bidirectional": True, "attention": {"score": "general"}},
    {"decoder": "luong", "attention": {"window": "local_m"}},
    {"cell": "lstm", "layers": 2, "attention": {"score": "additive", "window": "local_m", "history": "location"}},
)
"""settings of the tiny models in which a part takes its place"""
NARROW: dict[str, Any] = {}  # instead of the first, for a part that needs keys as wide as queries


def check_part(kind: str, name: str, **options: Any) -> dict[str, str]:
    """What breaks each rule of this part with these options, in float64; the empty string where nothing does."""
    key, registry = next(pair for pair in PARTS.items() if pair[1].kind == kind)
    narrow = registry.get(name).equal_widths or kind == "initial state"

    def make(settings: dict[str, Any]) -> Any:
        model = {"hidden": 4, "embedding": 3, **settings}
        values = {"model": model, "task": {"alphabet": "abc"}, "evaluation": {"lengths": [1]}}
        config = check_config(values, {key: {"name": name, **options}})
        task = build_task(config)
        if kind == "task":
            return task
        return make_trial(config, task, [registry.load(name)], torch.float64, torch.device("cpu"))

    rules: Mapping[str, Callable[[Any], None]] = tasks.RULES if kind == "task" else models.RULES
    places = [NARROW] if kind == "task" else [NARROW if narrow else MODELS[0], *MODELS[1:]]
    return {
        rule: next(filter(None, (_broken(check, partial(make, settings)) for settings in places)), "")
        for rule, check in rules.items()
    }


def check_parts(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in or of an installed package that `config` chose breaks its contract.

    The model is made anew and thrown away, and torch's generators stay as they are: what training then computes does not
    depend on this. Does nothing for a config without such parts.
    """
    foreign = foreign_parts(config)
    of_task = [cls for cls in foreign if issubclass(cls, Task)]
    of_model = [cls for cls in foreign if cls not in of_task]
    examples = {"examples": partial(tasks.check_examples, lengths=config.evaluation_lengths)}
    trial = partial(make_trial, config, task, of_model, torch.get_default_dtype(), device)
    _refuse(of_task, examples, lambda: task, device)
    _refuse(of_model, models.WHILE_TRAINING, trial, device)


def _refuse(
    classes: list[type], rules: Mapping[str, Callable[[Any], None]], make: Callable[[], Any], device: torch.device
) -> None:
    for rule, check in rules.items() if classes else ():
        reason = _broken(check, make, device)
        if reason:
            hint = f"Check it: {'; '.join(dict.fromkeys(map(how_to_check, classes)))}"
            raise Seq2AttnError(f"{' and '.join(map(described, classes))}: {rule}: {reason}", hint=hint)


def _broken(check: Callable[[Any], None], make: Callable[[], Any], device: torch.device | None = None) -> str:
    """What breaks the rule that `check` is about, for what `make` returns; the empty string if nothing does."""
    with torch.random.fork_rng(devices=[device] if device is not None and device.type == "cuda" else []):
        torch.manual_seed(0)
        subject = make()  # a part that cannot be made says so itself
        try:
            check(subject)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            known = error if isinstance(error, Seq2AttnError) else plugin_error(error)
            return known.message if known else f"raised {type(error).__name__}: {error}".strip().partition("\n")[0]
    return ""
