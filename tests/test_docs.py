"""The documentation's examples run, and the files it names exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import seq2attn

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_run(block):
    code = compile(block, "docs", "exec")
    if "assert " in block:  # a fast example that checks itself
        exec(code, {})


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_named_configs_and_pages_exist(page):
    text = page.read_text("utf-8")
    names = re.findall(r"\bconfigs/[\w/-]+\.yaml", text)
    names += [f"{page.parent.relative_to(ROOT)}/{link}" for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
    missing = [name for name in names if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_first_line_says_whom_the_page_is_for(page):
    title, _, first = page.read_text("utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert re.match(r"For (anyone|users|students|teachers|researchers)\b", first)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_formulas_are_typeset(page):
    prose = re.sub(
        r"```.*?```|`[^`]*`|^    .*$|\$[^$\n]*\$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert not re.search(r"sqrt\(|\bsum_|\bsigma\(|_\{", prose)


def test_the_versions_that_are_tested_are_the_lowest_that_are_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = (ROOT / "constraints-lowest.txt").read_text("utf-8").splitlines()
    for requirement in project["dependencies"]:
        if not requirement.startswith("torch>"):  # large: the one of constraints.txt
            assert requirement.replace(">=", "==") in {re.sub(r"(==\d+\.\d+)\.0$", r"\1", line) for line in lowest} | {
                *lowest
            }


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == seq2attn.__version__
    assert f"version = {{{seq2attn.__version__}}}" in (ROOT / "README.md").read_text("utf-8")
    assert [author["name"] for author in citation["authors"]] == ["seq2attn contributors"]
