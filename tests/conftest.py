"""Shared fixtures: the command line in this process, and one tiny trained run."""

import os

# Before torch is imported: workers with a thread a core each would wait, and who waits would spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of many processes only one compiles a module

import contextlib
import copy
import functools
import gc
import re
import shutil
import signal
import sys
import traceback
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from browser import opened_browser
from inline import HANDLERS, OUTPUT_VARIABLES, TINY, Done, Inline, call_main, plain

from seq2attn import parts
from seq2attn.runs import create

sys.dont_write_bytecode = False
gc.set_threshold(200_000, 50, 100)  # modules and tests are imported for good: little is garbage


def pytest_collection_finish():
    gc.freeze()


TOGETHER = {  # what is dear to start, and the files that share it: one worker runs them all
    "a server of forks": r"tests/(faults/|test_(processes|doctor|lesson))",
    "browser, torch's compiler": r"tests/test_(page|engine|export|tracing|report|site|.*_loop)",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of a file, or of files that stand `TOGETHER`, run in one worker."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            shared = (name for name, files in TOGETHER.items() if re.match(files, nodeid))
            return next(shared, super()._split_scope(nodeid))

    return Together(config, log)


@pytest.fixture(autouse=True, scope="session")
def quick_commands():
    """The tree of commands, which every call of `main` builds anew, is built once, git and packages
    tell their versions once, no write waits for the disk, and `torch.manual_seed` does not describe
    its callers, as it does for a device that is not there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        patch.setattr(create, "_commit", functools.cache(create._commit))
        patch.setattr(metadata, "version", functools.cache(metadata.version))
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(traceback, "format_stack", lambda *_: [])
        yield


@pytest.fixture(scope="session")
def quick_exporter():
    """Of the formulas that torch's exporter knows, which it compiles for each graph, every graph
    gets a copy; it lists torch's operations once.
    """
    pytest.importorskip("onnxscript", reason='not installed: pip install "seq2attn[export]"')
    with pytest.MonkeyPatch.context() as patch:
        with contextlib.suppress(ImportError, AttributeError):  # torch's own names may change
            from torch._export import utils
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            first = functools.cache(ONNXRegistry.from_torchlib)

            def known(*_, **options):
                registry = copy.copy(first(**options))
                registry.functions = {name: [*some] for name, some in registry.functions.items()}
                return registry

            patch.setattr(ONNXRegistry, "from_torchlib", known)
            listed = functools.cache(utils._materialize_cpp_cia_ops)
            patch.setattr(utils, "_materialize_cpp_cia_ops", listed)
        yield


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A run with both checkpoints. Do not change it; use a copy (`runs_copy`)."""
    import torch

    folder = tmp_path_factory.mktemp("tiny")
    config = folder / "tiny.yaml"
    config.write_text(TINY.replace("snapshots: 0", "watched: [ba, cab]"))
    threads = torch.get_num_threads()
    words = f"train --config {config} --name tiny --runs-dir {folder}/runs --device cpu"
    call_main(words).check()
    torch.set_num_threads(threads)
    return SimpleNamespace(runs=folder / "runs", name="tiny")


@pytest.fixture
def runs_copy(tiny_run, tmp_path):
    """`tiny_run`'s runs directory, copied to `runs` of the working directory of `cli`."""
    return Path(shutil.copytree(tiny_run.runs, tmp_path / "runs"))


@pytest.fixture
def formulas_alone(monkeypatch):
    """Training uses no kernels, so that nothing is proven."""
    monkeypatch.setattr("seq2attn.training.step.faster_form", lambda model: None)


@pytest.fixture
def plain_output(monkeypatch):
    """No variable of the environment says how to print, or where runs are."""
    for name in OUTPUT_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(here, plain_output, formulas_alone):
    """`cli("eval tiny --json")` in an empty directory -> exit code, stdout, stderr."""

    def call(*arguments, **keywords):
        code, *printed = call_main(*arguments, **keywords)
        return Done(code, *map(plain, printed))

    return call


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def one_place(monkeypatch):
    """A part is tried against its contract in one tiny model instead of three."""
    from seq2attn.contract import parts as contract

    monkeypatch.setattr(contract, "MODELS", contract.MODELS[:1])


@pytest.fixture
def blank_figures(monkeypatch):
    """Figures are made, and saved without what is on them: drawing takes longer than all else."""
    from seq2attn.plotting import figures

    render = figures.render

    def blank(figure, form, dpi=100):
        figure.clear()
        return render(figure, form, dpi)

    monkeypatch.setattr(figures, "render", blank)


@pytest.fixture
def own_scores():
    """After the test, remove the parts and modules that plug-ins registered."""
    before = [(kind, dict(kind._entries)) for kind in parts.EXTENSIBLE]
    modules = set(sys.modules)
    yield
    for kind, entries in before:
        kind._entries = entries
    for name in set(sys.modules) - modules:
        if name.startswith("seq2attn_plugin_"):
            del sys.modules[name]


@pytest.fixture
def trials_here(monkeypatch, formulas_alone):
    """The trials of a comparison run in this process, with one thread as in a worker."""
    import torch

    monkeypatch.setattr("seq2attn.comparison.run.process_pool", lambda *_: Inline())
    monkeypatch.setattr("seq2attn.comparison.run.POLL", 0.01)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal():
    """Default signal handlers, which the parent process of the tests may have replaced."""
    before = {number: signal.signal(number, handler) for number, handler in HANDLERS.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory):
    with opened_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def browser(one_browser):
    """A real browser, with a window of the usual size."""
    one_browser.devtools("Emulation.clearDeviceMetricsOverride")
    return one_browser


@pytest.fixture
def quiet(browser):
    """The browser, in which the test may log no error."""
    browser.console()
    yield browser
    assert browser.console() == []


@pytest.fixture(scope="module")
def traced_once():
    """Models that differ in their numbers alone are traced once for the pages of all tests, as are
    equal tasks, and trainings that differ in their warm-up alone. A graph is written once, too.
    """

    def of_model(model):
        shapes = [(name, tuple(one.shape)) for name, one in model.state_dict().items()]
        return repr((str(model), shapes))

    def of_task(task):
        vocabularies = task.source_vocabulary.tokens, task.target_vocabulary.tokens
        return repr((type(task), task.min_length, task.max_length, vocabularies))

    def of_training(config, task):
        alike = {"training": {"warmup"}, "seed": True}
        return config.model_dump_json(exclude=alike) + of_task(task)

    from seq2attn.pages import page

    keys = {
        "trace_model": of_model,
        "trace_answer": of_task,
        "training_graphs": of_training,
        "program_json": lambda traced: traced.program,
    }

    def once(function, key):
        def cached(*arguments):
            name = function, key(*arguments)
            if name not in TRACED:
                TRACED[name] = function(*arguments)
            return TRACED[name]

        return cached

    with pytest.MonkeyPatch.context() as patch:
        for name, key in keys.items():
            patch.setattr(page, name, once(getattr(page, name), key))
        yield


TRACED = {}
