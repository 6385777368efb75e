"""Everything that a config can name: the catalogue `parts.toml` as registries, and what plug-ins
register beside it.

Nothing here imports torch: `seq2attn list` and checking a config are instant. CONTRIBUTING.md says
how to add a part.
"""

import inspect
import json
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, create_model

from seq2attn.errors import Seq2AttnError, character_name, quoted
from seq2attn.registry import Entry, Options, Registry, composed

LONGEST = 100_000  # positions of a string, as in parts.toml
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ACCENTED = "".join(filter(str.isalpha, map(chr, range(0xC0, 0x104))))
SYMBOLS = LETTERS + LETTERS.upper() + DIGITS + _ACCENTED
"""128 letters and digits: those of ASCII, then the letters from À (U+00C0) to ă (U+0103)"""


# ---- options ----


def _alphabet(alphabet: str) -> str:
    """Return an alphabet as it is. Raises `ValueError` if it repeats a character."""
    repeated = sorted(character for character, count in Counter(alphabet).items() if count > 1)
    if repeated:
        raise ValueError(f"repeats {', '.join(map(character_name, repeated))}")
    return alphabet


def _column(column: Any) -> int | str:
    """Return a column's number, or its name."""
    if (isinstance(column, str) and column) or (type(column) is int and 1 <= column <= 1000):
        return column
    raise ValueError(f"must be a column's number, from 1 to 1,000, or its name; found {column!r}")


_CHECKS: dict[str, Callable[[Any], Any]] = {"alphabet": _alphabet, "column": _column}
_TYPES = {"bool": bool, "int": int, "float": float, "str": str}


def options(tables: Mapping[str, Mapping[str, Any]]) -> type[Options]:
    """Return the model of the options of a part.

    tables: what parts.toml has of each option, by its name: the arguments of `_option`, of which
        only `type` and `meaning` have to be there.
    """
    fields: dict[str, Any] = {name: _option(**table) for name, table in tables.items()}
    with warnings.catch_warnings():
        # pydantic warns of an option that is called as a method of the model, such as `copy`
        warnings.simplefilter("ignore")
        return create_model("Options", __base__=Options, **fields)


def _option(
    type: str | list[str],
    meaning: str,
    default: Any = None,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    pattern: str = ".*",
    must: str = "",
    check: str = "",
    is_file: bool = False,
) -> tuple[Any, Any]:
    """Return the type and the field of an option, as pydantic takes them; a default of None means
    that null is allowed.

    type: one of `_TYPES`, or a list of the words that are allowed; for any other name, such as
        "column", which is a number or a text, `check` decides.
    meaning: what `seq2attn list` says of it.
    minimum, maximum: limits, which are allowed themselves. above: a limit that is not.
    pattern: a regular expression that all of a value matches, as text. must: this in words.
    check: one of `_CHECKS`, which returns the value, perhaps changed, or raises `ValueError`.
    is_file: True for the path of a data file, which a config resolves relative to itself. Other
        text is kept in Unicode's normal form C.
    """
    kind: Any = Literal[*type] if isinstance(type, list) else _TYPES.get(type, Any)

    def checked(value: Any) -> Any:
        if isinstance(value, str) and not is_file:
            value = composed(value)
        if not re.fullmatch(pattern, str(value), re.DOTALL):
            raise ValueError(f"must {must}; found {quoted(value)}")
        return _CHECKS[check](value) if check else value

    kind = Annotated[kind, AfterValidator(checked)]
    field = Field(default, ge=minimum, le=maximum, gt=above, description=meaning)
    return kind | None if default is None else kind, field


# ---- the catalogue ----

_CATALOGUE = tomllib.loads(Path(__file__).with_name("parts.toml").read_text(encoding="utf-8"))


KINDS: dict[str, Registry] = {}
"""the parts of each kind, such as `scores`"""


def _registry(kinds: str, kind: str, config_key: str, default: str = "") -> Registry:
    """Return the parts of one kind, in the order of the catalogue, and keep them in `KINDS`.

    kinds: what the catalogue and `KINDS` call these parts, such as "scores". kind: what messages
        call one of them, such as "score".
    config_key: the key of a config that chooses one of them.
    default: the part of a config that names none; "": the first one.
    """
    KINDS[kinds] = registry = Registry(kind, config_key, default)
    for name, about in _CATALOGUE[kinds].items():
        chosen = about.get("options")
        if isinstance(chosen, str):  # a part listed above, which has the same options
            about["options"] = registry.get(chosen).options
        elif chosen:
            about["options"] = options(chosen)
            about["files"] = [name for name, table in chosen.items() if "is_file" in table]
        registry.add(Entry(name, **about))
    return registry


SCORES = _registry("scores", "score", "model.attention.score", "scaled")
TASKS = _registry("tasks", "task", "task")
NORMALISERS = _registry("normalisers", "normaliser", "model.attention.normaliser")
WINDOWS = _registry("windows", "window", "model.attention.window")
HISTORIES = _registry("histories", "history", "model.attention.history")
CELLS = _registry("cells", "cell", "model.cell")
ENCODERS = _registry("encoders", "encoder", "model.encoder")
DECODERS = _registry("decoders", "decoder", "model.decoder")
INITIAL_STATES = _registry("initial-states", "initial state", "model.initial_state", "bridge")
LOSSES = _registry("losses", "loss", "training.losses")
EXTENSIBLE = [*KINDS.values()]
"""the kinds so far: those that plug-ins can add to"""
ARCHITECTURES = _registry("architectures", "architecture", "model.architecture")
SCHEDULES = _registry("schedules", "schedule", "training.schedule")
FAMILIES = _registry("families", "family", "evaluation.families")
RANDOM = "random"
"""the family that every task has"""


# ---- what plug-ins register ----

PartType = TypeVar("PartType", bound=type)


def register(
    name: str,
    *,
    formula: str = "",
    source: str = "",
    synonyms: tuple[str, ...] = (),
    equal_widths: bool = False,
) -> Callable[[PartType], PartType]:
    """Register the decorated class as the part `name`; its base class determines the kind.

    Its options are the parameters of the constructor that have a default, and are bool, int, float
    or str by annotation or, without it, by their default: `width: int | None = None`. A line of the
    class's docstring such as `width: the hidden layer's width` is an option's meaning; a class
    attribute `limits = {"width": (1, None)}` its smallest and largest value. The summary is the
    docstring's first line.

    name: the name in a config.
    formula, source: for `seq2attn list`: what it computes, and the paper that describes it.
    synonyms: other names, which a config may use, too.
    equal_widths: for a score function, True to refuse configs whose queries and keys differ in
        width.
    """

    def decorate(cls: PartType) -> PartType:
        """Add the class to the registry of its kind, which its base class has as an attribute, and
        return the class. Raises `Seq2AttnError` for a class without such a base class, for one that
        cannot be made as a part is (`_options_of`), and for a name that another class has.
        """
        registry = getattr(cls, "registry", None)
        if not isinstance(registry, Registry):
            raise Seq2AttnError(
                f"@register({name!r}) decorates {cls.__name__}, which is not a part that a config "
                "can name",
                hint="Decorate a class derived from seq2attn's Score, Normaliser, Window, History, "
                "Cell, Encoder, Decoder, InitialState, Loss, StringTask or Task.",
            )
        first_line, _, _ = (cls.__doc__ or "").strip().partition("\n")
        entry = Entry(
            name,
            formula,
            first_line,
            source,
            cls,
            options=options(_options_of(cls, f"{registry.kind} {name!r}")),
            synonyms=synonyms,
            equal_widths=equal_widths,
            # attributes that the base class of one kind has: a history, a decoder, an encoder
            makes_weights=getattr(cls, "makes_weights", False),
            needs_attention=getattr(cls, "needs_attention", False),
            is_recurrent=getattr(cls, "is_recurrent", False),
        )
        registry.add(entry)
        return cls

    return decorate


def _options_of(cls: type, part: str) -> dict[str, dict[str, Any]]:
    """Return the options of a part's class, as `signature_options` does. Raises `Seq2AttnError` for
    a class that cannot be a part: one that lacks a method, or whose constructor needs more than
    every part of its kind is given, or takes less.

    part: its kind and name, for messages.
    """
    # (`__abstractmethods__` would say so of classes derived from `ABC` only)
    missing = inspect.getmembers(cls, lambda one: getattr(one, "__isabstractmethod__", False))
    if missing:
        names = ", ".join(name for name, _ in missing)
        raise Seq2AttnError(f"{part}: class {cls.__name__} does not define {names}")
    # The base class of its kind, such as `Score`, needs what every part of that kind is given. This
    # class takes the same first; whatever it needs beyond that, no config could leave out.
    base = next(parent for parent in cls.__mro__ if "registry" in vars(parent))
    provided = inspect.getfullargspec(base).args[1:]  # without `self`
    try:
        inspect.signature(cls).bind(*provided)  # names stand for values: only their number counts
    except TypeError as error:  # such as: missing a required argument: 'factor'
        raise Seq2AttnError(
            f"{part}: {cls.__name__} cannot be made: {error}",
            hint=f"Its constructor takes what that of {base.__name__} takes. A config may leave "
            "options out, so each has a default: width: int = 8, for example.",
        ) from None
    return signature_options(cls)


def signature_options(cls: type) -> dict[str, dict[str, Any]]:
    """Return the options of a class as parts.toml would have them, by name. They are the parameters
    of its constructor that have a default and one of the types bool, int, float and str, by
    annotation, or by the default if the annotation has none of these. A parameter of several of
    these types is not an option, nor is one whose name begins with `_`.

    An option's meaning is a line `NAME: meaning` of the class's docstring, or its default in words
    if there is none; its limits are those that the class attribute `limits` has for it, (minimum,
    maximum).
    """
    try:
        parameters = inspect.signature(cls, eval_str=True).parameters
    except Exception:
        # an annotation names something that is not imported at run time: annotations then stay as
        # they are, and types are those of the defaults where they are text
        parameters = inspect.signature(cls).parameters
    limits = getattr(cls, "limits", {})
    text = cls.__doc__ or ""
    tables = {}
    for name, parameter in parameters.items():
        default = parameter.default
        types = _types_of(parameter)
        if len(types) == 1 and default is not parameter.empty and not name.startswith("_"):
            # `NAME: meaning`, and the lines below it that are indented further
            line = re.search(rf"^( *){name}: *(.+(?:\n\1 +.+)*)", text, re.MULTILINE)
            meaning = " ".join(line[2].split()) if line else f"default: {json.dumps(default)}"
            bounds = dict(zip(("minimum", "maximum"), limits.get(name, ()), strict=False))
            tables[name] = {"type": types[0], "meaning": meaning, "default": default, **bounds}
    return tables


def _types_of(parameter: inspect.Parameter) -> list[str]:
    """Return the names of those of `_TYPES` that a parameter may have, by its annotation, such as
    `int | None`, or if that names none of them, by its default.
    """
    annotated = (parameter.annotation, *get_args(parameter.annotation))
    types = [name for name, kind in _TYPES.items() if kind in annotated]
    return types or [name for name, kind in _TYPES.items() if kind is type(parameter.default)]
