"""`seq2attn check`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn import parts
from seq2attn.cli.examination import Places, examine, expected, literals
from seq2attn.cli.options import AsJson, LoadedPlugins, Texts, argument, option
from seq2attn.cli.outputs import show
from seq2attn.display.console import say
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError, unknown
from seq2attn.text import quoted

CHECKED = {registry.kind.replace(" ", "-"): registry for registry in parts.EXTENSIBLE}
"""the kinds of parts that plug-ins can add to, as KIND/NAME writes them, such as `initial-state`"""
HINT = (
    "`help(seq2attn.Score)`, and so on for other kinds, says what a part returns. A score that "
    'needs keys as wide as queries says so: @register("name", equal_widths=True)'
)


Names = Annotated[
    Texts,
    argument(
        "NAME",
        "NAME or KIND/NAME. Default: every part of the plug-ins; without plug-ins, all parts.",
        autocompletion=lambda: list(_known()),
    ),
]
Expect = Annotated[
    Texts,
    option(
        "SCORE",
        "Compare scores with this one: a name, or a formula of a query s, a key h and their "
        "width D. Of several names of --attention: NAME=SCORE. May be repeated.",
    ),
]
Attention = Annotated[
    str | None,
    option(
        "FILE:NAME",
        "Examine this attention, a function, a class or a module, instead. FILE may be a "
        "notebook, a folder, or a pattern in quotes, and there may be several names, "
        "with commas. A table has a row for each file.",
    ),
]
Sizes = Annotated[
    str | None,
    option("N,N", "What the constructor of --attention is given; by default some are tried."),
]
Widths = Annotated[
    str | None, option("N,N", "The widths of the query and of the keys of --attention.")
]
Require = Annotated[
    Texts,
    option(
        "causal|window=N|returns=NAMES",
        "What a row of --attention may see, or what it returns, such as returns=context,weights: "
        "exactly these, in this order. May be repeated.",
    ),
]
Allow = Annotated[Texts, option("CODE", "Leave out this finding of --attention. May be repeated.")]
Feedback = Annotated[
    Path | None, option("FOLDER", "Write a text on each file of --attention.", file_okay=False)
]
Timeout = Annotated[float, option("SECONDS", "The most that one --attention may take.", min=0.1)]
Jobs = Annotated[
    int | None, option("N", "How many of --attention at a time. Default: one a core.", min=1)
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show what the files of --attention print.")
]


def check(
    names: Names = None,
    plugin: LoadedPlugins = None,
    expect: Expect = None,
    attention: Attention = None,
    sizes: Sizes = None,
    widths: Widths = None,
    require: Require = None,
    allow: Allow = None,
    feedback: Feedback = None,
    timeout: Timeout = 20.0,
    jobs: Jobs = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check parts of models, tasks and losses against their contracts, or examine any attention.

    Parts of a model: shapes, weights that sum to 1, independence of padding and of the other rows
    of a batch, teacher forcing against single steps, contexts against the weights of answers,
    gradients against finite differences. Tasks: ids, lengths, padding, randomness, alignments and
    answers, one step of training and an evaluation. Losses: one number, padding, gradients. Options
    have their default values; at the end each is set to another one, which must change something.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive

      seq2attn check --plugin mine.py --expect scaled

      seq2attn check --plugin mine.py --expect "-norm(s - h)**2"

      seq2attn check --attention homework.py:Attention

      seq2attn check --attention handed-in:scaled,cosine --expect scaled=scaled
    """
    if attention is not None:  # of a file; it need not be a registered part
        from seq2attn.runs.create import available_cores

        places = Places.parse(attention)
        options = {
            "sizes": literals(sizes),
            "widths": literals(widths),
            "require": require or [],
            "allow": allow or [],
        }
        examine(
            places,
            options,
            expected(expect or [], places.names),
            timeout=timeout,
            jobs=jobs or available_cores(),
            as_json=as_json,
            verbose=verbose,
            feedback=feedback,
        )
    elif expect:
        if len(expect) > 1:
            raise Seq2AttnError("--expect: several scores are for several names of --attention")
        _compare(_chosen(names), expect[0], as_json)
    else:
        _check_parts(_chosen(names), as_json)


def _chosen(names: list[str] | None) -> list[str]:
    """Return KIND/NAME of each part that the names mean, which are NAME or KIND/NAME; without
    names, of all parts of plug-ins, or if there are none, of all parts.
    """
    from seq2attn.plugins import foreign_parts

    foreign = foreign_parts()  # classes
    added = [part for part, cls in _known().items() if cls in foreign]
    chosen = []
    for word in names or added or _known():
        chosen += _find(word)
    return chosen


def _check_parts(chosen: list[str], as_json: bool) -> None:
    """Check each part against its contract, and show a row for each rule. Raises `Seq2AttnError` if
    a part breaks one.

    chosen: KIND/NAME of the parts.
    """
    from seq2attn.contract.parts import check_part

    rows = []
    for part in chosen:
        kind, _, name = part.partition("/")
        for rule, reason in check_part(CHECKED[kind].kind, name).items():
            rows.append({"kind": kind, "name": name, "rule": rule, "result": reason or "passed"})
    show(Table.of_records(rows), as_json)
    # a straight-through gradient is not that of what the part computes, so no rule compares it
    declared = [part for part in chosen if _is_straight_through(part)]
    if declared:
        say(f"gradients not compared, since declared straight_through: {', '.join(declared)}")
    # each part is checked up to the first rule that it breaks
    broken = sum(row["result"] != "passed" for row in rows)
    if broken:
        raise Seq2AttnError(
            f"{broken} of {len(chosen)} parts broke a rule; later rules build on it and were not "
            "checked",
            hint=HINT,
            exit_code=1,
        )
    say("Rules used the default options, and each option was tried at another value as well.")


def _compare(chosen: list[str], expect: str, as_json: bool) -> None:
    """Compare each chosen score with the one that is expected, a name or a formula, and show a row
    for each; parts that are not scores are left out. Raises `Seq2AttnError` if a score differs.
    """
    from seq2attn.contract.scores import known_scores, scored
    from seq2attn.doctor.scores import Sample, compare

    rows, known = [], known_scores()
    for part in chosen:
        kind, _, name = part.partition("/")
        if kind == "score" and name != expect:  # no score is compared with itself
            # the code is empty if the attention weights are the same; a text may then still tell of
            # a difference that they do not show
            code, text = compare(Sample(*scored(name)), expect, known)
            result = text or "equal"
            rows.append({"score": name, "expected": expect, "difference": code, "result": result})
    if not rows:
        raise Seq2AttnError("--expect: no score to compare; name one, or a plug-in that has one")
    show(Table.of_records(rows), as_json)
    different = [row["score"] for row in rows if row["difference"]]
    if different:
        names = ", ".join(different)
        raise Seq2AttnError(f"scores that differ from {expect}: {names}", exit_code=1)


def _is_straight_through(part: str) -> bool:
    from seq2attn.contract.models import STRAIGHT_THROUGH

    kind, _, name = part.partition("/")
    return getattr(CHECKED[kind].load(name), "gradient", "") == STRAIGHT_THROUGH


def _known() -> dict[str, object]:
    """Return the parts that can be checked, KIND/NAME -> the class, or a text that says where it
    is: all but tasks that read files, and parts without a class, such as the score `none`.
    """
    known: dict[str, object] = {}
    for kind, registry in CHECKED.items():
        for entry in registry:
            if entry.implementation and not entry.files:
                known[f"{kind}/{entry.name}"] = entry.implementation
    return known


def _find(word: str) -> list[str]:
    """Return KIND/NAME of each part that `word`, NAME or KIND/NAME, means: parts of several kinds
    may have one name, and a NAME may be a synonym. Raises `Seq2AttnError` if there is none that can
    be checked.
    """
    kind, _, name = word.rpartition("/")
    known = _known()
    if kind in CHECKED:
        entry = CHECKED[kind].get(name)  # raises for an unknown name, and lists those of its kind
        if f"{kind}/{entry.name}" not in known:
            raise Seq2AttnError(
                f"{quoted(word)} cannot be checked: it has no class, or it reads files"
            )
        return [f"{kind}/{entry.name}"]
    names = {part: part.partition("/")[2] for part in known}  # KIND/NAME -> NAME
    meant = {entry.name for one in CHECKED.values() for entry in one if word in entry.synonyms}
    matching = [part for part, name in names.items() if name in {word, *meant}]
    if not matching and ":" in word:  # looks like FILE:NAME
        raise Seq2AttnError(
            f"unknown part {quoted(word)}; to examine an attention in a file: --attention {word}"
        )
    if not matching:
        raise unknown("part", word, names, names.values())
    return matching
