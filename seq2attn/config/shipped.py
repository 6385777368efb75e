"""The configs that come with seq2attn, also in an installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def shipped_folder() -> Path:
    """`configs/` beside the package, or its copy in an installed one."""
    installed = _PACKAGE / "configs"
    return installed if installed.is_dir() else _PACKAGE.parent / "configs"


def shipped_config(path: Path) -> Path | None:
    """The shipped file for a path such as `configs/scaled.yaml`, if there is one."""
    if path.is_absolute() or path.parts[:1] != ("configs",) or ".." in path.parts:
        return None
    found = shipped_folder().joinpath(*path.parts[1:])
    return found if found.is_file() else None
