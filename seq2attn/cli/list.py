"""`seq2attn list`, `config` and `inspect`: what a config can say, and what one says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.cli.options import argument
from seq2attn.display.console import json_text, on_terminal, say, write_json, write_line
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Entry, Registry
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run
from seq2attn.text import did_you_mean, quoted

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config

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
        str | None,
        argument("KIND", f"{', '.join(KINDS)}. Default: all.", autocompletion=lambda: list(KINDS)),
    ] = None,
    as_json: options.AsJson = False,
    plugin: options.Plugins = None,
) -> None:
    """Show every name a config can use, with its formula and source.

    s is the query (the decoder's state), h a key (an encoder's state), D their width, n a string's
    length.

    Examples:

      seq2attn list

      seq2attn list scores
    """
    if kind is not None and kind not in KINDS:
        raise Seq2AttnError(
            f"unknown kind {quoted(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}"
        )
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

    names = [
        one for one in shipped_names() if not one.startswith("experiments/")
    ]  # those name files beside them
    wanted = name and name.removeprefix("configs/").removesuffix(".yaml")
    texts = [
        shipped_folder().joinpath(f"{one}.yaml").read_text("utf-8")
        for one in names
        if wanted in (None, one)
    ]
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
        raise Seq2AttnError(
            f"no config of this name is shipped: {quoted(name)}; {guess}`seq2attn config` lists them"
        )


def inspect(
    target: Annotated[
        str, argument("CONFIG|RUN", "A YAML config, or a run's name.", autocompletion=options.runs)
    ],
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Show a config, every key explained, and parameter counts.

    Of a task that reads files, also those files and the vocabularies learned from them. In a pipe,
    the output is YAML that `train --config` accepts.

    Examples:

      seq2attn inspect configs/scaled.yaml

      seq2attn inspect configs/scaled.yaml --set model.hidden=256 > wide.yaml
    """
    config, run = _config(target, overrides or [], runs_dir)
    from seq2attn.analysis.ledger import parameter_ledger
    from seq2attn.build import build_model, build_task, load_task
    from seq2attn.config.yaml_files import write_yaml

    missing = [
        path for path in config.data_files.values() if run is None and not os.path.exists(path)
    ]
    learned, ledger = None, {}
    if missing:
        say(
            f"no such file: {', '.join(missing)}; with --set task.train=FILE --set task.dev=FILE: symbols, parameters"
        )
    else:
        task = load_task(config) if run is None else build_task(config, run.learned_task(config))
        learned, ledger = task.learned(), parameter_ledger(build_model(config, task))
        for line in task.notes:
            say(line)
    values = config.model_dump(mode="json")
    if as_json:
        write_json(
            {
                "config": values,
                **({} if learned is None else {"task": learned}),
                "parameters": ledger,
            }
        )
        return
    meanings, path, lines = dict(_meanings(config)), list[str](), list[tuple[str, str]]()
    for line in write_yaml(values, width=10**6).splitlines():
        key = line.lstrip().partition(":")[0]
        path[line.index(key) // 2 :] = [key]
        lines.append((line, meanings.get(".".join(path), "")))
    if on_terminal():
        Table([Column("config"), Column("meaning")], lines).print()
    else:
        for line, meaning in lines:
            write_line(f"{line:<40}  # {meaning}" if meaning else line)
    facts = dict(learned or {}) | {f"parameters of {part}": count for part, count in ledger.items()}
    for about, value in facts.items():
        write_line(f"# {about.replace('_', ' ')}: {json_text(value, ensure_ascii=False)}")


def _config(target: str, overrides: list[str], runs_dir: Path) -> tuple[Config, Run | None]:
    """The config, and its run if `target` is one."""
    from seq2attn.config import load_config
    from seq2attn.config.yaml_files import find_config

    if target.endswith((".yaml", ".yml")) or find_config(target).is_file():
        return load_config(target, overrides), None
    run = find_run(runs_dir, target)
    return run.config(overrides), run


def _meanings(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted keys below a section, each with its meaning."""
    from pydantic import BaseModel

    for name, field in type(section).model_fields.items():
        yield f"{prefix}{name}", " ".join((field.description or "").split())
        if isinstance(value := getattr(section, name), BaseModel):
            yield from _meanings(value, f"{prefix}{name}.")


def _table(kind: str) -> Table:
    """The parts of one kind, with those of installed packages that no config has named yet."""
    key, registry = KINDS[kind]
    installed = [
        (name, source)
        for name, source in registry.installed().items()
        if name not in registry.names()
    ]
    records = [
        vars(one)
        | {
            "kind": kind,
            "synonyms": one.synonyms or None,
            "options": [*one.options.model_fields][1:] or None,
        }
        for one in (*registry, *(Entry(name, source=source) for name, source in installed))
    ]
    return Table.of_records(records, COLUMNS, f"{kind}  ({key})")
