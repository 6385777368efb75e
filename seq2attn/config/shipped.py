"""The configs that come with seq2attn, also where it was installed without its repository."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def shipped_folder() -> Path:
    """Where they are: `configs/` beside the package, or the copy of it in an installed one."""
    installed = _PACKAGE / "configs"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def shipped_config(path: Path) -> Path | None:
    """The shipped file that `path` means: `configs/scaled.yaml` where the working directory has none; otherwise None."""
    if path.is_absolute() or path.parts[:1] != ("configs",) or ".." in path.parts:
        return None
    found = shipped_folder().joinpath(*path.parts[1:])
    return found if found.is_file() else None
