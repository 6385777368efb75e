"""No network, and an installed package that brings what it needs."""

import shutil
import zipfile
from functools import partial

import pytest
from inline import ROOT, process, read_json

from seq2attn.kernels.function import LIBRARY


def test_no_command_uses_the_network_or_a_compiler(server, run_copy, work):
    for line in (
        "train -c tiny.yaml --set training.steps=1",
        "inspect tiny",
        "eval tiny",
        "predict ab --run tiny --plot a.png",
    ):
        server.call(work, line, environment={"OFFLINE": "1"}).check()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the repository's files that an installation needs."""
    source = tmp_path_factory.mktemp("source")
    for name in "seq2attn configs pyproject.toml setup.py MANIFEST.in README.md LICENSE".split():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    process(source, "-m pip wheel --quiet --no-deps --wheel-dir dist .").check()
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """`installed(folder, "script.py")` runs Python with the wheel."""
    place = tmp_path_factory.mktemp("installed")
    process(place, f"-m pip install --quiet --no-deps --target {place} {wheel}").check()
    return partial(process, PYTHONPATH=str(place))


@pytest.mark.slow
def test_the_wheel_contains_only_the_package_and_the_configs(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    assert {name.partition("/")[0] for name in names if not name.startswith("seq2attn-")} == {
        "seq2attn"
    }
    shipped = {
        name.removeprefix("seq2attn/") for name in names if name.startswith("seq2attn/configs/")
    }
    assert shipped == {str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.yaml")}
    kinds = (".py", ".c", ".h")
    files = (ROOT / "seq2attn").rglob("*.*")
    modules = {name for name in names if name.endswith(kinds)}
    assert modules == {str(path.relative_to(ROOT)) for path in files if path.suffix in kinds}
    assert "seq2attn/py.typed" in names
    assert ("seq2attn/kernels/recurrence.so" in names) is LIBRARY.is_file()  # as for this Python
    assert wheel.name.startswith("seq2attn-")
    assert "-py3-none-" in wheel.name


@pytest.mark.slow
def test_the_installed_wheel_finds_its_configs(installed, work):
    changes = "--set=training.steps=1 --set=training.warmup=0"
    words = f"train --config configs/scaled.yaml --name=mine {changes}"
    assert installed(work, f"-m seq2attn {words}").check().out == "runs/mine\n"
    installed(work, "-m seq2attn inspect configs/chapter/dot.yaml").check()
    assert installed(work, "-m seq2attn inspect configs/scald.yaml").err.startswith(
        "error: configs/scald.yaml: no such file\nThere are: configs/scaled.yaml, "
    )


@pytest.mark.slow
def test_the_notebook_of_the_lesson_runs_with_the_wheel_in_an_empty_folder(installed, tmp_path):
    notebook = read_json(ROOT / "examples/lesson.ipynb")
    sources = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    (tmp_path / "lesson.py").write_text("\n".join([*sources, "print(seq2attn.__file__)"]))
    done = installed(tmp_path, "lesson.py").check()
    for line in ("step 240: hello -> olleh", "{'ban': [0]} hello -> ollee", "the sign is wrong"):
        assert line in done.out
    place = installed.keywords["PYTHONPATH"]
    assert done.out.endswith(f"{place}/seq2attn/__init__.py\n")
    assert (tmp_path / "steps.png").stat().st_size > 1000
