"""`seq2attn inspect`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2attn.cli import completion, options
from seq2attn.cli.output import on_terminal, stdout, table, write_json, write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config


def inspect(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG|RUN", help="A YAML config, or a run's name.", autocompletion=completion.configs_and_runs
        ),
    ],
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Show a config with every key resolved and explained, and the model's parameter counts.

    In a pipe, the output is YAML that `train --config` accepts.

    Examples:

      seq2attn inspect configs/scaled.yaml

      seq2attn inspect scaled-001

      seq2attn inspect configs/scaled.yaml --set model.hidden=256 > wide.yaml
    """
    options.load_plugins(plugin)
    config = _config(target, overrides or [], runs_dir)
    from seq2attn.model.build import build_model
    from seq2attn.model.parameters import parameter_ledger
    from seq2attn.runs.footprint import check_model_memory

    check_model_memory(config)
    ledger = parameter_ledger(build_model(config))
    if as_json:
        write_json({"config": config.model_dump(mode="json"), "parameters": ledger})
        return
    lines = list(_explained(config))
    if on_terminal():
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 3))
        for line, meaning in lines:
            key, colon, value = line.partition(": ")
            pair = Table.grid()  # so that a long value continues below its beginning
            pair.add_row(Text(key + colon), Text(value, overflow="fold"))
            grid.add_row(pair, Text(meaning, style="dim"))
        stdout().print(grid, soft_wrap=False)
        rows = [[part, f"{count:,}"] for part, count in ledger.items()]
        stdout().print(table(("part", "parameters"), rows, right=("parameters",)))
    else:
        for line, meaning in lines:
            write_line(f"{line:<40}  # {meaning}" if meaning else line)
        for part, count in ledger.items():
            write_line(f"# parameters of {part}: {count}")


def _config(target: str, overrides: list[str], runs_dir: Path) -> Config:
    from seq2attn.config import check_overrides, load_config
    from seq2attn.config.shipped import find_config

    check_overrides(overrides)
    if target.endswith((".yaml", ".yml")) or Path(target).is_file():
        return load_config(Path(target), overrides)
    try:
        run = find_run(runs_dir, target)
    except Seq2AttnError as error:
        if find_config(target).is_file():
            return load_config(target, overrides)
        raise Seq2AttnError(f"{target!r} is not a config file, and {error.message}", hint=error.hint) from None
    return run.config(overrides)


def _explained(model: BaseModel, indent: str = "") -> Iterator[tuple[str, str]]:
    """Each line of the resolved YAML with the meaning of its key."""
    from pydantic import BaseModel

    from seq2attn.config.keys import part_of

    for name, field in type(model).model_fields.items():
        value, meaning = getattr(model, name), " ".join((field.description or "").split())
        part = part_of(field)
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:", ""
            yield from _explained(value, f"{indent}  ")
        elif part is None:
            yield f"{indent}{name}: {_scalar(value)}", meaning
        elif not value.options:
            yield f"{indent}{name}: {_scalar(value.name)}", meaning
        else:
            entry = part.registry.get(value.name)
            yield f"{indent}{name}:", meaning
            yield f"{indent}  name: {_scalar(value.name)}", entry.summary
            for option, given in value.options.items():
                yield f"{indent}  {option}: {_scalar(given)}", entry.options[option].meaning


def _scalar(value: Any) -> str:
    from seq2attn.config.yaml_files import write_yaml

    plain = list(value) if isinstance(value, tuple) else value
    return write_yaml(plain, flow=True, width=10**6).removesuffix("...\n").strip()
