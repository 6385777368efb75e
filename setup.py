"""What pyproject.toml has no word for: the wheel's copy of `configs/`, and the library compiled
from `seq2attn/kernels/`.

The library is plain C, loaded by ctypes: no headers of Python are needed. It holds the recurrence
once for each kind of processor (VARIANTS), and asks the processor when it is loaded, so that what
is built runs on every processor of the architecture. What cannot be compiled is left out. Without
any of it training is slower.

CC, CFLAGS and LDFLAGS are used, e.g. CC=clang.
"""

import hashlib
import os
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNELS = Path("seq2attn", "kernels")
FLAGS = [
    "-O2",
    "-ftree-vectorize",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fopenmp-simd",
]
VARIANTS = [  # kind of number, variant, flags
    ("float", "baseline", []),
    ("float", "avx2", ["-mavx2", "-mfma"]),
    ("float", "avx512", ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"]),
    ("double", "baseline", []),
]


class NotCompiled(Exception):
    """The message says why."""


class BuildKernels(build_ext):
    """`recurrence.so` beside the C sources, or `recurrence.txt`, which says why there is none."""

    def get_ext_filename(self, name: str) -> str:
        return str(Path(*name.split(".")).with_suffix(".so"))  # for any Python

    def run(self) -> None:
        folder = KERNELS if self.inplace else Path(self.build_lib, KERNELS)
        folder.mkdir(parents=True, exist_ok=True)
        library, note = folder / "recurrence.so", folder / "recurrence.txt"
        made = library.with_suffix(".new")
        try:
            compile_library(made)
            made.replace(library)  # a training that starts now finds the old or the new one
            note.unlink(missing_ok=True)
        except NotCompiled as reason:
            library.unlink(missing_ok=True)
            note.write_text(f"{reason}\n", encoding="utf-8")
            self.warn(
                f"seq2attn is installed without its compiled part: {reason}. Training will take "
                "2.5 times as long. To change that, install a C compiler (Debian, Ubuntu: apt "
                "install gcc; macOS: xcode-select --install), then seq2attn again with pip "
                "install --force-reinstall --no-deps"
            )


def compile_library(library: Path) -> None:
    """NotCompiled: it cannot be."""
    compiler = words_of_compiler()
    own_flags = shlex.split(os.environ.get("CFLAGS", ""))
    sources = sorted([*KERNELS.glob("*.c"), *KERNELS.glob("*.h")])
    checksum = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[
        :16
    ]  # as function.py
    with tempfile.TemporaryDirectory() as folder:

        def compiled(real: str, variant: str, flags: list[str]) -> Path | NotCompiled:
            made = Path(folder, f"{real}_{variant}.o")
            words = [f"-DREAL={real}", f"-DVARIANT={variant}", *flags, *own_flags]
            try:
                run(
                    [
                        *compiler,
                        *FLAGS,
                        *words,
                        "-c",
                        str(KERNELS / "recurrence.c"),
                        "-o",
                        str(made),
                    ]
                )
            except NotCompiled as reason:
                return reason
            return made

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            found = list(threads.map(lambda variant: compiled(*variant), VARIANTS))
        for (_, variant, _), made in zip(VARIANTS, found, strict=True):
            if variant == "baseline" and isinstance(made, NotCompiled):
                raise made
        objects = [str(made) for made in found if isinstance(made, Path)]
        has = [
            f"-DHAS_{variant}"
            for (_, variant, _), made in zip(VARIANTS, found, strict=True)
            if isinstance(made, Path)
        ]
        words = [
            *FLAGS,
            *own_flags,
            *has,
            f'-DSOURCES="{checksum}"',
            str(KERNELS / "processor.c"),
            *objects,
        ]
        run(
            [
                *compiler,
                *words,
                "-shared",
                "-o",
                str(library),
                "-lm",
                *shlex.split(os.environ.get("LDFLAGS", "")),
            ]
        )
    if not library.is_file():
        raise NotCompiled(f"the C compiler ({compiler[0]}) made no library")


def words_of_compiler() -> list[str]:
    """CC as words. NotCompiled: it has none."""
    command = os.environ.get("CC") or "cc"
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise NotCompiled(f"CC is not a command: {command}")
    return words


def run(command: list[str]) -> None:
    """NotCompiled: the command failed, and this is what it said."""
    try:
        subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise NotCompiled(f"there is no C compiler ({command[0]})") from error
    except OSError as error:
        raise NotCompiled(f"the C compiler ({command[0]}) could not be run: {error}") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines() or [
            f"exit code {error.returncode}"
        ]
        line = next((line for line in lines if "error" in line), lines[0])
        raise NotCompiled(f"the C compiler ({command[0]}) failed: {line}") from error


class BuildWithConfigs(build_py):
    """`configs/` of the repository becomes `seq2attn/configs/` of the wheel."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_tree("configs", str(Path(self.build_lib, "seq2attn", "configs")))


class WheelForAnyPython(bdist_wheel):
    """The library depends on the platform, not on the version of Python. Without it, a wheel fits
    every platform.
    """

    def get_tag(self) -> tuple[str, str, str]:
        built = Path(self.get_finalized_command("build_ext").build_lib, KERNELS, "recurrence.so")
        return "py3", "none", super().get_tag()[2] if built.exists() else "any"


setup(
    cmdclass={
        "build_py": BuildWithConfigs,
        "build_ext": BuildKernels,
        "bdist_wheel": WheelForAnyPython,
    },
    ext_modules=[
        Extension(
            "seq2attn.kernels.recurrence",
            sources=["seq2attn/kernels/recurrence.c", "seq2attn/kernels/processor.c"],
            depends=[f"seq2attn/kernels/{name}.h" for name in ("matrix", "gates", "attention")],
            optional=True,
        )
    ],
)
