"""Registries: the names that a config can use for score functions, tasks, windows and so on, and their classes.

A registry imports a class, and with it torch, when the class is first needed. A part of your own is a subclass of the base
class of its kind, decorated with `@register("name")`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from seq2attn.errors import Seq2AttnError, did_you_mean, shown

_EXPECTED: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}


@dataclass(frozen=True)
class Option:
    """One setting of one part. A default of None means that null is allowed.

    `check` returns what is wrong with a value of the right type, or None.
    """

    type: type  # bool, int, float or str
    default: Any
    meaning: str
    least: float | None = None  # inclusive
    most: float | None = None
    check: Callable[[Any], str | None] | None = None
    is_file: bool = False  # the path of a data file; a config resolves it relative to itself

    def problem(self, value: Any) -> str | None:
        """What is wrong with `value`; None if it is valid."""
        if value is None and self.default is None:
            return None
        if not self._has_type(value):
            expected = _EXPECTED[self.type] + (" or null" if self.default is None else "")
            quotes = "; put it in quotes" if self.type is str and isinstance(value, bool | int | float) else ""
            found = "nothing" if value is None else shown(value)
            return f"expected {expected}, found {found}{quotes} ({self.meaning})"
        if self.least is not None and value < self.least:
            return f"must be at least {self.least:,}, found {shown(value)}"
        if self.most is not None and value > self.most:
            return f"must be at most {self.most:,}, found {shown(value)}"
        return self.check(value) if self.check is not None else None

    def _has_type(self, value: Any) -> bool:
        if self.type is bool or isinstance(value, bool):
            return self.type is bool and isinstance(value, bool)
        if self.type is float:
            return isinstance(value, int | float) and abs(value) <= sys.float_info.max
        return isinstance(value, self.type)


@dataclass(frozen=True)
class Choice:
    """The part that a config chose: its name and the value of each of its options, including defaults."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One name that a config can use.

    `implementation` is a class, `"package.module:Class"` to import when needed, or None. Score functions also have the
    number of their parameters, and whether query and key widths must be equal.
    """

    name: str
    formula: str
    summary: str = ""
    source: str = ""
    synonyms: tuple[str, ...] = ()
    implementation: str | type | None = None
    options: dict[str, Option] = field(default_factory=dict)
    parameters: str = ""
    equal_widths: bool = False

    def load(self) -> Any:
        """The class that implements the entry."""
        if not isinstance(self.implementation, str):
            return self.implementation
        module, _, attribute = self.implementation.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def declares(self, attribute: str) -> bool:
        """Whether the class, where it is imported already, has this attribute set to True."""
        return not isinstance(self.implementation, str) and bool(getattr(self.implementation, attribute, False))

    def defaults(self) -> dict[str, Any]:
        """The default of each option."""
        return {name: option.default for name, option in self.options.items()}

    @property
    def files(self) -> tuple[str, ...]:
        """The options that name a data file; empty for a part that reads none."""
        return tuple(name for name, option in self.options.items() if option.is_file)


class UnknownName(Seq2AttnError):
    """A name that is not registered."""


class Registry:
    """The entries of one kind, by name and synonym."""

    def __init__(self, kind: str, entries: Sequence[Entry], *, takes: str = "", group: str = "") -> None:
        self.kind = kind
        self.takes = takes  # the constructor's parameters before the options, for messages
        self.group = group  # the entry point group in which installed packages offer such parts
        self._entries: dict[str, Entry] = {}
        self._synonyms: dict[str, str] = {}
        for entry in entries:
            self.add(entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        """Every name, without synonyms, in order of registration."""
        return list(self._entries)

    def add(self, entry: Entry) -> None:
        """Register an entry. Raises if a name or synonym is already taken."""
        for name in (entry.name, *entry.synonyms):
            if name in self._entries or name in self._synonyms:
                taken = self._synonyms.get(name, name)
                raise Seq2AttnError(
                    f"{self.kind} {name!r} is already registered (it means {taken!r})",
                    hint="Choose another name for yours.",
                )
        self._entries[entry.name] = entry
        self._synonyms.update((synonym, entry.name) for synonym in entry.synonyms)

    def get(self, name: str) -> Entry:
        """The entry with this name or synonym. Raises `UnknownName`, which lists the allowed names."""
        entry = self._entries.get(self._synonyms.get(name, name)) or self._discover(name)
        if entry is None:
            guess = did_you_mean(name, [*self._entries, *self._synonyms])
            raise UnknownName(f"unknown {self.kind} {shown(name)}; {guess}allowed: {', '.join(self._entries)}")
        return entry

    def load(self, name: str) -> Any:
        """The class registered as `name`."""
        return self.get(name).load()

    def owners(self, option: str) -> list[Entry]:
        """The entries that have an option of this name."""
        return [entry for entry in self if option in entry.options]

    def choose(self, name: str, **options: Any) -> Choice:
        """`name` with these options, and defaults for the others, as a config would hold it."""
        entry = self.get(name)
        return Choice(entry.name, {**entry.defaults(), **options})

    def make(self, choice: Choice, *provided: Any) -> Any:
        """The part that `choice` names: its class, called with `provided` and the options; None if it has no class.

        An exception from the constructor becomes a `Seq2AttnError` that shows the call.
        """
        cls = self.load(choice.name)
        if cls is None:
            return None
        try:
            return cls(*provided, **choice.options)
        except Seq2AttnError:
            raise
        except Exception as error:
            positional = [repr(one) if isinstance(one, int | str) else type(one).__name__ for one in provided]
            arguments = ", ".join([*positional, *(f"{name}={value!r}" for name, value in choice.options.items())])
            takes = ", ".join(filter(None, [self.takes, "**options"]))
            hint = f"Its constructor takes ({takes}) and calls super().__init__ first."
            hint += " Or does it not accept these options?" if choice.options else ""
            raise Seq2AttnError(
                f"{self.kind} {choice.name!r} cannot be made: {cls.__name__}({arguments}) raised "
                f"{type(error).__name__}: {error}",
                hint=hint,
            ) from error

    # ---- installed packages ----

    def installed(self) -> dict[str, str]:
        """Parts of installed packages: entry point name -> "module:Class", read without importing them."""
        from importlib.metadata import entry_points

        return {point.name: point.value for point in entry_points(group=self.group)} if self.group else {}

    def _discover(self, name: str) -> Entry | None:
        target = self.installed().get(name)
        if target is None:
            return None
        try:
            alias_old_modules()
            Entry(name, formula="", implementation=target).load()
        except Exception as error:
            raise Seq2AttnError(
                f"{self.kind} {name!r} is offered by an installed package ({target}) that cannot be imported: "
                f"{type(error).__name__}: {error}",
                hint="Reinstall or remove that package.",
            ) from error
        if name not in self._entries:
            raise Seq2AttnError(
                f"{target} was imported for {self.kind} {name!r} but registered no such {self.kind}",
                hint=f'Decorate the class with @register("{name}").',
            )
        return self._entries[name]


def alias_old_modules() -> None:
    """Plug-ins for release 0.1 import `Score` and `register` from seq2attn.scores."""
    sys.modules.setdefault("seq2attn.scores", importlib.import_module("seq2attn.model.scores"))


PartType = TypeVar("PartType", bound=type)


def register(
    name: str,
    *,
    formula: str = "",
    source: str = "",
    summary: str = "",
    synonyms: tuple[str, ...] = (),
    parameters: str = "",
    equal_widths: bool = False,
) -> Callable[[PartType], PartType]:
    """Class decorator: register a part as `name`; its base class determines the kind.

    Its options are the parameters of the constructor that have a plain default: a bool, int, float or str, or None with an
    annotation such as `width: int | None = None`. A line of the class's docstring such as `width: the hidden layer's width`
    is an option's meaning; a class attribute `limits = {"width": (1, None)}` its smallest and largest value.
    The summary is the docstring's first line unless given. `equal_widths`, for a score function, refuses configs whose
    queries and keys differ in width.
    """

    def decorate(cls: PartType) -> PartType:
        registry = getattr(cls, "registry", None)
        if not isinstance(registry, Registry):
            raise Seq2AttnError(
                f"@register({name!r}) decorates {cls!r}, which is not a part that a config can name",
                hint="Derive it from the base class of its kind: "
                "from seq2attn.model.scores import Score; class Mine(Score): ...",
            )
        missing = [name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)]
        if missing:
            base = next(one for one in cls.__mro__ if "registry" in vars(one))
            raise Seq2AttnError(
                f"{registry.kind} {name!r}: class {cls.__name__} does not define {', '.join(missing)}",
                hint=f"`help({base.__module__}.{base.__name__})` describes what it has to define.",
            )
        options = signature_options(cls)
        if "name" in options:
            raise Seq2AttnError(
                f"{registry.kind} {name!r} has an option called 'name', which in a config names the {registry.kind} itself",
                hint="Rename that parameter of the constructor.",
            )
        first_line = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0]
        entry = (name, formula, summary or first_line, source, synonyms, cls, options, parameters, equal_widths)
        registry.add(Entry(*entry))
        return cls

    return decorate


def signature_options(cls: type) -> dict[str, Option]:
    """The parameters of the constructor that have a plain default."""
    try:
        signature = inspect.signature(cls, eval_str=True)
    except Exception:  # an annotation that names something not imported at run time
        signature = inspect.signature(cls)
    options: dict[str, Option] = {}
    text = inspect.cleandoc(cls.__doc__ or "")
    limits = getattr(cls, "limits", {})
    for parameter in signature.parameters.values():
        default = parameter.default
        kinds = get_args(parameter.annotation) if default is None else (type(default),)
        plain = [kind for kind in kinds if kind in _EXPECTED]
        if len(plain) == 1:
            described = re.search(rf"^ *{parameter.name}: *(.+(?:\n +.+)*)", text, re.MULTILINE)
            default_text = f"default: {json.dumps(default, ensure_ascii=False)}"
            meaning = " ".join(described[1].split()) if described else default_text
            options[parameter.name] = Option(plain[0], default, meaning, *limits.get(parameter.name, (None, None)))
    return options
