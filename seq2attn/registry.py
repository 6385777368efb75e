"""Registries: the names that a config can use for score functions, tasks, windows and so on, with
their options and classes.

The options of a part are a pydantic model, made from its entry in `parts.toml` or from the
constructor of a plug-in's class. A class is imported, and with it torch, when it is first needed.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from seq2attn.errors import Seq2AttnError, is_out_of_memory, unknown
from seq2attn.text import REFUSED, did_you_mean, error_text, line_of, sentence

_PLAIN = (bool, int, float, str)


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
    def _refuse(cls, values: Any, validate: Callable[[Any], Self]) -> Self:
        """Validate values. The `msg` of each error is a sentence; for an unknown key, it says which
        are allowed.
        """
        try:
            return validate(values)
        except ValidationError as error:
            refused: list[InitErrorDetails] = []
            for detail in error.errors():
                text = sentence(detail)
                if detail["type"] == "extra_forbidden":
                    text = cls._unknown_key(str(detail["loc"][-1]), values)
                kind = PydanticCustomError(REFUSED, "{text}", {"text": text})
                refused.append({"type": kind, "loc": detail["loc"], "input": detail["input"]})
        raise ValidationError.from_exception_data(cls.__name__, refused)

    @classmethod
    def _unknown_key(cls, key: str, values: Mapping[str, Any]) -> str:
        """Return what is said of an unknown key: which are allowed, and which may be meant."""
        allowed = {field.alias or name for name, field in cls.model_fields.items()}
        of_part = f" of {values['name']!r}" if "name" in allowed else ""
        names = sorted(allowed - {"name"})  # `name` would choose another part
        guess = did_you_mean(key, names)
        return f"unknown key{of_part}; {guess}allowed here: {', '.join(names) or 'none'}"


class Options(Section):
    """The part that a config chose: its name, and the value of each of its options, defaults
    included.

    Each part that has options has a subclass with a field for each. A config writes a part without
    any as its name alone.
    """

    # The fields of `options` have no source, which would be searched for docstrings.
    model_config = ConfigDict(use_attribute_docstrings=False, validate_default=True)
    name: str

    @model_serializer(mode="wrap")
    def _written(self, write: Callable[[Options], dict[str, Any]]) -> Any:
        values = write(self)
        return values if len(values) > 1 else self.name


def option(
    kind: Any,
    default: Any,
    meaning: str,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    above: float | None = None,
    check: Callable[[Any], Any] = lambda value: value,
    is_file: bool = False,
) -> tuple[Any, Any]:
    """Return the type and the field of an option, as `options` takes them; a default of None means
    that null is allowed.

    kind: the type of its values. meaning: what `seq2attn list` says of it.
    minimum, maximum: limits, which are allowed themselves. above: a limit that is not.
    check: returns the value, perhaps changed, or raises `ValueError`.
    is_file: True for the path of a data file, which a config resolves relative to itself. Other
        text is kept in Unicode's normal form C.
    """
    bounds = Field(ge=minimum, le=maximum, gt=above)
    is_text = kind is str and not is_file

    def checked(value: Any) -> Any:
        return check(composed(value) if is_text else value)

    kind = Annotated[kind, bounds, AfterValidator(checked)]
    about: Any = {"is_file": True} if is_file else None
    field = Field(default, description=meaning, json_schema_extra=about)
    if default is None:
        kind |= None
    return kind, field


def composed(text: str) -> str:
    """Return text in Unicode's normal form C: é is one code point."""
    return unicodedata.normalize("NFC", text)


def options(**fields: tuple[Any, Any]) -> type[Options]:
    """Return the model of the options of a part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an option may be called `copy`, as a method of the model
        return create_model("Options", __base__=Options, **fields)  # type: ignore[call-overload]


def signature_options(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return name -> option, as `options` takes them, for each parameter of the constructor that
    has a default and is one of bool, int, float and str, by annotation or else by its default.

    Its meaning is a line `NAME: meaning` of the class's docstring; its limits are those that the
    class attribute `limits` has for it, (minimum, maximum). A parameter whose name begins with `_`
    is not an option. Raises `Seq2AttnError` for limits of what is not a parameter.
    """
    try:
        parameters = inspect.signature(cls, eval_str=True).parameters
    except Exception:  # an annotation that names something not imported at run time
        parameters = inspect.signature(cls).parameters
    limits = getattr(cls, "limits", {})
    unknown = [name for name in limits if name not in parameters]
    if unknown:
        names = f"{', '.join(unknown)}, which its constructor does not take"
        raise Seq2AttnError(f"limits of {cls.__name__} name {names}")
    text = inspect.cleandoc(cls.__doc__ or "")
    fields = {}
    for name, parameter in parameters.items():
        default = parameter.default
        kinds = _kinds(parameter)  # (a parameter of several kinds is not an option)
        if len(kinds) == 1 and default is not parameter.empty and not name.startswith("_"):
            # `NAME: meaning`, and the lines below it that are indented further
            line = re.search(rf"^( *){name}: *(.+(?:\n\1 +.+)*)", text, re.MULTILINE)
            meaning = " ".join(line[2].split()) if line else f"default: {json.dumps(default)}"
            fields[name] = option(kinds[0], default, meaning, *limits.get(name, ()))
    return fields


def _kinds(parameter: inspect.Parameter) -> list[Any]:
    """Return those of bool, int, float and str that a parameter may be, by its annotation, such as
    `int | None`, or if that names none of them, by its default.
    """
    annotation = parameter.annotation
    annotated = [kind for kind in _PLAIN if kind in (annotation, *get_args(annotation))]
    return annotated or [kind for kind in _PLAIN if kind is type(parameter.default)]


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

    def load(self) -> Any:
        """Return the class that implements the entry."""
        if isinstance(self.implementation, str):
            return pkgutil.resolve_name(f"seq2attn{self.implementation}")
        return self.implementation

    @property
    def files(self) -> tuple[str, ...]:
        """The options that name a data file."""
        fields = self.options.model_fields.items()
        return tuple(name for name, field in fields if field.json_schema_extra)


class Registry:
    """The entries of one kind, by name and synonym.

    `Annotated[Options, registry]` is the type of a config key that chooses one of them: a name, or
    a mapping of the name, under `key`, and its options. With `many` the key may also list several,
    and its value is a tuple. Names are looked up when a config is checked, so that those of
    plug-ins are known.
    """

    def __init__(
        self,
        kind: str,
        entries: Sequence[Entry],
        *,
        default: str = "",
        key: str = "name",
        many: bool = False,
    ) -> None:
        """Make the registry of these entries.

        kind: what messages call a part, such as `score`.
        default: the part of a config that names none; empty: the first of `entries`.
        key, many: as the class says.
        """
        self.kind = kind
        self.default = default or entries[0].name
        self.key = key
        self.many = many
        self._entries: dict[str, Entry] = {}  # by name and synonym
        for entry in entries:
            self.add(entry)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for name, entry in self._entries.items() if name == entry.name)

    def names(self) -> list[str]:
        """Return every name, without synonyms, in order of registration."""
        return [entry.name for entry in self]

    def add(self, entry: Entry) -> None:
        """Register an entry. Raises `Seq2AttnError` if a name or synonym is already taken."""
        names = (entry.name, *entry.synonyms)
        for name in names:
            if name in self._entries:
                message = f"{self.kind} {name!r} is already registered; choose another name"
                raise Seq2AttnError(message)
        self._entries |= dict.fromkeys(names, entry)

    def forget(self, module: str) -> None:
        """Remove the entries whose classes are from this module."""
        for name, entry in list(self._entries.items()):
            if getattr(entry.implementation, "__module__", "") == module:
                del self._entries[name]

    def get(self, name: str) -> Entry:
        """Return the entry with this name or synonym. Raises `Seq2AttnError`, which lists the
        allowed names, if there is none.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise unknown(self.kind, name, self.names(), self._entries)
        return entry

    def load(self, name: str) -> Any:
        """Return the class registered as `name`."""
        return self.get(name).load()

    def choose(self, name: str | None = None, **values: Any) -> Any:
        """Return the part `name`, or the default one, as a config holds it: its `Options`, with
        these values, and defaults for the others.
        """
        return self.validate({self.key: name or self.default, **values})

    def make(self, part: Options, *provided: Any, **more: Any) -> Any:
        """Make a chosen part: call its class with what every part of its kind gets, `provided` and
        `more`, and with its own options. Returns None if it has no class, as the score `none`.

        An exception of the constructor becomes a `Seq2AttnError` with its line; a
        `Seq2AttnError`, a lack of memory and Ctrl-C stay as they are.
        """
        cls = self.load(part.name)
        # an iteration over a pydantic model yields the name and value of each field
        keywords = {name: value for name, value in part if name != "name"}
        try:
            return None if cls is None else cls(*provided, **keywords, **more)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise anything
            if isinstance(error, Seq2AttnError) or is_out_of_memory(error):
                raise
            reason = f"cannot be made: {error_text(error)}"
            raise Seq2AttnError(
                f"{line_of(cls, error)}: {self.kind} {part.name!r} {reason}",
                hint="Its constructor takes what that of its base class takes, and first calls "
                "super().__init__ with it.",
            ) from error

    # ---- as the type of a config's key ----

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Tell pydantic how it validates and writes a key of this type: one part, or with `many` a
        tuple of them. A tuple of one is written as that part.
        """
        part = core_schema.no_info_plain_validator_function(self.validate)
        if not self.many:
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
        """Return the chosen part of `"location"` or `{"name": "location", "kernel": 7}`; raises
        pydantic's errors for wrong values.

        A mapping without a name means the default.
        """
        values = dict(value) if isinstance(value, Mapping | BaseModel) else {self.key: value}
        entry = self.get(str(values.get(self.key, self.default)))
        # a synonym becomes the part's own name
        return entry.options.model_validate({**values, self.key: entry.name})


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
        """Add the class to the registry of its kind, an attribute that its base class has."""
        registry = getattr(cls, "registry", None)
        if not isinstance(registry, Registry):
            raise Seq2AttnError(
                f"@register({name!r}) decorates {cls.__name__}, which is not a part that a config "
                "can name",
                hint="Decorate a class derived from seq2attn's Score, Normaliser, Window, History, "
                "Cell, Encoder, Decoder, InitialState, Loss, StringTask or Task.",
            )
        first_line, _, _ = inspect.cleandoc(cls.__doc__ or "").partition("\n")
        entry = Entry(
            name,
            formula,
            first_line,
            source,
            cls,
            options=options(**_options_of(cls, f"{registry.kind} {name!r}")),
            synonyms=synonyms,
            equal_widths=equal_widths,
            makes_weights=getattr(cls, "makes_weights", False),
            needs_attention=getattr(cls, "needs_attention", False),
            is_recurrent=getattr(cls, "is_recurrent", False),
        )
        registry.add(entry)
        return cls

    return decorate


def _options_of(cls: type, part: str) -> dict[str, tuple[Any, Any]]:
    """Return the options of a part's class: name -> option. Raises `Seq2AttnError` for a class that
    cannot be a part.

    part: its kind and name, for messages.
    """
    # (`__abstractmethods__` would say so of classes derived from `ABC` only)
    missing = [
        member
        for member in dir(cls)
        if getattr(getattr(cls, member, None), "__isabstractmethod__", False)
    ]
    if missing:
        names = ", ".join(missing)
        raise Seq2AttnError(f"{part}: class {cls.__name__} does not define {names}")
    # The base class of its kind, such as `Score`, needs what every part of that kind is given. This
    # class takes the same first; whatever it needs beyond that, no config could leave out.
    base = next(parent for parent in cls.__mro__ if "registry" in vars(parent))
    needed = _needed(cls)[len(_needed(base)) :]
    if needed:
        raise Seq2AttnError(
            f"{part}: option {needed[0]!r} of {cls.__name__} has no default",
            hint=f"A config may leave options out: write {needed[0]}: int = 8, for example.",
        )
    fields = signature_options(cls)
    if "name" in fields:
        raise Seq2AttnError(f"{part} has an option called 'name', which names the part itself")
    return fields


def _needed(cls: type) -> list[str]:
    """Return the parameters of the constructor that have no default, without `*args`."""
    return [
        parameter.name
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty and not parameter.kind.name.startswith("VAR_")
    ]
