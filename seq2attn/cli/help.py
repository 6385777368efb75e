"""The text of `--help`: usage, description, arguments, options and commands, the same with every version of Typer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2attn.cli.output import stdout

_ITEM = re.compile(r"[a-z][a-z -]{0,20}: ")


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the help of a command or group to Typer's `formatter`."""
    console = stdout()
    parameters = [one for one in command.get_params(ctx) if not getattr(one, "hidden", False)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    commands = [(name, command.get_command(ctx, name)) for name in getattr(command, "list_commands", lambda _: [])(ctx)]
    with console.capture() as captured:
        words = ["[OPTIONS]", *map(_usage, arguments), *(["COMMAND ..."] if commands else [])]
        console.print(Text("Usage: ", style="bold").append(f"{ctx.command_path} {' '.join(words)}", style="not bold"))
        _write_text(console, command.help or "")
        _write_table(console, "Arguments", ((Text(label(one), style="bold"), _meaning(one)) for one in arguments))
        _write_table(console, "Options", ((_names(one), _meaning(one)) for one in options))
        about = ((Text(name, style="bold"), Text(_first_sentence(one.help or ""))) for name, one in commands)
        _write_table(console, "Commands", about)
        _write_text(console, command.epilog or "")
    formatter.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def label(parameter: Any) -> str:
    """What stands for a parameter's value: `FILE`, `N`; empty for a flag."""
    return "" if getattr(parameter, "is_flag", False) else str(parameter.metavar or "")


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a docstring, each in one line, except examples (indented) and lists (`term: meaning`)."""
    return [_unwrapped(one) for one in inspect.cleandoc(text).split("\n\n")] if text.strip() else []


def _unwrapped(text: str) -> str:
    if text.startswith(" "):
        return text
    first, *others = text.split("\n")
    is_list = _ITEM.match(first)
    return first + "".join(f"\n{line}" if is_list and _ITEM.match(line) else f" {line}" for line in others)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", (paragraphs(text) or [""])[0])[0]


def _write_text(console: Console, text: str) -> None:
    previous = ""
    for paragraph in paragraphs(text):
        is_example = paragraph.startswith(" ")
        if not (is_example and previous.startswith(" ")):
            console.print()
        console.print(Text(paragraph), soft_wrap=is_example)  # a command stays in one piece, to be copied
        previous = paragraph


def _write_table(console: Console, title: str, rows: Iterable[tuple[Text, Text]]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for start, meaning in rows:
        grid.add_row(Text("  ").append(start), meaning)
    if grid.row_count:
        console.print(Text(f"\n{title}", style="bold"))
        console.print(grid, soft_wrap=False)


def _usage(argument: Any) -> str:
    return label(argument) if argument.required else f"[{label(argument)}]"


def _names(option: Any) -> Text:
    """`-c, --config FILE`; long names stand below each other."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")]
    text = Text(f"{short[0]}, " if short else "    ", style="bold")
    return text.append(", ".join(long)).append(f" {label(option)}", style="not bold")


def _meaning(parameter: Any) -> Text:
    """The parameter's help, its limits, its default and its variable."""
    text = Text(parameter.help or "")
    notes = [_limits(parameter)]
    if parameter.param_type_name == "option":
        default = parameter.default
        shows = parameter.show_default and not getattr(parameter, "is_flag", False) and default not in (None, (), [])
        notes += ["required" if parameter.required else "", f"default: {default}" if shows else ""]
    envvar = getattr(parameter, "envvar", None)
    notes += [f"environment: {envvar}" if envvar else ""]
    found = "; ".join(filter(None, notes))
    return text.append(f" ({found})", style="dim") if found else text


def _limits(parameter: Any) -> str:
    owner = parameter if hasattr(parameter, "min") else getattr(parameter, "type", None)  # differs between versions
    low, high = getattr(owner, "min", None), getattr(owner, "max", None)
    return f"{low or 0:,} to {high:,}" if high is not None and high < 10**9 else ""
