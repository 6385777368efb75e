"""The examples of the README and the documentation run, and what they name exists."""

import itertools
import re
import runpy
import shlex
import tomllib

import numpy as np
import pytest
import typer
import yaml
from inline import ROOT, read, read_json, write

import seq2attn
import seq2attn.parts
from seq2attn.cli.app import app
from seq2attn.config import load_config
from seq2attn.contract.parts import check_part
from seq2attn.pages import asset
from seq2attn.pages.page import CONTROLS, ENGINE, VIEW
from seq2attn.plugins import load_plugin

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = {page: read(page) for page in [README, *PAGES]}
WHOLE = "\n".join(TEXTS.values())
BLOCKS = re.findall(r"```python\n(.*?)```", WHOLE, re.DOTALL)  # those of the README first
CONTRIBUTING = read(ROOT / "CONTRIBUTING.md")
PATH = r"`([\w./-]+(?:/|\.(?:py|toml|rst|yml)))`"  # a folder, or a file
COMMAND = r"^    (?:\$ |(?:cat|printf) .* \| )?(seq2attn .*?)(?:  +#.*)?$"
COMMANDS = sorted({*re.findall(COMMAND, WHOLE, re.MULTILINE)})


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_run(block):
    code = compile(block, "docs", "exec")
    if "assert " in block:  # a fast example that checks itself
        exec(code, {})


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    named = re.findall(r"\bconfigs/[\w/-]+\.yaml", TEXTS[page])
    named += re.findall(r"`((?:seq2attn|tests|docs|examples|benchmarks)/[\w./-]+)`", TEXTS[page])
    assert [name for name in named if not (ROOT / name).exists()] == []
    for target in re.findall(r"\]\((?!https?:|#)(.*?)\)", TEXTS[page]):
        name, _, anchor = target.partition("#")
        assert (page.parent / name).is_file(), target
        text = read(page.parent / name) if anchor else ""
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        anchors = [re.sub(r"[^\w-]", "", one.replace(" ", "-")).lower() for one in headings]
        assert anchor in ["", *anchors], target


def test_paths_in_contributing_exist():
    """From the repository, from the package, or beside the path that was named before."""
    folder = ROOT
    for name in re.findall(PATH, CONTRIBUTING):
        if "NAME" not in name:
            found = [start / name for start in (folder, ROOT, ROOT / "seq2attn")]
            path = next((path for path in found if path.exists()), None)
            assert path is not None, name
            folder = path if path.is_dir() else path.parent


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_and_their_options_exist(line):
    command = typer.main.get_command(app)
    words = shlex.split(re.split(r" [>|] ", line)[0])[1:]
    while hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts}
    given = {word.partition("=")[0] for word in words if re.match("--?[a-z-]+(=|$)", word)}
    assert given <= options | {"--help"}


OF_OTHERS = r"--plugin|pairs/|KEY=VALUE"  # files that are not there
MISTAKE = "model.bidirectional=true"  # which the lesson shows


@pytest.mark.parametrize("line", [line for line in COMMANDS if not re.search(OF_OTHERS, line)])
def test_overrides_in_commands_fit_their_configs(line):
    after = list(itertools.pairwise(shlex.split(line)))
    overrides = [word for flag, word in after if flag in ("-s", "--set")]
    for flag, word in after:
        if flag in ("-c", "--config") and word.startswith("configs/") and overrides != [MISTAKE]:
            load_config(ROOT / word, overrides)


def test_the_readme_begins_with_the_command_its_model_and_whom_it_is_for():
    text = TEXTS[README]
    start = "\n".join(text.splitlines()[:10])
    assert all(word in start for word in ("make run", "hello -> olleh", "make test", "hello.png"))
    first = text[: text.index("## The three commands")]
    assert all(f"**{reader}**" in first for reader in ("Students", "Teachers", "Researchers"))
    table = text[text.index("$ seq2attn eval") : text.index("$ seq2attn predict")]
    assert max(map(len, table.splitlines())) <= 100
    assert "[" in table


def test_the_readme_score_passes_the_contract(tmp_path, own_scores, one_place):
    plugin = tmp_path / "distance.py"
    write(plugin, BLOCKS[0])
    assert [cls.__name__ for cls in load_plugin(plugin)] == ["Distance"]
    assert seq2attn.parts.SCORES.get("distance").equal_widths
    assert not any(check_part("score", "distance").values())


def test_the_generated_reference_has_every_command_option_and_part():
    reference = runpy.run_path(str(ROOT / "docs/site/reference.py"))
    text = "\n" + reference["commands"]()
    for line in ("train", "config", "analyze variance", "plot accuracy"):
        assert f"\nseq2attn {line}\n---" in text
    listed = dict(reference["all_commands"]("seq2attn", typer.main.get_command(app)))
    assert len(listed) == text.count("\n\nseq2attn ") + 1
    for name, command in listed.items():
        section = text.partition(f"\n{name}\n---")[2].partition("\n\nseq2attn ")[0]
        for parameter in command.params:
            assert parameter.opts[-1] in section or parameter.param_type_name == "argument"
    parts = reference["parts"]()
    for registry in seq2attn.parts.KINDS.values():
        assert all(f"\n``{name}``\n" in parts for name in registry.names())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_first_line_says_whom_the_page_is_for(page):
    title, _, first = TEXTS[page].split("\n")[:3]
    assert title.startswith("# ")
    assert re.match(r"For (anyone|users|students|teachers|researchers)\b", first)


def test_the_versions_that_are_tested_are_the_lowest_that_are_allowed():
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    lowest = read(ROOT / "constraints-lowest.txt").splitlines()
    lowest += [re.sub(r"(==\d+\.\d+)\.0$", r"\1", line) for line in lowest]
    for requirement in project["dependencies"]:
        if not requirement.startswith("torch>"):  # large: the one of constraints.txt
            assert requirement.replace(">=", "==") in lowest


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load(read(ROOT / "CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == seq2attn.__version__
    assert [author["name"] for author in citation["authors"]] == ["seq2attn contributors"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_examples_are_documented_and_are_python(path):
    assert f"examples/{path.name}" in "".join(TEXTS[page] for page in PAGES)
    compile(read(path), path.name, "exec")


def test_attention_by_hand_is_what_the_classes_compute(capsys):
    runpy.run_path(str(ROOT / "examples/by_hand.py"))  # it compares both itself
    assert "{'dot': 1.0, 'scaled': 0.5, 'general': 3.0, " in capsys.readouterr().out


def test_the_example_that_finds_first_mistakes(tiny_run, capsys):
    example = runpy.run_path(str(ROOT / "examples/where_it_breaks.py"), run_name="example")
    example["main"](tiny_run.name, 3, str(tiny_run.runs))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == seq2attn.parts.FAMILIES.names()
    answer = seq2attn.Solution("cba", (2, 1, 0))
    backwards = np.eye(3)[::-1]
    for output, weights, mistake in (
        ("cba", backwards, ("right", None)),
        ("cca", backwards, ("wrong letter", None)),
        ("cb", backwards, ("early <eos>", None)),
        ("cba", backwards[[0, 0, 0]], ("attention", (1, 1))),
    ):
        made = seq2attn.Answer("abc", output, True, weights=weights)
        assert example["first_mistake"](made, answer) == mistake


def test_the_pages_of_the_documentation_have_todays_code():
    """`make pages` puts it in."""
    scripts = {"engine": ENGINE, "view": VIEW, "controls": CONTROLS}
    names = [f"{folder}/{name}.js" for folder, some in scripts.items() for name in some]
    present = {name: asset(name) for name in (*names, "view/page.css")}
    of_root = {"view/page.css", "view/dom.js", "engine/formula.js", "engine/learner.js"}
    alone = {"root": of_root, "formulas": ["view/page.css"], "ranking": ["view/page.css"]}
    for page in (ROOT / "docs").glob("*.html"):
        text = read(page)
        needed = alone.get(page.stem, present)
        assert [name for name in needed if present[name] not in text] == [], page
        for own in (ROOT / "docs").glob(f"site/{page.stem}.[jc]s*"):
            assert read(own) in text, own


# ---- notebooks ----


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(notebook):
    found = read_json(notebook)["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_their_code_compiles(notebook):
    assert notebook.stat().st_size < 150_000
    for cell in cells(notebook):
        compile("".join(cell["source"]), notebook.name, "exec")
        assert not [output for output in cell["outputs"] if output["output_type"] == "error"]


@pytest.mark.slow
def test_the_question_of_the_notebook_on_patching_is_answered(here):
    names = {}
    for cell in cells(NOTEBOOKS[0].with_name("inside.ipynb")):
        exec("".join(cell["source"]), names)
    letters = {name: output[3] for name, output in names["patched"].items()}
    assert letters == {"decoder.state": "e", "attention.weights": "e", "attention.context": "a"}
    states, contexts = (one.effect for one in names["maps"])
    assert contexts.argmax() == 3 * 6 + 3
    assert contexts.max() > 2 > states.max()


def test_the_lesson_without_seq2attn_or_a_wheel_says_how_to_make_one(here, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    first = cells(ROOT / "examples/lesson.ipynb")[0]
    with pytest.raises(SystemExit, match="`pip wheel --no-deps"):
        exec("".join(first["source"]), {})


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    opened = pytest.importorskip("nbformat").read(notebook, as_version=4)
    metadata = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(
        opened, timeout=1200, kernel_name="python3", resources=metadata
    ).execute()
    outputs = [output for cell in opened.cells for output in cell.get("outputs", ())]
    texts = "".join(str(output.get("data", {}).get("text/plain", "")) for output in outputs)
    assert "Answer('hello' -> 'olleh')" in texts
