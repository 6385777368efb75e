import itertools
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib import metadata
from unittest import mock

import pytest
import yaml
from inline import change_json, read_json, write
from models import make_config
from refusal import refusal, refused
from tables import table

import seq2attn
from seq2attn.config import Config
from seq2attn.results.metrics import Row
from seq2attn.runs import run as run_module
from seq2attn.runs.create import NewRun, create_run
from seq2attn.runs.run import (
    Run,
    all_runs,
    check_name,
    find_run,
    need_checkpoint,
    newest_first,
    save_evaluation,
)

CONFIG = Config()


def make(root, name, *, made=1_000_000.0, checkpoint="best"):
    created = datetime.fromtimestamp(made, UTC).isoformat()
    run = create_run(NewRun(root, name), CONFIG, {"created": created})
    if checkpoint:
        run.checkpoint(checkpoint).write_bytes(b"")
    return run


def numbered(root):
    """The name of a new run, which begins with `a`."""
    return create_run(NewRun(root, "a", exact=False), CONFIG, {}).name


def names(runs):
    return [run.name for run in runs]


# ---- making ----


def test_a_new_run_holds_its_config_and_environment(tmp_path):
    config = make_config("seed=7 model.hidden=8")
    run = create_run(NewRun(tmp_path / "deep/runs", "mine", exact=False), config, {"threads": 1})
    assert run.path == tmp_path / "deep/runs/mine-001"
    assert run.config == config
    assert run.environment.threads == 1
    assert abs(run.environment.created - datetime.now(UTC)) < timedelta(minutes=10)
    assert run.checkpoint("best") == run.path / "checkpoints/best.safetensors"
    assert run.checkpoint("best").parent.is_dir()
    assert not run.has_checkpoint


def test_the_next_number_is_the_highest_plus_one(tmp_path):
    for name in "a-001 a-007 a-b-050 b-060 a-0x9".split():
        make(tmp_path, name)
    assert [numbered(tmp_path), numbered(tmp_path)] == ["a-008", "a-009"]
    make(tmp_path, "a-999")
    assert [numbered(tmp_path), numbered(tmp_path)] == ["a-1000", "a-1001"]


def test_threads_never_get_the_same_run(tmp_path):
    start = threading.Barrier(8)

    def several(_):
        start.wait()
        return [numbered(tmp_path) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        made = [name for part in pool.map(several, range(8)) for name in part]
    assert sorted(made) == [f"a-{number:03d}" for number in range(1, 41)]


@pytest.mark.parametrize("exact", [False, True])
def test_a_root_that_is_a_file_is_an_error(tmp_path, exact):
    root = tmp_path / "runs"
    root.write_text("")
    with refused("runs: cannot be written: Not a directory"):
        create_run(NewRun(root, "a", exact=exact), CONFIG, {})


OUTSIDE = [*". .. ../a a/b /etc ~ .hidden -rf é".split(), "", "a b", "a\n", "a\0", "a" * 101]


def test_names_that_lead_elsewhere_are_refused(tmp_path):
    for name, exact in itertools.product(OUTSIDE, (False, True)):
        with refused("is not a valid run name"):
            create_run(NewRun(tmp_path / "runs", name, exact=exact), CONFIG, {})
    assert list(tmp_path.iterdir()) == []
    for name in ("a", "scaled-001", "A.b_c-9", "0", "a" * 100):
        check_name(name)


# ---- finding ----


def test_the_newest_run_is_the_last_created_that_has_a_checkpoint(tmp_path):
    make(tmp_path, "a", made=300, checkpoint="last")
    older = make(tmp_path, "z", made=100)
    make(tmp_path, "m", made=200)
    make(tmp_path, "empty", made=400, checkpoint=None)
    older.status_file.write_text("{}")  # it is resumed
    older.checkpoint("last").write_bytes(b"new")
    assert names(newest_first(tmp_path)) == "empty a m z".split()
    assert find_run(tmp_path, None).name == "a"


def test_only_runs_are_listed(tmp_path):
    make(tmp_path, "run")
    (tmp_path / "folder").mkdir()
    write(tmp_path / "config.yaml", "")
    write(tmp_path / "file", "")
    assert names(all_runs(tmp_path)) == ["run"]
    assert list(all_runs(tmp_path / "missing")) == []


@table(
    "form",
    """
{name}
{root}/{name}
{root}/{name}/
{root}/../{folder}/{name}
""",
)
def test_a_run_is_found_by_its_name_and_by_its_path(tmp_path, form):
    make(tmp_path, "mine")
    make(tmp_path, "newer", made=2e6)
    found = find_run(tmp_path, form.format(name="mine", root=tmp_path, folder=tmp_path.name))
    assert found == Run(tmp_path / "mine")


def test_an_unknown_run_suggests_a_similar_name_among_the_newest(tmp_path):
    for number in range(11):
        make(tmp_path, f"mine-{number}", made=1_000_000.0 + number)
    existing = ", ".join(f"mine-{number}" for number in range(10, 0, -1))
    says = f"no run 'mime-7' in {tmp_path}; did you mean 'mine-7'? existing: {existing}, ..."
    assert str(refusal(find_run, tmp_path, "mime-7")) == says


def test_a_run_without_a_checkpoint_says_how_to_train_it(tmp_path):
    run = make(tmp_path, "empty", checkpoint=None)
    run.environment_file.write_text('{"plugins": ["my own.py"]}')
    says = f"""run 'empty' has no checkpoint: {run.checkpoints} is empty
Train it: seq2attn train --resume empty --runs-dir {tmp_path} --plugin 'my own.py'"""
    for error in (refusal(find_run, tmp_path, None), refusal(need_checkpoint, run)):
        assert str(error) == says
    run.checkpoint("last").write_bytes(b"")
    assert need_checkpoint(run) is run


# ---- what a run records ----


def test_a_run_of_another_version_is_used_and_one_of_another_format_is_refused(
    cli, runs_copy, monkeypatch
):
    file = runs_copy / "tiny/environment.json"
    record = read_json(file)
    assert record["format"] == 1
    assert record["versions"]["seq2attn"] == metadata.version("seq2attn")
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: "0.1.1" if name == "seq2attn" else version(name)
    )
    change_json(file, versions={"seq2attn": "0.1.0"})
    assert cli("predict ab").code == cli("train --resume tiny").code == 0
    damaged = {**record, "format": 2, "threads": "many"}  # another format may have other types
    unknown = {name: value for name, value in record.items() if name != "format"}
    for values, number in (({**record, "format": 2}, "2"), (damaged, "2"), (unknown, "unknown")):
        file.write_text(json.dumps(values))
        for line in ("predict ab", "train --resume tiny", "inspect tiny"):
            assert cli(line).refusal.splitlines()[-1] == (
                f"error: runs/tiny/environment.json: the format of the run is {number}, and this "
                "seq2attn reads format 1; use the version that made the run, or train it again"
            )
        assert cli("runs").out.splitlines()[1].startswith("tiny\tfinished\t")


@table(
    "words",
    """
predict ab
eval tiny
train --resume tiny
inspect tiny
""",
)
def test_a_command_reads_the_environment_of_its_run_once(cli, runs_copy, monkeypatch, words):
    watched = mock.Mock(wraps=run_module.read_record)
    monkeypatch.setattr(run_module, "read_record", watched)
    cli(words).check()
    paths = [call.args[1].name for call in watched.call_args_list]
    assert paths.count("environment.json") == 1


def measured(checkpoint, seed):
    row = Row("random", 3, "exact_match", 1.0, 0.9, 1.0, 10, True)
    return seq2attn.Evaluation((row,), checkpoint=checkpoint, seed=seed)


def test_evaluations_are_numbered_and_never_replaced(tmp_path):
    run = make(tmp_path, "mine")
    for n, name in enumerate("best best last best".split()):
        save_evaluation(measured(name, n), run)
    seeds = {path.name: read_json(path)["seed"] for path in run.evaluations.iterdir()}
    expected = "{best-001.json: 0, best-002.json: 1, last-001.json: 2, best-003.json: 3}"
    assert seeds == yaml.safe_load(expected)


def test_an_evaluation_that_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    run = make(tmp_path, "mine")
    monkeypatch.setattr(os, "replace", refuse)
    with refused("No space left") as caught:
        save_evaluation(measured("best", 0), run)
    assert caught.value.exit_code == 1
    assert list(run.evaluations.iterdir()) == []
