"""A great many steps, runs and strings: memory stays constant, files stay small, lists are fast."""

import resource
import time

import pytest
from inline import write

from seq2attn.config import check_config
from seq2attn.runs.create import NewRun, create_run
from seq2attn.runs.run import find_run, newest_first
from seq2attn.training.recorder import Recorder

pytestmark = pytest.mark.slow
NAMES = "loss accuracy gradient_norm learning_rate tokens_per_second".split()


def resident():
    """Bytes of memory that this process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_logged_steps(tmp_path, record_figure):
    steps = 1_000_000
    run = create_run(NewRun(tmp_path, "long", exact=False), check_config({}), {})
    recorder = Recorder(run)
    before = 0
    for step in range(1, steps + 1):
        recorder.step(step, dict.fromkeys(NAMES, 0.123456789))
        before = before or (step == steps // 10 and resident())
    grown = resident() - before
    written = sum(file.stat().st_size for file in run.path.iterdir() if file.is_file())
    assert grown < 4_000_000
    assert written < 600 * steps + 10_000
    record_figure(steps_logged=steps, bytes_of_memory_more=max(0, grown), bytes_of_files=written)


def test_many_runs_are_listed_quickly(run_copy, work, cli, record_figure):
    count = 10_000
    root = run_copy.path.parent
    status = run_copy.status_file.read_text()
    config = run_copy.config_file.read_text()
    for number in range(count):
        folder = root / f"run-{number:05d}"
        (folder / "checkpoints").mkdir(parents=True)
        write(folder / "config.yaml", config)
        write(folder / "status.json", status)
        write(folder / "environment.json", '{"created": "2026-01-01"}')
    began = time.process_time()
    done = cli("runs")
    took = time.process_time() - began
    assert done.code == 0
    assert len(done.out.splitlines()) == 51
    assert len(newest_first(root)) == count + 1
    assert find_run(root, None).name == "tiny"  # the only one with a checkpoint
    began = time.process_time()
    assert len(cli("runs --limit", count).out.splitlines()) == count + 1
    all_of_them = time.process_time() - began
    record_figure(
        runs=count, ms_for_a_list_of_50=round(1000 * took), ms_for_all=round(1000 * all_of_them)
    )
    assert took < 2
