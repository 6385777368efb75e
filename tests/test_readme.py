"""The README's examples run."""

import re
import shlex
from pathlib import Path

import pytest

from seq2attn.cli.app import app
from seq2attn.config.plugins import load_plugin
from seq2attn.contract.parts import check_part
from seq2attn.parts import SCORES

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
PAGES = [README, *sorted((README.parent / "docs").rglob("*.md"))]
COMMANDS = [
    command
    for page in PAGES
    for command in re.findall(
        r"^    (?:\$ |(?:cat|printf) .* \| )?(seq2attn .*?)(?:  +#.*)?$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
]
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_command_is_within_twenty_lines():
    assert any("make run" in line for line in TEXT.splitlines()[:20])


def test_the_evaluation_fits_100_columns():
    table = TEXT[TEXT.index("$ seq2attn eval") : TEXT.index("$ seq2attn predict")]
    assert max(map(len, table.splitlines())) <= 100
    assert "[" in table


def test_the_first_section_shows_the_model_whom_it_is_for_and_how_to_install_it():
    first = TEXT[: TEXT.index("## The three commands")]
    assert all(word in first for word in ("encoder", "attention", "decoder", "It is not", "pip install"))
    assert all(f"**{reader}**" in first for reader in ("Students", "Teachers", "Researchers"))


def test_the_readme_score_passes_the_contract(tmp_path, own_scores):
    plugin = tmp_path / "distance.py"
    plugin.write_text(BLOCKS[0], encoding="utf-8")
    assert [cls.__name__ for cls in load_plugin(plugin)] == ["Distance"]
    assert SCORES.get("distance").equal_widths
    assert not any(check_part("score", "distance").values())


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_compile(block):
    compile(block, "README.md", "exec")


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_commands_exist_and_name_shipped_configs(command):
    words = shlex.split(command.partition(" > ")[0])
    names = {info.name or info.callback.__name__ for info in app.registered_commands}
    groups = {
        group.typer_instance.info.name: {info.callback.__name__ for info in group.typer_instance.registered_commands}
        for group in app.registered_groups
    }
    assert words[1] in names | groups.keys() | {"--install-completion"}
    assert words[1] not in groups or words[2] in groups[words[1]]
    for word in words:
        if word.startswith("configs/"):
            assert (README.parent / word).is_file(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_and_pages_linked_exist(page):
    linked = re.findall(r"\]\((?!https?:|#)(.*?)\)", page.read_text(encoding="utf-8"))
    for target in linked:
        name, _, anchor = target.partition("#")
        text = (page.parent / name).read_text(encoding="utf-8") if anchor else ""
        headings = [re.sub(r"[^\w -]", "", line).lower() for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
        assert (page.parent / name).is_file(), target
        assert not anchor or anchor in [heading.replace(" ", "-") for heading in headings], target


def test_figures_are_small():
    assert all(file.stat().st_size < 60_000 for file in (README.parent / "docs" / "images").iterdir())


def test_files_written_by_the_examples_are_ignored_by_git():
    ignored = (README.parent / ".gitignore").read_text(encoding="utf-8").split("\n")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    written = re.findall(r"^    .*(?:--plot|--to|--csv|(?<!-)>) (\S+)", text, re.MULTILINE)
    assert len(written) > 5
    for name in written:
        hidden = name.startswith("runs/") or f"/*{Path(name).suffix}" in ignored or f"/{name}/" in ignored
        assert hidden or name in ("FILE", "FOLDER"), name
