"""`seq2attn check`"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Annotated, Any

import typer

from seq2attn.cli import completion, options
from seq2attn.display.console import on_terminal
from seq2attn.display.table import Column, Table
from seq2attn.errors import ConfigError, Seq2AttnError, did_you_mean, shown
from seq2attn.parts import EXTENSIBLE
from seq2attn.registry import Entry, Registry, UnknownName

COLUMNS = [Column(name) for name in ("kind", "name", "check", "result")]
KINDS = {registry.kind.replace(" ", "-"): registry for registry in EXTENSIBLE}


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="NAME or KIND/NAME; by default all parts of the plug-ins, or else all.",
            autocompletion=completion.checkable,
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

    Parts of a model: shapes, independence of padding and of the other rows of a batch, teacher forcing against single
    steps, gradients against finite differences. Tasks: ids, lengths, padding, randomness, alignments and answers.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive --option width=8

      seq2attn check --kind cell
    """
    before = {(one, entry.name) for one, registry in KINDS.items() for entry in registry}
    options.load_plugins(plugin)
    if kind is not None and kind not in KINDS:
        raise Seq2AttnError(f"unknown kind {shown(kind)}; {did_you_mean(kind, KINDS)}allowed: {', '.join(KINDS)}")
    kinds = [kind] if kind is not None else list(KINDS)
    entries = [(one, entry) for one in kinds for entry in KINDS[one] if entry.implementation is not None]
    everything = [(one, entry.name) for one, entry in entries if not entry.files]  # a part that reads files needs them
    added = [part for part in everything if part not in before]
    if plugin and not added and not names:
        raise Seq2AttnError(f"the plug-in registered no {kind or 'part'} to check")
    parts = [_find(name, kinds) for name in names or ()] or added or everything
    if option and len(parts) > 1:
        raise Seq2AttnError(f"--option is for one part; there are {len(parts)}: {', '.join(name for _, name in parts)}")
    given = _options(*parts[0], option) if option else {}
    from seq2attn.analysis.contract import CHECKS, advice, run_check

    rows = [
        (one, name, label, run_check(label, KINDS[one].kind, name, given))
        for one, name in parts
        for label in CHECKS[KINDS[one].kind]
    ]
    Table(COLUMNS, list(_once(rows)) if on_terminal() else [(*row, result or "passed") for *row, result in rows]).show()
    failed = [row for row in rows if row[-1]]
    if failed:
        hints = [advice(KINDS[one].kind, name, given) for one, name in dict.fromkeys(row[:2] for row in failed)]
        hint = "\n".join(filter(None, hints)) or None
        raise Seq2AttnError(f"{len(failed)} of {len(rows)} checks failed", hint=hint, exit_code=1)


def _find(word: str, kinds: list[str]) -> tuple[str, str]:
    """The kind and name of the part that NAME or KIND/NAME means."""
    kind, slash, name = word.rpartition("/")
    if slash and kind not in kinds:
        raise Seq2AttnError(
            f"{word}: unknown kind {shown(kind)}; {did_you_mean(kind, kinds)}allowed: {', '.join(kinds)}"
        )
    kinds = [kind] if slash else kinds
    found = {kind: entry for kind in kinds if (entry := _entry(KINDS[kind], name)) is not None}
    with_code = [(kind, entry.name) for kind, entry in found.items() if entry.implementation is not None]
    if len(with_code) > 1:
        spellings = " or ".join(f"{kind}/{name}" for kind, name in with_code)
        raise Seq2AttnError(f"{name!r} is the name of more than one part", hint=f"Say which: {spellings}.")
    if with_code:
        return with_code[0]
    if found:
        raise Seq2AttnError(f"{' and '.join(found)} {name!r}: there is nothing to check, it leaves the part out")
    if len(kinds) == 1:
        KINDS[kinds[0]].get(name)  # raises UnknownName
    known = [entry.name for kind in kinds for entry in KINDS[kind] if entry.implementation is not None]
    raise UnknownName(f"unknown part {shown(name)}; {did_you_mean(name, known)}allowed: {', '.join(known)}")


def _entry(registry: Registry, name: str) -> Any:
    try:
        return registry.get(name)
    except UnknownName:
        return None


def _options(kind: str, name: str, given: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE each, read and checked as in a config."""
    from seq2attn.config import check_config
    from seq2attn.config.schema import PARTS

    for one in given:
        if not one.partition("=")[1]:
            raise Seq2AttnError(f"--option {one}: expected NAME=VALUE, such as width=8")
    (key,) = (key for key, registry in PARTS.items() if registry is KINDS[kind])
    overrides = [f"{key}={name}", *(f"{key}.{one}" for one in given)]
    try:
        config = check_config({"evaluation": {"lengths": [1]}}, overrides, source="--option")
    except ConfigError as error:
        problems = [replace(one, path=one.path.removeprefix(f"{key}."), where=None) for one in error.problems]
        raise ConfigError("--option", problems, hint=f"Its options: {_listed(KINDS[kind].get(name))}") from None
    choice: Any = reduce(getattr, key.split("."), config)
    return dict(choice.keywords)


def _listed(entry: Entry) -> str:
    return "; ".join(f"{option}, {meaning}" for option, meaning in entry.meanings.items()) or "it has none"


def _once(rows: list[tuple[str, str, str, str]]) -> Iterator[tuple[str, str, str, str]]:
    """For people: a reason that several checks of a part give is shown in full once."""
    shown_before = set()
    for kind, name, label, result in rows:
        yield kind, name, label, "the same" if (kind, name, result) in shown_before else result or "passed"
        if result:
            shown_before.add((kind, name, result))
