"""Makes findings: rules are tried in the order of causes, and say what they found by the codes of
one catalogue. Imports nothing heavy.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any

from seq2attn.errors import Seq2AttnError, error_text
from seq2attn.findings.report import Finding

Found = Iterator[str | tuple[Any, ...]]
"""codes of the catalogue, each with its evidence: the values that its text shows, in the order in
which it shows them, or one mapping of them by name"""
Rule = Callable[[Any], Found]
"""of what is examined"""
Rules = Mapping[str, Rule]
"""by their names"""


@dataclass(frozen=True)
class Entry:
    """What the catalogue says of a code."""

    text: str
    level: str = "fault"
    look: str = ""
    """parts with "; " between them; one that begins with a pattern in braces is about code in which
    this occurs"""
    group: str = ""
    """codes may follow from a group of others"""
    follows: str = ""
    """codes and groups that imply this finding, with spaces between them"""
    ends: bool = False
    """after it, nothing else can be judged"""
    crash: bool = False
    """if the rule of this name raises an exception, that is this finding"""

    def looked(self, code: str = "") -> str:
        """Return the parts of `look` that may be meant of code; all of them if no code is known."""
        parts = []  # (pattern, text) of each; the pattern "" occurs in any code
        for part in self.look.split("; "):
            parts.append(part[1:].split("}", 1) if part.startswith("{") else ["", part])
        meant = [text for pattern, text in parts if re.search(pattern, code)]
        return "; ".join(meant if code and meant else [text for _, text in parts])

    @property
    def outline(self) -> str:
        """The text without evidence"""
        return re.sub("{.*?}", "...", self.text)

    def said(self, *evidence: Any) -> str:
        """Return the text with its evidence: the values of its `{names}`, in the order in which
        these first occur, or a mapping of them.
        """
        if evidence and isinstance(evidence[0], Mapping):
            return self.text.format_map(evidence[0])
        names = dict.fromkeys(name for _, name, *_ in Formatter().parse(self.text) if name)
        return self.text.format_map(dict(zip(names, evidence, strict=False)))


TEXTS = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
"""tables of `catalogue.toml`"""
_doctor = {code: Entry(**about) for code, about in TEXTS["findings"].items()}
_contract = {code: Entry(text) for code, text in TEXTS["contract"].items()}
CATALOGUE = MappingProxyType({**_doctor, **_contract})
"""what each code means"""


def finding(code: str, *evidence: Any) -> Finding:
    """Return the finding of a code, with its evidence in its text."""
    entry = CATALOGUE[code]
    return Finding(entry.level, code, entry.said(*evidence), entry.looked())


def listed(found: Found) -> list[tuple[Any, ...]]:
    """Return what was found as codes with their evidence."""
    return [(one,) if isinstance(one, str) else one for one in found]


def first(rule: Rule, subject: Any) -> Finding | None:
    """Return the first finding of a rule, or None. What the rule raises is raised."""
    found = listed(islice(rule(subject), 1))
    return finding(*found[0]) if found else None


def examine(
    rules: Iterable[Rule], subject: Any, allow: Collection[str], known: set[str]
) -> Iterator[Finding]:
    """Yield what the rules find, without the codes in `allow`, and without what only follows from
    an earlier rule's finding (`follows` in the catalogue). After a rule with a finding that `ends`,
    even one in `allow`, "unchecked" is yielded in place of what later rules would find.

    known: codes and groups of earlier findings. All that a rule finds is added, whether it is
        yielded or not.
    """
    for rule in rules:
        found = listed(_found_by(rule, subject))
        for code, *evidence in found:
            if code not in allow and known.isdisjoint(CATALOGUE[code].follows.split()):
                yield finding(code, *evidence)
        entries = {code: CATALOGUE[code] for code, *_ in found}
        # only now: what one rule finds is never hidden by something else that it finds
        known.update(entries, (entry.group for entry in entries.values()))
        if any(entry.ends for entry in entries.values()):
            yield finding("unchecked")  # what later rules need is broken
            return


def _found_by(rule: Rule, subject: Any) -> Found:
    """Yield what a rule finds. An exception in it is a finding, too: the one of the rule's name, if
    the catalogue says so (`crash`), or else "unfinished". Only a `Seq2AttnError` is raised.
    """
    name = rule.__name__.replace("_", "-")
    try:
        yield from rule(subject)
    except Seq2AttnError:  # a user's mistake, such as an unknown score
        raise
    except Exception as error:
        is_named = name in CATALOGUE and CATALOGUE[name].crash
        # the text of either finding in the catalogue uses `name`, `by` or both
        yield name if is_named else "unfinished", {"name": name, "by": error_text(error)[:160]}
