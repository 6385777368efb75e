import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import seq2attn

PACKAGE = Path(seq2attn.__file__).parent
HEAVY = {"torch", "safetensors", "tensorboard", "matplotlib", "numpy"}
LIGHT = (
    "config",
    "errors",
    "registry",
    "catalogue",
    "cli",
    "runs",
    "files",
    "lock",
    "lengths",
    "memory",
    "heatmap",
    "plugins",
    "maps",
    "records",
    "comparison",
)


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def found_imports(node, into_functions):
    """The names that `node` imports; what stands under `if TYPE_CHECKING:` does not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports are not used here"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield submodule if submodule in TREES else child.module
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from found_imports(ast.Module(child.orelse, []), into_functions)
        elif into_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from found_imports(child, into_functions)


AT_IMPORT = {name: set(found_imports(tree, into_functions=False)) for name, tree in TREES.items()}
ANYWHERE = {name: set(found_imports(tree, into_functions=True)) for name, tree in TREES.items()}


def modules_of(*parts):
    names = [name for name in TREES for part in parts if f"{name}.".startswith(f"seq2attn.{part}.")]
    assert len(names) >= len(parts), f"no such modules: {parts}"
    return names


def packages_above(name):
    """`seq2attn.cli.app` -> `seq2attn`, `seq2attn.cli`: importing a module runs these too."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def reached(start, edges):
    """Every module that importing `start` leads to, itself counted, each with the one that imports it."""
    via, waiting = {start: None}, [start]
    while waiting:
        name = waiting.pop()
        for target in edges.get(name, set()) | packages_above(name):
            if target not in via:
                via[target] = name
                waiting.append(target)
    return via


def test_the_reader_of_imports():
    source = """
import a.b
from typing import TYPE_CHECKING
from seq2attn import errors, __version__
if TYPE_CHECKING:
    import types_only
else:
    import at_run
try:
    import attempt
except ImportError:
    pass
class Body:
    import inside
    def method(self):
        import late
"""
    at_import = {"a.b", "typing", "seq2attn.errors", "seq2attn", "at_run", "attempt", "inside"}
    assert set(found_imports(ast.parse(source), into_functions=False)) == at_import
    assert set(found_imports(ast.parse(source), into_functions=True)) == at_import | {"late"}


@pytest.mark.parametrize("module", modules_of(*LIGHT))
def test_what_a_config_error_needs_imports_nothing_heavy(module):
    heavy = {name: by for name, by in reached(module, AT_IMPORT).items() if name.partition(".")[0] in HEAVY}
    assert not heavy


def test_help_does_not_wait_for_what_checks_configs():
    slow = {"pydantic", "yaml"}
    assert not slow & {name.partition(".")[0] for name in reached("seq2attn.cli.app", AT_IMPORT)}
    assert "seq2attn.config" not in reached("seq2attn.cli.app", AT_IMPORT)


def test_no_heavy_module_is_loaded_before_a_command_runs():
    names = ", ".join(modules_of(*LIGHT))
    code = f"import sys, {names}; print(*sorted({HEAVY!r} & sys.modules.keys()))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    ("importers", "forbidden"),
    [
        (("model", "scores"), ("config", "files", "tasks", "data", "training", "runs", "cli", "build", "checkpoint")),
        (("tasks", "data", "masks", "vocab"), ("model", "scores", "config", "build", "prediction", "training", "cli")),
        (("config", "errors", "registry", "catalogue"), ("model", "data", "build", "runs", "training", "cli")),
        (("prediction", "evaluation", "statistics"), ("config", "build", "files", "runs", "training", "cli")),
        (("build",), ("prediction", "evaluation", "files", "runs", "training", "cli")),
        (
            ("plotting", "heatmap", "maps"),
            ("model", "config", "build", "training", "comparison", "runs", "records", "cli"),
        ),
        (("comparison",), ("plotting.comparison", "cli")),
        (("records",), ("model", "build", "training", "plotting", "cli")),
        (("analysis",), ("training", "plotting", "runs", "files", "cli")),
        (("reporting",), ("training", "cli")),
        (("training",), ("analysis", "reporting", "records", "comparison", "cli")),
    ],
)
def test_imports_point_one_way(importers, forbidden):
    forbidden_modules = set(modules_of(*forbidden))
    for module in modules_of(*importers):
        backwards = {name: by for name, by in reached(module, ANYWHERE).items() if name in forbidden_modules}
        assert not backwards, module


def test_only_the_command_line_imports_the_command_line():
    command_line = set(modules_of("cli"))
    importers = {name for name, targets in ANYWHERE.items() if targets & command_line}
    assert importers - command_line == {"seq2attn.__main__"}


def test_no_import_cycles():
    inside = {name: targets & TREES.keys() for name, targets in AT_IMPORT.items()}
    TopologicalSorter(inside).prepare()  # a cycle raises CycleError, which lists it


def test_training_does_not_load_torchs_compiler(tmp_path):
    code = f"""
import sys
from seq2attn.cli import main
steps = ["training.steps=3", "training.warmup=0", "model.hidden=8", "evaluation.samples=2"]
sys.argv = ["seq2attn", "train", "-c", "configs/scaled.yaml", "--runs-dir", {str(tmp_path)!r}]
for step in steps:
    sys.argv += ["--set", step]
try:
    main()
except SystemExit as stop:
    assert not stop.code
print("torch" in sys.modules, "torch._dynamo" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split()[-2:] == ["True", "False"]


def test_counting_parameters_does_not_load_torchs_compiler():
    code = """
import sys
from seq2attn.model.build import build_model
from seq2attn.config import check_config
from seq2attn.runs.footprint import parameter_count
config = check_config({"model": {"attention": {"score": "additive"}}})
assert parameter_count(config) == sum(parameter.numel() for parameter in build_model(config).parameters())
print("torch._dynamo" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False"]
