"""The documentation's examples run, and the files it names exist."""

import re
from pathlib import Path

import pytest

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
