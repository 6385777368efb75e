"""Which module may import which. Imports inside functions and under `if TYPE_CHECKING:` count as any other."""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import seq2attn

PACKAGE = Path(seq2attn.__file__).parent
ROOMS = (  # the lowest first: a module imports from its own room and from those before it
    ("errors", "registry"),
    ("display",),
    ("parts",),
    ("config",),
    ("data",),
    ("kernels",),
    ("model",),
    ("build",),
    ("inference",),
    ("runs",),
    ("contract",),
    ("analysis",),
    ("training",),
    ("plotting",),
    ("comparison",),
    ("api",),
    ("pages",),
    ("cli",),
)
LOOSE = {"__init__", "__main__", "errors", "registry", "parts", "build", "api"}
FREE = {"seq2attn", "seq2attn.__main__"}  # these may import anything
HEAVY = {"torch", "safetensors", "tensorboard", "matplotlib", "numpy"}
LIGHT = (  # these import nothing heavy when they are imported
    "errors",
    "registry",
    "parts",
    "config",
    "cli",
    "comparison",
    "display",
    "inference.statistics",
    "inference.maps",
    "runs.evaluations",
    "runs.files",
    "runs.lock",
    "runs.machine",
    "runs.making",
    "runs.records",
    "runs.run",
    "plotting.terminal",
    "plotting.html",
)


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def found_imports(node, everywhere):
    """The names that `node` imports; unless `everywhere`, not those inside functions and under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports are not used here"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield submodule if submodule in TREES else child.module
        elif everywhere:
            yield from found_imports(child, everywhere)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from found_imports(ast.Module(child.orelse, []), everywhere)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from found_imports(child, everywhere)


AT_IMPORT = {name: set(found_imports(tree, everywhere=False)) for name, tree in TREES.items()}
EVERYWHERE = {name: set(found_imports(tree, everywhere=True)) & TREES.keys() for name, tree in TREES.items()}


def modules_of(*parts):
    names = [name for name in TREES for part in parts if f"{name}.".startswith(f"seq2attn.{part}.")]
    assert len(names) >= len(parts), f"no such modules: {parts}"
    return names


def height(module):
    """The place of the module's room in `ROOMS`."""
    (place,) = [place for place, rooms in enumerate(ROOMS) if module.split(".")[1] in rooms]
    return place


def packages_above(name):
    """`seq2attn.cli.app` -> `seq2attn`, `seq2attn.cli`: importing a module runs these too."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def reached(start, edges):
    """Every module that importing `start` leads to, itself included, each with the one that imports it."""
    via, waiting = {start: None}, [start]
    while waiting:
        name = waiting.pop()
        for target in edges.get(name, set()) | packages_above(name):
            if target not in via:
                via[target] = name
                waiting.append(target)
    return via


def test_found_imports_reads_every_form():
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
    assert set(found_imports(ast.parse(source), everywhere=False)) == at_import
    assert set(found_imports(ast.parse(source), everywhere=True)) == at_import | {"late", "types_only"}


def test_every_module_is_in_a_room():
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert loose == LOOSE
    assert loose - {"__init__", "__main__"} | rooms == {name for names in ROOMS for name in names}


@pytest.mark.parametrize("module", sorted(TREES.keys() - FREE))
def test_a_module_imports_from_its_own_room_and_lower_ones(module):
    targets = EVERYWHERE[module] - {"seq2attn"}
    assert not [target for target in sorted(targets) if target in FREE or height(target) > height(module)]


def test_the_package_is_imported_only_for_its_version():
    importers = {name for name, targets in EVERYWHERE.items() if "seq2attn" in targets}
    assert importers <= {"seq2attn.cli.app"}


def test_there_are_no_import_cycles():
    TopologicalSorter(EVERYWHERE).prepare()  # a cycle raises CycleError, which lists it


@pytest.mark.parametrize("module", modules_of(*LIGHT))
def test_light_modules_import_nothing_heavy(module):
    heavy = {name: by for name, by in reached(module, AT_IMPORT).items() if name.partition(".")[0] in HEAVY}
    assert not heavy


def test_help_does_not_import_yaml_and_the_schema():
    imported = reached("seq2attn.cli.app", AT_IMPORT)
    assert "yaml" not in {name.partition(".")[0] for name in imported}
    assert "seq2attn.config" not in imported


def test_no_heavy_module_is_loaded_before_a_command_runs():
    names = ", ".join(["seq2attn", *modules_of(*LIGHT)])
    assert loaded_by(f"import {names}", HEAVY) == set()


def loaded_by(code, modules):
    """Those of `modules` that a fresh interpreter has loaded after `code`."""
    result = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sorted({modules!r} & sys.modules.keys()))"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.splitlines()[-1].split())


def test_training_and_counting_parameters_do_not_load_torchs_compiler(tmp_path):
    code = f"""
import seq2attn
from seq2attn.build import build_model
from seq2attn.model.parameters import parameter_ledger
from seq2attn.config import check_config
parameter_ledger(build_model(check_config({{"model": {{"attention": {{"score": "additive"}}}}}})))
overrides = ["training.steps=3", "training.warmup=0", "model.hidden=8", "evaluation.samples=2"]
seq2attn.train("configs/scaled.yaml", overrides, runs_dir={str(tmp_path)!r})
"""
    assert loaded_by(code, {"torch", "torch._dynamo"}) == {"torch"}
