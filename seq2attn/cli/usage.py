"""Commands, groups and usage errors: Typer finds the errors, and we word them like all others."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from seq2attn.cli.help import write_help
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.parts import FAMILIES

UsageError: Any = typer.BadParameter.__bases__[0]  # the module that defines it differs between versions of Typer

_NUMBER = re.compile(r"-?[0-9][0-9,-]*,?")
_FAMILY = re.compile(rf"({'|'.join(['all', *FAMILIES.names()])}|,)+")  # nothing else: a run's name may follow
_WORD = re.compile(r"[^-].*|-[0-9.].*", re.DOTALL)
VARIADIC = {  # options that take several values -> what a value looks like, example
    "--lengths": (_NUMBER, "3 5 7 10 or --lengths 3-10"),
    "--families": (_FAMILY, "random unary or --families all"),
    "--scores": (_WORD, "dot scaled"),
    "--widths": (_WORD, "16 64 256"),
    "--keys": (_WORD, "16 64"),
    "--scales": (_WORD, "0.1 1 10"),
}


class ClosedPipe(Exception):
    """Stands in for a `BrokenPipeError`, which Typer would turn into exit code 1."""


class Command(TyperCommand):
    """A command with variadic options, whose usage errors name it and whose help fits any terminal."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in () if ctx.resilient_parsing else self.params:  # resilient: while the shell completes a line
            if parameter.opts[-1] in VARIADIC and getattr(parameter, "multiple", False):
                args = repeat_flag(args, parameter.opts[-1])
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Commands(TyperGroup):
    """A group of commands whose errors list them."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except UsageError:
            names = self.list_commands(ctx)
            guess = did_you_mean(args[0], names)
            message = f"{ctx.command_path}: unknown command {shown(args[0])}; {guess}allowed: {', '.join(names)}"
            raise Seq2AttnError(message, hint=f"See: {ctx.command_path} --help") from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ClosedPipe from error


def group(name: str, **settings: Any) -> typer.Typer:
    """A Typer application of `Commands`."""
    return typer.Typer(
        name=name,
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def repeat_flag(args: list[str], flag: str = "--lengths") -> list[str]:
    """`["--lengths", "3", "5", "--json"]` -> `["--lengths=3", "--lengths=5", "--json"]`, which Typer can parse.

    The first word after the flag is a value unless it is another option; further words only if they look like values.
    """
    value, example = VARIADIC[flag]
    words, result = deque(args), []
    while words and words[0] != "--":
        word = words.popleft()
        name, equals, first = word.partition("=")
        if name != flag:
            result.append(word)
            continue
        values = [first] if equals else []
        while words and (value.fullmatch(words[0]) or not (values or words[0].startswith("-"))):
            values.append(words.popleft())
        if not values:
            one = "family" if flag == "--families" else flag.removeprefix("--").removesuffix("s")
            raise Seq2AttnError(f"{flag} needs at least one {one}, such as {flag} {example}")
        result += [f"{flag}={found}" for found in values]
    return [*result, *words]


def usage_error(error: Any) -> Seq2AttnError:
    """Typer's error in our words."""
    path = error.ctx.command_path if error.ctx else "seq2attn"
    return Seq2AttnError(_message(error, path), hint=f"See: {path} --help")


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
    commands = getattr(error.ctx.command, "commands", None) if error.ctx else None
    if commands and not guess:
        return f"{path}: unknown option {shown(name)}; a command comes first: {', '.join(commands)}"
    return f"{path}: unknown option {shown(name)}; {guess}allowed: {', '.join(names)}"


def _too_many(error: Any, path: str, words: str) -> str:
    arguments = [_named(one) for one in _parameters(error) if one.param_type_name == "argument"]
    takes = f"takes {' '.join(arguments)}" if arguments else "takes no argument"
    guess = ""
    if words.endswith((".yaml", ".yml")) and any("--config" in one.opts for one in _parameters(error)):
        guess = f"; did you mean --config {words}?"
    return f"{path}: unexpected argument {shown(words)}; it {takes}{guess}"


def _wrong_value(error: Any) -> str:
    """`expected a whole number, found 'abc'`, from pydantic's error; older versions of Typer give a text."""
    try:
        detail = error.__cause__.errors(include_url=False)[0]
    except (AttributeError, IndexError):
        return str(error.message).rstrip(".")
    limits = {
        name: f"{limit:,}".removesuffix(".0") for name, limit in detail.get("ctx", {}).items() if name in ("ge", "le")
    }
    expected = {
        "int_parsing": "expected a whole number",
        "int_parsing_size": "expected a whole number with fewer digits",
        "int_from_float": "expected a whole number",
        "float_parsing": "expected a number",
        "greater_than_equal": f"must be at least {limits.get('ge')}",
        "less_than_equal": f"must be at most {limits.get('le')}",
    }
    return f"{expected.get(detail['type'], detail['msg'])}, found {shown(detail['input'])}"


def _parameters(error: Any) -> list[Any]:
    return list(error.ctx.command.get_params(error.ctx)) if error.ctx else []


def _word(parameter: Any) -> str:
    """`--seed`, or an argument's `RUN`."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=len))


def _named(parameter: Any) -> str:
    """`--plot FILE`, or an argument's `RUN`."""
    is_argument = parameter.param_type_name == "argument"
    return _word(parameter) if is_argument else f"{_word(parameter)} {parameter.metavar or ''}".rstrip()


def _meaning(parameter: Any) -> str:
    """Its help text, to be appended to a message."""
    text = (getattr(parameter, "help", None) or "").rstrip(".")
    return f": {text[0].lower()}{text[1:]}" if text else ""
