"""Installs seq2attn, or with the argument `dev` what its tests and tools need as well, into the environment that runs this,
with one line of progress in place of pip's output.

For `make`; `pip install .` does not use it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

CONSTRAINTS = "constraints.txt"
TOOLS = "# tests and tools"  # the line of it after which follow the packages that seq2attn itself does not need
LARGE = 20  # MB; without a terminal, only downloads of this size are mentioned


class Progress:
    """What pip is doing: one line that changes on a terminal, a line for each large download elsewhere."""

    def __init__(self, packages: int, downloads: Path) -> None:
        self.packages, self.downloads = packages, downloads
        self.found = 0
        self.doing = "starting"
        self.size = 0.0  # MB of the download in progress
        self.start = time.monotonic()
        self.on_terminal = sys.stdout.isatty()

    def read(self, line: str) -> None:
        """Take in one line of pip's output."""
        if match := re.match(r"(?:Collecting|Processing) (\S+)", line):
            self.found += 1
            self.doing, self.size = f"looking for {re.split('[=<>;[]', Path(match[1]).name)[0]}", 0.0
        elif match := re.match(r" +(?:Downloading|Using cached) (?:\S*/)?([\w.]+?)-\S+ \(([\d.]+) (kB|MB|GB)\)", line):
            self.size = float(match[2]) * {"kB": 0.001, "MB": 1, "GB": 1000}[match[3]]
            self.doing = f"downloading {match[1]}"
            if self.size >= LARGE and not self.on_terminal:
                print(f"  {self.doing}, {self.size:,.0f} MB", flush=True)
        elif line.startswith(("Installing collected", "Building")):
            self.doing, self.size = "installing" if line.startswith("Installing") else "building seq2attn", 0.0

    def show(self) -> None:
        """Write the line anew."""
        if not self.on_terminal:
            return
        downloaded = f", {min(self.downloaded(), self.size):,.0f} of {self.size:,.0f} MB" if self.size >= LARGE else ""
        counted = f"{min(self.found, self.packages)} of {self.packages} packages"
        minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
        line = f"  {minutes}:{seconds:02}  {counted}  {self.doing}{downloaded}"
        print(f"\r\x1b[K{line[: os.get_terminal_size().columns - 1]}", end="", flush=True)

    def downloaded(self) -> float:
        """MB of the largest file that pip is writing."""
        sizes = [0]
        for folder, _, names in os.walk(self.downloads):
            for name in names:
                try:
                    sizes.append(os.path.getsize(os.path.join(folder, name)))
                except OSError:  # it is gone
                    continue
        return max(sizes) / 1e6


def follow(pip: subprocess.Popen[str], progress: Progress, output: IO[str]) -> None:
    """Show progress until pip ends; `output` keeps what it printed."""
    assert pip.stdout is not None
    for line in pip.stdout:
        output.write(line)
        progress.read(line)


def count_packages(constraints: str, dev: bool) -> int:
    """How many packages the constraints have for seq2attn itself, or for its tests and tools."""
    own, _, tools = constraints.partition(TOOLS)
    return sum("==" in line for line in (tools if dev else own).splitlines())


def main() -> int:
    """Exit code of pip, whose output is shown if it failed."""
    dev = sys.argv[1:] == ["dev"]
    packages = count_packages(Path(CONSTRAINTS).read_text("utf-8"), dev)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--constraint", CONSTRAINTS, "--editable", ".[dev]" if dev else "."]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        environment = {**os.environ, "TMPDIR": folder, "PIP_QUIET": "0"}
        pip = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        progress = Progress(packages, Path(folder))
        reader = threading.Thread(target=follow, args=(pip, progress, output))
        reader.start()
        while reader.is_alive():
            progress.show()
            reader.join(0.5)
        code = pip.wait()
        if progress.on_terminal:
            print("\r\x1b[K", end="")
        if code:
            output.seek(0)
            sys.stderr.write(output.read())
        else:
            print(f"Installed {packages} packages in {time.monotonic() - progress.start:.0f} seconds.")
    return code


if __name__ == "__main__":
    sys.exit(main())
