"""The pages of the reference that are made from the program itself: commands, parts, keys."""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import typer

from seq2attn.cli.app import app
from seq2attn.parts import KINDS

ROOT = Path(__file__).parents[2]
CONFIGS = {  # for the page of keys: a config -> overrides
    "configs/pairs/small.yaml": ["task.train=train.tsv", "task.dev=dev.tsv"],
    "configs/transformer.yaml": [],
}


def commands() -> str:
    """Return a section for each command: its help, arguments and options."""
    sections = []
    for name, command in all_commands("seq2attn", typer.main.get_command(app)):
        context = command.make_context(name, [], resilient_parsing=True)
        records = [parameter.get_help_record(context) for parameter in command.params]
        usage = command.get_usage(context).removeprefix("Usage: ")
        rows = [f"{literal(names)}\n    {marked(says)}" for names, says in filter(None, records)]
        sections += [heading(name), block(usage), described(command.help), "\n".join(rows)]
    return "\n\n".join(sections) + "\n"


def all_commands(name: str, command: typer.core.TyperCommand) -> Iterator[tuple]:
    """List (name, command) of a command, or of those of a group."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for word, one in (inner or {}).items():
        yield from all_commands(f"{name} {word}", one)


def described(text: str) -> str:
    """Return a help text as reStructuredText: what is indented or laid out stays as it is."""
    text = re.sub(r"(\n  [^\n]*)\n\n(?=  )", r"\1\n", text)  # examples, one block
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append(block(paragraph.removeprefix("\b\n")))
        elif paragraph.startswith("  "):
            parts.append(block(textwrap.dedent(paragraph)))
        else:
            parts.append(marked(" ".join(paragraph.split())))
    return "\n\n".join(parts)


def parts() -> str:
    """Return a section for each kind of part: names, formulas, options, sources."""
    sections = []
    for kind, registry in KINDS.items():
        sections += [
            heading(kind.replace("-", " ").capitalize()),
            f"Key: {literal(registry.config_key)}",
        ]
        for entry in registry:
            source = f" ({entry.source})" if entry.source else ""
            lines = [marked(entry.summary + source)]
            if entry.formula:
                lines.insert(0, literal(entry.formula))
            for name, field in entry.options.model_fields.items():
                if name != "name":
                    default = literal(json.dumps(field.default))
                    lines.append(
                        f"{literal(name)}, by default {default}: {marked(field.description)}"
                    )
            body = "\n\n    ".join(lines)
            sections.append(f"{literal(entry.name)}\n    {body}")
    return "\n\n".join(sections) + "\n"


def keys() -> str:
    """Return what `seq2attn inspect` says of configs that have every key between them."""
    sections = []
    for config, overrides in CONFIGS.items():
        words = [word for override in overrides for word in ("--set", override)]
        line = [sys.executable, "-m", "seq2attn", "inspect", config, *words]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise RuntimeError(done.stderr)
        listing = done.stdout.replace(f"{ROOT}/", "")
        sections += [heading(config), block(listing)]
    return "\n\n".join(sections) + "\n"


def heading(title: str) -> str:
    """Return the title of a section, underlined."""
    return f"{title}\n{'-' * len(title)}"


def block(text: str) -> str:
    """Return text as it is, as code."""
    return "::\n\n" + textwrap.indent(text.rstrip(), "    ")


def literal(value: object) -> str:
    """Return a value as code on a line; no character of it is markup."""
    text = str(value)
    return f"``{text}``" if text.strip() and "``" not in text else f"``{value!r}``"


def marked(text: str) -> str:
    """Return a line of help as reStructuredText: options are code, stars and bars plain."""
    text = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"`\1`", text)
    return re.sub(r"([*|\\])", r"\\\1", text)


GENERATED = {
    "docs/site/commands": commands,
    "docs/site/parts": parts,
    "docs/site/keys": keys,
}
"""page -> the function that makes what follows its first lines"""
