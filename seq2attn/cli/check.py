"""`seq2attn check`: parts against their contracts, and attentions of other people's files."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from seq2attn import parts
from seq2attn.cli.options import AsJson, LoadedPlugins, Texts, argument, option
from seq2attn.display.console import say, stdout, write_json
from seq2attn.display.table import Table
from seq2attn.doctor.processes import Row, examine_places
from seq2attn.errors import Seq2AttnError, unknown
from seq2attn.registry import Entry

CHECKED = {registry.kind.replace(" ", "-"): registry for registry in parts.EXTENSIBLE}
"""the kinds of parts that plug-ins can add to, as KIND/NAME writes them, such as `initial-state`"""
HINT = (
    "`help(seq2attn.Score)`, and so on for other kinds, says what a part returns. A score that "
    'needs keys as wide as queries says so: @register("name", equal_widths=True)'
)
Asked = Mapping[str, Collection[str]]
"""names of attentions by file"""
SCORES = "seq2attn.contract.parts:known_scores"
"""a function that returns the scores that --expect may name; the processes that examine call it"""

Names = Annotated[
    Texts,
    argument(
        "NAME",
        "NAME or KIND/NAME; with --attention, more FILE:NAME. Default: every part of the plug-ins; "
        "without plug-ins, all parts.",
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
    Texts,
    option(
        "FILE:NAME",
        "Examine this attention, a function, a class or a module, instead. FILE may be a "
        "notebook, a folder, or a pattern in quotes, and there may be several names, "
        "with commas, and several FILE:NAME. A table has a row for each file.",
    ),
]
Require = Annotated[
    Texts,
    option(
        "causal|window=N|stable|returns=NAMES",
        "What a row of --attention may see, that large inputs do no harm, or what it returns, such "
        "as returns=context,weights: exactly these, in this order. May be repeated.",
    ),
]
Allow = Annotated[
    Texts,
    option("FINDING", "Leave out this finding of --attention. May be repeated."),
]
Called = Annotated[
    str,
    option(
        "EXPRESSION",
        "Call --attention like this, such as 'attention(query[:, 0], keys, valid)', with the names "
        "query, keys, values and valid. Default: that is found.",
    ),
]
Sizes = Annotated[
    str | None,
    option("SIZES", "What the constructor of --attention is given, such as 16,32,0.5,relu."),
]
Widths = Annotated[
    str | None,
    option("WIDTHS", "Widths of the query and of the keys of --attention, such as 16,24."),
]
Jobs = Annotated[
    int | None,
    option("NUMBER", "How many of --attention are examined at once. Default: one a core.", min=1),
]
Feedback = Annotated[
    Path | None, option("FOLDER", "Write a text on each file of --attention.", file_okay=False)
]
Timeout = Annotated[float, option("SECONDS", "The most that one --attention may take.", min=0.1)]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show what the files of --attention print.")
]


def check(
    names: Names = None,
    plugin: LoadedPlugins = None,
    expect: Expect = None,
    attention: Attention = None,
    require: Require = None,
    allow: Allow = None,
    call: Called = "",
    sizes: Sizes = None,
    widths: Widths = None,
    feedback: Feedback = None,
    timeout: Timeout = 20.0,
    jobs: Jobs = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check parts against their contracts, or examine any attention.

    Parts of a model: shapes, weights that sum to 1, independence of padding and of the other rows
    of a batch, teacher forcing against single steps, contexts against the weights of answers,
    gradients against finite differences. Tasks: ids, lengths, padding, randomness, alignments and
    answers, and an evaluation. Losses: one number, padding, gradients. Options have their default
    values; at the end each is set to another one, which must change something.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive

      seq2attn check --plugin mine.py --expect scaled

      seq2attn check --plugin mine.py --expect "-norm(s - h)**2"

      seq2attn check --attention homework.py:Attention

      seq2attn check --attention handed-in:scaled,cosine --expect scaled=scaled
    """
    if not attention and (require or allow or call or sizes or widths or feedback):
        raise Seq2AttnError(
            "--require, --allow, --call, --sizes, --widths and --feedback need --attention"
        )
    if attention:  # of a file; it need not be a registered part
        from seq2attn.runs.create import available_cores

        asked = _asked([*attention, *(names or [])])
        scores = _expected(expect or [], _columns(asked))
        shared = {
            "sizes": _literals(sizes),
            "widths": _literals(widths),
            "require": require or [],
            "allow": allow or [],
            "call": call,
        }
        settings = {
            f"{file}:{name}": shared | {"expect": scores.get(name)}
            for file, attentions in asked.items()
            for name in attentions
        }
        rows = {}  # by FILE:NAME, as their examinations end
        jobs = jobs or available_cores()
        for row in examine_places(settings, timeout=timeout, jobs=jobs, scores=SCORES):
            # without --verbose, JSON does not have what was printed either
            rows[row.place] = row if verbose else replace(row, printed="")
            if len(settings) > 1:
                say(f"{row.place}: {_short(row)} ({row.seconds:.1f} s)")
            if verbose and row.printed:
                say(f"{row.place} printed:\n{row.printed}")
        if feedback:
            _write_feedback(feedback, asked, rows)
        _conclude(asked, rows, as_json)
    elif expect:
        _compare(_chosen(names), expect[-1], as_json)  # of several, the last counts
    else:
        _check_parts(_chosen(names), as_json)


# ---- registered parts ----


def _chosen(words: Texts) -> dict[str, Entry]:
    """Return the parts that the words, NAME or KIND/NAME, mean, by KIND/NAME: parts of several
    kinds may have one name, and a NAME may be a synonym. Without words, return all parts of
    plug-ins, or if there are none, all parts that can be checked: not tasks that read files, nor
    parts without a class, such as the score `none`.

    Raises `Seq2AttnError` for a word that means no part that can be checked.
    """
    from seq2attn.plugins import foreign_parts

    known = {}
    for kind, registry in CHECKED.items():
        for entry in registry:
            if entry.implementation and not entry.files:
                known[f"{kind}/{entry.name}"] = entry
    foreign = foreign_parts()  # the classes of plug-ins
    added = {part: entry for part, entry in known.items() if entry.implementation in foreign}
    if not words:
        return added or known
    chosen: dict[str, Entry] = {}
    for word in words:
        meant = {}
        for part, entry in known.items():
            kind, _, _ = part.partition("/")
            if word.removeprefix(f"{kind}/") in (entry.name, *entry.synonyms):
                meant[part] = entry
        if not meant:
            error = unknown("part", word, known, [entry.name for entry in known.values()])
            error.hint = "To examine an attention in a file: --attention FILE:NAME"
            raise error
        chosen |= meant
    return chosen


def _check_parts(chosen: Mapping[str, Entry], as_json: bool) -> None:
    """Check each part against its contract, and show a row for each rule. Raises `Seq2AttnError` if
    a part breaks one.
    """
    from seq2attn.contract.models import STRAIGHT_THROUGH
    from seq2attn.contract.parts import check_part

    rows = []
    for part, entry in chosen.items():
        kind, _, _ = part.partition("/")
        # (a kind has a hyphen in KIND/NAME, such as `initial-state`, and a blank in `.kind`)
        for rule, reason in check_part(CHECKED[kind].kind, entry.name).items():
            result = reason or "passed"
            rows.append({"kind": kind, "name": entry.name, "rule": rule, "result": result})
    Table.of_records(rows).show(as_json)
    # a straight-through gradient is not that of what the part computes, so no rule compares it
    declared = [
        part
        for part, entry in chosen.items()
        if getattr(entry.load(), "gradient", "") == STRAIGHT_THROUGH
    ]
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


def _compare(chosen: Mapping[str, Entry], expect: str, as_json: bool) -> None:
    """Compare each chosen score with the one that is expected, a name or a formula, and show a row
    for each. Parts that are not scores are left out, and a score that has the expected name.

    Raises `Seq2AttnError` if a score differs, or if there is none to compare.
    """
    from seq2attn.contract.parts import known_scores, scored
    from seq2attn.doctor.scores import Sample, compare

    rows, known = [], known_scores()
    for part, entry in chosen.items():
        if part.startswith("score/") and entry.name != expect:  # none is compared with itself
            # the code is empty if the attention weights are the same; a text may then still tell of
            # a difference that they do not show
            code, text = compare(Sample(*scored(entry.name)), expect, known)
            row = {"score": entry.name, "expected": expect, "difference": code}
            rows.append(row | {"result": text or "equal"})
    if not rows:
        raise Seq2AttnError("--expect: no score to compare; name one, or a plug-in that has one")
    Table.of_records(rows).show(as_json)
    different = [row["score"] for row in rows if row["difference"]]
    if different:
        raise Seq2AttnError(f"scores that are not {expect}: {', '.join(different)}", exit_code=1)


# ---- attentions of files ----


def _asked(texts: Sequence[str]) -> Asked:
    """Return by file the names that texts, such as `hand-in/*.py:scaled,cosine`, mean. Of a folder,
    with the folders in it, and of what a pattern matches, only files of Python and notebooks count.

    Raises `Seq2AttnError` without a name, and where there is no such file. Whether a file defines
    an attention of that name, only its examination finds out.
    """
    asked: dict[str, dict[str, None]] = {}  # the names as keys, each once
    for text in texts:
        path, _, listed = text.rpartition(":")
        names = listed.split(",")
        # a name with dots passes: no file has it, and the message on that lists what the file has
        if not all(name.strip().replace(".", "_").isidentifier() for name in names) or not path:
            hint = "Name it after the file, such as homework.py:scaled or homework.py:scaled,cosine"
            raise Seq2AttnError(f"--attention {text}: which attention of the file?", hint=hint)
        matching = glob(f"{path}/**" if Path(path).is_dir() else path, recursive=True)
        files = sorted(one for one in matching if Path(one).suffix in (".py", ".ipynb"))
        if Path(path).is_file():  # which may be called as if it were a pattern
            files = [path]
        for other in sorted({*matching}.difference(files)):
            if Path(other).is_file() and "__pycache__" not in other:
                say(f"left out, as neither .py nor .ipynb: {other}")
        if not files:
            raise Seq2AttnError(f"--attention {path}: no .py or .ipynb file there")
        for file in files:
            asked.setdefault(file, {}).update(dict.fromkeys(names))
    return asked


def _columns(asked: Asked) -> list[str]:
    """Return all names that are asked of files."""
    return [*dict.fromkeys(chain(*asked.values()))]


def _literals(text: str | None) -> list[Any]:
    """Return the values in a text such as `16,0.5,dot`: numbers, True, False, None, or texts. If
    there is no text, return an empty list.
    """
    values: list[Any] = []
    for word in text.split(",") if text else ():
        try:
            values.append(ast.literal_eval(word.strip()))
        except (ValueError, SyntaxError, TypeError):  # TypeError: `{[]}`
            values.append(word.strip())
    return values


def _expected(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return name -> the score that this attention is to have. Of `texts`, NAME=SCORE is for one
    name, and SCORE for all names; of two for one name, the last counts. A name that has no score is
    left out.
    """
    scores: dict[str, str] = {}
    for text in texts:
        name, _, score = text.rpartition("=")
        scores |= dict.fromkeys([name] if name else names, score)
    return scores


def _short(row: Row) -> str:
    """Return `passed`, the code of the first fault, or why it was not examined."""
    if row.report is None:
        return f"{row.status}: {row.text}".partition("\n")[0]
    return row.report.faults[0].code if row.report.faults else "passed"


def _write_feedback(folder: Path, asked: Asked, rows: Mapping[str, Row]) -> None:
    """Write a text for each file into `folder`, `anna.py.txt` for `anna.py`, which says how many
    points it has, and what was found in each of the names. So that no two texts have one path, they
    are in the subfolders that the files have below their common folder.

    rows: by FILE:NAME.
    """
    common = os.path.commonpath([Path(file).absolute().parent for file in asked])
    for file, names in asked.items():
        path = folder / f"{Path(file).absolute().relative_to(common)}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        points = sum(rows[f"{file}:{name}"].exit_code == 0 for name in names)
        texts = [f"{file}: {points} of {len(names)} points\n"]
        for name in names:
            row = rows[f"{file}:{name}"]
            # without a report, it was not examined, and the text says why
            said = f"{_short(row)}\n{row.report}" if row.report else f"{row.status}: {row.text}"
            texts.append(f"{name}: {said}\n")
        texts.append("A `care` or a `note` costs no point.\n")
        path.write_text("\n".join(texts), encoding="utf-8")


def _conclude(asked: Asked, rows: Mapping[str, Row], as_json: bool) -> None:
    """Show what was found: of one attention the report, of several a table with a row for each
    file, which has how many of its names passed, as points, and the result of each. rows: by
    FILE:NAME.

    Raises `Seq2AttnError` unless all were examined and none has a fault; with exit code 1 if one
    has a fault, with 2 if none has.
    """
    ordered = [rows[f"{file}:{name}"] for file, names in asked.items() for name in names]
    codes = [row.exit_code for row in ordered]
    first, *others = ordered
    if as_json:
        write_json([{**asdict(row), "passed": row.exit_code == 0} for row in ordered])
    elif others:
        records = []
        for file, names in asked.items():
            of_file = {name: rows[f"{file}:{name}"] for name in names}
            passed = sum(row.exit_code == 0 for row in of_file.values())
            results = {name: _short(row) for name, row in of_file.items()}
            columns = dict.fromkeys(_columns(asked), "")  # a file may not have all names
            records.append({"file": file, "points": passed, **columns, **results})
        Table.of_records(records).show()
    elif first.report:  # if there is none, the error says why
        say(str(first.report), console=stdout())
    if not any(codes):
        say("passed: no fault")
        return
    _, _, hint = first.text.partition("\n")  # the first line of an error is its message
    message = f"{first.place}: {_short(first)}"
    if others:  # of several, a table has said what is wrong
        message, hint = f"{len(codes) - codes.count(0)} of {len(codes)} did not pass", ""
    raise Seq2AttnError(message, hint=hint or None, exit_code=1 if 1 in codes else 2)
