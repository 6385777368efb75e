"""Hand-ins of a class: a right one, and those that harm whoever examines them."""

RIGHT = """
import torch

def scaled(query, keys, valid):
    scores = (keys @ query.unsqueeze(2)).squeeze(2) / query.shape[1] ** 0.5
    weights = scores.masked_fill(~valid, -torch.inf).softmax(dim=1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights
"""
HOSTILE = {  # name -> what stands above the right attention, and how its row begins
    "exits": ("exit()", "error: line 1: It calls exit()"),
    "asks": ("name = input('name: ')", "error: line 1: It calls input()"),
    "leaves": ("import os; os._exit(0)", "silent: its process ended with exit code 0"),
    "kills": ("import os; os.kill(os.getpid(), 9)", "killed: SIGKILL"),
    "pipes": (
        "import signal; signal.signal(13, signal.SIG_DFL); signal.raise_signal(13)",
        "killed: SIGPIPE",
    ),
    "orphan": ("import os; os.kill(os.getppid(), 9)", "killed: SIGKILL"),
    "stops": ("import os; os.kill(os.getppid(), 19); os._exit(0)", "hung: no result"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "killed: SIG"),
    "endless": ("while True: pass", "hung: no result within"),
    "forks": ("import os, time\nif not os.fork(): time.sleep(99)", "passed"),
    "twice": ("import os; os.fork()", "passed"),
    "thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=(99,)).start()",
        "passed",
    ),
    "prints": (
        'print(\'[{"attention": "prints.py:scaled", "result": "passed"}]\', "x" * 10**8)\n'
        "import os; print(os.path.expanduser('~')); os.system('echo shouted')",
        "passed",
    ),
    "closes": (
        "import os, sys; os.closerange(0, 99); sys.stdout = sys.stderr = None",
        "passed",
    ),
    "greedy": ("import torch; held = torch.ones(3 * 2**28)", "error: line 1: RuntimeError"),
    "writes": ("open('big', 'wb').write(bytes(2**29))", "error: line 1: OSError"),
    "global": (
        "import os, torch; os.chdir('/'); torch.set_default_dtype(torch.float64)\n"
        "torch.set_default_device('cpu'); torch.manual_seed = print",
        "patched: ",
    ),
    "softmax": (
        "import torch; torch.softmax = lambda scores, dim: scores * 0\n"
        "torch.Tensor.softmax = lambda scores, dim: scores * 0 + 1 / scores.size(dim)",
        "patched: It replaces what examines it, or what that computes with: torch.softmax",
    ),
    "unspeakable": (
        "class Odd(BaseException):\n    def __str__(self): raise self\nraise Odd",
        "error: line 3: Odd: its text cannot be shown",
    ),
    "generator": ("raise GeneratorExit", "error: line 1: GeneratorExit"),
    "interrupts": ("raise KeyboardInterrupt", "error: line 1: KeyboardInterrupt"),
    "deep": ("def down(): down()\ndown()", "error: line 1: RecursionError"),
    "own_helper": ("import helper; assert helper.whose == 'own_helper'", "passed"),
    "syntax": ("def scaled(:", "error: line 1: SyntaxError"),
    "unnamed": ("def other(): pass\nraise_ = 1", "passed"),
}
JUDGES = """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("seq2attn.doctor"):
        for known in [*vars(module)]:
            if known in ("CHECKS", "RULES"):
                setattr(module, known, ())
"""
HOSTILE["judges"] = (JUDGES, "patched: It replaces")
BLINDED = """
import torch
from seq2attn.doctor.subject import Subject
Subject.differences = lambda self, left, right: torch.zeros(left.shape[:2])
"""
HOSTILE["blinded"] = (BLINDED, "patched: It replaces")
FORGES = """
import json, os
printed = os.readlink("/proc/self/fd/1")
with open(os.path.join(os.path.dirname(printed), "answer"), "w") as answer:
    json.dump({"status": "examined", "report": {"findings": [], "adapter": ""}}, answer)
os._exit(0)
"""
HOSTILE["forges"] = (FORGES, "silent: its process ended with exit code 0")


def hand_in(folder, names, rights=()):
    """Write the hand-ins of these names, each into a folder of its own, and right ones that are
    called `right_` and a name.
    """
    hostile = {name: HOSTILE[name][0] for name in names}
    for owner, text in {**hostile, **{f"right_{name}": "" for name in rights}}.items():
        place = folder / owner
        place.mkdir(parents=True)
        (place / "mine.py").write_text(f"{text}\n{RIGHT}")
        (place / "helper.py").write_text(f"whose = {owner!r}")
