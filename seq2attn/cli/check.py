"""`seq2attn check`"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.display.table import Column, Table
from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, shown
from seq2attn.registry import Entry, UnknownName

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
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help=f"Only parts of one kind: {', '.join(KINDS)}.",
            autocompletion=lambda: list(KINDS),
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

      seq2attn check --kind cell
    """
    before = {entry for registry in KINDS.values() for entry in registry}
    options.load_plugins(plugin)
    if kind is not None and kind not in KINDS:
        raise Seq2AttnError(f"unknown kind {shown(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}")
    allowed = [(word, entry) for word in ([kind] if kind else KINDS) for entry in KINDS[word] if entry.implementation]
    without_files = [(word, entry) for word, entry in allowed if not entry.files]
    added = [(word, entry) for word, entry in without_files if entry not in before]
    if plugin and not added and not names:
        raise Seq2AttnError(f"the plug-in registered no {kind or 'part'} to check")
    chosen = [_find(name, allowed) for name in names or ()] or added or without_files
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
        bases = dict.fromkeys(
            next(base for base in entry.load().__mro__ if "registry" in vars(base)) for _, entry, _ in broken
        )
        hint = (
            f"{' and '.join(f'`help({base.__module__}.{base.__name__})`' for base in bases)}: what such a part returns."
        )
        if any(word == "score" and rule == "shape" and not entry.equal_widths for word, entry, rule in broken):
            hint += '\nIf a score is for keys as wide as queries only, say so: @register("name", equal_widths=True)'
        raise Seq2AttnError(f"{len(broken)} of {len(rows)} rules are broken", hint=hint, exit_code=1)


def _find(word: str, allowed: list[tuple[str, Entry]]) -> tuple[str, Entry]:
    """The kind and the entry of the part that NAME or KIND/NAME means."""
    kind, _, name = word.rpartition("/")
    found = [part for part in allowed if kind in ("", part[0]) and name in (part[1].name, *part[1].synonyms)]
    if len(found) > 1:
        spellings = " or ".join(f"{kind}/{entry.name}" for kind, entry in found)
        raise Seq2AttnError(f"{name!r} is the name of more than one part", hint=f"Say which: {spellings}.")
    if not found and kind in KINDS:  # perhaps of an installed package
        found = [(kind, KINDS[kind].get(name))]  # raises UnknownName
    if not found or not found[0][1].implementation:
        known = [entry.name for _, entry in allowed]
        raise UnknownName(f"unknown part {shown(word)}; {did_you_mean(name, known)}allowed: {', '.join(known)}")
    return found[0]


def _options(kind: str, entry: Entry, given: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE each, read and checked as in a config."""
    from seq2attn.config import check_config
    from seq2attn.config.schema import PARTS

    for word in given:
        if not word.partition("=")[1]:
            raise Seq2AttnError(f"--option {word}: expected NAME=VALUE, such as width=8")
    (key,) = (key for key, registry in PARTS.items() if registry is KINDS[kind])
    overrides = [f"{key}={entry.name}", *(f"{key}.{word}" for word in given)]
    try:
        config = check_config({"evaluation": {"lengths": [1]}}, overrides, source="--option")
    except ConfigError as error:
        problems = [
            replace(problem, path=problem.path.removeprefix(f"{key}."), where=None) for problem in error.problems
        ]
        raise ConfigError("--option", problems) from None
    choice: Any = reduce(getattr, key.split("."), config)
    return dict(choice.keywords)
