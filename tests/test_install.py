"""The progress that `make` shows while pip installs."""

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PATH = Path(__file__).parent.parent / "install.py"


@pytest.fixture
def install():
    spec = importlib.util.spec_from_file_location("install", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def progress(install, tmp_path):
    return install.Progress(54, tmp_path)


OUTPUT = """\
Looking in indexes: a, b
Obtaining file:///home/me/seq2attn
  Installing build dependencies: started
Collecting torch==2.13.0 (from seq2attn==0.1.0)
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (190.2 MB)
Collecting typing_extensions (from torch)
  Downloading typing_extensions-4.16.0-py3-none-any.whl (43 kB)
"""


def test_packages_and_the_download_are_counted(progress, tmp_path, monkeypatch, capsys):
    (tmp_path / "pip-unpack").mkdir()
    (tmp_path / "pip-unpack" / "torch.whl").write_bytes(bytes(87_000_000))
    monkeypatch.setattr("os.get_terminal_size", lambda: type("Size", (), {"columns": 80}))
    progress.on_terminal = True
    lines = OUTPUT.splitlines()
    for line in lines[:5]:
        progress.read(line)
    progress.show()
    assert capsys.readouterr().out.endswith("1 of 54 packages  downloading torch, 87 of 190 MB")
    for line in lines[5:]:
        progress.read(line)
    progress.show()
    assert capsys.readouterr().out.endswith("2 of 54 packages  downloading typing_extensions")
    progress.read("Installing collected packages: torch, typing_extensions")
    progress.show()
    assert capsys.readouterr().out.endswith("2 of 54 packages  installing")


def test_without_a_terminal_only_large_downloads_are_named(progress, capsys):
    for line in OUTPUT.splitlines():
        progress.read(line)
        progress.show()
    assert capsys.readouterr().out == "  downloading torch, 190 MB\n"


def test_pips_output_is_shown_if_it_fails(tmp_path, monkeypatch):
    import subprocess

    (tmp_path / "constraints.txt").write_text("a==1\n")
    done = subprocess.run([sys.executable, PATH], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "ERROR" in done.stderr


def needed_by(name, extra=""):
    """The installed packages that a package needs, and those that they need."""
    needed, left = set(), [(name, extra)]
    while left:
        name, extra = left.pop()
        for requirement in map(Requirement, metadata.requires(name) or []):
            found = canonicalize_name(requirement.name)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                left += [(found, one) for one in {"", *requirement.extras} if (found, one) not in needed]
                needed |= {(found, one) for one in {"", *requirement.extras}}
    return {found for found, _ in needed}


def test_constraints_have_the_packages_of_seq2attn_first(install):
    text = (PATH.parent / "constraints.txt").read_text()
    own, tools = (
        {canonicalize_name(line.partition("==")[0]) for line in part.splitlines() if "==" in line}
        for part in text.split(install.TOOLS)
    )
    if f"\nrich=={metadata.version('rich')}\n" not in text:
        pytest.skip("this environment was not installed with the constraints")
    assert own == needed_by("seq2attn") - {"setuptools"}  # every environment has it
    assert tools >= needed_by("seq2attn", "dev") - own - {"seq2attn", "setuptools"}
    assert (install.count_packages(text, False), install.count_packages(text, True)) == (len(own), len(tools))
