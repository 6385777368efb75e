"""The notebooks in examples/ run."""

import json

import pytest
from inline import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(notebook):
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
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
