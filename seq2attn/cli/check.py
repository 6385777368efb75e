"""`seq2attn check`"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import asdict
from glob import glob
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

from seq2attn import parts
from seq2attn.cli.options import AsJson, Plugins, Texts, argument, option
from seq2attn.display.console import say, write_json
from seq2attn.display.table import Table
from seq2attn.errors import Seq2AttnError
from seq2attn.text import did_you_mean, quoted

CHECKED = {registry.kind.replace(" ", "-"): registry for registry in parts.EXTENSIBLE}
HINT = (
    "`help(seq2attn.Score)`, and so on for other kinds, says what a part returns. A score that "
    'needs keys as wide as queries says so: @register("name", equal_widths=True)'
)


def check(
    names: Annotated[
        Texts,
        argument(
            "NAME...",
            "NAME or KIND/NAME. Default: every part of the plug-ins; without plug-ins, all parts.",
            autocompletion=lambda: list(_known()),
        ),
    ] = None,
    plugin: Plugins = None,
    expect: Annotated[
        str | None,
        option(
            "SCORE",
            "Compare scores with this one: a name, or a formula of a query s, a key h and their "
            "width D.",
        ),
    ] = None,
    attention: Annotated[
        str | None,
        option(
            "FILE:NAME",
            "Examine this attention, a function, a class or a module, instead. FILE may be a "
            "pattern in quotes: a table has a row for each file.",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        option("N,N", "What the constructor of --attention is given; by default some are tried."),
    ] = None,
    allow: Annotated[
        Texts, option("CODE", "Leave out this finding of --attention. May be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check parts of models, tasks and losses against their contracts, or examine any attention.

    Parts of a model: shapes, weights that sum to 1, independence of padding and of the other rows
    of a batch, teacher forcing against single steps, contexts against the weights of answers,
    gradients against finite differences. Tasks: ids, lengths, padding, randomness, alignments and
    answers, one step of training and an evaluation. Losses: one number, padding, gradients. Every
    option has its default value; in the end it gets another one, which must change something.

    Examples:

      seq2attn check --plugin my_parts.py

      seq2attn check additive

      seq2attn check --plugin mine.py --expect scaled

      seq2attn check --plugin mine.py --expect "-norm(s - h)**2"

      seq2attn check --attention homework.py:Attention

      seq2attn check --attention "handed-in/*.py:scaled" --expect scaled
    """
    if attention is not None:
        given = [int(size) if size.isdigit() else size for size in (sizes or "").split(",") if size]
        _examine(attention, as_json, sizes=given, expect=expect, allow=allow or [])
        return
    from seq2attn.contract.parts import check_part
    from seq2attn.plugins import foreign_parts

    foreign = foreign_parts()
    added = [part for part, cls in _known().items() if cls in foreign]
    chosen = []
    for word in names or added or _known():
        chosen += _find(word)
    if expect is not None:
        _compare(chosen, expect, as_json)
        return
    rows = []
    for part in chosen:
        kind, _, name = part.partition("/")
        registry = CHECKED[kind]
        for rule, reason in check_part(registry.kind, name).items():
            result = reason.partition("\n")[0] or "passed"
            rows.append({"kind": kind, "name": name, "rule": rule, "result": result})
    _show(rows, as_json)
    say("Options had their default values. `train` checks the values that its config chooses.")
    declared = [part for part in chosen if _is_straight_through(part)]
    if declared:
        say(f"gradients not compared, since declared straight_through: {', '.join(declared)}")
    broken = sum(row["result"] != "passed" for row in rows)
    if broken:
        raise Seq2AttnError(
            f"{broken} of {len(chosen)} parts broke a rule; later rules build on it and were not "
            "checked",
            hint=HINT,
            exit_code=1,
        )


def _examine(place: str, as_json: bool, **options: Any) -> None:
    """Examine an attention that need not be of seq2attn, or that of each file of a pattern."""
    from seq2attn.doctor.examine import check_attention, load_attention

    path, _, name = place.rpartition(":")
    if not Path(path).is_file() and glob(path):
        _grade([f"{file}:{name}" for file in sorted(glob(path))], as_json, options)
        return
    report = check_attention(load_attention(place), **options)
    if as_json:
        write_json(asdict(report))
    else:
        print(report)
    if report.faults:
        codes = ", ".join(finding.code for finding in report.faults)
        raise Seq2AttnError(f"{place}: faults: {codes}", exit_code=1)


def _grade(places: list[str], as_json: bool, options: dict[str, Any]) -> None:
    """Show the first fault of each attention, or why it could not be examined."""
    from seq2attn.doctor.examine import check_attention, load_attention

    rows = []
    for place in places:
        say(f"examining {place} (Ctrl-C skips it)")
        result, look_at = "passed", ""
        try:
            with redirect_stdout(StringIO()):
                faults = check_attention(load_attention(place), **options).faults
            if faults:
                result = f"{faults[0].code}: {faults[0].text}"
                look_at = faults[0].look_at
        except Seq2AttnError as error:
            result = f"error: {error}".partition("\n")[0]
        except BaseException as error:  # whatever the file raises
            result = f"error: {type(error).__name__} {error}".strip().partition("\n")[0]
        rows.append({"attention": place, "result": result, "look at": look_at})
    _show(rows, as_json)
    failed = sum(row["result"] != "passed" for row in rows)
    if failed:
        raise Seq2AttnError(f"{failed} of {len(rows)} did not pass", exit_code=1)


def _compare(chosen: list[str], expect: str, as_json: bool) -> None:
    """Compare each of the scores with the expected one."""
    from seq2attn.doctor.scores import compare_score

    rows = []
    for part in chosen:
        kind, _, name = part.partition("/")
        if kind == "score" and name != expect:
            code, text = compare_score(name, expect)
            result = text if code else f"equal {text}".rstrip()
            rows.append({"score": name, "expected": expect, "difference": code, "result": result})
    if not rows:
        raise Seq2AttnError("--expect: no score to compare; name one, or a plug-in that has one")
    _show(rows, as_json)
    different = [row["score"] for row in rows if row["difference"]]
    if different:
        names = ", ".join(different)
        raise Seq2AttnError(f"scores that differ from {expect}: {names}", exit_code=1)


def _is_straight_through(part: str) -> bool:
    from seq2attn.contract.models import STRAIGHT_THROUGH

    kind, _, name = part.partition("/")
    return getattr(CHECKED[kind].load(name), "gradient", "") == STRAIGHT_THROUGH


def _show(rows: list[dict[str, str]], as_json: bool) -> None:
    if as_json:
        write_json(rows)
    else:
        Table.of_records(rows).show()


def _known() -> dict[str, object]:
    """Return KIND/NAME of every part that can be checked, with its class or where that is."""
    return {
        f"{kind}/{entry.name}": entry.implementation
        for kind, registry in CHECKED.items()
        for entry in registry
        if entry.implementation and not entry.files
    }


def _find(word: str) -> list[str]:
    """Return the KIND/NAME of each part that NAME or KIND/NAME means."""
    kind, _, name = word.rpartition("/")
    if kind in CHECKED:
        CHECKED[kind].get(name)  # registers a part of an installed package
    matching = [part for part in _known() if f"/{part}".endswith(f"/{word}")]
    if not matching:
        guess = did_you_mean(word, [part.partition("/")[2] for part in _known()])
        raise Seq2AttnError(f"no part {quoted(word)}; {guess}allowed: {', '.join(_known())}")
    return matching
