"""Creating run directories, atomically and never over an existing one, continuing runs, and the
machine that they are trained on.

Imports no torch at the top.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import functools
import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2attn import __version__
from seq2attn.config import Config, Overrides, dump_config, flat_values, load_config, override_list
from seq2attn.config.yaml_files import find_config
from seq2attn.data.format import Format
from seq2attn.errors import Seq2AttnError, quoted
from seq2attn.files import reading, write_atomically, write_json, writing
from seq2attn.plugins import loaded
from seq2attn.runs.records import FORMAT, Learned, read_record
from seq2attn.runs.run import Run, check_name, find_run, resume_command

if TYPE_CHECKING:
    import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
LONGEST_NAME = 80  # characters of a default name, without its number
GIT_DESCRIBE = "git --no-optional-locks describe --always --dirty --abbrev=40 --exclude=*"
"""the whole commit, whatever tags there are; without writing to the repository"""


@dataclass(frozen=True)
class NewRun:
    """Where to create a run, and what its environment.json records besides the machine."""

    root: Path
    name: str
    exact: bool = True
    """use exactly this name; otherwise a number is appended"""
    plugins: Sequence[str] = ()
    experiment: str | None = None
    """the comparison that the run is a trial of"""
    loop: str = ""
    """the key of the comparison's own training loop"""
    note: str | None = None


OF_FILES = {f"task.{name}" for name in (*vars(Format()), "train", "dev")}
"""keys that say where words are, and how their file is read"""


class RunExists(Seq2AttnError):
    """There is a run of this name already."""


def run_name(config: Path, changes: Sequence[str]) -> str:
    """Return a default name made of the config's file and the `changes`, `KEY=VALUE`.

    `scaled.yaml` with `model.attention.score=additive` -> `scaled-score_additive`. A config in a
    folder of `configs` has its name before it: `configs/chapter/dot.yaml` -> `chapter-dot`.

    Changes that only say where words are and how their file is read (`OF_FILES`) are left out. The
    name is cut to `LONGEST_NAME` characters, and is `run` if nothing is left.
    """
    file = find_config(config)
    words = [file.parent.name, file.stem] if file.parent.parent.name == "configs" else [file.stem]
    for change in changes:
        key, _, value = change.partition("=")
        if key not in OF_FILES:
            # the last word of the key: `score` of `model.attention.score.name`, too
            words.append(f"{key.removesuffix('.name').rpartition('.')[2]}_{value}")
    plain = filter(None, map(run_word, words))
    return "-".join(plain)[:LONGEST_NAME] or "run"


def run_word(text: str) -> str:
    """Return `text` in characters that a run's name may have: `-` for others, and nothing where it
    would look like the sign of a number, as in `lengths_-3-5` for [3, 5], or `1e-30` for 1e+30.
    """
    text = re.sub(r"(?<![A-Za-z0-9])[^A-Za-z0-9._-]+|\+", "", text)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


def create_run(
    new: NewRun,
    config: Config,
    environment: Mapping[str, Any],
    learned: Mapping[str, Any] | None = None,
) -> Run:
    """Create the run's directory in `new.root`: called `new.name` if that is exact, otherwise with
    the next number after it, `name-001`, `name-002` and so on.

    environment: the contents of environment.json but for format and time, which are added.
    learned: what the run's task learned from its files; None for a task without files.

    Raises `RunExists` if there is a run of the exact name; nothing is overwritten. The directory is
    made under a temporary name and renamed once it is complete, so that no run lacks its config.
    """
    check_name(new.name)
    made = Run(new.root / f".new-{secrets.token_hex(8)}")
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    try:
        with writing(new.root):
            made.checkpoints.mkdir(parents=True)
            write_json(made.environment_file, {"format": FORMAT, "created": created, **environment})
            if learned is not None:
                write_json(made.task_file, learned)
            write_atomically(made.config_file, dump_config(config).encode())
            return Run(_rename(made.path, new))
    finally:  # if it was renamed, nothing has this name any more
        shutil.rmtree(made.path, ignore_errors=True)


def _rename(made: Path, new: NewRun) -> Path:
    """Rename the directory `made` to the name of the new run, or if that is not exact to the name
    with the number after the highest that is used, of 3 digits or more. Return the new path.

    Raises `RunExists` if the exact name is taken.
    """
    names: Iterable[str] = [new.name]  # to try, in this order
    if not new.exact:
        pattern = re.compile(re.escape(new.name) + r"-(\d{3,})")
        used = [int(match[1]) for match in map(pattern.fullmatch, os.listdir(new.root)) if match]
        free = itertools.count(max(used, default=0) + 1)
        names = (f"{new.name}-{number:03d}" for number in free)
    for name in names:
        path = new.root / name
        try:
            return made.rename(path)  # (an empty directory is replaced)
        except OSError:
            if not os.path.lexists(path):  # otherwise the name is taken: try the next
                raise
    # numbers never end, so only an exact name, which is taken, comes here
    raise RunExists(
        f"run {new.name!r} already exists in {new.root}",
        hint=f"Choose another name, or continue it: {resume_command(Run(path))}",
    )


def describe_environment(
    new: NewRun, device: torch.device, threads: int, kernels: str
) -> dict[str, Any]:
    """Return the contents of environment.json, except for the format and the time.

    threads: how many the CPU uses. kernels: what `kernels.describe` says of them.
    """
    import torch

    cuda = device.type == "cuda"
    return {
        "command": [_escaped(word) for word in sys.argv],
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if cuda else platform.processor(),
        "threads": threads,
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "kernels": kernels,
        "plugins": list(new.plugins),
        # the SHA-256 of each plug-in's file as it was loaded
        "plugin_contents": [loaded[Path(file).resolve()] for file in new.plugins],
        "experiment": new.experiment,
        "loop": new.loop,
        "note": new.note and _escaped(new.note),
        "commit": _commit(),
        "code": package_checksum(),
        "platform": platform.platform(),
        "versions": {
            "python": platform.python_version(),
            "seq2attn": __version__,
            "torch": torch.__version__,
        },
    }


@functools.cache
def package_checksum() -> str:
    """Return a checksum of the code of this package, of 8 hexadecimal digits, as the code was at
    the first call in this process. Equal code has the same checksum on every system.
    """
    digest = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml"), *folder.rglob("*.[ch]")]):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        # on Windows, git may have written the ends of lines as \r\n
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:8]


def _escaped(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _commit() -> str | None:
    """Return the commit of the working directory, with `-dirty` if a tracked file has changed; None
    if git does not tell it within 5 seconds, as outside a repository or where git is missing.
    """
    command = GIT_DESCRIBE.split()
    try:
        text = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=5)
        return text.strip()
    except (OSError, subprocess.SubprocessError):
        return None


# ---- continuing ----


def prepare_training(
    config: str | Path | Mapping[str, Any] | Config | None,
    overrides: Overrides,
    *,
    root: Path,
    name: str | None,
    resume: str | Run | None,
    plugins: Sequence[str],
    note: str | None,
) -> tuple[Config, Run | NewRun]:
    """Return what `train` is to be called with: the config, and the run to continue or to make.

    Either `resume` names the run in `root` to continue, or is that run: then there must be no
    config, overrides, name or note. Or `config` (a file, its contents, or a `Config`) with the
    overrides describes a new run in `root`. name: its exact name; None: it is named after the
    config's file and the overrides, with a number. plugins: the files that are loaded for it.
    note: what its record shall say of it.

    Raises `Seq2AttnError` for any other combination, for a run that does not exist, and for a
    config that is wrong.
    """
    if resume is not None:
        run = find_run(root, resume)
        if config is not None or overrides or name or note:
            raise Seq2AttnError(
                "--resume continues a run unchanged; --config, --set, --name and --note are for "
                "new runs",
                hint=f"For a new run: seq2attn train --config {run.config_file} --set ...",
            )
        return run.config, run
    if config is None:
        hint = (
            "For example: seq2attn train --config configs/scaled.yaml\nSee: seq2attn train --help"
        )
        raise Seq2AttnError("give either --config FILE or --resume RUN", hint=hint)
    settings = load_config(config, overrides)
    exact = name is not None
    if name is None:
        # a config without a file, such as a mapping, counts as one called `run`
        file = Path(config if isinstance(config, str | Path) else "run")
        # sorted, so that the order of the overrides makes no other name
        name = run_name(file, sorted(override_list(overrides)))
    return settings, NewRun(root, name, exact, plugins, note=note)


def first_change(before: Config, now: Config) -> str | None:
    """Compare the config of a run, `before`, with another one. Return a sentence on the first key
    whose values differ, with both; None if there is none.
    """
    old, new = flat_values(before), flat_values(now)
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            return f"{key} is {quoted(new.get(key))}, and {quoted(old.get(key))} in the run"
    return None


def check_same_files(run: Run, config: Config) -> None:
    """Raise `Seq2AttnError` unless each data file that `config` names is there, and has the SHA-256
    that `run` has recorded. Do nothing for a task without data files.

    Call it before anything else reads them: a run of somebody else may name any file of yours.
    """
    if not config.data_files:
        return
    known = read_record(Learned, run.task_file).files
    for option, path in config.data_files.items():
        checksum = None  # of a file that is gone
        if os.path.isfile(path):
            # `reading` refuses links, but the user may well have one to the data
            with reading(Path(os.path.realpath(path))) as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        if option not in known or checksum != known[option].sha256:
            raise Seq2AttnError(
                f"{path} has changed, or is gone, since run {run.name!r} was started",
                hint="Restore that file, or start a new run: a run is continued on the same data.",
            )


# ---- this machine: devices, processor cores, memory ----


def choose_device(name: str) -> torch.device:
    """Return the device `cpu`, `cuda` or `mps`; `auto` is cuda if available, otherwise cpu, and
    never mps, which is slower for such small models.

    Raises `Seq2AttnError` for a name that is not one of these, or not available here.
    """
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        name = "cuda" if "cuda" in available else "cpu"
    if name not in available:
        raise Seq2AttnError(
            f"--device: {name!r} is not available to torch {torch.__version__} here; available: "
            f"{', '.join(available)}"
        )
    return torch.device(name)


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """In this context, torch makes tensors of the dtype of this name, such as `float32`, where no
    other is asked for.
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next training step; without glibc, do nothing.

    Each step allocates the same buffers again. By default, glibc gets each one above 128 KiB from
    the system and gives it back when it is freed; the system then clears its pages each time.
    """
    # what a library without `mallopt`, and Windows (OSError, TypeError), raise
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)  # the libraries of this process, glibc among them
        library.mallopt(MMAP_THRESHOLD, 1 << 30)  # buffers below 1 GiB come from the heap,
        library.mallopt(TRIM_THRESHOLD, 1 << 30)  # of whose end up to 1 GiB is kept when it is free
