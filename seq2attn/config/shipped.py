"""Finding a config: the user's own file, otherwise one of those that come with seq2attn, also in an installed package."""

from __future__ import annotations

import os
from pathlib import Path

from seq2attn.errors import closest, first_of

CONFIGS = "configs"
_PACKAGE = Path(__file__).parent.parent


def find_config(path: Path | str) -> Path:
    """The file that `path` names: itself if it exists, otherwise the shipped one, otherwise `path` unchanged.

    A shipped config is named by its path in the repository, `configs/chapter/dot.yaml`, or in short: `chapter/dot`.
    """
    path = Path(path)
    return path if os.path.isfile(path) else shipped_config(path) or path


def shipped_config(path: Path) -> Path | None:
    """The shipped file that `path` names, if there is one."""
    parts = path.parts[1:] if path.parts[:1] == (CONFIGS,) else path.parts
    if path.is_absolute() or not parts or ".." in parts or "\0" in str(path):
        return None
    named = shipped_folder().joinpath(*parts)
    return next((file for file in (named, named.with_name(f"{named.name}.yaml")) if file.is_file()), None)


def shipped_folder() -> Path:
    """`configs/` beside the package, or its copy in an installed one."""
    installed = _PACKAGE / CONFIGS
    return installed if installed.is_dir() else _PACKAGE.parent / CONFIGS


def hint_for_missing(path: Path) -> str:
    """A hint for a config that does not exist: the likely one, and the first of those that there are."""
    names = _available(path)
    near = closest(path.stem, {Path(name).stem for name in names})
    guess = f"Did you mean {next(name for name in names if Path(name).stem == near)}? " if near else ""
    return f"{guess}There are: {first_of(names)}"


def _available(path: Path) -> list[str]:
    """The configs in the folder of `path`; if that has none or is `configs`, also those of the user and the shipped ones."""
    folder = path if path.is_dir() else path.parent
    try:
        files = set(folder.glob("*.yaml"))
        if not files or folder.parts[:1] == (CONFIGS,):
            shipped = shipped_folder()
            files |= {*Path(CONFIGS).rglob("*.yaml")}
            files |= {Path(CONFIGS, file.relative_to(shipped)) for file in shipped.rglob("*.yaml")}
    except OSError:
        return []
    return [str(file) for file in sorted(files, key=lambda file: (len(file.parts), file))]
