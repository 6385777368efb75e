"""What the shell offers when Tab is pressed. Reads names and files only: imports no torch, runs no plug-in."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from seq2attn import parts
from seq2attn.registry import Registry

Offers = list[tuple[str, str]]  # (word, meaning)


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs."""
    from seq2attn.runs.run import DEFAULT_ROOT, all_runs

    root = Path(ctx.params.get("runs_dir") or os.environ.get("SEQ2ATTN_RUNS") or DEFAULT_ROOT)
    return sorted(run.name for run in all_runs(root) if run.name.startswith(incomplete))


def scores(incomplete: str) -> Offers:
    """Score functions."""
    return _entries(parts.SCORES, incomplete)


def families(incomplete: str) -> Offers:
    """Families of strings, and `all`."""
    return [*_entries(parts.FAMILIES, incomplete), *([("all", "")] if "all".startswith(incomplete) else [])]


def checkable(incomplete: str) -> Offers:
    """Parts of any kind that can be checked."""
    return [offer for registry in parts.EXTENSIBLE for offer in _entries(registry, incomplete)]


def _entries(registry: Registry, incomplete: str) -> Offers:
    about = [(entry.name, entry.formula or entry.summary) for entry in registry]
    return [(name, meaning) for name, meaning in about if name.startswith(incomplete)]
