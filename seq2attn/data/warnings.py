"""What is odd about pairs: the one list of warnings of `train`, of `split`, and of the advice on a
file that cannot be read.

Imports no torch.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import median
from typing import Any

from seq2attn.data.columns import NAME, is_name, is_one_of_many, is_segmented, sample
from seq2attn.data.format import VARIANT, Format, Pair, Texts
from seq2attn.data.vocabulary import FEATURES, SPECIAL, UNKNOWN, normal_form
from seq2attn.text import character_name, first_of, quoted

LOOKS: tuple[
    tuple[str, str, float, str, dict[str, Any]], ...
] = (  # which texts, what more than a share of them looks like, and what ends that
    ("targets", "/.+/", 0.98, "begin and end with '/'", {"target_quotes": "/"}),
    ("targets", r"\[.+\]", 0.98, "are between [ and ]", {"target_quotes": "[]"}),
    ("targets", '".+"', 0.98, "are in quotation marks", {"quotation": True}),
    ("sources", '".+"', 0.98, "are in quotation marks", {"quotation": True}),
    ("sources", "# .+", 0, "are comments", {"comment": "#"}),
    ("sources", ";;;.*", 0, "are comments", {"comment": ";;;"}),
    ("targets", r"[\d.,]+", 0.98, "are numbers", {}),
    ("targets", r"[A-Z][A-Z\d.+]*(;[A-Z\d.+()]+)+", 0.5, "look like features, not answers", {}),
    ("sources", r"(?=.*[^\W\d])\S*\d\S*\d\S*", 0.98, "look like identifiers", {}),
    ("features", r"[^;]*\|[^;]*", 0.3, "have '|' and no ';'", {"features_separator": "|"}),
    ("features", "[^;]*,[^;]*", 0.3, "have ',' and no ';'", {"features_separator": ","}),
    ("features", "[^;]* [^;]*", 0.3, "have blanks and no ';'", {"features_separator": " "}),
)
BETWEEN = (", ", " ~ ", " / ", " | ", "; ", ",", "/", "|", ";")  # signs between answers
COMPARED = 200  # answers
WORD = r"(?!true|false|null)[A-Za-z][\w./-]*"  # that a config writes as it is
SMALL = 0.05  # share of a dev set that deserves a note, not a warning


@dataclass(frozen=True)
class Oddity:
    """Something odd about how pairs are read."""

    text: str
    changes: Mapping[str, Any]
    """the fields of a `Format` that end it"""
    sure: bool = True
    """False if the pairs may be meant so"""

    def __str__(self) -> str:
        if not self.changes:
            return f"note: {self.text}"
        doubt = "" if self.sure else "if not meant so, "
        return f"warning: {self.text}; {doubt}add {settings(self.changes)}"


def settings(changes: Mapping[str, Any]) -> str:
    """Return the options of a command for these fields of a `Format`."""
    return " ".join(f"--set {shlex.quote(word)}" for word in key_values(changes))


def key_values(changes: Mapping[str, Any]) -> list[str]:
    """Return `KEY=VALUE` for each of these fields of a `Format`, as a config writes the value."""
    words = []
    for name, value in changes.items():
        is_word = isinstance(value, str) and re.fullmatch(WORD, value)
        written = value if is_word else json.dumps(value, ensure_ascii=False)
        words.append(f"task.{name}={written}")
    return words


def oddities(pairs: Sequence[Pair], form: Format, dev: Sequence[Pair] = ()) -> Iterator[Oddity]:
    """Yield what is odd about pairs that were read in a format. dev: the pairs of a dev file."""
    first = " -> ".join(map(quoted, pairs[0]))
    in_both = bool(dev) and pairs[0] == dev[0] and [*pairs] != [*dev]
    are_names = all(is_name(NAME, text.partition(FEATURES)[0]) for text in pairs[0])
    if not form.has_header and (in_both or are_names):
        text = f"line 1, {first}, is read as a pair, not as a header"
        yield Oddity(text, {"header": True}, are_names)
    sides, others = _sides(pairs), _sides(dev)
    for side, pattern, share, looks, changes in LOOKS:
        texts = sides[side]
        alike = [text for text in texts if re.fullmatch(pattern, text)]
        if len(alike) > share * len(texts) and not (form.comment and "comment" in changes):
            count = "all" if len(alike) == len(texts) else f"{len(alike):,} of"
            yield Oddity(f"{count} {len(texts):,} {side} {looks}, as {quoted(alike[0])}", changes)
    for side in ("sources", "targets"):
        yield from _separator(side, sides[side], others[side], form)
    yield from _alternatives(sides, form)
    bases = [VARIANT.sub("", source) for source in sides["sources"]]
    known = set(sides["sources"])
    variants = [
        text
        for text, base in zip(sides["sources"], bases, strict=True)
        if base != text and base in known
    ]
    if variants:
        text = f"{len(variants):,} of the sources count right answers, as {quoted(variants[0])}"
        yield Oddity(text, {"variants": True})
    yield from _comments(sides["targets"], form)
    yield from _direction(pairs, form)


def _sides(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    sources = [source.partition(FEATURES) for source, _ in pairs]
    return {
        "sources": [word for word, _, _ in sources],
        "features": [features for _, _, features in sources if features],
        "targets": [target for _, target in pairs],
    }


def _separator(side: str, texts: Texts, dev: Texts, form: Format) -> Iterator[Oddity]:
    name = f"{side[:-1]}_separator"
    separator = getattr(form, name)
    longer = [text for text in texts if len(text) > 1]
    sure = is_segmented(texts)
    if not separator and (sure or is_segmented(texts, 0.5)):
        spaced = next(text for text in texts if " " in text)
        text = f"{'the' if sure else 'some of the'} {side} are symbols with blanks between them"
        text += f", as {quoted(spaced)}, and each blank is read as a symbol"
        yield Oddity(text, {name: " "}, sure)
    elif separator:
        whole = sum(separator not in text for text in longer)
        symbols = {symbol for text in texts for symbol in text.split(separator)}
        if whole > 0.3 * len(longer) and len(symbols) > 0.3 * len(texts):
            share = f"{whole:,} of {len(longer):,} {side} ({whole / len(longer):.0%})"
            text = f"{share} do not contain the separator {separator!r}: each is one symbol"
            if lacking := sum(not symbols.issuperset(other.split(separator)) for other in dev):
                text += f"; {lacking:,} of {len(dev):,} dev {side} have symbols that training lacks"
            yield Oddity(text, {name: ""})


def _alternatives(sides: Mapping[str, list[str]], form: Format) -> Iterator[Oddity]:
    """Several answers of one source are similar, or are quoted each by itself."""
    targets = sides["targets"]
    spaced = bool(form.target_separator) or is_segmented(targets)
    are_sentences = not spaced and median(target.count(" ") for target in targets) > 5
    for sign in () if form.target_alternatives or are_sentences else BETWEEN:
        several = [
            target.split(sign)
            for source, target in zip(sides["sources"], targets, strict=True)
            if sign in target.strip(sign)
            and sign not in source
            and not (sign == "/" and target.startswith(f"{source}/"))  # how a symbol is read
        ]
        is_notation = spaced and " " not in sign  # inside a symbol
        if is_notation or len(several) <= 0.002 * len(targets):
            continue
        quoted_ones = sum(_is_quoted(*parts[:2]) for parts in several)
        if len(several) > 0.95 * len(targets) and quoted_ones < len(several):
            continue  # all answers have the sign
        near = sum(_is_similar(*parts[:2]) for parts in several[:COMPARED])
        sure = near > 0.5 * len(several[:COMPARED])
        if sure or " " in sign:
            example = quoted(sign.join(several[0]))
            text = f"{len(several):,} of {len(targets):,} targets contain {sign!r}, as {example}"
            yield Oddity(text, {"target_alternatives": sign}, sure)
            return


def _is_similar(one: str, other: str) -> bool:
    """Return True for texts that may be two answers to one source."""
    alike = SequenceMatcher(None, one, other).ratio() > 0.5 or len(one) == len(other) == 1
    return one != other and (_is_quoted(one, other) or alike)


def _is_quoted(one: str, other: str) -> bool:
    """Return True for texts that end and begin with a quote, as /x/ and /y/."""
    return one[-1:] + other[:1] in ("//", "][")


def _comments(targets: Texts, form: Format) -> Iterator[Oddity]:
    """A comment follows spaced symbols, and has others than these."""
    commented = [target for target in targets if " #" in target]
    symbols = {symbol for target in targets for symbol in target.partition(" #")[0].split()}
    others = {symbol for target in commented for symbol in target.partition(" #")[2].split()}
    spaced = form.target_separator or is_segmented(targets)
    if others - symbols and spaced and not form.comment:
        text = f"{len(commented):,} of the targets end in a comment, as {quoted(commented[0])}"
        yield Oddity(text, {"comment": "#"})


def _direction(pairs: Sequence[Pair], form: Format) -> Iterator[Oddity]:
    """If a source has several answers, and an answer one source, the answer is the better source:
    forms of a lemma ask for the lemma.
    """
    columns = [*zip(*pairs, strict=True)]
    is_chosen = (form.source_column, form.target_column, form.features_column) != (1, 2, None)
    some = sample(pairs)[:COMPARED]
    alike = sum(_is_similar(*pair) for pair in some) > 0.5 * len(some)
    if alike and not is_chosen and is_one_of_many(*columns):
        several = len(set(pairs)) / len(set(columns[0]))
        text = f"a source has {several:.1f} answers on average, and an answer one source"
        exchanged = {"source_column": form.target_column, "target_column": form.source_column}
        yield Oddity(text, exchanged)


# ---- what else spoils a training ----


def warnings(pairs: Sequence[Pair], dev: Sequence[Pair], form: Format) -> Iterator[str]:
    """Yield a sentence for all that is odd about the pairs of training, and for pairs that cannot
    be learned or measured. dev: the pairs that training is measured on.
    """
    yield from map(str, oddities(pairs, form, dev))
    known = set(pairs)
    if shared := sum(pair in known for pair in dev):
        yield f"warning: {shared:,} of {len(dev):,} dev pairs are also in the training file"
    sources = {source for source, _ in pairs}
    folded = {source.casefold() for source in sources}
    if alike := sum(source not in sources and source.casefold() in folded for source, _ in dev):
        text = (
            f"warning: {alike:,} of {len(dev):,} dev sources differ from one of the training file"
        )
        yield f"{text} only in case"
    lengths = [max(map(len, pair)) for pair in pairs]
    longest, usual = max(lengths), median(lengths)
    if longest > max(1000, 20 * usual):
        text = f"warning: a pair has {longest:,} characters, the median {usual:g}"
        yield f"{text}; memory grows with the longest squared"
    for side, vocabulary in enumerate(form.vocabularies()):
        name = ("sources", "targets")[side]
        symbols = {symbol for pair in pairs for symbol in vocabulary.symbols_of(pair[side])}
        if special := [symbol for symbol in (*SPECIAL, UNKNOWN) if symbol in symbols]:
            yield (
                f"note: the {name} contain {first_of(special)}, read as a symbol of the file, "
                "beside the model's own of that name"
            )
        unseen = [set(vocabulary.symbols_of(pair[side])) - symbols for pair in dev]
        if count := sum(map(bool, unseen)):
            lacking = sorted(set().union(*unseen))
            level = "warning" if count > SMALL * len(dev) else "note"
            text = f"{level}: {count:,} of {len(dev):,} dev {name} have symbols that the training "
            text += f"file lacks: {first_of(list(map(character_name, lacking)))}"
            composed = any(symbol != normal_form(symbol, "nfd") for symbol in lacking)
            if composed and not vocabulary.separator:
                text += "; --set task.normalise=nfd reads and writes a character's parts"
            yield text
