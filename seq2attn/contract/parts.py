"""Checks parts against their contract: any registered part alone, and before training those that a
config chose. The rules are in `models.py` and `tasks.py`. And registered scores, as what any
attention's scores are compared with.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seq2attn.build import build_losses, build_task
from seq2attn.config import Config, check_config, load_config
from seq2attn.contract import models
from seq2attn.contract.subject import make_subject, scores_of
from seq2attn.contract.tasks import (
    CPU,
    DRAWN,
    LOSS_RULES,
    TASK_RULES,
    check_examples,
    draw_outputs,
    loss_of,
)
from seq2attn.data.tasks import Task
from seq2attn.errors import Seq2AttnError, error_text, is_out_of_memory, line_of
from seq2attn.findings.engine import Found, Rule, Rules, first
from seq2attn.model.interface import Loss
from seq2attn.model.scores import Score
from seq2attn.parts import EXTENSIBLE, SCORES
from seq2attn.plugins import described, file_of, foreign_parts, how_to_check, plugin_error
from seq2attn.registry import Options

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
MASKED: dict[str, Any] = {"model.attention.mask_padding": True}
"""the setting that a config is checked with: without the mask results depend on padding, which
rules forbid"""
ALL_STEPS_AT_ONCE = MASKED | {
    "model.decoder": {"name": "luong"},  # without the options of another `luong`
    "model.attention.history": {"name": "none"},
}
"""the same, with what lets a part see several queries in one call, as many decoders and histories
never do"""


def check_part(kind: str, name: str) -> dict[str, str]:
    """Check a part with its default options, up to the first rule that it breaks. Returns, for
    each rule that was checked, by name, how the part breaks it, or an empty string if it does not.

    kind, name: those of the part in its registry, such as "score" and "dot".

    A task or a loss is checked by itself, another part in tiny models of several settings. `shape`
    is checked in float32, as in training, the others in float64.

    The rules build on each other: what breaks a rule often breaks those after it too. The last one
    is `options`: another value of each option that is a number or a truth value changes something.

    What a part raises while it is made is raised.
    """
    (registry,) = [one for one in EXTENSIBLE if one.kind == kind]
    entry = registry.get(name)
    part = entry.load()  # its class
    # The first of `MODELS` is bidirectional, so that its keys are wider than its queries. A part
    # that does not take such keys, or an encoder that is not recurrent, and so has no directions,
    # gets the default settings, {}, in its place.
    takes_wide_keys = not entry.equal_widths and (kind != "encoder" or entry.is_recurrent)
    variants = [MODELS[0] if takes_wide_keys else {}, *MODELS[1:]]  # settings of models
    rules_without_model = {"task": TASK_RULES, "loss": LOSS_RULES}
    rules = rules_without_model.get(kind, models.RULES)
    if kind in rules_without_model:
        variants = [{}]  # there is no model to vary

    def make(settings: dict[str, Any], dtype: torch.dtype, **changed: Any) -> Any:
        """Return what rules are checked on: a task, a loss, or a tiny model with the part, with
        these settings, in this dtype. changed: other values of the part's options.
        """
        model = {"hidden": 4, "embedding": 3, **settings}
        values = {"model": model, "task": {"alphabet": "abc"}}
        config = check_config(values, {registry.config_key: {"name": name, **changed}})
        if kind == "loss":
            return config.training.losses[0].make()  # the schema makes a list of one
        task = build_task(config)
        return task if kind == "task" else make_subject(config, task, [part], dtype, CPU)

    def results_with(**changed: Any) -> list[Tensor]:
        """Return what the part computes with other values of some options, in every variant."""
        results = []
        for settings in variants:
            results += _results(make(settings, torch.float64, **changed))
        return results

    found: dict[str, str] = {}
    for rule, check in rules.items():
        dtype = torch.float32 if rule == "shape" else torch.float64
        for settings in variants:
            found[rule] = _reason(check, make(settings, dtype), part)
            if found[rule]:
                return found
    chosen = registry.choose(name)
    found["options"] = _reason(partial(_check_options, results_with), chosen, part)
    return found


def check_parts(config: Config, task: Task, device: torch.device) -> None:
    """Raise `Seq2AttnError` if a part of a plug-in that `config` chose breaks its contract, in the
    model of `config`, with `MASKED`, or in the same with `ALL_STEPS_AT_ONCE`.

    What training then computes does not depend on this: models are made anew and thrown away, and
    torch's generator stays as it is, since `build_model`, which `make_subject` calls, and `_reason`
    fork it. Does nothing for a config without such parts.
    """
    foreign = foreign_parts(config)
    of_task = [cls for cls in foreign if issubclass(cls, Task)]
    if of_task:
        lengths = config.evaluation.lengths or task.trained_lengths  # those to be evaluated
        examples = partial(check_examples, lengths=lengths)
        _require(of_task, {"examples": examples}, lambda: task, device)
    of_model = [cls for cls in foreign if not issubclass(cls, Task | Loss)]
    if of_model:
        dtype = torch.get_default_dtype()  # that of training
        for changes in (MASKED, ALL_STEPS_AT_ONCE):
            variant = load_config(config, changes)
            new_model = partial(make_subject, variant, task, of_model, dtype, device)
            _require(of_model, models.WHILE_TRAINING, new_model, device)
    for loss in build_losses(config).values():
        if type(loss) in foreign:
            _require([type(loss)], LOSS_RULES, lambda: loss, device)  # noqa: B023  (called before the next)


def _require(
    classes: Sequence[type], rules: Rules, make: Callable[[], Any], device: torch.device
) -> None:
    """Raise `Seq2AttnError`, which names these classes of plug-ins, if they break a rule.

    make: returns what a rule is checked on: the task, a loss, or a new model at each call, as a
        rule may change it.
    device: that of the model.
    """
    for name, rule in rules.items():
        if reason := _reason(rule, make(), device=device):
            names = " and ".join(map(described, classes))
            commands = dict.fromkeys(how_to_check(file_of(cls)) for cls in classes)
            hint = f"Check it: {'; '.join(commands)}"
            raise Seq2AttnError(f"{names}: {name}: {reason}", hint=hint)


def _reason(rule: Rule, subject: Any, part: type | None = None, device: torch.device = CPU) -> str:
    """Return how the subject breaks a rule, in one line; the empty string if it does not. An
    exception in the rule counts as a breach, too. Too little memory and Ctrl-C are raised: they are
    no fault of the part. The rule draws random numbers of seed 0; torch's generators stay as they
    are.

    part: the class whose file and line the reason names; None: it names none. device: that of the
    subject.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        try:
            finding = first(rule, subject)
            reason = finding.text if finding else ""
        except BaseException as error:  # such as SystemExit, by which a part would end everything
            if isinstance(error, KeyboardInterrupt) or is_out_of_memory(error):
                raise
            if explained := plugin_error(error):
                return explained.message  # which names the line, so that `part` need not
            refused = isinstance(error, Seq2AttnError)
            reason = str(error) if refused else f"raised {error_text(error)}"
    if reason and part is not None:
        reason = f"{line_of(part)}: {reason}"
    return reason.partition("\n")[0]


# ---- the effect of options ----


def _check_options(results_with: Callable[..., list[Tensor]], chosen: Options) -> Found:
    """Yield each option whose other values change no result. A few numbers and truth values are
    tried; an option that allows none of them, such as a text, is not judged.

    results_with: returns what the part computes, given other values of some options by name.
    chosen: the options and their usual values.
    """
    expected = results_with()
    for option, usual in chosen:
        number = usual if isinstance(usual, int | float) else 0  # 0 for None
        effects: list[bool] = []
        # an option refuses some of these, such as halves, and all of them if it is a text
        for value in (not usual, number + 2, number / 2, 1, 0):
            if value != usual and not any(effects):  # one value that has an effect is enough
                with contextlib.suppress(Exception):  # raised for a value that is not allowed
                    results = results_with(**{option: value})
                    effects.append(not all(map(torch.equal, expected, results)))
        if effects and not any(effects):  # none at all: no other value is known, or allowed
            yield "option", option


def _results(subject: Any) -> list[Tensor]:
    """Return what a task draws, a weighted loss, or a model's weights and what it computes in
    evaluation and in training: all that another value of an option may change. Seeds are fixed, so
    that nothing else changes it.

    subject: a `Task`, a `Loss` or a `Subject`.
    """
    torch.manual_seed(0)
    if isinstance(subject, Loss):
        return [subject.weight * loss_of(subject, draw_outputs())]
    if isinstance(subject, Task):
        # many, as an option may show in few of them
        drawn = subject.examples(torch.Generator().manual_seed(0), 5 * DRAWN)
        return [tensor for tensor in vars(drawn).values() if tensor is not None]
    weights = list(subject.model.state_dict().values())
    evaluated = subject.forward()
    subject.model.train()
    return [*weights, evaluated, subject.forward()]


# ---- registered scores ----


@dataclass(frozen=True)
class KnownScore:
    """A score that can be made of any widths."""

    name: str
    equal_widths: bool
    """it needs keys as wide as queries"""
    is_built_in: bool
    sizes: Sequence[str]
    """its options that are numbers of components"""

    def make(self, query_width: int, key_width: int, size: int | None = None) -> Score | None:
        """Return the score, with this number of components; None if it scores nothing."""
        options = dict.fromkeys(self.sizes, size) if size else {}
        return SCORES.choose(self.name, **options).make(query_width, key_width)


def known_scores() -> list[KnownScore]:
    """Return all registered scores."""
    known = []
    for entry in SCORES:
        fields = entry.options.model_fields.items()
        # whole numbers, `int` or `int | None`, are taken for numbers of components
        sizes = [name for name, field in fields if "int" in str(field.annotation)]
        # (the package's own are registered by their names, those of plug-ins as classes)
        is_built_in = isinstance(entry.implementation, str)
        known.append(KnownScore(entry.name, entry.equal_widths, is_built_in, sizes))
    return known


def scored(name: str) -> tuple[Any, ...]:
    """Return queries (B, L, D), keys (B, S, D), the scores (B, L, S) that the registered score
    `name` gives them, with its default options and biases of 0, and a list of its parameters: the
    fields of the doctor's `Sample`, in their order. All are drawn with seed 0; B = 8, L = 2, S = 5,
    D = 12.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        query, keys = torch.randn(8, 2, 12), torch.randn(8, 5, 12)
        score = SCORES.choose(name).make(12, 12)
        for parameter, tensor in score.named_parameters():
            if parameter.endswith("bias"):
                tensor.zero_()
        return query, keys, scores_of(score, query, keys), list(score.parameters())
