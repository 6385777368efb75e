"""The documentation's examples run, and the files it names exist."""

import itertools
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

import seq2attn
import seq2attn.parts
from seq2attn.config import load_config
from seq2attn.data.tasks import Answer
from seq2attn.inference.predictor import Prediction

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
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
    names += [
        str((page.parent / link).resolve().relative_to(ROOT))
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    ]
    missing = [name for name in names if not (ROOT / name).exists()]
    assert missing == []


def commands(page):
    """The `train` and `compare` commands of a page on shipped configs, as (configs, overrides)."""
    for command in re.findall(
        r"^    (?:\$ )?(seq2attn (?:train|compare) .*?)(?:  +#.*)?$", page.read_text("utf-8"), re.M
    ):
        words = shlex.split(command)
        after = list(itertools.pairwise(words))
        configs = [word for flag, word in after if flag in ("-c", "--config") and word.startswith("configs/")]
        if "KEY=VALUE" not in words and not any("distance" in word or "pairs/" in word for word in words):
            yield configs, [word for flag, word in after if flag in ("-s", "--set")]


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_overrides_in_commands_fit_their_configs(page):
    refused = [["model.bidirectional=true"]]  # the lesson shows this mistake
    for configs, overrides in commands(page):
        for config in configs if overrides not in refused else ():
            load_config(ROOT / config, overrides)


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
    assert [author["name"] for author in citation["authors"]] == ["seq2attn contributors"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_are_documented_and_are_python(path):
    assert f"examples/{path.name}" in "".join(page.read_text("utf-8") for page in PAGES)
    compile(path.read_text("utf-8"), path.name, "exec")


def test_the_example_that_finds_first_mistakes(tiny_run, capsys):
    example = runpy.run_path(str(ROOT / "examples/where_it_breaks.py"), run_name="example")
    example["main"](tiny_run.name, 3, str(tiny_run.runs))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == seq2attn.parts.FAMILIES.names()
    answer, row = Answer("cba", (2, 1, 0)), {2: (0, 0, 1), 1: (0, 1, 0), 0: (1, 0, 0)}

    def mistake(output, looked, finished=True):
        return example["first_mistake"](
            Prediction("abc", output, finished, weights=[row[one] for one in looked]), answer
        )

    assert mistake("cba", [2, 1, 0]) == ("right", None)
    assert mistake("cba", [2, 2, 0]) == ("attention", (1, 1))
    assert mistake("cca", [2, 1, 0]) == ("wrong letter", None)
    assert mistake("cb", [2, 1, 0]) == ("early <eos>", None)
    assert mistake("cba", [2, 1, 0], finished=False) == ("no <eos>", None)
