"""What is odd about pairs: the one list of warnings of `train`, of `split`, and of the advice on a
file that cannot be read.

Imports no torch.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seq2attn.data.columns import NAME, is_name, is_segmented, parts_of
from seq2attn.data.format import Format, Pair, Texts
from seq2attn.data.vocabulary import FEATURES
from seq2attn.errors import character_name, first_of, quoted

Symptom = tuple[str, str, float, str, dict[str, Any]]
"""which texts, sources or targets; what an odd text matches as a whole; the share of the texts that
has to be exceeded for a warning; what it says of them; the fields of a `Format` that mend it, empty
if no option does"""
RARE = 0.002  # a share that is too large to be chance
SYMPTOMS: tuple[Symptom, ...] = (
    ("targets", "/.+/", 0.98, "begin and end with '/'", {"target_quotes": "/"}),
    ("targets", r"\[.+\]", 0.98, "are between [ and ]", {"target_quotes": "[]"}),
    ("targets", '".+"', 0.98, "are in quotation marks", {"quotation": True}),
    (
        "targets",
        r"(/.+/, /.+/)|(\[.+\], \[.+\])",
        RARE,
        "are several answers",
        {"target_alternatives": ", "},
    ),
    (  # no sentences; answers in quotes are told above
        "targets",
        r"[^,.?!/\[]+(, [^,.?!]+)+",
        RARE,
        "contain ', ', perhaps between answers (task.target_alternatives)",
        {},
    ),
    # `#` may be a symbol itself: in a comment is a word of three letters or more
    ("targets", r".+ #.*[^\W\d_]{3}.*", 0, "end in a comment", {"comment": "#"}),
    ("targets", r"[\d.,]+", 0.98, "are numbers", {}),
    ("sources", r".+\(\d+\)", RARE, "count right answers", {"variants": True}),
)
WORD = r"(?i:(?!true|false|none|null)[a-z])[\w./-]*"  # that a config writes as it is


class Oddity(NamedTuple):
    """Something odd about how pairs are read."""

    text: str
    changes: Mapping[str, Any]
    """the fields of a `Format` that surely end it; empty if only the user can tell"""

    def __str__(self) -> str:
        if not self.changes:
            return f"note: {self.text}"
        return f"warning: {self.text}; add {settings(self.changes)}"


def settings(changes: Mapping[str, Any]) -> str:
    """Return the options of a command for these fields of a `Format`."""
    return " ".join(f"--set {shlex.quote(word)}" for word in key_values(changes))


def key_values(changes: Mapping[str, Any]) -> list[str]:
    """Return `KEY=VALUE` for each of these fields of a `Format`, as a config writes the value."""
    words = []
    for name, value in changes.items():
        is_word = re.fullmatch(WORD, str(value))
        written = value if is_word else json.dumps(value, ensure_ascii=False)
        words.append(f"task.{name}={written}")
    return words


def oddities(pairs: Sequence[Pair], form: Format) -> Iterator[Oddity]:
    """Yield what is odd about pairs, at least one, that were read in a format."""
    if not form.has_header and all(is_name(NAME, text.partition(FEATURES)[0]) for text in pairs[0]):
        first = " -> ".join(map(quoted, pairs[0]))
        yield Oddity(f"line 1, {first}, is read as a pair, not as a header", {"header": True})
    sides = {
        "sources": [source.partition(FEATURES)[0] for source, _ in pairs],
        "targets": [target for _, target in pairs],
    }
    for side, pattern, share, says, changes in SYMPTOMS:
        if form.comment and "comment" in changes:
            continue  # the user has said what a comment is
        texts = sides[side]
        alike = [text for text in texts if re.fullmatch(pattern, text)]
        if len(alike) > share * len(texts):
            text = f"{len(alike):,} of {len(texts):,} {side} {says}, as {quoted(alike[0])}"
            yield Oddity(text, changes)
    for side, texts in sides.items():
        yield from _separator(side, texts, form)


def _separator(side: str, texts: Texts, form: Format) -> Iterator[Oddity]:
    """Warn if texts are symbols with blanks between them, but the format has no separator; or if
    many texts lack the format's separator, more than 30 % of those that are longer than a
    character: each is then read as one symbol, so that there are many different symbols, more than
    30 % of the number of texts.

    side: what the texts are, sources or targets.
    """
    name = f"{side[:-1]}_separator"  # of the format: source_separator or target_separator
    separator = getattr(form, name)
    if not separator:
        if is_segmented(texts):
            spaced = next(text for text in texts if " " in text)
            text = f"the {side} are symbols with blanks between them, as {quoted(spaced)}"
            yield Oddity(text, {name: " "})
        return
    longer = [text for text in texts if len(text) > 1]
    whole = sum(separator not in text for text in longer)  # each of these is one symbol
    symbols = set(parts_of(texts, separator))
    if whole > 0.3 * len(longer) and len(symbols) > 0.3 * len(texts):
        text = f"{whole:,} of {len(longer):,} {side} do not contain the separator {separator!r}"
        yield Oddity(f"{text}: each is one symbol", {name: ""})


# ---- what else spoils a training ----


def warnings(pairs: Sequence[Pair], dev: Sequence[Pair], form: Format) -> Iterator[str]:
    """Yield a sentence for each oddity of the pairs of training, and for dev pairs that spoil what
    is measured on them: those that are in the training file, too, and those with symbols that it
    lacks, in the sources or in the targets.

    pairs: of the training file. dev: the pairs that training is measured on.
    """
    yield from map(str, oddities(pairs, form))
    known = set(pairs)
    if shared := [pair for pair in dev if pair in known]:
        example = " -> ".join(map(quoted, shared[0]))
        text = f"warning: {len(shared):,} of {len(dev):,} dev pairs are also in the training file"
        yield f"{text}, as {example}"
    for side, vocabulary in enumerate(form.vocabularies()):  # without symbols: only to split texts
        symbols = {symbol for pair in pairs for symbol in vocabulary.symbols_of(pair[side])}
        unseen = [set(vocabulary.symbols_of(pair[side])) - symbols for pair in dev]
        if count := sum(map(bool, unseen)):
            lacking = first_of(map(character_name, sorted(set().union(*unseen))))
            text = f"warning: {count:,} of {len(dev):,} dev {('sources', 'targets')[side]} have"
            yield f"{text} symbols that the training file lacks: {lacking}"
