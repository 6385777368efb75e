"""Names that a config may use, and what stands behind each.

A registry knows names, synonyms and descriptions without importing torch; the class behind a name is imported
when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from seq2attn.errors import Seq2AttnError, did_you_mean, shown


@dataclass(frozen=True)
class Option:
    """A setting of one entry, given in the config under `options`: its type, default and meaning."""

    type: type
    default: Any
    meaning: str


@dataclass(frozen=True)
class Entry:
    """One name a config may use.

    `implementation` is a class, or `"package.module:Class"` to be imported when needed, or None for a name that
    needs no class of its own.
    """

    name: str
    formula: str
    summary: str = ""
    source: str = ""
    synonyms: tuple[str, ...] = ()
    implementation: str | type | None = None
    options: dict[str, Option] = field(default_factory=dict)

    def load(self) -> Any:
        """The class behind the name."""
        if not isinstance(self.implementation, str):
            return self.implementation
        module, _, attribute = self.implementation.partition(":")
        return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class ScoreEntry(Entry):
    """A score function: also what it adds to the parameters, and whether query and key widths must agree."""

    parameters: str = ""
    equal_widths: bool = False


EntryType = TypeVar("EntryType", bound=Entry)


class UnknownName(Seq2AttnError):
    """A name that no entry has."""


class Registry(Generic[EntryType]):
    """The entries of one kind, by name and synonym.

    `discover` is asked, for each name that is not known, for an entry that an installed package provides.
    """

    def __init__(
        self,
        kind: str,
        entries: list[EntryType],
        discover: Callable[[str], EntryType | None] | None = None,
    ) -> None:
        self.kind = kind
        self._entries: dict[str, EntryType] = {}
        self._synonyms: dict[str, str] = {}
        self._discover = discover
        for entry in entries:
            self.add(entry)

    def __iter__(self) -> Iterator[EntryType]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        """Every name, without synonyms, in order of registration."""
        return list(self._entries)

    def add(self, entry: EntryType) -> None:
        """Make `entry` known. A name or synonym that is taken is refused: nothing is replaced silently."""
        for name in (entry.name, *entry.synonyms):
            if name in self._entries or name in self._synonyms:
                taken = self._synonyms.get(name, name)
                raise Seq2AttnError(
                    f"{self.kind} {name!r} is already registered (it means {taken!r})",
                    hint="Give yours a name of its own.",
                )
        self._entries[entry.name] = entry
        self._synonyms.update((synonym, entry.name) for synonym in entry.synonyms)

    def get(self, name: str) -> EntryType:
        """The entry called `name`, by its name or a synonym; `UnknownName` says what is allowed."""
        entry = self._entries.get(self._synonyms.get(name, name))
        if entry is None and self._discover is not None:
            entry = self._discover(name)
        if entry is None:
            raise UnknownName(self.describe_unknown(name))
        return entry

    def describe_unknown(self, name: object) -> str:
        """The message for a name that is not known."""
        everything = [*self._entries, *self._synonyms]
        guess = did_you_mean(name, everything) if isinstance(name, str) else ""
        return f"unknown {self.kind} {shown(name)}; {guess}allowed: {', '.join(self._entries)}"
