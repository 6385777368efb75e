"""Makes a shared library of `recurrence.c` with the machine's C compiler: once for each compiler and kind of processor."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "recurrence.c"
FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp-simd", "-shared", "-fPIC"]
FOR_THIS_PROCESSOR: list[list[str]] = [
    ["-march=native"],
    ["-mcpu=native"],
    [],
]  # a compiler understands the first or the second
MISSING = "there is no C compiler"
PATIENCE = 60.0  # seconds that a compiler may take


class NoKernels(Exception):
    """There is no compiled library; the message says why."""


def shared_library(real: str, compiler: str) -> Path:
    """The library for numbers of type `real`, "float" or "double", made if there is none. NoKernels: it cannot be.

    It lies in the user's cache, under a name that says what it was made from: the sources, the command, and all that the
    compiler says of itself and of the processor.
    """
    for processor in FOR_THIS_PROCESSOR:
        command = [*shlex.split(compiler), *FLAGS, *processor, f"-DREAL={real}"]
        try:
            about = _run([*command, "-dM", "-E", "-x", "c", os.devnull])
            break
        except subprocess.SubprocessError:
            continue
    else:
        raise NoKernels(f"the C compiler, {compiler}, does not work")
    sources = [path.read_bytes() for path in sorted(FOLDER.glob("*.[ch]"))]
    name = hashlib.sha256(b"\0".join([*sources, *map(str.encode, command), about])).hexdigest()[:16]
    path = cache_folder() / f"recurrence-{real}-{name}.so"
    if not path.exists():
        _make(command, path)
    return path


def _make(command: list[str], path: Path) -> None:
    """As a whole or not at all, whoever else makes it at the same time."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder, path.name)
            _run([*command, str(SOURCE), "-o", str(made), "-lm"])
            if not made.exists():
                raise NoKernels(f"the C compiler, {command[0]}, made no library")
            made.replace(path)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines()
        raise NoKernels(f"the C compiler, {command[0]}, refused the source: {lines[0] if lines else error}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernels(f"no library can be made in {path.parent}: {error}") from error


def cache_folder() -> Path:
    """Where the libraries lie: in XDG_CACHE_HOME, by default the home folder's .cache."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seq2attn"
    except RuntimeError as error:
        raise NoKernels("there is no home folder to keep a library in") from error


def _run(command: list[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    except FileNotFoundError as error:
        raise NoKernels(f"{MISSING} ({command[0]})") from error
    return done.stdout
