"""`seq2attn runs` with intact and damaged runs, on terminals of any width."""

import shutil

import pytest

from seq2attn.cli.runs import HEADER, _show
from seq2attn.runs.lock import training_lock
from seq2attn.runs.run import Run

ROW = ["grid-scaled-mask_padding_false-seed_1", "finished", "2500/2500", "reverse", "scaled", "1", "0.998"]
ROWS = [[*ROW, "2030-01-01T12:34:56+00:00"]]


@pytest.fixture
def shown(monkeypatch, capsys):
    def show(width):
        monkeypatch.setenv("COLUMNS", str(width))
        _show(ROWS)
        return capsys.readouterr()

    return show


def test_a_wide_table_shows_all_columns(shown):
    out, err = shown(130)
    assert "2030-01-01 12:34 " in out
    assert "+00:00" not in out
    assert all(word in out for word in ROW)
    assert err == ""


@pytest.mark.parametrize(("width", "first_gone"), [(120, 1), (80, 3), (20, 5)])
def test_a_narrow_table_keeps_the_run_name(shown, width, first_gone):
    out, err = shown(width)
    assert ROW[0] in out
    assert "0.998" in out or width == 20
    assert len(err.removeprefix("not shown at this width: ").partition(";")[0].split(",")) >= first_gone
    assert width == 20 or max(map(len, out.splitlines())) <= width


def test_a_pipe_gets_every_column(cli, runs_copy):
    header, row = cli("runs").out.splitlines()
    assert tuple(header.split("\t")) == HEADER
    assert row.endswith("+00:00")


@pytest.fixture
def state(cli, runs_copy):
    return lambda: cli("runs").out.splitlines()[1].split("\t")[1]


def test_states_without_a_readable_status(runs_copy, state):
    status = runs_copy / "tiny" / "status.json"
    status.write_text("{")
    assert state() == "unreadable status.json"
    status.unlink()
    assert state() == "stopped"  # it has a checkpoint
    shutil.rmtree(runs_copy / "tiny" / "checkpoints")
    assert state() == "no checkpoint"


def test_a_run_is_training_while_a_process_trains_it(runs_copy, state):
    (runs_copy / "tiny" / "status.json").unlink()
    with training_lock(Run(runs_copy / "tiny")):
        assert state() == "training"


def test_a_run_without_checkpoints_restarts(cli, runs_copy):
    shutil.rmtree(runs_copy / "tiny" / "checkpoints")
    done = cli("train", "--resume", "tiny")
    assert done.code == 0, done.err
    assert "last.safetensors is missing: training restarts from step 0" in done.err
    assert (runs_copy / "tiny" / "checkpoints" / "last.safetensors").is_file()
