"""`seq2attn check`"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.display.table import Column, Table
from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Entry

COLUMNS = [Column(name) for name in ("kind", "name", "rule", "result")]
KINDS = {registry.kind.replace(" ", "-"): registry for registry in parts.EXTENSIBLE}


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="NAME or KIND/NAME; by default all parts of the plug-ins, or else all.",
            autocompletion=options.names_in(*parts.EXTENSIBLE),
        ),
    ] = None,
    plugin: options.Plugins = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="NAME=VALUE", help="An option of the part, such as width=8. May be repeated."
        ),
    ] = None,
) -> None:
    """Check parts of models, and tasks, against their contract.

    Parts of a model: shapes, weights that sum to 1, independence of padding and of the other rows of a batch, teacher
    forcing against single steps, gradients against finite differences. Tasks: ids, lengths, padding, randomness,
    alignments and answers.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive --option width=8
    """
    options.load_plugins(plugin)
    from seq2attn.config.plugins import foreign_parts

    known = [(kind, entry) for kind in KINDS for entry in KINDS[kind] if entry.implementation and not entry.files]
    foreign = {part.cls for part in foreign_parts()}
    added = [part for part in known if part[1].implementation in foreign]
    if plugin and not added and not names:
        raise Seq2AttnError("the plug-in registered no part to check")
    chosen = [_find(name, known) for name in names or ()] or added or known
    if option and len(chosen) > 1:
        many = ", ".join(entry.name for _, entry in chosen)
        raise Seq2AttnError(f"--option is for one part; there are {len(chosen)}: {many}")
    given = _options(*chosen[0], option) if option else {}
    from seq2attn.contract.parts import check_part

    broken: list[tuple[str, Entry, str]] = []
    rows = []
    for word, entry in chosen:
        for rule, reason in check_part(KINDS[word].kind, entry.name, given).items():
            rows.append((word, entry.name, rule, reason.partition("\n")[0] or "passed"))
            broken += [(word, entry, rule)] if reason else []
    Table(COLUMNS, rows).show()
    if broken:
        bases = {next(base for base in entry.load().__mro__ if "registry" in vars(base)) for _, entry, _ in broken}
        helps = " and ".join(sorted(f"`help({base.__module__}.{base.__name__})`" for base in bases))
        hint = f"{helps}: what such a part returns."
        if any(word == "score" and rule == "shape" and not entry.equal_widths for word, entry, rule in broken):
            hint += '\nIf a score is for keys as wide as queries only, say so: @register("name", equal_widths=True)'
        raise Seq2AttnError(f"{len(broken)} of {len(rows)} rules are broken", hint=hint, exit_code=1)


def _find(word: str, known: list[tuple[str, Entry]]) -> tuple[str, Entry]:
    """The kind and the entry of the part that NAME or KIND/NAME means."""
    kind, _, name = word.rpartition("/")
    found = [(kind, entry) for kind, entry in known if word in (entry.name, *entry.synonyms)]
    if kind in KINDS and (entry := KINDS[kind].get(name)).implementation:  # perhaps of an installed package
        found = [(kind, entry)]
    if len(found) != 1:
        allowed = [f"{kind}/{entry.name}" for kind, entry in found or known]
        guess = did_you_mean(word, [entry.name for _, entry in known])
        problem = (
            f"{shown(word)} is the name of more than one part; " if found else f"unknown part {shown(word)}; {guess}"
        )
        raise Seq2AttnError(f"{problem}allowed: {', '.join(allowed)}")
    return found[0]


def _options(kind: str, entry: Entry, given: list[str]) -> dict[str, Any]:
    """NAME=VALUE each, read and checked as in a config."""
    from seq2attn.config import check_config
    from seq2attn.config.schema import PARTS

    for word in given:
        if "=" not in word:
            raise Seq2AttnError(f"--option {word}: expected NAME=VALUE, such as width=8")
    (key,) = (key for key, registry in PARTS.items() if registry is KINDS[kind])
    overrides = [f"{key}={entry.name}", *(f"{key}.{word}" for word in given)]
    try:
        config = check_config({"evaluation": {"lengths": [1]}}, overrides, source="--option")
    except ConfigError as error:
        paths = [problem.path.removeprefix(f"{key}.") for problem in error.problems]
        problems = [
            replace(problem, path=path, where=None) for problem, path in zip(error.problems, paths, strict=True)
        ]
        raise ConfigError("--option", problems) from None
    choice: Any = reduce(getattr, key.split("."), config)
    return {name: value for name, value in choice if name != "name"}
