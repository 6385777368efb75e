"""`seq2attn inspect`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.output import write_json
from seq2attn.display.console import on_terminal, printable, write_line
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.plotting.style import sign
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config
    from seq2attn.data.tasks import Task


def inspect(
    target: Annotated[
        str,
        typer.Argument(metavar="CONFIG|RUN", help="A YAML config, or a run's name.", autocompletion=completion.runs),
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

      seq2attn inspect scaled-001

      seq2attn inspect configs/scaled.yaml --set model.hidden=256 > wide.yaml
    """
    options.load_plugins(plugin)
    config, run = _config(target, overrides or [], runs_dir)
    from seq2attn.build import build_model, build_task, read_task
    from seq2attn.model.parameters import parameter_ledger

    task = read_task(config) if run is None else build_task(config, run.learned_task(config))
    ledger = parameter_ledger(build_model(config, task))
    learned = task.learned()
    if as_json:
        found = {} if learned is None else {"task": learned}
        write_json({"config": config.model_dump(mode="json"), **found, "parameters": ledger})
        return
    lines = list(_explained(config))
    if on_terminal():
        Table([Column("config"), Column("meaning")], lines).show()
        for line in _described_task(task):
            write_line(printable(line))
        Table([Column("part"), Column("parameters", right=True)], list(ledger.items())).show()
        return
    for line, meaning in lines:
        write_line(f"{line:<40}  # {meaning}" if meaning else line)
    for line in _described_task(task):
        write_line(f"# {line}")
    for part, count in ledger.items():
        write_line(f"# parameters of {part}: {count}")


def _described_task(task: Task) -> list[str]:
    """A line for each file that the task was learned from, and for each vocabulary; none for a task without files."""
    learned = task.learned()
    if learned is None:
        return []
    lines = [
        f"{split} file: {file['name']}, {file['pairs']:,} pairs, {file['bytes']:,} bytes, sha256 {file['sha256']}"
        for split, file in learned["files"].items()
    ]
    for side in ("source", "target", "features"):
        if learned[side] is not None:
            lines.append(f"{side} symbols, {len(learned[side]):,}: {' '.join(map(_visible, learned[side]))}")
    shortest, longest = learned["source_lengths"]
    return [*lines, f"sources have {shortest} to {longest} symbols, targets up to {learned['longest_target']}"]


def _visible(symbol: str) -> str:
    """A symbol, quoted where it would not be seen, and a mark on a dotted circle."""
    return sign(symbol) if symbol.isprintable() and symbol.strip() == symbol else repr(symbol)


def _config(target: str, overrides: list[str], runs_dir: Path) -> tuple[Config, Run | None]:
    """The config, and its run if `target` is one."""
    from seq2attn.config import load_config
    from seq2attn.config.shipped import find_config

    if target.endswith((".yaml", ".yml")) or Path(target).is_file():
        return load_config(Path(target), overrides), None
    try:
        run = find_run(runs_dir, target)
    except Seq2AttnError as error:
        if find_config(target).is_file():
            return load_config(target, overrides), None
        raise Seq2AttnError(f"{target!r} is not a config file, and {error.message}", hint=error.hint) from None
    return run.config(overrides), run


def _explained(model: BaseModel, indent: str = "") -> Iterator[tuple[str, str]]:
    """Each line of the resolved YAML with the meaning of its key."""
    from pydantic import BaseModel

    from seq2attn.config.schema import registry_of

    for name, field in type(model).model_fields.items():
        value, meaning = getattr(model, name), " ".join((field.description or "").split())
        registry = registry_of(field)
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:", ""
            yield from _explained(value, f"{indent}  ")
        elif registry is None:
            yield f"{indent}{name}: {_scalar(value)}", meaning
        elif not value.keywords:
            yield f"{indent}{name}: {_scalar(value.name)}", meaning
        else:
            entry = registry.get(value.name)
            yield f"{indent}{name}:", meaning
            yield f"{indent}  name: {_scalar(value.name)}", entry.summary
            for option, given in value.keywords.items():
                yield f"{indent}  {option}: {_scalar(given)}", entry.meanings[option]


def _scalar(value: Any) -> str:
    from seq2attn.config.yaml_files import write_yaml

    plain = list(value) if isinstance(value, tuple) else value
    return write_yaml(plain, flow=True, width=10**6).removesuffix("...\n").strip()
