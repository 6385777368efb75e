"""Mistakes in commands and options: Typer finds them, and they are reported in our words like all others."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from seq2attn.errors import Seq2AttnError, did_you_mean, shown

UsageError: Any = typer.BadParameter.__bases__[0]  # by its parentage: its own module differs between versions of Typer


_ITEM = re.compile(r"[a-z][a-z -]{0,20}: ")


class Command(TyperCommand):
    """A command whose mistakes know where they were made, and whose help fits a terminal of any width."""

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, help=unwrapped(help), **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Commands(TyperGroup):
    """A group of commands whose errors list them."""

    def __init__(self, *arguments: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, help=unwrapped(help), **options)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except UsageError:
            names = self.list_commands(ctx)
            guess = did_you_mean(args[0], names)
            message = f"{ctx.command_path}: unknown command {shown(args[0])}; {guess}allowed: {', '.join(names)}"
            raise Seq2AttnError(message, hint=f"See: {ctx.command_path} --help") from None


def unwrapped(text: str | None) -> str | None:
    """A docstring with each paragraph on one line, but for examples, which are indented, and lists (`term: meaning`)."""
    if text is None:
        return None
    return "\n\n".join(map(_unwrapped_paragraph, inspect.cleandoc(text).split("\n\n")))


def _unwrapped_paragraph(text: str) -> str:
    if text.startswith(" "):
        return text
    first, *others = text.split("\n")
    is_list = _ITEM.match(first)
    return first + "".join(f"\n{line}" if is_list and _ITEM.match(line) else f" {line}" for line in others)


def usage_mistake(error: Any) -> Seq2AttnError:
    """What Typer found wrong, in our words."""
    path = error.ctx.command_path if error.ctx else "seq2attn"
    return Seq2AttnError(_message(error, path), hint=f"See: {path} --help")


def is_help(error: Any) -> bool:
    """Whether help was shown because no command was given."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _message(error: Any, path: str) -> str:
    kind, text = type(error).__name__, error.format_message()
    parameter, option = getattr(error, "param", None), getattr(error, "option_name", None)
    if kind == "NoSuchOption":
        return _unknown_option(error, path)
    if kind == "MissingParameter" and parameter is not None:
        return f"{path}: {_named(parameter)} is missing{_meaning(parameter)}"
    if kind == "BadParameter" and parameter is not None:
        return f"{_word(parameter)}: {_wrong_value(error)}"
    if kind == "BadOptionUsage" and option is not None:
        found = next((one for one in _parameters(error) if option in one.opts), None)
        takes_none = "not take" in text
        return f"{option} takes no value" if takes_none else f"{option} needs a value{_meaning(found)}"
    extra = re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text, re.DOTALL)
    return _too_many(error, path, extra[1]) if extra else text


def _unknown_option(error: Any, path: str) -> str:
    names = [name for one in _parameters(error) for name in one.opts if name.startswith("--")]
    name = error.option_name
    guess = did_you_mean(name, names) if name.startswith("--") else ""
    return f"{path}: unknown option {shown(name)}; {guess}allowed: {', '.join(names)}"


def _too_many(error: Any, path: str, words: str) -> str:
    """Words left over when every argument has its own."""
    arguments = [_named(one) for one in _parameters(error) if one.param_type_name == "argument"]
    takes = f"takes {' '.join(arguments)}" if arguments else "takes no argument"
    guess = ""
    if words.endswith((".yaml", ".yml")) and any("--config" in one.opts for one in _parameters(error)):
        guess = f"; did you mean --config {words}?"
    return f"{path}: {shown(words)} is too much: it {takes}{guess}"


def _wrong_value(error: Any) -> str:
    """`expected a whole number, found 'abc'`, from pydantic's error; older versions of Typer give a text."""
    try:
        detail = error.__cause__.errors(include_url=False)[0]
    except (AttributeError, IndexError):
        return str(error.message).rstrip(".")
    limits = detail.get("ctx", {})
    expected = {
        "int_parsing": "expected a whole number",
        "int_parsing_size": "expected a whole number of fewer digits",
        "int_from_float": "expected a whole number",
        "float_parsing": "expected a number",
        "greater_than_equal": f"must be at least {_number(limits.get('ge', 0))}",
        "less_than_equal": f"must be at most {_number(limits.get('le', 0))}",
    }
    return f"{expected.get(detail['type'], detail['msg'])}, found {shown(detail['input'])}"


def _number(value: float) -> str:
    """A limit as people read it: 1,000,000."""
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


# ---- parameters ----


def _parameters(error: Any) -> list[Any]:
    return list(error.ctx.command.get_params(error.ctx)) if error.ctx else []


def _word(parameter: Any) -> str:
    """`--seed`, or an argument's `RUN`."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=len))


def _named(parameter: Any) -> str:
    """`--plot FILE`, or an argument's `RUN`."""
    is_option = parameter.param_type_name != "argument"
    return f"{_word(parameter)} {parameter.metavar or ''}".rstrip() if is_option else _word(parameter)


def _meaning(parameter: Any) -> str:
    """Its help, as the end of a sentence."""
    text = (getattr(parameter, "help", None) or "").rstrip(".")
    return f": {text[0].lower()}{text[1:]}" if text else ""
