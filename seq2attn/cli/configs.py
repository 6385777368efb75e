"""`seq2attn list`, `config` and `inspect`: what a config can name, and what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from seq2attn.cli.options import AsJson, LoadedPlugins, Overrides, RunsDir, argument
from seq2attn.display.console import json_text, say, write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, unknown
from seq2attn.findings.engine import CATALOGUE
from seq2attn.parts import KINDS
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config

WIDTH = 77  # of the text of comments, which then fit a terminal of 80 columns
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
        argument("KIND", f"{', '.join(KINDS)}, findings. Default: all kinds."),
    ] = None,
    as_json: AsJson = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Show the names that a config can use, or one kind in full.

    s is the query (the decoder's state), h a key (an encoder's state), D their width, n a string's
    length. Findings are what `check` may say.

    Examples:

      seq2attn list

      seq2attn list scores

      seq2attn list findings
    """
    if kind is None:
        note = "keys, formulas, options and sources of one kind: seq2attn list KIND"
        rows = [(name, ", ".join(registry.names())) for name, registry in KINDS.items()]
        Table([Column("kind"), Column("names")], rows, notes=[note]).show(as_json)
        return
    if kind == "findings":
        texts = [(code, one.level, one.outline) for code, one in CATALOGUE.items()]
        Table([Column("finding"), Column("level"), Column("text")], texts).show(as_json)
        return
    if kind not in KINDS:
        raise unknown("kind", kind, [*KINDS, "findings"])
    registry = KINDS[kind]
    records = []
    for entry in registry:
        _, *options = entry.options.model_fields  # the first is the part's name
        records.append({**vars(entry), "kind": kind, "options": options})
    Table.of_records(records, COLUMNS, f"{kind}  ({registry.config_key})").show(as_json)


def config(
    name: Annotated[str | None, argument("NAME", "The config's name. Default: list all.")] = None,
) -> None:
    """Print a config that comes with seq2attn, to start from.

    Examples:

      seq2attn config

      seq2attn config pairs/small > mine.yaml
    """
    from seq2attn.config.yaml_files import find_config, read_file, shipped_folder, shipped_names

    if name is not None:
        file = find_config(name)
        read_file(file)  # only to raise its error if there is none, which names similar ones
        print(file.read_text("utf-8").removesuffix("\n"))
        return
    rows = []
    for shipped in shipped_names():
        text = (shipped_folder() / f"{shipped}.yaml").read_text("utf-8")
        comments = " ".join(re.findall("^# (.*)", text, re.MULTILINE))
        first_sentence, *_ = comments.split(". ")
        rows.append({"config": shipped, "about": first_sentence.removesuffix(".")})
    Table.of_records(rows, notes=["one of them, to start from: seq2attn config NAME"]).show()


def inspect(
    target: Annotated[str, argument("CONFIG|RUN", "A YAML config, or a run's name.")],
    overrides: Overrides = None,
    as_json: AsJson = False,
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Show a config with every key explained, and parameter counts.

    For a task that reads files, also show those files and the vocabularies learned from them. The
    output is YAML that `train --config` accepts.

    Examples:

      seq2attn inspect configs/scaled.yaml

      seq2attn inspect configs/scaled.yaml --set model.hidden=256 > wide.yaml
    """
    from seq2attn.config import load_config
    from seq2attn.config.yaml_files import find_config

    is_file = target.endswith((".yaml", ".yml")) or find_config(target).is_file()
    try:
        run = None if is_file else find_run(runs_dir, target)
    except Seq2AttnError as error:
        error.hint = error.hint or "`seq2attn config` lists the configs that come with seq2attn."
        raise
    config = load_config(run.config if run else target, overrides or [])
    learned, parameters = _learn(config, run)
    if as_json:
        values = config.model_dump(mode="json")
        write_json({"config": values, "task": learned, "parameters": parameters})
        return

    # as YAML, in which everything that does not belong to the config is a comment
    for line in _explained(config):
        print(line)
    for name, value in (learned or {}).items():
        print(f"# {name.replace('_', ' ')}: {json_text(value, ensure_ascii=False)}")
    for part, count in parameters.items():
        print(f"# parameters, {part}: {count:,}")


def _learn(config: Config, run: Run | None) -> tuple[Mapping[str, Any] | None, dict[str, int]]:
    """Return what the task learns from its files, such as their vocabularies (None if it reads no
    files), and the number of parameters of each part of the model.

    A run has kept what was learned. Without a run, the files of the config are read; if one is
    missing, as in a recipe that leaves them to the user, a message says so, and the result is None
    and {}.
    """
    from seq2attn.analysis.costs import parameter_ledger
    from seq2attn.build import build_model, build_task

    if run is None:
        missing = [path for path in config.data_files.values() if not os.path.exists(path)]
        if missing:
            say(
                f"no such file: {', '.join(missing)}. To see symbols and parameter counts, add "
                "--set task.train=FILE --set task.dev=FILE"
            )
            return None, {}
    task = build_task(config, run.learned_task(config) if run else None)
    for note in task.notes:
        say(note)
    return task.learned(), parameter_ledger(build_model(config, task))


def _explained(section: BaseModel, indent: str = "") -> Iterator[str]:
    """Yield lines of YAML: keys and values of a config's section, each below its meaning, if it has
    one, as a comment. A section in it follows the same way, indented by two blanks more.

    indent: the blanks before each line.
    """
    from seq2attn.config.yaml_files import write_yaml

    values = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        if field.description:
            text, width = " ".join(field.description.split()), WIDTH - len(indent)
            for line in wrap(text, width, break_on_hyphens=False):
                yield f"{indent}# {line}"
        if isinstance(values[name], dict):
            below = getattr(section, name)
            if isinstance(below, tuple):  # a list of one part, which is written as that part
                (below,) = below
            yield f"{indent}{name}:"
            yield from _explained(below, f"{indent}  ")
        else:
            # a width that no line has: a long text stays on the line of its key
            lines = write_yaml({name: values[name]}, width=10**6).splitlines()
            yield from (indent + line for line in lines)
