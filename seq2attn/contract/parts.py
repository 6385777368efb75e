"""Checks parts against their contract: any registered part alone, and before training those that a
config chose.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from seq2attn.build import build_task
from seq2attn.config import Config, check_config
from seq2attn.config.schema import PARTS
from seq2attn.contract import models, tasks
from seq2attn.contract.subject import Broken, make_subject
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, is_out_of_memory
from seq2attn.plugins import described, foreign_parts, how_to_check, plugin_error
from seq2attn.text import line_of

CPU = torch.device("cpu")
MODELS: tuple[dict[str, Any], ...] = (
    {"bidirectional": True, "attention": {"score": "general"}},
    {"decoder": "luong", "attention": {"window": "local_m"}},
    {
        "cell": "lstm",
        "layers": 2,
        "attention": {"score": "additive", "window": "local_m", "history": "location"},
    },
)
"""settings of the tiny models in which a part is checked"""


def check_part(kind: str, name: str, **options: Any) -> dict[str, str]:
    """Check a part with these options, up to the first rule that it breaks. Returns by rule how it
    is broken, or the empty string. `shape` is checked in float32, as in training, the others in
    float64.

    The rules build on each other: what breaks a rule often breaks those after it too.
    """
    key, registry = next(pair for pair in PARTS.items() if pair[1].kind == kind)
    part = registry.load(name)

    def make(settings: dict[str, Any], dtype: torch.dtype) -> Any:
        model = {"hidden": 4, "embedding": 3, **settings}
        values = {"model": model, "task": {"alphabet": "abc"}, "evaluation": {"lengths": [1]}}
        config = check_config(values, {key: {"name": name, **options}})
        task = build_task(config)
        return task if kind == "task" else make_subject(config, task, [part], dtype, CPU)

    rules = models.RULES
    variants = [{} if registry.get(name).equal_widths else MODELS[0], *MODELS[1:]]
    if kind == "task":
        rules = tasks.RULES
        variants = [{}]
    results: dict[str, str] = {}
    for rule, check in rules.items():
        dtype = torch.float32 if rule == "shape" else torch.float64
        for settings in variants:
            results[rule] = _reason(check, make(settings, dtype), part)
            if results[rule]:
                return results
    return results


def check_parts(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in or of an installed package that `config` chose
    breaks its contract.

    The model is made anew and thrown away, and torch's generators stay as they are: what training
    then computes does not depend on this. Does nothing for a config without such parts.
    """
    foreign = foreign_parts(config)
    of_task = [cls for cls in foreign if issubclass(cls, Task)]
    of_model = [cls for cls in foreign if not issubclass(cls, Task)]
    lengths = config.evaluation.lengths or task.trained_lengths
    examples = {"examples": partial(tasks.check_examples, lengths=lengths)}
    subject = partial(make_subject, config, task, of_model, torch.get_default_dtype(), device)
    groups: list[Any] = [
        (of_task, examples, lambda: task),
        (of_model, models.WHILE_TRAINING, subject),
    ]
    for classes, rules, make in groups:
        if not classes:
            continue
        for rule, check in rules.items():
            reason = _reason(check, make(), device=device)
            if reason:
                names = " and ".join(map(described, classes))
                commands = dict.fromkeys(map(how_to_check, classes))
                hint = f"Check it: {'; '.join(commands)}"
                raise Seq2AttnError(f"{names}: {rule}: {reason}", hint=hint)


def _reason(
    check: Callable[[Any], None],
    subject: Any,
    part: type | None = None,
    device: torch.device = CPU,
) -> str:
    """Return how the subject breaks the rule of `check`; the empty string if it does not.

    part: the class whose file and line the reason names.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        try:
            check(subject)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            if explained := plugin_error(error):
                return explained.message
            reason = str(error)
            if not isinstance(error, Seq2AttnError | Broken):
                reason = f"raised {type(error).__name__}: {reason}"
            if part is not None:
                reason = f"{line_of(part, error)}: {reason}"
            return reason.partition("\n")[0]
    return ""
