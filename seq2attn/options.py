"""Sections of a config, and the options of a part: pydantic models that refuse unknown keys."""

from __future__ import annotations

import inspect
import json
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, get_args

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
from pydantic_core import InitErrorDetails, PydanticCustomError

from seq2attn.errors import Seq2AttnError
from seq2attn.text import REFUSED, did_you_mean, sentence

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
