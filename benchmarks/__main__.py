"""Run the benchmarks you name, print a table for each and write all results as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import decoding, devices, growth, peers, processes, training

PARTS: dict[str, Callable[[bool], list[dict[str, Any]]]] = {
    "training": lambda quick: training.measure(
        training.QUICK if quick else training.UNITS, repeats=5 if quick else 11
    ),
    "cuda": lambda quick: training.measure(
        training.QUICK if quick else training.UNITS,
        repeats=5 if quick else 11,
        device=torch.device("cuda"),
    ),
    "devices": lambda quick: devices.measure(quick=quick),
    "launches": lambda quick: processes.launches(quick=quick),
    "peers": lambda quick: peers.measure(quick=quick),
    "growth": lambda quick: growth.measure(quick=quick),
    "decoding": lambda quick: decoding.measure(repeats=3 if quick else 7),
    "start-up": lambda quick: processes.start_up(repeats=3 if quick else 9),
    "target": lambda quick: processes.to_target(seeds=1 if quick else 5),
}


def machine() -> dict[str, Any]:
    """What the results depend on: commit, processor, versions, load."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }


def processor() -> str:
    """The processor's name, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def table(records: list[dict[str, Any]]) -> str:
    rows = [list(records[0]), *([shown(value) for value in record.values()] for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return " ".join(map(shown, value)) if isinstance(value, list) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"one or more of {', '.join(PARTS)}; default: all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer cases and repeats; takes a minute or two"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    missing = {}
    if not torch.cuda.is_available():
        missing |= dict.fromkeys(("cuda", "devices"), "a GPU, but none was found")
    if not peers.installed():
        missing["peers"] = "JoeyNMT or yoyodyne, and neither is installed; see benchmarks/README.md"
    for name in missing.keys() & set(options.parts):
        parser.exit(2, f"part {name!r} needs {missing[name]}\n")
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": machine()}
    print("  ".join(f"{key} {value}" for key, value in found["machine"].items()))
    everything = [name for name in PARTS if name not in missing]
    for name in options.parts or everything:
        found[name] = PARTS[name](options.quick)
        print(f"\n{name}\n{table(found[name])}", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
