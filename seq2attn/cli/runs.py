"""`seq2attn split`, `train` and `runs`: from a file to runs, and what runs there are."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from seq2attn.cli.options import (
    AsJson,
    Device,
    Force,
    LoadedPlugins,
    Overrides,
    RunsDir,
    argument,
    check_output,
    option,
    stop,
    write_output,
)
from seq2attn.data.format import Format, Pair, PairFile
from seq2attn.data.pairs import (
    left_out_of,
    load_pairs,
    shared_with_train,
    split_by,
    values_of,
    words_of,
)
from seq2attn.data.warnings import oddities, settings, warnings
from seq2attn.display.console import make_display, say
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError, left_out_notes, unknown
from seq2attn.runs.records import MAX_THREADS
from seq2attn.runs.run import (
    DEFAULT_ROOT,
    MAKE_ONE,
    Run,
    newest_first,
    plugin_options,
    resume_command,
    runs_dir_option,
    state_of,
)

# ---- split ----

Share = Annotated[float, option("%", "Share of the words.", min=0, max=100)]
FOUND = ("header", "source_separator", "target_separator")
"""what the pairs themselves tell, unless it is set"""
RECIPES = {"small": 3_000, "medium": 30_000, "large": sys.maxsize}
"""recipe -> the most pairs that it is for"""


def split(
    file: Annotated[Path, argument("FILE", "The file of pairs.")],
    dev: Share = 10.0,
    test: Share = 10.0,
    by: Annotated[
        str,
        option("COLUMN", "Split by this column's values, such as lemmas; by number or name."),
    ] = "",
    seed: Annotated[int, option("N", "Another seed chooses other words.")] = 0,
    to: Annotated[
        Path,
        option("FOLDER", "Where the parts are written.", file_okay=False),
    ] = Path(),
    overrides: Overrides = None,
    force: Force = False,
) -> None:
    """Split a file of pairs into train, dev and test, word by word.

    All lines of a word are in one part, so that no part has a word of another; lines with the same
    source and other features count as one word, and so do variants such as about(2), and sources
    that differ only in case. With --by, all lines with one value of a column are in one part. Says
    how many lines of each part share their source, their target or the value of another column with
    train. Writes train, dev and test with the ending of FILE, under its header. The task.* keys of
    `train` say how FILE is read.

    Examples:

      seq2attn split words.tsv

      seq2attn split forms.csv --by Concept --to parts --set 'task.delimiter=","'
    """
    paths = {name: to / f"{name}{file.suffix}" for name in ("train", "dev", "test")}
    for path in paths.values():
        if path.exists() and path.samefile(file):
            raise Seq2AttnError(f"{path} is FILE itself", hint="Name another folder with --to.")
        # The advice stands in the message, beside the hint of `check_output` to name another file:
        # the names of the parts are fixed. No mark (None) tells a part from other files.
        check_output(path, "part; name another folder with --to", None, force)
    loaded, form = _load(file, overrides or ())
    # line number -> what no two parts share: a column's value, or a word in lower case
    units = values_of(loaded, by) if by else words_of(loaded)
    parts = split_by(units, {"dev": dev / 100, "test": test / 100}, seed)
    rows = []
    for name, numbers in parts.items():
        if numbers:  # a part whose share is 0 has none
            # (bytes of the file that are not UTF-8 stay as they are)
            write_output(paths[name], loaded.part(numbers).encode(errors="surrogateescape"))
            different = len({units[number] for number in numbers})
            rows.append((str(paths[name]), different, len(numbers)))
    Table([Column("file"), Column(by or "words", key="words"), Column("lines")], rows).show()
    train_pairs = _pairs(loaded, parts["train"])
    dev_pairs = _pairs(loaded, parts["dev"])
    for text in (
        *left_out_notes(left_out_of([loaded.record])),
        *shared_with_train(loaded, parts),
        *warnings(train_pairs, dev_pairs, form),
    ):
        say(text)
    if dev_pairs:
        say(f"Next: {_next_command(paths, form, train_pairs)}")


def _pairs(file: PairFile, numbers: Iterable[int]) -> list[Pair]:
    """Return the pairs (source, answer) of the lines with these numbers: a line with several
    answers has several.
    """
    return [pair for number in numbers for pair in file.rows[number]]


def _load(file: Path, overrides: Sequence[str]) -> tuple[PairFile, Format]:
    """Load the file, and return it with the format in which it was read: the one that the options
    set.

    The settings in `FOUND`, such as whether there is a header, are found out from the pairs unless
    the options set them: where pairs look odd without another value, a note says which it is. The
    file is read a second time in any case, with the values that were found.
    """
    from seq2attn.config import load_config

    values = {"task": {"name": "pairs", "train": str(file), "dev": str(file)}}
    task = dict(load_config(values, overrides).task)
    form = Format(**{name: task[name] for name in vars(Format())})  # its fields are keys of `task`
    found: dict[str, Any] = {}
    options = " ".join(overrides)
    for oddity in oddities(load_pairs(file, form).pairs, form):
        for name, value in oddity.changes.items():  # fields of the format that would end it
            # (a key may also stand in an option's value, as in task={header: true})
            if name in FOUND and name not in options:
                say(f"note: {oddity.text}; read with {settings({name: value})}")
                found[name] = value
    form = replace(form, **found)
    return load_pairs(file, form), form


def _next_command(paths: Mapping[str, Path], form: Format, train: Sequence[Pair]) -> str:
    """Return the command that trains on the parts, with the recipe for files of this size, and with
    the settings by which the parts are read as FILE was.

    train: the pairs of the part to train on.
    """
    # what still looks odd, and was only warned of, is set in the command
    for oddity in oddities(train, form):
        form = replace(form, **oddity.changes)
    recipe = next(name for name, most in RECIPES.items() if len(train) <= most)
    changes: dict[str, Any] = {"train": str(paths["train"]), "dev": str(paths["dev"])}
    changes |= replace(form, skip_bad=0).differing(Format())  # malformed lines are left out already
    # always set, since the recipes set another separator than the usual one
    changes.setdefault("target_separator", form.target_separator)
    return f"seq2attn train --config configs/pairs/{recipe}.yaml {settings(changes)}"


# ---- train ----


def train(
    config: Annotated[
        Path | None, option("FILE", "The YAML config to train.", "--config", "-c")
    ] = None,
    overrides: Overrides = None,
    name: Annotated[
        str | None,
        option("NAME", "The run's name. Default: the config's name, its changes and a number."),
    ] = None,
    note: Annotated[
        str | None, option("TEXT", "A note about the run, which `runs` and `report` show.")
    ] = None,
    resume: Annotated[
        str | None,
        option("RUN", "Continue this run from its last checkpoint."),
    ] = None,
    device: Device = "auto",
    threads: Annotated[
        int | None, option("N", "Number of CPU threads. Default: 1.", min=1, max=MAX_THREADS)
    ] = None,
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """Train a model from a config.

    Makes a run directory with checkpoints, metrics and TensorBoard events, and prints its path.
    Ctrl-C saves the run and prints how to continue it; the weights are bit-identical whether or not
    training was interrupted.

    Examples:

      seq2attn train --config configs/scaled.yaml

      seq2attn train -c configs/scaled.yaml -s model.attention.score=additive

      seq2attn train --resume scaled-001
    """
    from seq2attn.runs.create import prepare_training

    # the config, and the run to continue or to make
    settings, where = prepare_training(
        config,
        overrides or (),
        root=runs_dir,
        name=name,
        resume=resume,
        plugins=plugin or [],
        note=note,
    )
    # imports torch, which takes seconds: a mistake in the config has been reported by now
    from seq2attn.training import session

    with make_display() as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    run = ended.run
    if ended.stopped_by is not None:  # the number of a signal, such as Ctrl-C's
        progress = f"step {ended.step:,}; everything is saved."
        stop(ended.stopped_by, progress, resume_command(run))  # says how to go on, and exits
    data = settings.data_files.get("dev")  # a file that `eval` can measure a run on pairs on
    file = f" --data {shlex.quote(data)}" if data else ""
    options = f"{runs_dir_option(run.path.parent)}{plugin_options(run.environment.plugins)}"
    say(f"Next: seq2attn eval {run.name}{options}{file}")
    print(run.path)


# ---- runs ----

COLUMNS = [
    Column("run"),
    Column("state"),
    Column("step", right=True, optional=True),
    Column("of", right=True, optional=True, key="steps"),
    Column("score", optional=True),
    Column("seed", right=True, optional=True, form="d"),
    Column("task", optional=True),
    Column("exact match, worst", right=True, key="exact_match_worst"),
    Column("WER", right=True),
    Column("made (UTC)", optional=True, key="made"),
    Column("note", optional=True),
]


def runs(
    sort: Annotated[
        str | None, option("KEY", "Sort by a column or metric, lowest first; -KEY: highest first.")
    ] = None,
    limit: Annotated[int, option("N", "List at most N runs.", "--limit", "-n", min=1)] = 50,
    as_json: AsJson = False,
    runs_dir: RunsDir = DEFAULT_ROOT,
) -> None:
    """List runs, the newest first.

    "exact match, worst" is the lowest exact match over the trained lengths in the run's last
    evaluation; for a run on pairs of strings, WER is the word error rate on the dev set. A run is
    "training" while a process trains it, and "stopped" if that process ended early.

    Examples:

      seq2attn runs --limit 5 --json

      seq2attn runs --sort -exact_match_worst
    """
    # a record also has what is in a run's status and in no column, such as other metrics
    records = [_record(run) for run in newest_first(runs_dir)]
    columns = list(COLUMNS)
    if not records:
        say(f"no trained model in {runs_dir.absolute()} yet. {MAKE_ONE}")
    elif sort:
        key = sort.removeprefix("-")
        if key not in records[0]:
            raise unknown("--sort key", key, records[0])
        if key not in [column.name for column in columns]:  # show what is sorted by
            columns.append(Column(key, right=True))
        falling = sort.startswith("-")
        if not falling:
            records.reverse()  # of equal values, the oldest run comes first
        with_value = [record for record in records if record[key] is not None]
        without = [record for record in records if record[key] is None]
        with_value.sort(key=lambda record: record[key], reverse=falling)
        records = with_value + without
    Table.of_records(records[:limit], columns).show(as_json)
    if len(records) > limit and not as_json:
        say(f"{len(records) - limit:,} more; raise --limit to see them")


def _record(run: Run) -> dict[str, Any]:
    """Return what is known of a run, by the keys of `COLUMNS` and of its status; None where a value
    is not known.
    """
    status, environment = run.status(), run.environment
    made = environment.created and f"{environment.created:%Y-%m-%d %H:%M}"
    return (
        {"run": run.name}
        | status.model_dump()
        | {
            "state": state_of(run, status),
            "made": made,
            "note": environment.note,
        }
    )
