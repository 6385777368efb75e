"""The private names of torch: in one file, each with the promise that a torch without it breaks."""

import ast
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest
import torch
from inline import ROOT
from refusal import refused

from seq2attn import torch_private
from seq2attn.torch_private import PROMISES, TESTED

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
IN_CATCH = (
    "torch.utils._python_dispatch.TorchDispatchMode aten._to_copy aten._unsafe_view "
    "aten._reshape_alias aten._softmax aten._safe_softmax aten._log_softmax"
)


def private_names(file):
    """What a file has of torch that begins with an underscore."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "torch":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def test_no_other_file_has_one():
    package = Path(torch_private.__file__).parent
    found = {
        (file.name, name)
        for file in package.rglob("*.py")
        for name in private_names(file)
        if re.match(r"(torch|aten|nn|F)\.(.*\.)?_[a-z]", name)
    }
    assert found == {("catch.py", name) for name in IN_CATCH.split()}


def test_the_version_is_the_one_of_the_tests():
    assert f"\ntorch=={TESTED}." in (ROOT / "constraints.txt").read_text()
