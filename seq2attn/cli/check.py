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
from seq2attn.registry import UnknownName

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
    before = {(word, entry.name) for word, registry in KINDS.items() for entry in registry}
    options.load_plugins(plugin)
    if kind is not None and kind not in KINDS:
        raise Seq2AttnError(f"unknown kind {shown(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}")
    allowed = [
        (word, entry.name)
        for word, registry in KINDS.items()
        for entry in registry
        if kind in (None, word) and entry.implementation is not None
    ]
    without_files = [part for part in allowed if not KINDS[part[0]].get(part[1]).files]
    added = [part for part in without_files if part not in before]
    if plugin and not added and not names:
        raise Seq2AttnError(f"the plug-in registered no {kind or 'part'} to check")
    chosen = [_find(name, allowed) for name in names or ()] or added or without_files
    if option and len(chosen) > 1:
        raise Seq2AttnError(
            f"--option is for one part; there are {len(chosen)}: {', '.join(name for _, name in chosen)}"
        )
    given = _options(*chosen[0], option) if option else {}
    from seq2attn.contract.parts import check_part

    rows = [
        (word, name, rule, reason or "passed")
        for word, name in chosen
        for rule, reason in check_part(KINDS[word].kind, name, given).items()
    ]
    Table(COLUMNS, rows).show()
    failed = [row for row in rows if row[-1] != "passed"]
    if failed:
        bases = [
            next(base for base in KINDS[word].load(name).__mro__ if "registry" in vars(base))
            for word, name, *_ in failed
        ]
        helps = [f"`help({base.__module__}.{base.__name__})`" for base in dict.fromkeys(bases)]
        hint = f"{' and '.join(helps)} {'says' if len(helps) == 1 else 'say'} what such a part takes and returns."
        if any(
            rule == "shape" and word == "score" and not KINDS[word].get(name).equal_widths
            for word, name, rule, _ in failed
        ):
            hint += '\nIf a score is for keys as wide as queries only, say so: @register("name", equal_widths=True)'
        raise Seq2AttnError(f"{len(failed)} of {len(rows)} rules are broken", hint=hint, exit_code=1)


def _find(word: str, allowed: list[tuple[str, str]]) -> tuple[str, str]:
    """The kind and name of the part that NAME or KIND/NAME means."""
    kind, slash, name = word.rpartition("/")
    if slash and kind not in KINDS:
        raise Seq2AttnError(
            f"{word}: unknown kind {shown(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}"
        )
    kinds = [kind] if slash else dict.fromkeys(kind for kind, _ in allowed)
    meant = [(kind, entry.name) for kind in kinds for entry in KINDS[kind] if name in (entry.name, *entry.synonyms)]
    found = [part for part in meant if part in allowed]
    if len(found) > 1:
        spellings = " or ".join("/".join(part) for part in found)
        raise Seq2AttnError(f"{name!r} is the name of more than one part", hint=f"Say which: {spellings}.")
    if meant and not found:
        raise Seq2AttnError(f"{meant[0][0]} {name!r}: there is nothing to check, it leaves the part out")
    if not found and len(kinds) == 1:  # perhaps of an installed package
        return next(iter(kinds)), KINDS[next(iter(kinds))].get(name).name  # raises UnknownName
    if not found:
        known = [name for _, name in allowed]
        raise UnknownName(f"unknown part {shown(name)}; {did_you_mean(name, known)}allowed: {', '.join(known)}")
    return found[0]


def _options(kind: str, name: str, given: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE each, read and checked as in a config."""
    from seq2attn.config import check_config
    from seq2attn.config.schema import PARTS

    for word in given:
        if not word.partition("=")[1]:
            raise Seq2AttnError(f"--option {word}: expected NAME=VALUE, such as width=8")
    (key,) = (key for key, registry in PARTS.items() if registry is KINDS[kind])
    overrides = [f"{key}={name}", *(f"{key}.{word}" for word in given)]
    try:
        config = check_config({"evaluation": {"lengths": [1]}}, overrides, source="--option")
    except ConfigError as error:
        problems = [
            replace(problem, path=problem.path.removeprefix(f"{key}."), where=None) for problem in error.problems
        ]
        raise ConfigError("--option", problems) from None
    choice: Any = reduce(getattr, key.split("."), config)
    return dict(choice.keywords)
