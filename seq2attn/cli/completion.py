"""What the shell offers when Tab is pressed. Reads names and files only: imports no torch, runs no plug-in."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from seq2attn.parts import ARCHITECTURES, EXTENSIBLE, FAMILIES, SCORES
from seq2attn.registry import Registry

Offers = list[tuple[str, str]]  # (word, meaning)

_VARIABLE = "_SEQ2ATTN_COMPLETE"  # set by the scripts that `--install-completion` installs


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs."""
    from seq2attn.runs.run import DEFAULT_ROOT, all_runs

    root = Path(ctx.params.get("runs_dir") or os.environ.get("SEQ2ATTN_RUNS") or DEFAULT_ROOT)
    return sorted(run.name for run in all_runs(root) if run.name.startswith(incomplete))


def configs(incomplete: str) -> list[str]:
    """YAML files and folders here, and the configs that come with seq2attn."""
    from seq2attn.config.shipped import shipped_folder

    here = Path(incomplete).parent if incomplete and not incomplete.endswith("/") else Path(incomplete or ".")
    with contextlib.suppress(OSError):
        local = [path for path in here.glob("*") if path.suffix in (".yaml", ".yml") or path.is_dir()]
        found = {f"{path}/" if path.is_dir() else str(path) for path in local if not path.name.startswith(".")}
    shipped = shipped_folder()
    found |= {f"configs/{path.relative_to(shipped)}" for path in shipped.rglob("*.yaml")}
    return sorted(path for path in found if path.startswith(incomplete))


def configs_and_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Where a command takes either."""
    return [*runs(ctx, incomplete), *configs(incomplete)]


def scores(incomplete: str) -> Offers:
    """Score functions."""
    return _entries(SCORES, incomplete)


def families(incomplete: str) -> Offers:
    """Families of strings, and `all`."""
    return [offer for offer in [*_entries(FAMILIES, incomplete), ("all", "")] if offer[0].startswith(incomplete)]


def parts(incomplete: str) -> Offers:
    """Parts of any kind that can be checked."""
    return [offer for registry in EXTENSIBLE for offer in _entries(registry, incomplete)]


def metrics(incomplete: str) -> Offers:
    """What `compare` can measure."""
    from seq2attn.comparison.experiment import METRICS

    return [(name, meaning) for name, meaning in METRICS.items() if name.startswith(incomplete)]


def overrides(incomplete: str) -> Offers:
    """`KEY=VALUE`: first the keys of a config, then the values of the one that is typed."""
    return _keys_and_values(incomplete, one=True)


def axes(incomplete: str) -> Offers:
    """`KEY=A,B,...`, as overrides, with further values after a comma."""
    return _keys_and_values(incomplete, one=False)


def _keys_and_values(incomplete: str, *, one: bool) -> Offers:
    keys = _config_keys()
    key, equals, typed = incomplete.partition("=")
    if equals:
        _, values = keys.get(key, ("", {}))
        before, comma, last = ("", "", typed) if one else typed.rpartition(",")
        used = before.split(",")
        return [
            (f"{key}={before}{comma}{value}", meaning)
            for value, meaning in values.items()
            if value.startswith(last) and value not in used
        ]
    found = [(name, *keys[name]) for name in keys if name.startswith(incomplete)]
    offers = [(f"{name}=", meaning) for name, meaning, _ in found]
    if len(found) == 1:  # with a value beside it, no shell ends the word after `=`
        name, _, values = found[0]
        offers += [(f"{name}={value}", meaning) for value, meaning in values.items()]
    return offers


def _config_keys() -> dict[str, tuple[str, Mapping[str, str]]]:
    """Every key of a config: what it means, and its values as far as they can be listed, or else its default."""
    from seq2attn.config.schema import all_keys, registry_of, types_of

    keys: dict[str, tuple[str, Mapping[str, str]]] = {}
    for key, field in all_keys():
        registry = ARCHITECTURES if key == "model.architecture" else registry_of(field)
        if registry is not None:
            values: Mapping[str, str] = dict(_entries(registry, ""))
        else:
            values = _values(bool in types_of(field), field.default)
        keys.setdefault(key, (field.description or "", values))
    return keys


def _values(boolean: bool, default: Any) -> dict[str, str]:
    if boolean:
        return {"true": "", "false": ""}
    return {"null" if default is None else str(default): "the default"}


def _entries(registry: Registry, incomplete: str) -> Offers:
    about = [(entry.name, entry.formula or entry.summary) for entry in registry]
    return [(name, meaning) for name, meaning in about if name.startswith(incomplete)]


@contextlib.contextmanager
def whole_words() -> Iterator[None]:
    """While bash asks for completions, join the words that it splits at `=`, and answer with what follows the `=`."""
    if os.environ.get(_VARIABLE) != "complete_bash" or not os.environ.get("COMP_CWORD", "").isdigit():
        yield
        return
    line = os.environ.get("COMP_WORDS", "")
    words, place = _joined(line.split("\n" if "\n" in line else " "), int(os.environ["COMP_CWORD"]))
    before = words[place].rpartition("=")[0] if place < len(words) else ""
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(place))
    offered = io.StringIO()
    try:
        with contextlib.redirect_stdout(offered):
            yield
    finally:
        lines = filter(None, offered.getvalue().splitlines())
        sys.stdout.write("".join(f"{line.removeprefix(f'{before}=') if before else line}\n" for line in lines))


def _joined(words: list[str], place: int) -> tuple[list[str], int]:
    """`["a", "=", "b"]` -> `["a=b"]`, and the index of the word that had the index `place`."""
    joined: list[str] = []
    new_place = 0
    for index, word in enumerate(words):
        if index > 1 and joined and (word == "=" or words[index - 1] == "="):
            joined[-1] += word
        else:
            joined.append(word)
        if index == place:
            new_place = len(joined) - 1
    return joined, new_place if place < len(words) else len(joined)
