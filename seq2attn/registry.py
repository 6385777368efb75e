"""Registries: the names that a config can use for score functions, tasks, windows and so on, with
their options and classes.

The options of a part are a pydantic model, made from its entry in `parts.toml` or from the
constructor of a plug-in's class. A class is imported, and with it torch, when it is first needed.
"""

from __future__ import annotations

import pkgutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer, model_validator
from pydantic_core import core_schema

from seq2attn.errors import Seq2AttnError, did_you_mean, unknown


class Section(BaseModel):
    """Keys and values of a YAML file."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    @model_validator(mode="wrap")
    @classmethod
    def _validated(cls, values: Any, validate: Callable[[Any], Self]) -> Self:
        """Return the section of these values, which pydantic's `validate` makes. Raises the
        `ValidationError` that it raises, but its message for an unknown key also says which keys
        are allowed, and which may be meant.
        """
        try:
            return validate(values)
        except ValidationError as error:
            errors: list[Any] = error.errors()
        allowed = {field.alias or name for name, field in cls.model_fields.items()}
        # a section with the key `name` is a part: another name would choose another part
        names = sorted(allowed - {"name"})
        for one in errors:
            if one["type"] == "extra_forbidden":
                of_part = f" of {values['name']!r}" if "name" in allowed else ""
                guess = did_you_mean(str(one["loc"][-1]), names)
                text = f"unknown key{of_part}; {guess}allowed here: {', '.join(names) or 'none'}"
                one.update(type="value_error", ctx={"error": text})
        raise ValidationError.from_exception_data(cls.__name__, errors)


class Options(Section):
    """The part that a config chose: its name, and the value of each of its options, defaults
    included.

    Each part that has options has a subclass with a field for each. A config writes a part without
    any as its name alone.
    """

    # The fields of `parts.options` have no source, which would be searched for docstrings.
    model_config = ConfigDict(use_attribute_docstrings=False, validate_default=True)
    name: str
    _entry: Entry

    @property
    def entry(self) -> Entry:
        """What the registry has of the part."""
        return self._entry

    def make(self, *provided: Any, **more: Any) -> Any:
        """Make the part: call its class with what every part of its kind gets, `provided` and
        `more`, and with its own options. Returns None if it has no class, as the score `none`.
        """
        cls = self.entry.load()
        # an iteration over a pydantic model yields the name and value of each field
        keywords = {name: value for name, value in self if name != "name"}
        return None if cls is None else cls(*provided, **keywords, **more)

    @model_serializer(mode="wrap")
    def _written(self, write: Callable[[Options], dict[str, Any]]) -> Any:
        values = write(self)
        return values if len(values) > 1 else self.name


def composed(text: str) -> str:
    """Return text in Unicode's normal form C: é is one code point."""
    return unicodedata.normalize("NFC", text)


# ---- parts ----


@dataclass(frozen=True)
class Entry:
    """One name that a config can use.

    `implementation` is a class, `".model.scores:Dot"` to import when it is needed, or None. Score
    functions also have the number of their parameters, and whether query and key widths must be
    equal; histories, whether they make the weights themselves, whatever the normaliser; decoders,
    whether they work only with attention; encoders, whether they consist of recurrent layers.
    """

    name: str
    formula: str = ""
    summary: str = ""
    source: str = ""
    implementation: str | type | None = None
    options: type[BaseModel] = Options
    synonyms: Sequence[str] = ()
    parameters: str = ""
    equal_widths: bool = False
    makes_weights: bool = False
    needs_attention: bool = False
    is_recurrent: bool = False
    files: Sequence[str] = ()
    """the options that name a data file"""

    def load(self) -> Any:
        """Return the class that implements the entry."""
        if isinstance(self.implementation, str):
            return pkgutil.resolve_name(f"seq2attn{self.implementation}")
        return self.implementation


@dataclass(eq=False)
class Registry:
    """The entries of one kind, by name and synonym.

    `Annotated[Options, registry]` is the type of a config key that chooses one of them: a name, or
    a mapping of the name, under `key`, and its options. `Annotated[tuple[Options, ...], registry]`
    may also list several, and its value is a tuple. Names are looked up when a config is checked,
    so that those of plug-ins are known.
    """

    kind: str
    """what messages call a part, such as `score`"""
    config_key: str
    """the key of a config that chooses one of them, such as `model.cell`"""
    default: str = ""
    """the part of a config that names none; empty: the first that is added"""
    key: str = "name"
    _entries: dict[str, Entry] = field(default_factory=dict)
    """by name and synonym"""

    def __iter__(self) -> Iterator[Entry]:
        return (entry for name, entry in self._entries.items() if name == entry.name)

    def names(self) -> list[str]:
        """Return every name, without synonyms, in order of registration."""
        return [entry.name for entry in self]

    def add(self, entry: Entry) -> None:
        """Register an entry under its name and synonyms. If it is the first one, it becomes the
        default, unless there is one. Raises `Seq2AttnError` if a name or synonym is already taken,
        but not by the same class, which replaces itself where its file or notebook cell is run
        again.
        """
        names = (entry.name, *entry.synonyms)
        for name in names:
            known = self._entries.get(name, entry)
            # (a class that is made again is another object, but its text names the same class)
            if known.name != entry.name or str(known.implementation) != str(entry.implementation):
                raise Seq2AttnError(
                    f"{self.kind} {name!r} is already registered; choose another name"
                )
        self._entries |= dict.fromkeys(names, entry)
        self.default = self.default or entry.name

    def get(self, name: str) -> Entry:
        """Return the entry with this name or synonym. Raises `Seq2AttnError`, which lists the
        allowed names, if there is none.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise unknown(self.kind, name, self.names(), self._entries)
        return entry

    def choose(self, name: str | None = None, **values: Any) -> Any:
        """Return the part `name`, or the default one, as a config holds it: its `Options`, with
        these values, and defaults for the others.
        """
        return self.validate({self.key: name or self.default, **values})

    # ---- as the type of a config's key ----

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Tell pydantic, which calls this, how it validates and writes a key of the type `source`:
        one part, or a tuple of them. A tuple of one is written as that part.
        """
        part = core_schema.no_info_plain_validator_function(self.validate)
        if source != tuple[Options, ...]:
            return part
        return core_schema.no_info_wrap_validator_function(
            self._validate_many,
            core_schema.tuple_variable_schema(part),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda chosen: chosen[0] if len(chosen) == 1 else chosen
            ),
        )

    def _validate_many(self, value: Any, validate_each: Callable[[Any], Any]) -> Any:
        """Return the chosen parts of a list, or of one part alone."""
        if value and isinstance(value, list | tuple):
            return validate_each(tuple(value))
        return (self.validate(value),)

    def validate(self, value: Any) -> Any:
        """Return the part that a value chooses: `"location"`, `{"name": "location", "kernel": 7}`,
        or a part itself. A mapping without a name means the default part. Raises pydantic's errors
        for wrong values of options, and `Seq2AttnError` for an unknown name.
        """
        values = dict(value) if isinstance(value, Mapping | BaseModel) else {self.key: value}
        entry = self.get(str(values.get(self.key, self.default)))
        # a synonym becomes the part's own name
        part = entry.options.model_validate({**values, self.key: entry.name})
        # an architecture of models is chosen as a part is, but its `Section` has no entry
        if isinstance(part, Options):
            part._entry = entry
        return part
