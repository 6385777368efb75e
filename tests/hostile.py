"""Hand-ins of a class: a right one, and those that harm whoever examines them."""

import re

RIGHT = """
import torch

def scaled(query, keys, valid):
    scores = (keys @ query.unsqueeze(2)).squeeze(2) / query.shape[1] ** 0.5
    weights = scores.masked_fill(~valid, -torch.inf).softmax(dim=1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights
"""
HAND_INS = """
# exits -> error: line 1: It calls exit()
exit()

# asks -> error: line 1: It calls input()
name = input('name: ')

# argues -> passed
import argparse; argparse.ArgumentParser().parse_args()

# leaves -> silent: its process ended with exit code 0
import os; os._exit(0)

# kills -> killed: SIGKILL
import os; os.kill(os.getpid(), 9)

# pipes -> killed: SIGPIPE
import signal; signal.signal(13, signal.SIG_DFL); signal.raise_signal(13)

# orphan -> killed: SIGKILL
import os; os.kill(os.getppid(), 9)

# stops -> hung: no result
import os; os.kill(os.getppid(), 19); os._exit(0)

# crashes -> killed: SIG
import ctypes; ctypes.string_at(0)

# endless -> hung: no result within 10 s, in line 1: a loop
while True: pass

# forks -> passed
import os, time
if not os.fork(): time.sleep(99)

# twice -> passed
import os; os.fork()

# thread -> passed
import threading, time; threading.Thread(target=time.sleep, args=(99,)).start()

# prints -> passed
print('[{"attention": "prints.py:scaled", "result": "passed"}]', "x" * 10**8)
import os; print(os.path.expanduser('~')); os.system('echo shouted')

# closes -> passed
import os, sys; os.closerange(0, 99); sys.stdout = sys.stderr = None

# greedy -> error: line 1: RuntimeError
import torch; held = torch.ones(3 * 2**28)

# writes -> error: line 1: OSError
open('big', 'wb').write(bytes(2**29))

# global -> patched: 
import os, torch; os.chdir('/'); torch.set_default_dtype(torch.float64)
torch.set_default_device('cpu'); torch.manual_seed = print

# softmax -> patched: It replaces what examines it, or what that computes with: torch.softmax
import torch; torch.softmax = lambda scores, dim: scores * 0
torch.Tensor.softmax = lambda scores, dim: scores * 0 + 1 / scores.size(dim)

# unspeakable -> error: line 3: Odd: its text cannot be shown
class Odd(BaseException):
    def __str__(self): raise self
raise Odd

# generator -> error: line 1: GeneratorExit
raise GeneratorExit

# interrupts -> error: line 1: KeyboardInterrupt
raise KeyboardInterrupt

# deep -> error: line 1: RecursionError
def down(): down()
down()

# own_helper -> passed
import helper; assert helper.whose == 'own_helper'

# syntax -> error: line 1: SyntaxError
def scaled(:

# unnamed -> passed
def other(): pass
raise_ = 1

# judges -> patched: It replaces
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("seq2attn.doctor"):
        for known in [*vars(module)]:
            if known in ("CHECKS", "RULES"):
                setattr(module, known, ())

# blinded -> patched: It replaces
import torch
from seq2attn.doctor.subject import Subject
Subject.differences = lambda self, left, right: torch.zeros(left.shape[:2])

# forges -> silent: its process ended with exit code 0
import json, os
printed = os.readlink("/proc/self/fd/1")
with open(os.path.join(os.path.dirname(printed), "answer"), "w") as answer:
    json.dump({"status": "examined", "report": {"findings": [], "adapter": ""}}, answer)
os._exit(0)
"""  # name -> how its row begins, and what stands above the right attention
FOUND = re.findall(r"# (\w+) -> (.*)\n((?s:.+?))\n(?=\n# |$)", HAND_INS)
HOSTILE = {name: (code, result) for name, result, code in FOUND}


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
