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
]  # a compiler knows one of the first two, or none
PATIENCE = 60.0  # seconds that a compiler may take


class NoKernels(Exception):
    """There is no compiled library; the message says why."""


def shared_library(real: str, compiler: str) -> Path:
    """The library for numbers of type `real`, "float" or "double", made if there is none that is whole.

    It lies in the user's cache, under a name that says what it was made from: the sources, the command, and all that the
    compiler says of itself and of the processor. NoKernels: it cannot be.
    """
    try:
        words = shlex.split(compiler)
        if not words:
            raise NoKernels(f"CC names no C compiler: {compiler!r}")
        return _found_or_made(real, words)
    except subprocess.CalledProcessError as error:
        raise NoKernels(f"the C compiler ({compiler}) failed: {_first_error(error)}") from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NoKernels(f"the C compiler ({compiler}) made no library: {error}") from error


def _found_or_made(real: str, compiler: list[str]) -> Path:
    for number, processor in enumerate(FOR_THIS_PROCESSOR, start=1):
        command = [*compiler, *FLAGS, *processor, f"-DREAL={real}"]
        try:
            about = _run([*command, "-dM", "-E", "-x", "c", os.devnull])
            break
        except subprocess.CalledProcessError:
            if number == len(FOR_THIS_PROCESSOR):
                raise
    sources = [path.read_bytes() for path in sorted(FOLDER.glob("*.[ch]"))]
    name = hashlib.sha256(b"\0".join([*sources, *map(str.encode, command), about])).hexdigest()[:16]
    library = _cache_folder() / f"recurrence-{real}-{name}.so"
    if not _is_whole(library):
        _make(command, library)
    return library


def _make(command: list[str], library: Path) -> None:
    """As a whole or not at all, whoever else makes it at the same time: the library, then its checksum."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made, checksum = Path(folder, library.name), Path(folder, "checksum")
        _run([*command, str(SOURCE), "-o", str(made), "-lm"])
        checksum.write_text(_checksum(made))
        made.replace(library)
        checksum.replace(_checksum_file(library))


def _is_whole(library: Path) -> bool:
    """Whether its checksum is there and fits: a part of a library would not be refused, but end the process."""
    try:
        return _checksum_file(library).read_text() == _checksum(library)
    except (FileNotFoundError, UnicodeDecodeError):
        return False


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _cache_folder() -> Path:
    """Where the libraries lie: in XDG_CACHE_HOME, or the home folder's .cache."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "")
    try:
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "seq2attn"
    except RuntimeError as error:
        raise NoKernels("there is no home folder to keep compiled recurrences in") from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
            raise NoKernels(f"{folder} belongs to somebody else: what lies there is not run")
    except OSError as error:
        raise NoKernels(f"compiled recurrences cannot be kept in {folder}: {error.strerror}") from error
    return folder


def _first_error(error: subprocess.CalledProcessError) -> str:
    """What the compiler said."""
    lines = error.stderr.decode(errors="replace").splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else f"exit code {error.returncode}")


def _run(command: list[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    except FileNotFoundError as error:
        raise NoKernels(f"there is no C compiler ({command[0]})") from error
    return done.stdout
