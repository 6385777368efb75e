"""Commands as processes, and a run that nothing disturbed."""

import shutil
from pathlib import Path

import pytest
from forks import TINY, TRAIN, Server

from seq2attn.runs.run import Run


@pytest.fixture
def server():
    server = Server()
    yield server
    server.end()


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """An undisturbed run. Do not change it; use `run_copy`."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "tiny.yaml").write_text(TINY)
    Server().call(folder, TRAIN).check()
    return Run(folder / "runs/tiny")


@pytest.fixture
def work(tmp_path):
    """An empty directory but for tiny.yaml."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path


@pytest.fixture
def run_copy(reference, work):
    """The reference run, copied to `runs/tiny` of `work`."""
    return Run(Path(shutil.copytree(reference.path, work / "runs/tiny")))


@pytest.fixture
def record_figure(request, pytestconfig):
    """`record_figure(kills=100)`: a figure of this test, printed at the end of the whole run."""

    def tell(**figures):
        words = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in figures.items())
        request.node.user_properties.append(("found", words))

    return tell


def pytest_terminal_summary(terminalreporter):
    """The figures that docs/reliability.md quotes."""
    for report in terminalreporter.getreports("passed"):
        for name, words in report.user_properties:
            if name == "found":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {words}")
