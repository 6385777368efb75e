"""Examine attention of public repositories, and compare the faults with those read in the source.

python examples/public_attention.py SOURCES

SOURCES has a folder OWNER+NAME for each repository, with the files that public_attention.toml names
in the commits that it names. Nothing is fetched, and no repository need be installed: a class is
taken from the text of its file, with what it uses of the same files. Prints tab-separated lines.
"""

import __future__

import ast
import json
import math
import sys
import tomllib
import typing
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

import seq2attn

WIDTHS = (16, 16)
CASES = Path(__file__).with_suffix(".toml")
MASKS = """
    full = torch.ones(keys.shape[:2], dtype=torch.bool) if valid is None else valid
    padding, lengths = (None, None) if valid is None else (~valid, valid.sum(1))"""
LAZY = __future__.annotations.compiler_flag  # names in annotations may be unknown


class Source:
    """Definitions in the text of a few files, and what they import."""

    def __init__(self, paths, case):
        texts = (self.read(path, case.get("replace", {})) for path in paths)
        statements = [node for text in texts for node in ast.parse(text).body]
        self.nodes = {node.name: node for node in statements if hasattr(node, "name")}
        self.names = {**vars(typing), **vars(nn), "torch": torch, "nn": nn, "math": math}
        self.names |= {"np": np, "F": nn.functional, "Tensor": torch.Tensor}
        self.names |= {"softmax": torch.softmax, "Variable": lambda tensor: tensor}
        self.names["SimpleNamespace"] = SimpleNamespace
        for name, text in case.get("names", {}).items():
            self.names[name] = eval(text, self.names)

    @staticmethod
    def read(path, replace):
        """The code of a file or of a notebook"""
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
            lines = [line for cell in cells for line in "".join(cell["source"]).splitlines()]
            text = "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))
        for old, new in replace.items():
            text = text.replace(old, new)
        return text

    def make(self, text):
        """The value of an expression, after what it uses is defined"""
        self.define(ast.parse(text))
        return eval(text, self.names)

    def define(self, node):
        """Define what a piece of code uses, such as `Attention` and `util.masked_softmax`."""
        for used in ast.walk(node):
            name = getattr(used, "id", None)
            if isinstance(used, ast.Attribute) and ast.unparse(used.value) == "util":
                name = used.attr
            definition = self.nodes.pop(name, None)
            if definition is None:
                continue
            definition.decorator_list = []  # registers of classes
            self.define(definition)
            code = compile(ast.Module([definition], []), name, "exec", flags=LAZY)
            exec(code, self.names)
            self.names["util"] = SimpleNamespace(**self.names)


def adapted(attention, call):
    """`attend` for an expression of the names that public_attention.toml explains"""
    names = ["query", "keys"]
    if "values" in call:
        names.append("values")
    has_mask = any(name in call for name in ("valid", "padding", "lengths", "full"))
    if has_mask:
        names.append("valid=None")
    space = {"torch": torch, "attention": attention}
    exec(f"def attend({', '.join(names)}):{MASKS * has_mask}\n    return {call}", space)
    return space["attend"]


def main(folder):
    """Print a line for each attention, and the counts."""
    torch.set_num_threads(1)  # more wait for each other
    print("repository, commit", "attention", "call", "read", "faults", "care", "score", sep="\t")
    groups = tomllib.loads(CASES.read_text(encoding="utf-8"))
    for group, cases in groups.items():
        counts = examine(folder, cases)
        print(group, *(f"{name}: {count}" for name, count in counts.items()), sep="\t")


def examine(folder, cases):
    """Print a line for each attention, and return the counts."""
    counts = Counter()
    for case in cases:
        place = Path(folder, case["source"].split()[0].replace("/", "+"))
        paths = [place / file for file in case["files"]]
        if missing := [str(path) for path in paths if not path.exists()]:
            print(case["source"], "skipped: no", missing[0], sep="\t")
            continue
        for text in case["make"]:
            torch.manual_seed(0)
            attention = Source(paths, case).make(text)
            try:
                how, report = "found", seq2attn.check_attention(attention, widths=WIDTHS)
            except seq2attn.Seq2AttnError:
                attend = adapted(attention, case["call"])
                how, report = "adapter", seq2attn.check_attention(attend, widths=WIDTHS)
            print_case(case, text, how, report, counts)
    return counts


def print_case(case, text, how, report, counts):
    """Print what came out beside what was read; a finding of level care may name what was read."""
    read, confirmed = (set(case.get(key, ())) for key in ("faults", "confirmed"))
    faults = {finding.code for finding in report.faults}
    care = {finding.code for finding in report.findings if finding.level == "care"}
    score = [finding.text for finding in report.findings if finding.code.startswith("score")]
    named = faults | (care & (read | confirmed))
    counts["attentions"] += 1
    counts["called without an adapter"] += how == "found"
    counts["read and named"] += len(read & named)
    counts["confirmed"] += len(named & confirmed)
    counts["false"] += len(named - read - confirmed)
    counts["missed"] += len(read - named)
    lists = [",".join(sorted(codes)) or "-" for codes in (read, faults, care)]
    print(case["source"], text, how, *lists, *score, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
