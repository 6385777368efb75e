"""`seq2attn list` and `config`: what comes with seq2attn"""

from __future__ import annotations

import re
from typing import Annotated

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.cli.options import argument
from seq2attn.display.console import on_terminal, write_json, write_line
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Entry, Registry

KINDS: dict[str, tuple[str, Registry]] = {
    "scores": ("model.attention.score", parts.SCORES),
    "tasks": ("task", parts.TASKS),
    "normalisers": ("model.attention.normaliser", parts.NORMALISERS),
    "windows": ("model.attention.window", parts.WINDOWS),
    "histories": ("model.attention.history", parts.HISTORIES),
    "cells": ("model.cell", parts.CELLS),
    "decoders": ("model.decoder", parts.DECODERS),
    "initial-states": ("model.initial_state", parts.INITIAL_STATES),
    "architectures": ("model.architecture", parts.ARCHITECTURES),
    "schedules": ("training.schedule", parts.SCHEDULES),
    "families": ("evaluation.families", parts.FAMILIES),
}
COLUMNS = [
    Column("", key="kind"),
    Column("name"),
    Column("synonyms", optional=True),
    Column("formula"),
    Column("parameters", optional=True),
    Column("description", key="summary"),
    Column("options"),
    Column("source", optional=True),
]


def list_names(
    kind: Annotated[
        str | None, argument("KIND", f"{', '.join(KINDS)}. Default: all.", autocompletion=lambda: list(KINDS))
    ] = None,
    as_json: options.AsJson = False,
    plugin: options.Plugins = None,
) -> None:
    """Show every name a config can use, with its formula and source.

    s is the query (the decoder's state), h a key (an encoder's state), D their width, n a string's length.

    Examples:

      seq2attn list

      seq2attn list scores
    """
    if kind is not None and kind not in KINDS:
        raise Seq2AttnError(f"unknown kind {shown(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}")
    tables = [_table(name) for name in (KINDS if kind is None else (kind,))]
    everything = Table(COLUMNS, [row for table in tables for row in table.rows])
    if as_json:
        write_json(everything.records())
    elif on_terminal():
        for table in tables:
            table.print()
    else:
        everything.show()


def config(
    name: Annotated[str | None, argument("NAME", "As for --config. Default: list them.")] = None,
) -> None:
    """Print a shipped config with its comments, to start from.

    Examples:

      seq2attn config

      seq2attn config pairs/small > mine.yaml
    """
    from seq2attn.config.yaml_files import shipped_folder, shipped_names

    names = [one for one in shipped_names() if not one.startswith("experiments/")]  # those name files beside them
    wanted = name and name.removeprefix("configs/").removesuffix(".yaml")
    texts = [shipped_folder().joinpath(f"{one}.yaml").read_text("utf-8") for one in names if wanted in (None, one)]
    if wanted is None:
        comments = (" ".join(re.findall("^# (.*)", text, re.MULTILINE)) for text in texts)
        about = (
            re.split(r"\.(?: (?![0-9])|$)", comment)[0] for comment in comments
        )  # one sentence, which may cite "et al. 2023"
        Table([Column("config"), Column("about")], [*zip(names, about, strict=True)]).show()
    elif texts:
        write_line(texts[0].removesuffix("\n"))
    else:
        guess = did_you_mean(wanted, names)
        raise Seq2AttnError(f"no config of this name is shipped: {shown(name)}; {guess}`seq2attn config` lists them")


def _table(kind: str) -> Table:
    """The parts of one kind, with those of installed packages that no config has named yet."""
    key, registry = KINDS[kind]
    installed = [(name, source) for name, source in registry.installed().items() if name not in registry.names()]
    records = [
        vars(one) | {"kind": kind, "synonyms": one.synonyms or None, "options": list(one.meanings) or None}
        for one in (*registry, *(Entry(name, source=source) for name, source in installed))
    ]
    return Table.of_records(records, COLUMNS, f"{kind}  ({key})")
