"""Which module may import which, and which private names of torch. Imports inside functions and
under `if TYPE_CHECKING:` count as any other.
"""

import ast
import functools
import importlib
import pkgutil
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import torch
from inline import ROOT, process, read
from refusal import refused
from tables import rows

import seq2attn
from seq2attn import torch_private
from seq2attn.torch_private import PROMISES, TESTED

PACKAGE = Path(seq2attn.__file__).parent
LAYERS = """
errors
display
files, registry, torch_private
parts
config, data, results, findings
model, plotting, plugins
build, kernels, runs
inference
analysis, contract
doctor, training
comparison
api, export, pages
cli, fixtures
"""
LAYER = {}  # room -> the number of its layer
for number, line in enumerate(LAYERS.split("\n")):
    LAYER |= dict.fromkeys(line.split(", ") if line else [], number)
REACH = {"runs": 80, "evaluate": 92}  # the most modules that a command leads to
FREE = {"seq2attn", "seq2attn.__main__"}  # these may import anything
HEAVY = {"torch", "safetensors", "tensorboard", "matplotlib", "numpy"}
LIGHT = """
files errors registry parts config cli comparison display findings doctor.processes
results.statistics results.answers runs.create runs.records runs.run plotting.cells
""".split()  # these import nothing heavy when they are imported


def module_name(path):
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


@functools.cache
def trees():
    """Module -> its parsed text."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {module_name(path): ast.parse(read(path)) for path in files}


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
                yield submodule if submodule in trees() else child.module
        elif (
            not types
            and isinstance(child, ast.If)
            and ast.unparse(child.test).endswith("TYPE_CHECKING")
        ):
            yield from imports(ast.Module(child.orelse, []), functions, types)
        elif functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(child, functions, types)


@functools.cache
def edges_of(functions=True, types=True):
    """Module -> the names that it imports: by default everywhere in it."""
    return {name: set(imports(tree, functions, types)) for name, tree in trees().items()}


def reached(start, edges):
    """Every module that importing `start` leads to, itself included."""
    seen = set()
    waiting = {start}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        packages = {name.rpartition(".")[0]} - {"", "seq2attn"} if name in trees() else set()
        waiting |= (edges.get(name, set()) | packages) - seen - FREE
    return seen


def room(module):
    return module.split(".")[1]


def test_every_module_is_in_a_room():
    assert {room(name) for name in trees().keys() - FREE} == LAYER.keys()


def test_imports_lead_to_lower_layers():
    against_them = {  # up to a higher layer, or from a room into an outermost module
        (module, target)
        for module in trees().keys() - FREE
        for target in edges_of()[module] & trees().keys() - {"seq2attn"}
        if target in FREE or LAYER[room(target)] > LAYER[room(module)]
    }
    assert against_them == set()


def test_rooms_of_a_layer_form_no_ring():
    below = {name: set() for name in LAYER}  # room -> the other rooms that it imports from
    for module in trees().keys() - FREE:
        targets = edges_of()[module] & trees().keys() - FREE
        below[room(module)] |= {room(target) for target in targets} - {room(module)}
    TopologicalSorter(below).prepare()  # a cycle raises CycleError


def test_the_package_is_imported_only_for_its_version():
    assert {name for name, targets in edges_of().items() if "seq2attn" in targets} <= {
        "seq2attn.cli.app",
        "seq2attn.comparison.trial",
        "seq2attn.runs.create",
    }


def test_there_are_no_import_cycles():
    TopologicalSorter(edges_of()).prepare()  # a cycle raises CycleError, which lists it


def test_the_doctor_could_be_a_distribution_of_its_own():
    names = {name for name in trees() if f"{name}.".startswith("seq2attn.doctor.")}
    used = set().union(*(edges_of()[name] & trees().keys() for name in names)) - names
    assert {room(name) for name in used} == {"errors", "findings"}
    others = set().union(*(edges_of()[name] - trees().keys() for name in names))
    assert {name.partition(".")[0] for name in others} - sys.stdlib_module_names == {"torch"}


@pytest.mark.parametrize("command", REACH)
def test_a_command_reaches_few_modules(command):
    edges = {**edges_of(types=False), "seq2attn.cli.app": set()}  # which leads to every command
    modules = {
        name for name, tree in trees().items() if len(tree.body) > 1
    }  # more than a docstring
    assert len(reached(f"seq2attn.cli.{command}", edges) & modules) <= REACH[command]


def test_help_imports_neither_yaml_nor_the_schema():
    names = reached("seq2attn.cli.app", edges_of(functions=False, types=False))
    assert {"yaml", "seq2attn.config"} & names == set()


LIGHT_COMMANDS = """
--help | 0
train --help | 0
list | 0
runs | 0
train -c bad.yaml | 2
inspect bad.yaml | 2
eval --lengths 0 | 2
predict abc --runs-dir elsewhere | 2
report nobody | 2
page nobody | 2
check nobody | 2
export nobody | 2
plot attention --plot x.svg | 0 matplotlib numpy
"""  # the code of each, and what is loaded by then beyond the light modules
WATCH = f"""
import sys
from seq2attn.cli import main
for words in sys.argv[1:]:
    sys.argv = ["seq2attn", *words.split()]
    try:
        main()
    except SystemExit as stop:
        print("#", words, "|", stop.code, *sorted({HEAVY!r} & sys.modules.keys()))
"""


def test_light_modules_and_commands_load_nothing_heavy(tmp_path, runs_copy):
    (tmp_path / "bad.yaml").write_text("seed: x")
    names = [
        name for name in trees() for light in LIGHT if f"{name}.".startswith(f"seq2attn.{light}.")
    ]
    assert len(names) >= len(LIGHT)
    code = f"import {', '.join(names)}{WATCH}"
    done = process(tmp_path, "-c", code, *(words for words, _ in rows(LIGHT_COMMANDS)))
    found = [line.removeprefix("# ") for line in done.out.splitlines() if line.startswith("# ")]
    assert found == LIGHT_COMMANDS.strip().split("\n")


# ---- private names of torch: in one file, each with the promise that a torch without it breaks


NAMES = {name: path for names in PROMISES.values() for name, path in names.items()}
USERS = {
    "fused_adamw": "training.step",
    "masked_softmax": "kernels.fused",
    "has_any_global_hook": "kernels.faster",
}


@pytest.mark.parametrize("name", NAMES)
def test_this_torch_has_it(name):
    assert getattr(torch_private, name)


@pytest.mark.parametrize("name", USERS)
def test_where_torch_lacks_it_the_promise_is_named(name, monkeypatch):
    user = importlib.import_module(f"seq2attn.{USERS[name]}").__name__
    monkeypatch.delitem(sys.modules, user)
    owner, _, private = NAMES[name].rpartition(".")
    monkeypatch.delattr(pkgutil.resolve_name(owner), private)
    (promise,) = (promise for promise, names in PROMISES.items() if name in names)
    with refused(re.escape(f"torch {torch.__version__} has no {NAMES[name]}, by which {promise}")):
        importlib.import_module(user)


# documented by torch's page on how to extend it, under names like private ones: a mode, and the
# operations that it sees, which `Tensor.to`, `reshape` and softmax call
IN_CATCH = """
torch.utils._python_dispatch.TorchDispatchMode aten._to_copy aten._unsafe_view aten._reshape_alias
aten._softmax aten._safe_softmax aten._log_softmax
"""


def private_names(file):
    """What a file has of torch that begins with an underscore."""
    for node in ast.walk(ast.parse(read(file))):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "torch":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def test_no_other_file_has_one():
    found = {
        (file.name, name)
        for file in PACKAGE.rglob("*.py")
        for name in private_names(file)
        if re.match(r"(torch|aten|nn|F)\.(.*\.)?_[a-z]", name)
    }
    assert found == {("catch.py", name) for name in IN_CATCH.split()}


def test_the_version_is_the_one_of_the_tests():
    assert f"\ntorch=={TESTED}." in read(ROOT / "constraints.txt")
