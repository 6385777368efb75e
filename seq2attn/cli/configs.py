"""`seq2attn list`, `config` and `inspect`: what a config can name, and what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from seq2attn.cli.options import AsJson, LoadedPlugins, Overrides, RunsDir, argument, run_names
from seq2attn.cli.outputs import show
from seq2attn.display.console import json_text, on_terminal, say, write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, unknown
from seq2attn.parts import KINDS
from seq2attn.runs.run import DEFAULT_ROOT, Run, find_run

if TYPE_CHECKING:
    from pydantic import BaseModel

    from seq2attn.config import Config

MOST_SYMBOLS = 200  # of a vocabulary, for people
WIDEST = 50  # line of a config that is never broken beside its meaning
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
    as_json: AsJson = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Show the names that a config can use; of one kind with formulas and sources.

    s is the query (the decoder's state), h a key (an encoder's state), D their width, n a string's
    length.

    Examples:

      seq2attn list

      seq2attn list scores
    """
    if kind is not None and kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    if kind is None and on_terminal() and not as_json:
        note = "keys, formulas, options and sources of one kind: seq2attn list KIND"
        rows = [(name, ", ".join(registry.names())) for name, (_, registry) in KINDS.items()]
        Table([Column("kind"), Column("names")], rows, notes=[note]).show()
        return
    records = []  # everything about the parts of one kind, or for programs, of all kinds
    for name in [kind] if kind else KINDS:
        _, registry = KINDS[name]
        for entry in registry:
            _, *options = entry.options.model_fields  # the first is the part's name
            # None, as a column without any synonyms or options is not shown to people
            about = {
                "kind": name,
                "synonyms": entry.synonyms or None,
                "options": options or None,
            }
            records.append({**vars(entry), **about})
    title = f"{kind}  ({KINDS[kind][0]})" if kind else ""  # names a config's key
    show(Table.of_records(records, COLUMNS, title), as_json)


def config(
    name: Annotated[str | None, argument("NAME", "The config's name. Default: list all.")] = None,
) -> None:
    """Print a config that comes with seq2attn, comments included, to start from.

    Examples:

      seq2attn config

      seq2attn config pairs/small > mine.yaml
    """
    from seq2attn.config.yaml_files import find_config, read_file, shipped_names

    if name is not None:
        file = find_config(name)
        read_file(file)  # names similar files if there is none
        print(file.read_text("utf-8").removesuffix("\n"))
        return
    rows = []
    for shipped in shipped_names():
        if not shipped.startswith("experiments/"):  # these are not configs
            # (without the folder, a file of the user's might be found)
            text = find_config(f"configs/{shipped}").read_text("utf-8")
            rows.append({"config": shipped, "about": _first_sentence(text)})
    Table.of_records(rows, notes=["one of them, to start from: seq2attn config NAME"]).show()


def _first_sentence(text: str) -> str:
    """Return the first sentence of a config file's comments, without its full stop. It ends at a
    full stop with a blank behind it, but not before a number, as in "et al. 2023"; otherwise where
    the comments end.
    """
    comments = " ".join(re.findall("^# (.*)", text, re.MULTILINE))
    first, *_ = re.split(r"\.(?: (?![0-9])|$)", comments)
    return first


def inspect(
    target: Annotated[
        str, argument("CONFIG|RUN", "A YAML config, or a run's name.", autocompletion=run_names)
    ],
    overrides: Overrides = None,
    as_json: AsJson = False,
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Show a config, with every key explained, and the model's parameter counts.

    For a task that reads files, also show those files and the vocabularies learned from them. In a
    pipe, the output is YAML that `train --config` accepts.

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
    lines = list(_explained(config))
    if on_terminal():
        # A long line, such as a list of lengths, has to be broken to leave room for its meaning.
        is_narrow = all(len(line) <= WIDEST for line, _ in lines)
        Table([Column("config", whole=is_narrow), Column("meaning")], lines).show()
    else:
        for line, meaning in lines:
            print(f"{line:<40}  # {meaning}" if meaning else line)
    for name, value in (learned or {}).items():
        more = ""
        if isinstance(value, list | tuple) and len(value) > MOST_SYMBOLS:  # of a vocabulary
            more = f" and {len(value) - MOST_SYMBOLS:,} more (--json has them)"
            value = value[:MOST_SYMBOLS]
        print(f"# {name.replace('_', ' ')}: {json_text(value, ensure_ascii=False)}{more}")
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
    from seq2attn.build import build_model, build_task, load_task

    if run is None:
        missing = [path for path in config.data_files.values() if not os.path.exists(path)]
        if missing:
            say(
                f"no such file: {', '.join(missing)}. To see symbols and parameter counts, add "
                "--set task.train=FILE --set task.dev=FILE"
            )
            return None, {}
        task = load_task(config)
    else:
        task = build_task(config, run.learned_task(config))
    for note in task.notes:
        say(note)
    return task.learned(), parameter_ledger(build_model(config, task))


def _explained(section: BaseModel, indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield each line of a config's section as YAML, with the meaning of its key. The lines below a
    key that hold the items of its list have an empty meaning.

    indent: the blanks before each line.
    """
    from seq2attn.config.yaml_files import write_yaml

    values = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        meaning = " ".join((field.description or "").split())
        if isinstance(values[name], dict):
            below = getattr(section, name)
            if isinstance(below, tuple):  # a list of one part, which is written as that part
                (below,) = below
            yield f"{indent}{name}:", meaning
            yield from _explained(below, f"{indent}  ")
        else:
            # a width that no line has: a long text stays on the line of its key
            line, *items = write_yaml({name: values[name]}, width=10**6).splitlines()
            yield indent + line, meaning
            for item in items:
                yield indent + item, ""
