"""`seq2attn list`"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.display.console import on_terminal, write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Entry, Registry

KINDS: dict[str, tuple[str, Registry]] = {
    "scores": ("model.attention.score", parts.SCORES),
    "tasks": ("task", parts.TASKS),
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
    Column(name, optional=name == "source") for name in ("name", "formula", "parameters", "description", "source")
]


def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=f"{', '.join(KINDS)}. Default: all.", autocompletion=lambda: list(KINDS)),
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
    options.load_plugins(plugin)
    kinds = [kind] if kind is not None else list(KINDS)
    records = [record for name in kinds for record in _records(name)]
    if as_json:
        write_json(records)
    elif on_terminal():
        for name in kinds:
            _table(name, [record for record in records if record["kind"] == name]).show()
    else:
        columns = ("kind", "name", "formula", "summary", "source")
        Table([Column(name) for name in columns], [[record[name] for name in columns] for record in records]).show()


def _records(kind: str) -> Iterable[dict[str, Any]]:
    fields = ["name", "synonyms", "formula", "summary", "source"]
    fields += ["parameters", "equal_widths"] if kind == "scores" else []
    registry = KINDS[kind][1]
    installed = (
        Entry(name, formula="", summary="installed", source=target)
        for name, target in registry.installed().items()
        if name not in registry.names()
    )
    for entry in (*registry, *installed):
        yield {"kind": kind, **{field: getattr(entry, field) for field in fields}, "options": entry.meanings}


def _table(kind: str, records: list[dict[str, Any]]) -> Table:
    """For people, with synonyms below the name and options below the description."""
    rows = []
    for record in records:
        synonyms = "".join(f"\n({synonym})" for synonym in record["synonyms"])
        options_of = f"\noptions: {', '.join(record['options'])}" if record["options"] else ""
        name, about = record["name"] + synonyms, record["summary"] + options_of
        rows.append([name, record["formula"], record.get("parameters"), about, record["source"]])
    return Table(COLUMNS, rows, f"{kind}  ({KINDS[kind][0]})")
