"""`seq2attn list`"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.cli.output import on_terminal, print_table, write_json, write_rows
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
            _show(name, [record for record in records if record["kind"] == name])
    else:
        columns = ("kind", "name", "formula", "summary", "source")
        write_rows(columns, [[record[column] for column in columns] for record in records])


def _records(kind: str) -> Iterable[dict[str, Any]]:
    registry = KINDS[kind][1]
    for entry in registry:
        yield _record(kind, entry)
    for name, target in registry.installed().items():
        if name not in registry.names():
            yield _record(kind, Entry(name, formula="", summary="installed", source=target))


def _record(kind: str, entry: Entry) -> dict[str, Any]:
    fields = ["name", "synonyms", "formula", "summary", "source"]
    of_scores = ["parameters", "equal_widths"] if kind == "scores" else []
    options_of_entry = {name: option.meaning for name, option in entry.options.items()}
    record = {"kind": kind, **{field: getattr(entry, field) for field in fields}, "options": options_of_entry}
    return record | {field: getattr(entry, field) for field in of_scores}


def _show(kind: str, records: list[dict[str, Any]]) -> None:
    columns = {"name": [one["name"] + "".join(f"\n({synonym})" for synonym in one["synonyms"]) for one in records]}
    columns["formula"] = [one["formula"] for one in records]
    if kind == "scores":
        columns["parameters"] = [one["parameters"] for one in records]
    columns["description"] = [
        one["summary"] + (f"\noptions: {', '.join(one['options'])}" if one["options"] else "") for one in records
    ]
    if any(one["source"] for one in records):
        columns["source"] = [one["source"] for one in records]
    print_table(columns, title=f"{kind}  ({KINDS[kind][0]})", optional=("source",))
