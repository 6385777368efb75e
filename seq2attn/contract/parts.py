"""Tries parts against their contract: any registered part alone, and before training those that a config chose."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

import torch

from seq2attn import parts
from seq2attn.build import build_model, build_task
from seq2attn.config import Config, check_config
from seq2attn.config.plugins import ForeignPart, foreign_parts, plugin_error
from seq2attn.config.schema import PARTS
from seq2attn.contract import models, tasks
from seq2attn.contract.models import Broken, Trial, make_trial
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.model.decoder import Reverser

Tried = TypeVar("Tried")  # a `Trial` or a task
MODELS: tuple[dict[str, Any], ...] = (
    {"bidirectional": True, "attention": {"score": "general"}},
    {"decoder": "luong", "attention": {"window": "local_m"}},
    {"cell": "lstm", "layers": 2, "attention": {"score": "additive", "window": "local_m", "history": "location"}},
)
"""settings of the tiny models in which a part takes its place"""
TASK_SETTINGS = {"evaluation": {"lengths": [1]}}
NARROW: dict[str, Any] = {}  # instead of the first, for a part that needs keys as wide as queries


def check_part(kind: str, name: str, keywords: Mapping[str, Any] | None = None) -> dict[str, str]:
    """What breaks each rule of this part with these options, in float64; the empty string where nothing does."""
    (key,) = (key for key, registry in PARTS.items() if registry.kind == kind)
    chosen = [f"{key}={json.dumps({'name': name, **(keywords or {})})}"]
    if kind == "task":
        return {
            rule: _broken(check, lambda: build_task(check_config(TASK_SETTINGS, chosen)))
            for rule, check in tasks.RULES.items()
        }
    (entry,) = (registry.get(name) for registry in parts.EXTENSIBLE if registry.kind == kind)
    narrow = entry.equal_widths or kind == "initial state"
    trials = [
        cache(partial(_tiny_trial, settings, chosen, frozenset({entry.load()})))
        for settings in (NARROW if narrow else MODELS[0], *MODELS[1:])
    ]
    return {
        rule: next(filter(None, (_broken(check, partial(_copied, trial)) for trial in trials)), "")
        for rule, check in models.RULES.items()
    }


def check_parts(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in or of an installed package that `config` chose breaks its contract.

    The model is made anew and thrown away, and torch's generators stay as they are: what training then computes does not
    depend on this. Does nothing for a config without such parts.
    """
    foreign = foreign_parts(config)
    of_task = [part for part in foreign if part.kind == "task"]
    of_model = [part for part in foreign if part.kind != "task"]
    if of_task:
        check = partial(tasks.check_examples, lengths=config.evaluation_lengths)
        _refuse(of_task, "examples", _broken(check, lambda: task))
    if of_model:
        classes = frozenset(part.cls for part in of_model)
        trial = partial(_trial, config, task, classes, torch.get_default_dtype(), device)
        trial()  # a part that cannot be made says so itself
        for rule, rule_check in models.WHILE_TRAINING.items():
            _refuse(of_model, rule, _broken(rule_check, trial, device))


def _copied(make: Callable[[], Trial]) -> Trial:
    return copy.deepcopy(make())


def _tiny_trial(settings: Mapping[str, Any], chosen: list[str], classes: frozenset[type]) -> Trial:
    model = {"hidden": 4, "embedding": 3, **settings}
    config = check_config({"model": model, "task": {"alphabet": "abc"}}, chosen)
    return _trial(config, build_task(config), classes, torch.float64, torch.device("cpu"))


def _trial(config: Config, task: Task, classes: frozenset[type], dtype: torch.dtype, device: torch.device) -> Trial:
    model = build_model(config, task).to(device)
    assert isinstance(model, Reverser)
    return make_trial(model, task, config.model.source_eos, classes, dtype)


def _refuse(foreign: list[ForeignPart], rule: str, reason: str) -> None:
    if reason:
        names, checks = " and ".join(map(str, foreign)), "; ".join(dict.fromkeys(part.check for part in foreign))
        raise Seq2AttnError(f"{names}: {rule}: {reason}", hint=f"Check it: {checks}")


def _broken(check: Callable[[Tried], None], make: Callable[[], Tried], device: torch.device | None = None) -> str:
    """What breaks the rule that `check` is about; the empty string if nothing does."""
    with torch.random.fork_rng(devices=[device] if device is not None and device.type == "cuda" else []):
        torch.manual_seed(0)
        try:
            check(make())
        except Broken as error:
            return str(error)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            known = error if isinstance(error, Seq2AttnError) else plugin_error(error)
            first, *_ = str(error).strip().splitlines() or [""]
            return known.message if known else f"raised {type(error).__name__}{f': {first}' if first else ''}"
    return ""
