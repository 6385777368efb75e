"""Registries: the names that a config can use for score functions, tasks, windows and so on, their
options and classes.

The options of a part are a pydantic model, made from its line in `parts.py` or from the constructor
of a plug-in's class. A class is imported, and with it torch, when it is first needed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from pydantic import BaseModel
from pydantic_core import core_schema

from seq2attn.errors import Seq2AttnError
from seq2attn.options import Options, option, options
from seq2attn.text import did_you_mean, quoted, short_path


@dataclass(frozen=True)
class Entry:
    """One name that a config can use.

    `implementation` is a class, `"module:Class"` to import when needed (`".model.scores:Dot"`
    within seq2attn), or None. Score functions also have the number of their parameters, and whether
    query and key widths must be equal; histories, whether they make the weights themselves,
    whatever the normaliser; decoders, whether they work only with attention.
    """

    name: str
    formula: str = ""
    summary: str = ""
    source: str = ""
    implementation: str | type | None = None
    options: type[BaseModel] = Options
    synonyms: tuple[str, ...] = ()
    parameters: str = ""
    equal_widths: bool = False
    own_weights: bool = False
    needs_attention: bool = False

    def load(self) -> Any:
        """The class that implements the entry."""
        if not isinstance(self.implementation, str):
            return self.implementation
        module, _, attribute = self.implementation.partition(":")
        return getattr(importlib.import_module(module, "seq2attn"), attribute)

    @property
    def files(self) -> tuple[str, ...]:
        """The options that name a data file; empty for a part that reads none."""
        return tuple(
            name for name, one in self.options.model_fields.items() if one.json_schema_extra
        )


class Registry:
    """The entries of one kind, by name and synonym.

    `Annotated[Options, registry]` is the type of a config key that chooses one of them: a name, or
    a mapping of the name, under `key`, and its options. Names are looked up when a config is
    checked, so that those of plug-ins are known.
    """

    def __init__(
        self,
        kind: str,
        entries: Sequence[Entry],
        *,
        default: str = "",
        group: str = "",
        key: str = "name",
    ) -> None:
        self.kind = kind
        self.default = default or entries[0].name
        self.group = group  # the entry point group in which installed packages offer such parts
        self.key = key
        self._entries: dict[str, Entry] = {}  # by name and synonym
        for entry in entries:
            self.add(entry)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for name, entry in self._entries.items() if name == entry.name)

    def names(self) -> list[str]:
        """Every name, without synonyms, in order of registration."""
        return [entry.name for entry in self]

    def add(self, entry: Entry) -> None:
        """Register an entry. Raises if a name or synonym is already taken."""
        names = (entry.name, *entry.synonyms)
        for name in filter(self._entries.__contains__, names):
            raise Seq2AttnError(f"{self.kind} {name!r} is already registered; choose another name")
        self._entries |= dict.fromkeys(names, entry)

    def forget(self, module: str) -> None:
        """Remove the entries whose classes are from this module."""
        kept = [
            item
            for item in self._entries.items()
            if getattr(item[1].implementation, "__module__", "") != module
        ]
        self._entries = dict(kept)

    def get(self, name: str) -> Entry:
        """The entry with this name or synonym. Raises `Seq2AttnError`, which lists the allowed
        names.
        """
        entry = self._entries.get(name) or self._discover(name)
        if entry is None:
            guess = did_you_mean(name, self._entries)
            raise Seq2AttnError(
                f"unknown {self.kind} {quoted(name)}; {guess}allowed: {', '.join(self.names())}"
            )
        return entry

    def load(self, name: str) -> Any:
        """The class registered as `name`."""
        return self.get(name).load()

    def choose(self, name: str | None = None, **values: Any) -> Any:
        """`name`, or the default, with these options, and defaults for the others, as a config
        holds it.
        """
        return self.read({self.key: name or self.default, **values})

    def make(self, part: Options, *provided: Any, **more: Any) -> Any:
        """The part that was chosen: its class, called with `provided`, the options and `more`; None
        if it has no class.
        """
        cls = self.load(part.name)
        keywords = {name: value for name, value in part if name != "name"}
        try:
            return None if cls is None else cls(*provided, **keywords, **more)
        except Seq2AttnError:
            raise
        except Exception as error:
            raise Seq2AttnError(
                f"{place_of(cls, error)}: {self.kind} {part.name!r} cannot be made: {type(error).__name__}: {error}",
                hint="Its constructor takes what that of its base class takes, and first calls super().__init__ with it.",
            ) from error

    # ---- as the type of a config's key ----

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def read(self, value: Any) -> Any:
        """`"location"` or `{"name": "location", "kernel": 7}` -> the chosen part; raises pydantic's
        errors for wrong values.

        A mapping without a name means the default.
        """
        values = dict(value) if isinstance(value, Mapping | BaseModel) else {self.key: value}
        entry = self.get(str(values.setdefault(self.key, self.default)))
        return entry.options.model_validate({**values, self.key: entry.name})

    # ---- installed packages ----

    def installed(self) -> dict[str, str]:
        """Parts of installed packages: entry point name -> "module:Class", read without importing
        them.
        """
        from importlib.metadata import entry_points

        return (
            {point.name: point.value for point in entry_points(group=self.group)}
            if self.group
            else {}
        )

    def _discover(self, name: str) -> Entry | None:
        target = self.installed().get(name)
        if target is None:
            return None
        try:
            Entry(name, implementation=target).load()
            return self._entries[name]
        except Exception as error:
            problem = f"{self.kind} {name!r} of an installed package, {target}, cannot be imported or is not registered"
            raise Seq2AttnError(f"{problem}: {type(error).__name__}: {error}") from error


PartType = TypeVar("PartType", bound=type)


def register(
    name: str,
    *,
    formula: str = "",
    source: str = "",
    synonyms: tuple[str, ...] = (),
    equal_widths: bool = False,
) -> Callable[[PartType], PartType]:
    """Class decorator: register a part as `name`; its base class determines the kind.

    Its options are the parameters of the constructor that have a default, and are bool, int, float
    or str by annotation or, without it, by their default: `width: int | None = None`. A line of the
    class's docstring such as `width: the hidden layer's width` is an option's meaning; a class
    attribute `limits = {"width": (1, None)}` its smallest and largest value. The summary is the
    docstring's first line. `equal_widths`, for a score function, refuses configs whose queries and
    keys differ in width.
    """

    def decorate(cls: PartType) -> PartType:
        registry = getattr(cls, "registry", None)
        if not isinstance(registry, Registry):
            message = f"@register({name!r}) decorates {cls.__name__}, which is not a part that a config can name"
            kinds = "Score, Normaliser, Window, History, Cell, Decoder, InitialState, StringTask or Task"
            raise Seq2AttnError(message, hint=f"Decorate a class derived from seq2attn's {kinds}.")
        missing = [
            name
            for name in dir(cls)
            if getattr(getattr(cls, name, None), "__isabstractmethod__", False)
        ]
        if missing:
            raise Seq2AttnError(
                f"{registry.kind} {name!r}: class {cls.__name__} does not define {', '.join(missing)}"
            )
        base = next(parent for parent in cls.__mro__ if "registry" in vars(parent))
        for needed in _needed(cls)[
            len(_needed(base)) :
        ]:  # beyond what parts of its kind are made with
            message = (
                f"{registry.kind} {name!r}: option {needed!r} of {cls.__name__} has no default"
            )
            raise Seq2AttnError(
                message,
                hint=f"A config may leave options out: write {needed}: int = 8, for example.",
            )
        fields = signature_options(cls)
        if "name" in fields:
            raise Seq2AttnError(
                f"{registry.kind} {name!r} has an option called 'name', which names the part itself"
            )
        summary = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0]
        bases = {
            f"{parent.__module__.removeprefix('seq2attn')}:{parent.__qualname__}"
            for parent in cls.__mro__
        }
        inherited = any(
            entry.own_weights
            for entry in registry
            if {entry.implementation} & {*bases, *cls.__mro__}
        )
        entry = Entry(
            name,
            formula,
            summary,
            source,
            cls,
            options(**fields),
            synonyms,
            equal_widths=equal_widths,
        )
        registry.add(replace(entry, own_weights=inherited))
        return cls

    return decorate


def place_of(part: type, error: BaseException | None = None) -> str:
    """`mine.py:7`: the last line of the part's module that the error passed through, or the first
    line of its class.
    """
    trace = traceback.walk_tb(error.__traceback__ if error else None)
    lines = [line for frame, line in trace if frame.f_globals.get("__name__") == part.__module__]
    try:
        return f"{short_path(inspect.getfile(part))}:{lines[-1] if lines else inspect.getsourcelines(part)[1]}"
    except (OSError, TypeError):
        return "interpreter"


def _needed(cls: type) -> list[str]:
    """The parameters of the constructor that have no default."""
    parameters = inspect.signature(cls).parameters.values()
    return [
        one.name
        for one in parameters
        if one.default is one.empty and not one.kind.name.startswith("VAR_")
    ]


def signature_options(cls: type) -> dict[str, tuple[Any, Any]]:
    """The parameters of the constructor that have a plain default, as options."""
    try:
        signature = inspect.signature(cls, eval_str=True)
    except Exception:  # an annotation that names something not imported at run time
        signature = inspect.signature(cls)
    fields, limits, basic = {}, getattr(cls, "limits", {}), (bool, int, float, str)
    unknown = [name for name in limits if name not in signature.parameters]
    if unknown:
        raise Seq2AttnError(
            f"limits of {cls.__name__} name {', '.join(unknown)}, which its constructor does not take"
        )
    for name, parameter in signature.parameters.items():
        default = parameter.default
        kinds = (parameter.annotation, *get_args(parameter.annotation))
        plain = [kind for kind in basic if kind in kinds] or [
            kind for kind in basic if kind is type(default)
        ]
        if len(plain) == 1 and default is not parameter.empty and not name.startswith("_"):
            described = re.search(
                rf"^ *{name}: *(.+(?:\n +.+)*)", inspect.cleandoc(cls.__doc__ or ""), re.MULTILINE
            )
            meaning = (
                " ".join(described[1].split()) if described else f"default: {json.dumps(default)}"
            )
            fields[name] = option(plain[0], default, meaning, *limits.get(name, ()))
    return fields
