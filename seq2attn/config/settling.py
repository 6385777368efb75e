"""What is written about parts that were not chosen: moved from its older spelling, dropped, or reported.

Release 0.1 wrote every setting of every part, whatever was chosen, and runs hold such configs. So a setting that the chosen
part does not own is dropped where it has its default. An override that chooses another part also drops those settings of
the file that the new part does not own. Everything else that would have no effect is an error.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from seq2attn.config.describing import describe_errors, kind_of
from seq2attn.config.keys import CHOICES, OLDER
from seq2attn.config.schema import (
    ARCHITECTURES,
    Config,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    architecture_of,
)
from seq2attn.errors import Problem, Seq2AttnError, shown
from seq2attn.registry import Choice

Values = dict[str, Any]

_WHY_NOT = {
    "model.attention.score": "its attention is the scaled dot product, by definition",
    "model.attention.mask_padding": "its layers always mask padding",
    "model.attention.window": "windows follow a recurrent decoder's state step by step",
    "model.attention.history": "history is handed from step to step of a recurrent decoder",
    "model.attention.scalable_softmax": "PyTorch's layers have a plain softmax",
    "model.embedding": "its embeddings are as wide as everything else, model.hidden",
    "model.cell": "it has no recurrent cell",
    "model.decoder": "the arrangement is a recurrent decoder's",
    "model.bidirectional": "its encoder has no direction",
}
"""keys of recurrent models -> why a Transformer only accepts their defaults; it ignores `initial_state`"""


def get_at(values: Any, key: str) -> Any:
    """What is written at a dotted key; None where nothing is."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def set_at(values: Values, key: str, value: Any) -> None:
    """Write `value` at a dotted key of `values`. The name of a choice leaves its options as they are."""
    *above, last = key.split(".")
    for depth, part in enumerate(above, start=1):
        path, inner = ".".join(above[:depth]), values.get(part)
        if isinstance(inner, str) and path in CHOICES:
            inner = {"name": inner}
        if inner is not None and not isinstance(inner, dict):
            raise Seq2AttnError(f"{path} has no keys below it")
        values[part] = inner or {}
        values = values[part]
    if key in CHOICES and isinstance(value, str) and isinstance(values.get(last), dict):
        values, last = values[last], "name"
    values[last] = value


def move_older(values: Values, places: dict[str, str]) -> list[Problem]:
    """Move what `values` spell in the old way, and its `places`; returns what cannot be moved.

    `model.transformer` stays: where it belongs depends on the architecture.
    """
    problems = []
    for old, new in OLDER.items():
        section = get_at(values, old.rpartition(".")[0])
        name = old.rpartition(".")[2]
        if not isinstance(section, dict) or name not in section or new == "model":
            continue
        value = section[name]
        if new in CHOICES and not isinstance(value, dict):
            problems.append(Problem(old, f"expected keys and values (a mapping), found {kind_of(value)}"))
        del section[name]
        pairs = value.items() if isinstance(value, dict) else [("", value)] if new not in CHOICES else []
        for option, given in pairs:
            key, written = (f"{new}.{option}", f"{old}.{option}") if option else (new, old)
            if get_at(values, key) is not None:
                problems.append(Problem(written, f"is called {key} now, which is written too; keep one"))
                continue
            set_at(values, key, given)
            places[key] = places.get(written, places.get(old, ""))
    return problems


def settle(values: Values, overridden: set[str], places: dict[str, str]) -> list[Problem]:
    """Drop from `values` what has no effect and may be dropped; returns what may not. `overridden` are keys."""
    for key in CHOICES:
        _settle_choice(values, key, overridden)
    model = values.get("model")
    if not isinstance(model, dict):
        return []
    problems = _settle_sizes(model, places)
    others = set().union(*(section.model_fields for section in ARCHITECTURES.values()))
    foreign = {
        key: model[key] for key in others - ARCHITECTURES[architecture_of(model)].model_fields.keys() if key in model
    }
    for key in foreign:
        del model[key]
    if "architecture" in model and model["architecture"] not in list(
        ARCHITECTURES
    ):  # reported by the schema; nothing else can be said
        return problems
    if architecture_of(model) == "transformer":
        return problems + _recurrent_problems(foreign)
    return problems + [_transformer_problem(f"model.{key}") for key in foreign]


def _settle_choice(values: Values, key: str, overridden: set[str]) -> None:
    """Drop the options of the choice at `key` that its part does not own, where they may be dropped."""
    part, written = CHOICES[key], get_at(values, key)
    if not isinstance(written, dict):
        return
    try:
        owned = part.registry.get(written.get("name", part.default)).options
    except (Seq2AttnError, TypeError):  # reported by the schema
        return
    renamed = bool({key, f"{key}.name"} & overridden)
    for option in [option for option in written if option not in (*owned, "name")]:
        owners = part.registry.owners(option)
        is_default = any(owner.options[option].default == written[option] for owner in owners)
        if is_default or (owners and renamed and f"{key}.{option}" not in overridden):
            del written[option]


def _settle_sizes(model: Values, places: dict[str, str]) -> list[Problem]:
    """Move `model.transformer`, as release 0.1 had it, to where a Transformer has it now."""
    sizes = model.get("transformer")
    if not isinstance(sizes, dict):
        return []
    del model["transformer"]
    problems = []
    for name, value in sizes.items():
        old, key = f"model.transformer.{name}", f"model.{name}"
        field = TransformerConfig.model_fields.get(name) if name not in ModelConfig.model_fields else None
        if architecture_of(model) == "transformer" or field is None:
            if name in model:
                problems.append(Problem(old, f"is called {key} now, which is written too; keep one"))
            model.setdefault(name, value)
            places[key] = places.get(old, "")
        elif value != field.default:
            problems.append(_transformer_problem(old))
    return problems


def _transformer_problem(path: str) -> Problem:
    message = "has no effect with architecture 'gru'; set model.architecture to transformer, or leave this out"
    return Problem(path, message, rests_on=("model.architecture",))


def _recurrent_problems(foreign: Values) -> list[Problem]:
    """What is wrong with the settings of recurrent models that stand in the config of a Transformer."""
    try:
        found = Config.model_validate({"model": foreign}).model
    except ValidationError as error:
        return describe_errors(error)
    assert isinstance(found, RecurrentConfig)
    plain = RecurrentConfig()
    problems = []
    for path, why in _WHY_NOT.items():
        section, default = (found.attention, plain.attention) if "attention" in path else (found, plain)
        name = path.rpartition(".")[2]
        value, wanted = getattr(section, name), getattr(default, name)
        if value != wanted:
            message = f"{_yaml(value)} does not go with architecture 'transformer': {why}; "
            message += f"set it to {_yaml(wanted).strip(chr(39))}, or model.architecture to gru"
            problems.append(Problem(path, message, rests_on=("model.architecture",)))
    return problems


def _yaml(value: object) -> str:
    value = value.name if isinstance(value, Choice) else value
    return str(value).lower() if isinstance(value, bool) else shown(value)
