"""Tries parts against their contract: any registered part alone, and before training those that a
config chose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from seq2attn.build import build_task
from seq2attn.config import Config, check_config
from seq2attn.config.schema import PARTS
from seq2attn.contract import models, tasks
from seq2attn.contract.models import make_subject
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.plugins import described, foreign_parts, how_to_check, plugin_error
from seq2attn.registry import place_of

MODELS: tuple[dict[str, Any], ...] = (
    {"bidirectional": True, "attention": {"score": "general"}},
    {"decoder": "luong", "attention": {"window": "local_m"}},
    {
        "cell": "lstm",
        "layers": 2,
        "attention": {"score": "additive", "window": "local_m", "history": "location"},
    },
)
"""settings of the tiny models in which a part takes its place"""


def check_part(kind: str, name: str, **options: Any) -> dict[str, str]:
    """Each rule of this part with these options, up to the first that is broken: what breaks it, or
    nothing. `shape` is tried in float32, as in training, the others in float64.

    The rules build on each other: what breaks one often breaks those after it too.
    """
    key, registry = next(pair for pair in PARTS.items() if pair[1].kind == kind)
    part = registry.load(name)

    def make(settings: dict[str, Any], dtype: torch.dtype) -> Any:
        model = {"hidden": 4, "embedding": 3, **settings}
        values = {"model": model, "task": {"alphabet": "abc"}, "evaluation": {"lengths": [1]}}
        config = check_config(values, {key: {"name": name, **options}})
        task = build_task(config)
        if kind == "task":
            return task
        return make_subject(config, task, [part], dtype, torch.device("cpu"))

    rules = tasks.RULES if kind == "task" else models.RULES
    places = (
        [{}]
        if kind == "task"
        else [{} if registry.get(name).equal_widths else MODELS[0], *MODELS[1:]]
    )
    results: dict[str, str] = {}
    for rule, check in rules.items():
        dtype = torch.float32 if rule == "shape" else torch.float64
        reasons = (_broken(check, partial(make, settings, dtype), part) for settings in places)
        results[rule] = next(filter(None, reasons), "")
        if results[rule]:
            break
    return results


def check_parts(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in or of an installed package that `config` chose
    breaks its contract.

    The model is made anew and thrown away, and torch's generators stay as they are: what training
    then computes does not depend on this. Does nothing for a config without such parts.
    """
    foreign = foreign_parts(config)
    of_task = [cls for cls in foreign if issubclass(cls, Task)]
    of_model = [cls for cls in foreign if cls not in of_task]
    lengths = config.evaluation.lengths or task.trained_lengths
    examples = {"examples": partial(tasks.check_examples, lengths=lengths)}
    trial = partial(make_subject, config, task, of_model, torch.get_default_dtype(), device)
    rules_of: list[Any] = [
        (of_task, examples, lambda: task),
        (of_model, models.WHILE_TRAINING, trial),
    ]
    for classes, rules, make in rules_of:
        for rule, check in rules.items() if classes else ():
            reason = _broken(check, make, device=device)
            if reason:
                hint = f"Check it: {'; '.join(dict.fromkeys(map(how_to_check, classes)))}"
                raise Seq2AttnError(
                    f"{' and '.join(map(described, classes))}: {rule}: {reason}", hint=hint
                )


def _broken(
    check: Callable[[Any], None],
    make: Callable[[], Any],
    part: type | None = None,
    device: torch.device | None = None,
) -> str:
    """What breaks the rule that `check` is about, for what `make` returns; the empty string if
    nothing does.

    part: the class whose place is named.
    """
    with torch.random.fork_rng(
        devices=[device] if device is not None and device.type == "cuda" else []
    ):
        torch.manual_seed(0)
        subject = make()  # a part that cannot be made says so itself
        try:
            check(subject)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            where = "" if part is None else f"{place_of(part, error)}: "
            raised = (
                ""
                if isinstance(error, Seq2AttnError | models.Broken)
                else f"raised {type(error).__name__}: "
            )
            explained = plugin_error(error)
            return explained.message if explained else f"{where}{raised}{error}".partition("\n")[0]
    return ""
