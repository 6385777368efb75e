"""Which module may import which. Imports inside functions and under `if TYPE_CHECKING:` count as
any other.
"""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import seq2attn

PACKAGE = Path(seq2attn.__file__).parent
BELOW = {  # room -> the rooms that it may import from, beside itself, `text` and `errors`
    "text": "",
    "errors": "",
    "colours": "",
    "files": "",
    "options": "",
    "registry": "options",
    "display": "colours",
    "kernels": "data model",
    "parts": "options registry",
    "config": "files options registry parts",
    "plugins": "registry config",
    "data": "files options registry parts",
    "model": "registry parts data",
    "build": "parts config data model",
    "inference": "parts config plugins data model build display runs plotting",
    "doctor": "plugins parts model contract",
    "contract": "options registry parts config plugins data model build inference",
    "analysis": "parts data model build inference",
    "runs": "files config plugins data model build inference display",
    "training": "colours config plugins data model build inference contract runs kernels display",
    "plotting": "colours inference runs analysis display",
    "comparison": "options registry parts config plugins data model build analysis inference runs "
    "training plotting display",
    "api": "config plugins inference runs training comparison display",
    "pages": "colours parts config plugins data model build analysis inference training runs "
    "comparison plotting display",
    "cli": "files options registry parts config plugins data model build contract doctor "
    "analysis inference runs training plotting comparison api pages display",
}
REACH = {"train": 82, "compare": 95}  # the most modules that a command leads to
FREE = {"seq2attn", "seq2attn.__main__"}  # these may import anything
HEAVY = {"torch", "safetensors", "tensorboard", "matplotlib", "numpy"}
LIGHT = (  # these import nothing heavy when they are imported
    "colours files options text errors registry parts config cli comparison display "
    "inference.statistics inference.maps runs.create runs.files runs.logs runs.machine "
    "runs.records runs.run plotting.cells"
).split()


def module_name(path):
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


TREES = {
    module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(node, functions, types):
    """The names that `node` imports, inside functions and under `if TYPE_CHECKING:` where those are
    asked for.
    """
    statements = ast.stmt | ast.ExceptHandler | ast.match_case  # there may be an import in them
    for child in (one for one in ast.iter_child_nodes(node) if isinstance(one, statements)):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports are not used here"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield submodule if submodule in TREES else child.module
        elif (
            not types
            and isinstance(child, ast.If)
            and ast.unparse(child.test).endswith("TYPE_CHECKING")
        ):
            yield from imports(ast.Module(child.orelse, []), functions, types)
        elif functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(child, functions, types)


AT_IMPORT, AT_RUN, EVERYWHERE = (
    {name: set(imports(tree, functions, types)) for name, tree in TREES.items()}
    for functions, types in ((False, False), (True, False), (True, True))
)


def reached(start, edges):
    """Every module that importing `start` leads to, itself included."""
    seen = set()
    waiting = {start}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        packages = {name.rpartition(".")[0]} - {"", "seq2attn"} if name in TREES else set()
        waiting |= (edges.get(name, set()) | packages) - seen - FREE
    return seen


def room(module):
    return module.split(".")[1]


def test_every_module_is_in_a_room():
    assert {room(name) for name in TREES.keys() - FREE} == BELOW.keys()


@pytest.mark.parametrize("name", BELOW)
def test_a_room_imports_from_those_below_it(name):
    allowed = {name, "text", *(["errors"] if name != "text" else []), *BELOW[name].split()}
    wrong = {
        (module, target)
        for module in TREES.keys() - FREE
        for target in EVERYWHERE[module] & TREES.keys() - {"seq2attn"}
        if room(module) == name and (target in FREE or room(target) not in allowed)
    }
    assert wrong == set()


def test_the_package_is_imported_only_for_its_version():
    assert {name for name, targets in EVERYWHERE.items() if "seq2attn" in targets} <= {
        "seq2attn.cli.app"
    }


def test_there_are_no_import_cycles():
    TopologicalSorter(EVERYWHERE).prepare()  # a cycle raises CycleError, which lists it


@pytest.mark.parametrize("command", REACH)
def test_a_command_reaches_few_modules(command):
    edges = {**AT_RUN, "seq2attn.cli.app": set()}  # which leads to every command
    modules = {name for name, tree in TREES.items() if len(tree.body) > 1}  # more than a docstring
    assert len(reached(f"seq2attn.cli.{command}", edges) & modules) <= REACH[command]


def light_modules():
    names = [
        name for name in TREES for light in LIGHT if f"{name}.".startswith(f"seq2attn.{light}.")
    ]
    assert len(names) >= len(LIGHT)
    return names


def test_help_imports_neither_yaml_nor_the_schema():
    names = reached("seq2attn.cli.app", AT_IMPORT)
    assert {"yaml", "seq2attn.config"} & names == set()


def loaded_by(code, modules):
    """Those of `modules` that a fresh interpreter has loaded after `code`."""
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys\n{code}\nprint(*sorted({modules!r} & sys.modules.keys()))",
        ],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.splitlines()[-1].split())


def test_no_heavy_module_is_loaded_before_a_command_runs():
    assert loaded_by(f"import {', '.join(['seq2attn', *light_modules()])}", HEAVY) == set()


def test_training_and_counting_parameters_do_not_load_torchs_compiler(tmp_path):
    code = f"""
import seq2attn
from seq2attn.build import build_model
from seq2attn.analysis.ledger import parameter_ledger
from seq2attn.config import check_config
parameter_ledger(build_model(check_config({{"model": {{"attention": {{"score": "additive"}}}}}})))
overrides = ["training.steps=3", "training.warmup=0", "model.hidden=8", "evaluation.samples=2"]
seq2attn.train("configs/scaled.yaml", overrides, runs_dir={str(tmp_path)!r})
"""
    assert loaded_by(code, {"torch", "torch._dynamo"}) == {"torch"}
