"""The errors of a run on pairs of strings, for a report: a confusion matrix of symbols, and the most frequent edits."""

from __future__ import annotations

from collections import Counter
from typing import Any

from seq2attn.config import Config
from seq2attn.inference.edits import Edit
from seq2attn.runs.evaluations import newest_pairs
from seq2attn.runs.loading import load_task
from seq2attn.runs.run import Run

MOST_EDITS = 40  # of a run
MOST_SYMBOLS = 20  # rows of the matrix
MOST_WORDS = 3  # examples of an edit


def errors(run: Run, config: Config) -> dict[str, Any] | None:
    """JSON values, from the last evaluation on a file that the run keeps; None without one."""
    found = newest_pairs(run) if config.data_files else None
    if found is None:
        return None
    write = load_task(run, config).target_vocabulary
    occurs = Counter(symbol for one in found.answers for symbol in write.joined(write.symbols_of(one.right)))
    words: dict[Edit, list[str]] = {}
    for one in found.errors():
        for edit in dict.fromkeys(one.edits):
            words.setdefault(edit, []).append(one.source.replace("\t", " "))
    confusions = found.confusions()
    return {
        "file": str((found.data or {}).get("name", "")),
        "words": len(found.answers),
        "edits": [
            [*edit, count, occurs[edit.reference] or None, words[edit][:MOST_WORDS]]
            for edit, count in confusions[:MOST_EDITS]
        ],
        "matrix": matrix(dict(confusions), occurs),
    }


def matrix(confusions: dict[Edit, int], occurs: Counter[str]) -> dict[str, Any]:
    """What is written for each symbol, as shares of its occurrences: the symbols that are most often wrong.

    The columns are those symbols, others that are written for them, and "" if they are left out.
    """
    wrong: Counter[str] = Counter()
    for edit, count in confusions.items():
        wrong[edit.reference] += count
    del wrong[""]  # symbols that are added stand for none
    rows = [symbol for symbol, _ in wrong.most_common(MOST_SYMBOLS)]
    written: Counter[str] = Counter()
    for edit, count in confusions.items():
        if edit.reference in rows and edit.hypothesis not in rows:
            written[edit.hypothesis] += count
    columns = [*rows, *(symbol for symbol, _ in written.most_common(MOST_SYMBOLS))]
    counts = {(row, row): occurs[row] - wrong[row] for row in rows} | dict(confusions)
    shares = [[round(counts.get((row, column), 0) / max(1, occurs[row]), 4) for column in columns] for row in rows]
    return {"rows": rows, "columns": columns, "shares": shares}
