"""`seq2attn inspect`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import options
from seq2attn.display.console import on_terminal, printable, write_json, write_line
from seq2attn.display.table import Column, Table
from seq2attn.plotting.style import sign
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config


def inspect(
    target: Annotated[
        str,
        typer.Argument(metavar="CONFIG|RUN", help="A YAML config, or a run's name.", autocompletion=options.runs),
    ],
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
    options.load_plugins(plugin)
    config, run = _config(target, overrides or [], runs_dir)
    from seq2attn.build import build_model, build_task, read_task
    from seq2attn.model.interface import parameter_ledger

    task = read_task(config) if run is None else build_task(config, run.learned_task(config))
    ledger = parameter_ledger(build_model(config, task))
    learned = task.learned()
    if as_json:
        found = {} if learned is None else {"task": learned}
        write_json({"config": config.model_dump(mode="json"), **found, "parameters": ledger})
        return
    lines, about = list(_explained(config)), _described(learned or {})
    if on_terminal():
        Table([Column("config"), Column("meaning")], lines).show()
        for line in about:
            write_line(printable(line))
        Table([Column("part"), Column("parameters", right=True)], list(ledger.items())).show()
        return
    for line, meaning in lines:
        write_line(f"{line:<40}  # {meaning}" if meaning else line)
    for line in (*about, *(f"parameters of {part}: {count}" for part, count in ledger.items())):
        write_line(f"# {line}")


def _described(learned: Mapping[str, Any]) -> list[str]:
    """A line for each file that a task was learned from, and for each vocabulary; none for a task without files."""
    lines = [
        f"{split} file: {file['name']}, {file['pairs']:,} pairs, {file['bytes']:,} bytes, sha256 {file['sha256']}"
        for split, file in learned.get("files", {}).items()
    ]
    for side in ("source", "target", "features"):
        symbols = learned.get(side)
        if symbols is not None:
            lines.append(f"{side} symbols, {len(symbols):,}: {' '.join(map(_visible, symbols))}")
    if learned:
        shortest, longest = learned["source_lengths"]
        lines.append(f"sources have {shortest} to {longest} symbols, targets up to {learned['longest_target']}")
    return lines


def _visible(symbol: str) -> str:
    """A symbol, quoted where it would not be seen, and a mark on a dotted circle."""
    return sign(symbol) if symbol.isprintable() and symbol.strip() == symbol else repr(symbol)


def _config(target: str, overrides: list[str], runs_dir: Path) -> tuple[Config, Run | None]:
    """The config, and its run if `target` is one."""
    from seq2attn.config import load_config
    from seq2attn.config.shipped import find_config

    if target.endswith((".yaml", ".yml")) or find_config(target).is_file():
        return load_config(target, overrides), None
    run = find_run(runs_dir, target)
    return run.config(overrides), run


def _explained(config: Config) -> Iterator[tuple[str, str]]:
    """Each line of the resolved YAML with the meaning of its key."""
    from seq2attn.config.yaml_files import write_yaml

    meanings, path = dict(_meanings(config)), list[str]()
    for line in write_yaml(config.model_dump(mode="json"), width=10**6).splitlines():
        key = line.lstrip().partition(":")[0]
        path[line.index(key) // 2 :] = [key]
        yield line, meanings.get(".".join(path), "")


def _meanings(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted keys below a section, each with its meaning."""
    from pydantic import BaseModel

    from seq2attn.config.schema import registry_of

    for name, field in type(section).model_fields.items():
        yield f"{prefix}{name}", " ".join((field.description or "").split())
        value, registry = getattr(section, name), registry_of(field)
        if isinstance(value, BaseModel):
            yield from _meanings(value, f"{prefix}{name}.")
        elif registry is not None:
            entry = registry.get(value.name)
            for option, meaning in {"name": entry.summary, **entry.meanings}.items():
                yield f"{prefix}{name}.{option}", meaning
