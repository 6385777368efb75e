"""Continuing a run whose task reads files: which config may open them, and that they are still the same.

A run never makes a command read a file: somebody else's run could name any. So the user names the config, as with plug-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seq2attn.config import Config, flat_values
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.runs.run import Run, resume_options

if TYPE_CHECKING:
    from seq2attn.data.tasks import Task


def config_to_resume(run: Run, named: Config | None) -> Config:
    """The config with which `run` is continued: its own, or where its task reads files, the one that the user `named`.

    Raises `Seq2AttnError` where one is needed and not named, and where the named one differs in more than the files' places.
    """
    own = run.config()
    if not own.data_files:
        if named is not None:
            message = "both --config and --resume are given: one starts a new run, the other continues one"
            raise Seq2AttnError(message, hint="Leave one of them out. See: seq2attn train --help")
        return own
    if named is None:
        files = ", ".join(shown(path, 200) for path in own.data_files.values())
        raise Seq2AttnError(
            f"run {run.name!r} is trained on files, which a run's own config never opens: {files}",
            hint=f"Name a config, if you trust its paths: seq2attn train --resume {run.name}{resume_options(run)}",
        )
    before, now = flat_values(own), flat_values(named)
    places = {f"task.{name}" for name in (*own.data_files, *named.data_files)}
    changed = [key for key in {**before, **now} if key not in places and before.get(key) != now.get(key)]
    if changed:
        key = changed[0]
        more = f", and {len(changed) - 1:,} more keys differ" if len(changed) > 1 else ""
        raise Seq2AttnError(
            f"this is not the config of run {run.name!r}: {key} is {shown(now.get(key))}, and {shown(before.get(key))} "
            f"in the run{more}",
            hint="A run is continued unchanged; only the places of its files may differ.",
        )
    return named


def check_same_files(run: Run, config: Config, task: Task) -> None:
    """Raise `Seq2AttnError` unless `task`, just read from files, is the one that `run` was started with."""
    kept, now = run.learned_task(config), task.learned()
    if kept is None or now is None or kept == now:
        return
    before = kept.get("files")
    for split, record in now["files"].items():
        then = before.get(split) if isinstance(before, dict) else None
        if isinstance(then, dict) and then.get("sha256") != record["sha256"]:
            raise Seq2AttnError(
                f"{config.data_files[split]} has changed since run {run.name!r} was started: it has {_described(record)}; "
                f"it had {_described(then)}",
                hint="A run is continued on the same data. Restore that file, or start a new run with this one.",
            )
    raise Seq2AttnError(f"{run.task_file}: does not belong to these files", hint="Start a new run.")


def _described(record: dict[str, object]) -> str:
    return f"{record.get('pairs')} pairs, {record.get('bytes')} bytes, sha256 {str(record.get('sha256'))[:12]}..."
