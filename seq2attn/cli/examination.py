"""`seq2attn check --attention`: attentions of other people's files, and what is said of them."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any

from seq2attn.display.console import say, stdout, write_json
from seq2attn.display.table import Table
from seq2attn.doctor.processes import Row, examine_places
from seq2attn.errors import Seq2AttnError

SCORES = "seq2attn.contract.scores:known_scores"
"""a function that returns the scores that --expect may name; the processes that examine call it"""


@dataclass(frozen=True)
class Places:
    """What FILE:NAME,NAME means, FILE being a file, a folder, or a pattern."""

    files: Sequence[str]
    names: Sequence[str]

    @classmethod
    def parse(cls, text: str) -> Places:
        """Return the places that a text, such as `hand-in/*.py:scaled,cosine`, means. Of a folder,
        with the folders in it, and of what a pattern matches, only files of Python and notebooks
        count.

        Raises `Seq2AttnError` without a file or a name, and for a folder or a pattern without such
        a file. Whether a single file, or a name in a file, exists, its examination finds out.
        """
        path, _, listed = text.rpartition(":")
        names = listed.split(",")
        # a name with dots passes: no file has it, and the message on that lists what the file has
        if not all(name.strip().replace(".", "_").isidentifier() for name in names) or not path:
            hint = (
                "Name it after the file, such as homework.py:scaled or homework.py:scaled,cosine."
            )
            raise Seq2AttnError(f"--attention {text}: which attention of the file?", hint=hint)
        # a file may be called as if it were a pattern
        if not Path(path).is_file() and (Path(path).is_dir() or set(path) & set("*?[")):
            matching = glob(f"{path}/**" if Path(path).is_dir() else path, recursive=True)
            files = sorted(one for one in matching if Path(one).suffix in (".py", ".ipynb"))
            if not files:
                raise Seq2AttnError(f"--attention {path}: no .py or .ipynb file there")
            return cls(files, names)
        return cls([path], names)

    def __iter__(self) -> Iterator[str]:
        for file in self.files:
            for name in self.names:
                yield f"{file}:{name}"


def expected(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return name -> the score that this attention is to have. Of `texts`, NAME=SCORE is for one
    name, and SCORE for all names; of two for one name, the last counts. A name that has no score is
    left out.
    """
    scores = {}
    for text in texts:
        name, equals, score = text.partition("=")
        if equals and name in names:
            scores[name] = score
        else:  # SCORE
            scores.update(dict.fromkeys(names, text))
    return scores


def literals(text: str | None) -> list[Any]:
    """Return the values in a text such as `16,0.5,dot`: numbers, True, False, None, or texts."""
    values: list[Any] = []
    for word in text.split(",") if text else ():
        try:
            values.append(ast.literal_eval(word.strip()))
        except (ValueError, SyntaxError, TypeError):  # TypeError: `{[]}`
            values.append(word.strip())
    return values


def examine(
    places: Places,
    options: Mapping[str, Any],
    expect: Mapping[str, str],
    *,
    timeout: float,
    jobs: int,
    as_json: bool,
    verbose: bool,
    feedback: Path | None,
) -> None:
    """Examine attentions, and show what was found. The exit code is 0 if all were examined and have
    no fault, 1 if one has, 2 if none has and one could not be examined.

    options: for `check_attention`, of every attention. expect: name -> the expected score.
    timeout: seconds for one attention. jobs: how many are examined at once.
    verbose: True to show what their files print. feedback: a folder for a text on each file.
    """
    settings = {}
    for place in places:
        _, _, name = place.rpartition(":")
        settings[place] = {**options, "expect": expect.get(name)}
    is_one = len(settings) == 1
    rows = {}  # by place, as their examinations end
    for row in examine_places(settings, timeout=timeout, jobs=jobs, scores=SCORES):
        # without --verbose, JSON does not have what was printed either
        rows[row.place] = row if verbose else replace(row, printed="")
        if not is_one:
            say(f"{row.place}: {_short(row)} ({row.seconds:.1f} s)")
        if verbose and row.printed and not as_json:
            say(f"{row.place} printed:\n{row.printed}")
    ordered = [rows[place] for place in places]
    if feedback is not None:
        _write_feedback(feedback, places, rows)
    if as_json:
        write_json([{**asdict(row), "passed": row.exit_code == 0} for row in ordered])
    elif not is_one:
        Table.of_records(list(_records(places, rows))).show()
    elif ordered[0].report:  # if there is none, `_conclude` says why
        say(str(ordered[0].report), style="", console=stdout())
    _conclude(ordered)


def _records(places: Places, rows: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """Yield a record for each file: how many of the names passed, as points, and the result of each
    name; of a single name, with what its first fault is and where to look.
    """
    for file in places.files:
        of_file = {name: rows[f"{file}:{name}"] for name in places.names}
        passed = sum(row.exit_code == 0 for row in of_file.values())
        results = {name: _short(row) for name, row in of_file.items()}
        if len(of_file) == 1:
            (row,) = of_file.values()
            results = {"result": _short(row), "look at": ""}  # it passed, or was not examined
            if row.report and row.report.faults:
                fault = row.report.faults[0]
                results = {"result": f"{fault.code}: {fault.text}", "look at": fault.look_at}
        yield {"file": file, "points": passed, **results}


def _short(row: Row) -> str:
    """Return `passed`, the code of the first fault, or why it was not examined."""
    if row.report is None:
        return f"{row.status}: {row.text}".partition("\n")[0]
    return row.report.faults[0].code if row.report.faults else "passed"


def _write_feedback(folder: Path, places: Places, rows: Mapping[str, Row]) -> None:
    """Write a text for each file, which says what was found in each name: `anna.txt` for `anna.py`.
    So that no two texts have one path, they are in the subfolders that the files have below their
    common folder, and `anna.py` beside `anna.ipynb` gets `anna.py.txt`.
    """
    common = os.path.commonpath([Path(file).absolute().parent for file in places.files])
    stems = Counter(Path(file).with_suffix("") for file in places.files)
    for file in places.files:
        path = folder / Path(file).absolute().relative_to(common)
        is_alone = stems[Path(file).with_suffix("")] == 1
        path = path.with_suffix(".txt") if is_alone else path.with_name(f"{path.name}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = []
        for name in places.names:
            row = rows[f"{file}:{name}"]
            text = f"{row.status}: {row.text}"
            if row.report:
                # without a fault, nobody asks how it was called
                said = row.report if row.report.faults else "\n".join(map(str, row.report.findings))
                text = f"{_short(row)}\n{said}"
            parts.append(f"{name}: {text}\n")
        path.write_text("\n".join(parts), encoding="utf-8")


def _conclude(rows: Sequence[Row]) -> None:
    """Raise `Seq2AttnError` unless all were examined and none has a fault; with exit code 1 if one
    has a fault, with 2 if none has.
    """
    codes = [row.exit_code for row in rows]
    if not any(codes):
        return
    code = 1 if 1 in codes else 2
    first, *others = rows
    if others:  # of several, a table has said what is wrong
        failed = len(codes) - codes.count(0)
        raise Seq2AttnError(f"{failed} of {len(rows)} did not pass", exit_code=code)
    if first.report:
        faults = ", ".join(fault.code for fault in first.report.faults)
        raise Seq2AttnError(f"{first.place}: faults: {faults}", exit_code=code)
    text, _, hint = first.text.partition("\n")  # of an error: its message, then its hint
    raise Seq2AttnError(f"{first.place}: {first.status}: {text}", hint=hint or None, exit_code=code)
