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
from typing import Any, NamedTuple

from seq2attn.data.columns import (
    NAME,
    is_name,
    is_one_of_many,
    is_segmented,
    parts_of,
    sample,
)
from seq2attn.data.format import VARIANT, Format, Pair, Texts
from seq2attn.data.vocabulary import FEATURES, SPECIAL, UNKNOWN, Vocabulary, normal_form
from seq2attn.text import character_name, first_of, quoted


class Symptom(NamedTuple):
    """What is odd about texts, and how to tell."""

    side: str
    """which texts: sources, features or targets"""
    pattern: str
    """what an odd text matches as a whole"""
    share: float
    """a warning is given if more than this share of the texts matches"""
    says: str
    """what the warning says of them"""
    changes: dict[str, Any]
    """the fields of a `Format` that mend it; empty if no option does"""


SYMPTOMS = (
    Symptom("targets", "/.+/", 0.98, "begin and end with '/'", {"target_quotes": "/"}),
    Symptom("targets", r"\[.+\]", 0.98, "are between [ and ]", {"target_quotes": "[]"}),
    Symptom("targets", '".+"', 0.98, "are in quotation marks", {"quotation": True}),
    Symptom("sources", '".+"', 0.98, "are in quotation marks", {"quotation": True}),
    Symptom("sources", "# .+", 0, "are comments", {"comment": "#"}),
    Symptom("sources", ";;;.*", 0, "are comments", {"comment": ";;;"}),
    Symptom("targets", r"[\d.,]+", 0.98, "are numbers", {}),
    Symptom(
        "targets", r"[A-Z][A-Z\d.+]*(;[A-Z\d.+()]+)+", 0.5, "look like features, not answers", {}
    ),
    Symptom("sources", r"(?=.*[^\W\d])\S*\d\S*\d\S*", 0.98, "look like identifiers", {}),
    Symptom("features", r"[^;]*\|[^;]*", 0.3, "have '|' and no ';'", {"features_separator": "|"}),
    Symptom("features", "[^;]*,[^;]*", 0.3, "have ',' and no ';'", {"features_separator": ","}),
    Symptom("features", "[^;]* [^;]*", 0.3, "have blanks and no ';'", {"features_separator": " "}),
)
BETWEEN = (", ", " ~ ", " / ", " | ", "; ", ",", "/", "|", ";")
"""signs between answers, in the order in which they are tried: `,` would leave the blank of `, `"""
COMPARED = 200  # answers
RARE, USUAL = 0.002, 0.95  # shares of targets that are too few, or too many, to be alternatives
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
    """Yield what is odd about pairs that were read in a format.

    pairs: at least one. dev: the pairs of a dev file, if there is one.
    """
    if not form.has_header:
        yield from _header(pairs, dev)
    sides = _sides(pairs)
    for symptom in SYMPTOMS:
        texts = sides[symptom.side]
        if form.comment and "comment" in symptom.changes:
            continue  # the user has said what a comment is
        alike = [text for text in texts if re.fullmatch(symptom.pattern, text)]
        if len(alike) > symptom.share * len(texts):  # (false if there are none, such as features)
            count = "all" if len(alike) == len(texts) else f"{len(alike):,} of"
            text = f"{count} {len(texts):,} {symptom.side} {symptom.says}, as {quoted(alike[0])}"
            yield Oddity(text, symptom.changes)
    for side in ("sources", "targets"):
        yield from _separator(side, sides[side], form)
    # targets are symbols with a separator, or with blanks, between them
    spaced = bool(form.target_separator) or is_segmented(sides["targets"])
    if not form.target_alternatives:
        yield from _alternatives(sides["sources"], sides["targets"], spaced)
    yield from _variants(sides["sources"])
    if spaced and not form.comment:
        yield from _comments(sides["targets"])
    # not if the user chose the columns, nor if symbols are the answers, as they should be
    if form.used == Format().used and not spaced:
        yield from _direction(pairs)


def _sides(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return the sources, without features, and targets of all pairs, and the features of those
    sources that have some: three lists, by these names.
    """
    sides: dict[str, list[str]] = {"sources": [], "features": [], "targets": []}
    for source, target in pairs:
        word, _, features = source.partition(FEATURES)
        sides["sources"].append(word)
        sides["targets"].append(target)
        if features:
            sides["features"].append(features)
    return sides


def _header(pairs: Sequence[Pair], dev: Sequence[Pair]) -> Iterator[Oddity]:
    """Warn if the first pair may be a header: both its texts are usual names of columns, or it is
    also the first pair of a dev file that is not the same file.
    """
    in_both = bool(dev) and pairs[0] == dev[0] and [*pairs] != [*dev]
    are_names = all(is_name(NAME, text.partition(FEATURES)[0]) for text in pairs[0])
    if in_both or are_names:
        first = " -> ".join(map(quoted, pairs[0]))
        text = f"line 1, {first}, is read as a pair, not as a header"
        yield Oddity(text, {"header": True}, sure=are_names)


def _separator(side: str, texts: Texts, form: Format) -> Iterator[Oddity]:
    """Warn if texts are symbols with blanks between them, but the format has no separator; or if
    many texts lack the format's separator: each of these is then read as one symbol, so that there
    are many different symbols for so few texts.

    side: what the texts are, sources or targets.
    """
    name = f"{side[:-1]}_separator"  # of the format: source_separator or target_separator
    separator = getattr(form, name)
    if not separator:
        if is_segmented(texts):
            spaced = next(text for text in texts if " " in text)
            text = f"the {side} are symbols with blanks between them, as {quoted(spaced)}"
            yield Oddity(f"{text}, and each blank is read as a symbol", {name: " "})
        return
    longer = [text for text in texts if len(text) > 1]
    whole = sum(separator not in text for text in longer)  # each of these is one symbol
    symbols = set(parts_of(texts, separator))
    if whole > 0.3 * len(longer) and len(symbols) > 0.3 * len(texts):
        share = f"{whole:,} of {len(longer):,} {side} ({whole / len(longer):.0%})"
        text = f"{share} do not contain the separator {separator!r}: each is one symbol"
        yield Oddity(text, {name: ""})


def _alternatives(sources: Texts, targets: Texts, spaced: bool) -> Iterator[Oddity]:
    """Warn of a sign, such as a comma, that stands between several answers in some targets. That is
    sure if most of these answers are similar; if not, it is possible for a sign with a blank, such
    as ", ", and the user is asked. Where nearly all targets have the sign, it is part of the
    answers, unless each answer is in quotes of its own.

    spaced: targets are symbols with a separator, or with blanks, between them.
    """
    if not spaced and median(target.count(" ") for target in targets) > 5:
        return  # sentences (more than 5 blanks), whose commas are their own
    for sign in BETWEEN:
        if spaced and " " not in sign:
            continue  # it is inside a symbol
        several = _divided(sources, targets, sign)
        if len(several) <= RARE * len(targets):
            continue  # it may be chance
        # each target has two answers or more, of which the first two stand for all
        first_two = [(answers[0], answers[1]) for answers in several]
        all_quoted = all(_is_quoted(one, other) for one, other in first_two)
        if len(several) > USUAL * len(targets) and not all_quoted:
            continue  # nearly every target has the sign: it is part of the answers

        some = first_two[:COMPARED]
        sure = sum(_is_similar(one, other) for one, other in some) > 0.5 * len(some)
        if sure or " " in sign:
            example = quoted(sign.join(several[0]))
            text = f"{len(several):,} of {len(targets):,} targets contain {sign!r}, as {example}"
            yield Oddity(text, {"target_alternatives": sign}, sure=sure)
            return


def _divided(sources: Texts, targets: Texts, sign: str) -> list[list[str]]:
    """Return, for each target that may have several answers, the parts into which a sign divides
    it. These targets have the sign inside, and their sources lack it. A target `x/y` to the source
    `x` is one answer: in lists of sounds it says that the symbol x is read as y.
    """
    divided = []
    for source, target in zip(sources, targets, strict=True):
        is_reading = sign == "/" and target.startswith(f"{source}/")
        if sign in target.strip(sign) and sign not in source and not is_reading:
            divided.append(target.split(sign))
    return divided


def _is_similar(one: str, other: str) -> bool:
    """Return True for texts that may be two answers to one source."""
    alike = SequenceMatcher(None, one, other).ratio() > 0.5
    return one != other and (alike or _is_quoted(one, other))


def _is_quoted(one: str, other: str) -> bool:
    """Return True for texts that end and begin with a quote, as /x/ and /y/."""
    return one[-1:] + other[:1] in ("//", "][")


def _variants(sources: Texts) -> Iterator[Oddity]:
    """Warn of sources such as `about(2)`, where `about` is a source, too."""
    known = set(sources)
    numbered = filter(VARIANT.search, sources)
    variants = [source for source in numbered if VARIANT.sub("", source) in known]
    if variants:
        text = f"{len(variants):,} of the sources count right answers, as {quoted(variants[0])}"
        yield Oddity(text, {"variants": True})


def _comments(targets: Texts) -> Iterator[Oddity]:
    """Warn of targets such as `K AE T # US`: what follows ` #` is a comment if it has a word that
    is not a symbol of the targets.
    """
    commented = [target for target in targets if " #" in target]
    # `#` may be a symbol itself, of the end of a word: then what follows it are symbols, too
    symbols = set(parts_of([target.partition(" #")[0] for target in targets]))
    comments = set(parts_of([target.partition(" #")[2] for target in targets]))
    if comments - symbols:
        text = f"{len(commented):,} of the targets end in a comment, as {quoted(commented[0])}"
        yield Oddity(text, {"comment": "#"})


def _direction(pairs: Sequence[Pair]) -> Iterator[Oddity]:
    """Warn if a source has several answers but an answer one source, and both are similar, as
    lemmas and their forms: only the other direction has one right answer. The source is in column
    1 and its answer in column 2, as usual; the caller sees to that.
    """
    sources, targets = zip(*pairs, strict=True)
    some = sample(pairs)[:COMPARED]
    alike = sum(_is_similar(*pair) for pair in some) > 0.5 * len(some)
    if alike and is_one_of_many(sources, targets):
        several = len(set(pairs)) / len(set(sources))
        text = f"a source has {several:.1f} answers on average, and an answer one source"
        yield Oddity(text, {"source_column": 2, "target_column": 1})


# ---- what else spoils a training ----


def warnings(pairs: Sequence[Pair], dev: Sequence[Pair], form: Format) -> Iterator[str]:
    """Yield a sentence for all that is odd about the pairs of training, and for what spoils a
    training or what is measured of it: dev pairs that are trained on, sources that differ only in
    case, a pair that is much too long, symbols that may be mistaken or are not trained on.

    pairs: of the training file. dev: the pairs that training is measured on.
    """
    yield from map(str, oddities(pairs, form, dev))
    known = set(pairs)
    if shared := sum(pair in known for pair in dev):
        yield f"warning: {shared:,} of {len(dev):,} dev pairs are also in the training file"
    sources = {source for source, _ in pairs}
    folded = {source.casefold() for source in sources}
    if alike := sum(source not in sources and source.casefold() in folded for source, _ in dev):
        text = f"{alike:,} of {len(dev):,} dev sources differ from one of the training file"
        yield f"warning: {text} only in case"
    lengths = [max(map(len, pair)) for pair in pairs]
    longest, usual = max(lengths), median(lengths)
    # long by any measure, and much longer than the others
    if longest > max(1000, 20 * usual):
        text = f"warning: a pair has {longest:,} characters, the median {usual:g}"
        yield f"{text}; memory grows with the longest squared"
    for side, vocabulary in enumerate(form.vocabularies()):  # without symbols: only to split texts
        name = ("sources", "targets")[side]
        texts = [pair[side] for pair in pairs]
        yield from _symbols(name, vocabulary, texts, [pair[side] for pair in dev])


def _symbols(name: str, vocabulary: Vocabulary, texts: Texts, dev: Texts) -> Iterator[str]:
    """Warn if texts have symbols called like the model's own, such as `<pad>`, or lack symbols that
    the dev set has.

    name: what the texts are, sources or targets. texts: of the training file. dev: of the dev set.
    """
    symbols = {symbol for text in texts for symbol in vocabulary.symbols_of(text)}
    if special := [symbol for symbol in (*SPECIAL, UNKNOWN) if symbol in symbols]:
        text = f"the {name} contain {first_of(special)}, read as a symbol of the file"
        yield f"note: {text}, beside the model's own of that name"
    unseen = [set(vocabulary.symbols_of(text)) - symbols for text in dev]
    count = sum(map(bool, unseen))
    if not count:
        return
    lacking = sorted(set().union(*unseen))
    level = "warning" if count > SMALL * len(dev) else "note"
    text = f"{level}: {count:,} of {len(dev):,} dev {name} have symbols that the training file "
    text += f"lacks: {first_of(list(map(character_name, lacking)))}"
    if not vocabulary.separator and any(normal_form(one, "nfd") != one for one in lacking):
        text += "; --set task.normalise=nfd reads and writes a character's parts"
    yield text
