"""`seq2attn inspect`"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from seq2attn.cli import options
from seq2attn.cli.options import argument
from seq2attn.display.console import json_text, note, on_terminal, write_json, write_line
from seq2attn.display.table import Column, Table
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config


def inspect(
    target: Annotated[str, argument("CONFIG|RUN", "A YAML config, or a run's name.", autocompletion=options.runs)],
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Show a config, every key explained, and parameter counts.

    Of a task that reads files, also those files and the vocabularies learned from them. In a pipe, the output is YAML that
    `train --config` accepts.

    Examples:

      seq2attn inspect configs/scaled.yaml

      seq2attn inspect configs/scaled.yaml --set model.hidden=256 > wide.yaml
    """
    config, run = _config(target, overrides or [], runs_dir)
    from seq2attn.build import build_model, build_task, read_task
    from seq2attn.config.yaml_files import write_yaml
    from seq2attn.model.interface import parameter_ledger

    missing = [path for path in config.data_files.values() if run is None and not os.path.exists(path)]
    learned, ledger = None, {}
    if missing:
        note(f"no such file: {', '.join(missing)}; with --set task.train=FILE --set task.dev=FILE: symbols, parameters")
    else:
        task = read_task(config) if run is None else build_task(config, run.learned_task(config))
        learned, ledger = task.learned(), parameter_ledger(build_model(config, task))
        for line in task.notes:
            note(line)
    values = config.model_dump(mode="json")
    if as_json:
        write_json({"config": values, **({} if learned is None else {"task": learned}), "parameters": ledger})
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
