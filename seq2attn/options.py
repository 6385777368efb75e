"""Sections of a config, and the options of a part: pydantic models that refuse unknown keys."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any

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

UNKNOWN_KEY = "unknown_key"
"""the type of pydantic's error for it, with `allowed` and `part` as its context;
`config/messages.py` has the words"""


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
    def _name_allowed_keys(cls, values: Any, validate: Callable[[Any], Any]) -> Any:
        """Give the error for an unknown key the context that its message needs: the allowed keys,
        and the chosen part.
        """
        try:
            return validate(values)
        except ValidationError as error:
            own = {
                "allowed": sorted(
                    field.alias or name
                    for name, field in cls.model_fields.items()
                    if name != "name"
                ),
                "part": values.get("name") if isinstance(values, Mapping) else None,
            }
            lines = []
            for detail in error.errors(include_url=False):
                unknown = detail["type"] == "extra_forbidden"
                context = {"message": detail["msg"], **(own if unknown else detail.get("ctx", {}))}
                problem = PydanticCustomError(
                    UNKNOWN_KEY if unknown else detail["type"], "{message}", context
                )
                lines.append(
                    InitErrorDetails(type=problem, loc=detail["loc"], input=detail["input"])
                )
            raise ValidationError.from_exception_data(cls.__name__, lines) from None


class Options(Section):
    """The part that a config chose: its name, and the value of each of its options, defaults
    included.

    Each part that has options has a subclass with a field for each. A config writes a part without
    any as its name alone.
    """

    model_config = ConfigDict(
        use_attribute_docstrings=False, validate_default=True
    )  # there is no source to search
    name: str

    @model_serializer(mode="wrap")
    def _written(self, write: Callable[[Options], dict[str, Any]]) -> Any:
        values = write(self)
        return values if len(values) > 1 else self.name


def option(
    kind: Any,
    default: Any,
    meaning: str,
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    check: Callable[[Any], Any] = lambda value: value,
    is_file: bool = False,
) -> tuple[Any, Any]:
    """One option, as `options` takes it; a default of None means that null is allowed.

    check: returns the value or raises `ValueError`. is_file: it is the path of a data file, which a
    config resolves relative to itself. Other text is kept in Unicode's normal form C.
    """
    form = composed if kind is str and not is_file else lambda value: value
    kind = Annotated[
        kind, Field(ge=least, le=most, gt=above), AfterValidator(lambda value: check(form(value)))
    ]
    extra: Any = {"is_file": True} if is_file else None
    return kind | None if default is None else kind, Field(
        default, description=meaning, json_schema_extra=extra
    )


def composed(text: str) -> str:
    """Text in Unicode's normal form C, in which a letter and its accent are one character."""
    return unicodedata.normalize("NFC", text)


def options(**fields: tuple[Any, Any]) -> type[Options]:
    """The model of the options of a part."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # an option may be called `copy`, as a method of the model is
        model: type[Options] = create_model("Options", __base__=Options, **fields)  # type: ignore[call-overload]
    return model
