"""Finding a config: the user's own file, otherwise one of those that come with seq2attn, also in an installed package."""

from __future__ import annotations

import difflib
from pathlib import Path

from seq2attn.errors import closest

MOST_FILES = 12  # listed of one folder
CONFIGS = "configs"
_PACKAGE = Path(__file__).parent.parent


def find_config(path: Path | str) -> Path:
    """The file that `path` names: itself if it exists, otherwise the shipped one, otherwise `path` unchanged.

    A shipped config is named by its path in the repository, `configs/chapter/dot.yaml`, or in short: `chapter/dot`.
    """
    path = Path(path)
    return path if _exists(path) else shipped_config(path) or path


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
    """A hint for a config that does not exist: the likely one, and those that there are."""
    names = _available(path)
    stem = closest(path.stem, {Path(name).stem for name in names})
    alike = [name for name in names if Path(name).stem == stem]
    guess = f"Did you mean {difflib.get_close_matches(str(path), alike, 1, cutoff=0)[0]}? " if alike else ""
    return f"{guess}There are: {', '.join(_by_folder(names))}"


def _exists(path: Path) -> bool:
    """Whether there is a file of this name; a directory is not one."""
    try:
        return path.exists() and not path.is_dir()
    except ValueError:  # a null byte
        return False
    except OSError:  # the caller, who reads it, says why
        return True


def _available(path: Path) -> list[str]:
    """The configs in the folder of `path`; if that has none or is `configs`, also those of the user and the shipped ones."""
    folder = path if path.is_dir() else path.parent
    try:
        found = [str(file) for file in folder.glob("*.yaml")]
        if not found or folder.parts[:1] == (CONFIGS,):
            found += [str(file) for file in Path(CONFIGS).rglob("*.yaml")]
            shipped = shipped_folder()
            found += [str(Path(CONFIGS, file.relative_to(shipped))) for file in shipped.rglob("*.yaml")]
    except OSError:
        pass
    return sorted(set(found), key=lambda name: (Path(name).parent, Path(name).stem))


def _by_folder(names: list[str]) -> list[str]:
    """`configs/{dot,scaled}.yaml`: the names of each folder, as a shell expands them."""
    stems: dict[Path, list[str]] = {}
    for name in names:
        stems.setdefault(Path(name).parent, []).append(Path(name).stem)
    shown = []
    for folder, here in stems.items():
        listed = ",".join(here[:MOST_FILES]) + (",..." if len(here) > MOST_FILES else "")
        shown.append(str(folder / (f"{{{listed}}}.yaml" if len(here) > 1 else f"{listed}.yaml")))
    return shown
