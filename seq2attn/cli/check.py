"""`seq2attn check`"""

from __future__ import annotations

from typing import Annotated

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.cli.options import argument
from seq2attn.display.console import say
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.text import did_you_mean, quoted

COLUMNS = [Column(name) for name in ("kind", "name", "rule", "result")]
EQUAL_WIDTHS = (
    'If it is for keys as wide as queries only, say so: @register("name", equal_widths=True)'
)
KINDS = {registry.kind.replace(" ", "-"): registry for registry in parts.EXTENSIBLE}


def check(
    names: Annotated[
        list[str] | None,
        argument(
            "NAME...",
            "NAME or KIND/NAME; by default all parts of the plug-ins, or else all.",
            autocompletion=lambda: [
                entry.name for registry in parts.EXTENSIBLE for entry in registry
            ],
        ),
    ] = None,
    plugin: options.Plugins = None,
) -> None:
    """Check parts of models, and tasks, against their contract.

    Parts of a model: shapes, weights that sum to 1, independence of padding and of the other rows
    of a batch, teacher forcing against single steps, gradients against finite differences. Tasks:
    ids, lengths, padding, randomness, alignments and answers, one step of training and an
    evaluation. Options have their default values.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive
    """
    from seq2attn.plugins import foreign_parts

    added = [part for part, cls in _known().items() if cls in foreign_parts()]
    from seq2attn.contract.parts import check_part

    rows, broken, hints = [], 0, list[str]()
    chosen = [_find(name) for name in names or ()] or added or list(_known())
    for part in chosen:
        kind, _, name = part.partition("/")
        registry = KINDS[kind]
        for rule, reason in check_part(registry.kind, name).items():
            rows.append((kind, name, rule, reason.partition("\n")[0] or "passed"))
            if reason:
                broken += 1
                base = next(
                    cls for cls in registry.load(name).__mro__ if "registry" in vars(cls)
                ).__name__
                hints.append(f"`help(seq2attn.{base})`: what such a part returns.")
                if kind == "score" and rule == "shape" and not registry.get(name).equal_widths:
                    hints.append(EQUAL_WIDTHS)
    Table(COLUMNS, rows).show()
    say("Options had their default values; `train` tries the values that its config chooses.")
    if broken:
        message = f"broken parts: {broken} of {len(chosen)} (the rules after a broken one rest on it, and were not tried)"
        raise Seq2AttnError(message, hint="\n".join(dict.fromkeys(hints)), exit_code=1)


def _known() -> dict[str, object]:
    """KIND/NAME of every part that can be checked -> its class, or where that is."""
    return {
        f"{kind}/{entry.name}": entry.implementation
        for kind, registry in KINDS.items()
        for entry in registry
        if entry.implementation and not entry.files
    }


def _find(word: str) -> str:
    """The KIND/NAME that NAME or KIND/NAME means."""
    kind, _, name = word.rpartition("/")
    if kind in KINDS:
        KINDS[kind].get(name)  # perhaps of an installed package
    found = [part for part in _known() if part == word or part.endswith(f"/{word}")]
    if len(found) != 1:
        guess = did_you_mean(word, [part.partition("/")[2] for part in _known()])
        problem = f"{quoted(word)} is not the name of one part; {guess}"
        raise Seq2AttnError(f"{problem}allowed: {', '.join(found or _known())}")
    return found[0]
