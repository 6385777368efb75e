"""Finding a config: the user's own file, otherwise one of those that come with seq2attn, also in an installed package."""

from __future__ import annotations

import contextlib
import difflib
import os
from pathlib import Path

from seq2attn.errors import first_of

CONFIGS = "configs"
_PACKAGE = Path(__file__).parent.parent


def find_config(path: Path | str) -> Path:
    """The file that `path` names: itself if it exists, otherwise the shipped one, otherwise `path` itself.

    A shipped config is named by its path in the repository, `configs/chapter/dot.yaml`, or in short: `chapter/dot`.
    """
    return Path(path) if os.path.isfile(path) else shipped_config(Path(path)) or Path(path)


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


def shipped_names() -> list[str]:
    """What `--config` calls the shipped configs from any directory: `scaled`, `pairs/small`."""
    folder = shipped_folder()
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml"))


def hint_for_missing(path: Path) -> str:
    """A hint for a config that does not exist: the shipped ones and those in its folder, the most similar first."""
    folder = path if path.is_dir() else path.parent
    names = {f"{CONFIGS}/{name}.yaml" for name in shipped_names()}
    with contextlib.suppress(OSError):
        names |= set(map(str, folder.glob("*.yaml")))
    return f"There are: {first_of(difflib.get_close_matches(str(path), sorted(names), len(names), 0))}"
