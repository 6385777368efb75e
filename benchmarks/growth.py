"""How time and memory grow with length, batch and width."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.training import Unit

LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
BATCHES = (16, 64, 256, 1024, 4096)
WIDTHS = (32, 64, 96, 256, 512, 1024)

CHILD = """
import json, sys, time, torch
from benchmarks.training import CPU, Unit, our_step
from seq2attn.build import build_training_data
from seq2attn.runs.create import keep_freed_memory
unit = Unit(**json.loads(sys.argv[1]))
torch.set_num_threads(unit.threads)
keep_freed_memory()
step = our_step(unit, build_training_data(unit.config(), CPU).batches())
def peak():  # VmHWM is this process's own peak; ru_maxrss is inherited from the parent
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
before = peak()
step()
times = []
while len(times) < 3 or (sum(times) < 1.0 and len(times) < 50):
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
print(json.dumps([sorted(times)[len(times) // 2], before, peak()]))
"""


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One record per size, measured in a process of its own: microseconds per target token and peak
    memory.
    """
    lengths = [
        Unit(score, batch=16, shortest=n, longest=n)
        for score in ("dot", "additive")
        for n in LENGTHS
    ]
    batches = [Unit(batch=n) for n in BATCHES]
    widths = [Unit(hidden=n) for n in WIDTHS]
    units = lengths[:4] if quick else [*lengths, *batches, *widths]
    records = []
    for unit in units:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, json.dumps(asdict(unit))],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, before, peak = json.loads(done.stdout)
        tokens = unit.batch * ((unit.shortest + unit.longest) / 2 + 1)
        records.append(
            {
                "unit": unit.describe(),
                "us_per_token": 1e6 * seconds / tokens,
                "process_mib": peak / 2**20,
                "step_mib": (peak - before) / 2**20,
            }
        )
    return records
