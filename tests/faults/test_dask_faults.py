"""Real schedulers and workers that are killed while a comparison runs; and SLURM's, as far as that goes without SLURM."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import seq2attn

pytest.importorskip("distributed", reason='Dask is not installed: pip install "seq2attn[dask]"')
pytestmark = pytest.mark.slow

ROOT = Path(seq2attn.__file__).parent.parent
TINY = """\
model: {hidden: 8, embedding: 4, initial_state: last, attention: {score: none}}
task: {alphabet: ab, max_length: 3}
training: {steps: 40, batch_size: 4, log_every: 5, evaluate_every: 10, validation_samples: 2}
evaluation: {samples: 4}
"""
PATIENCE = 900  # seconds
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


class Cluster:
    """A scheduler and workers, as processes that can be killed; each worker sees an empty file system as `runs`."""

    def __init__(self, folder, *, shared):
        self.folder, self.shared, self.workers = folder, shared, []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.log = (folder / "dask.log").open("ab")
        self.start_scheduler()

    def start(self, *command):
        return subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=self.log, stderr=self.log)

    def start_scheduler(self):
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", ":0")
        self.scheduler = self.start(sys.executable, "-m", "distributed.cli.dask_scheduler", *options)

    def add_worker(self):
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder / "scratch"))
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, *options]
        if not self.shared:
            hidden = f'mount -t tmpfs none {self.folder / "runs"} && exec "$@"'
            command = ["unshare", "--map-root-user", "--mount", "sh", "-c", hidden, "sh", *command]
        self.workers.append(self.start(*command))

    def kill_worker(self, place):
        _kill(self.workers.pop(place))

    def kill_scheduler(self):
        _kill(self.scheduler)

    def close(self):
        for process in (*self.workers, self.scheduler):
            _kill(process)
        self.log.close()


def _kill(process):
    process.kill()
    process.wait()


@pytest.fixture(params=["shared", "not shared"])
def cluster(request, tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "runs").mkdir()
    if request.param == "not shared":
        mount = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path / "runs")]
        with contextlib.suppress(OSError):
            if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
                made = Cluster(tmp_path, shared=False)
                yield made
                made.close()
                return
        pytest.skip("this system allows no mount namespaces")
    made = Cluster(tmp_path, shared=True)
    yield made
    made.close()


def command(folder, *arguments, vary="seed=1-40"):
    base = [sys.executable, "-m", "seq2attn", "compare", "-c", "tiny.yaml", "--name", "many", "--device", "cpu"]
    return [*base, "--vary", vary, *arguments]


def finished(folder):
    return len(list((folder / "runs").glob("*/evaluations/*.json")))


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def completed(folder, *arguments, **options):
    done = subprocess.run(
        command(folder, *arguments, **options), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.rpartition("\t")[0] for line in done.stdout.splitlines()]  # without the timing


def records(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def test_nothing_is_lost_when_workers_and_the_scheduler_are_killed(cluster):
    folder, dask = cluster.folder, ("--executor", f"dask:{cluster.address}")
    cluster.add_worker()
    cluster.add_worker()
    with subprocess.Popen(
        command(folder, *dask), cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as first:
        for done in (5, 12, 18):
            wait_for(lambda done=done: finished(folder) >= done)
            cluster.kill_worker(0)
            cluster.add_worker()
        wait_for(lambda: finished(folder) >= 25)
        cluster.kill_scheduler()
        _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 1
    assert f"error: the connection to the Dask scheduler at {cluster.address} is lost; finished trials are kept" in err
    assert "Traceback" not in err
    while cluster.workers:
        cluster.kill_worker(0)
    cluster.start_scheduler()
    cluster.add_worker()
    cluster.add_worker()
    table = completed(folder, *dask)
    local = completed(folder, "--runs-dir", "local", "--workers", "2")
    assert table == local
    runs = [run for run in (folder / "runs").iterdir() if not run.name.startswith(".new-")]  # a kill during creation
    assert sorted(run.name for run in runs) == sorted(os.listdir(folder / "local"))
    for run in runs:
        assert len(list((run / "evaluations").iterdir())) == 1
        assert records(run) == records(folder / "local" / run.name)


def test_what_a_killed_comparison_leaves_is_continued(cluster):
    folder, dask = cluster.folder, ("--executor", f"dask:{cluster.address}")
    cluster.add_worker()
    long = ("--set", "training.steps=4000", "--set", "training.evaluate_every=400")
    with subprocess.Popen(command(folder, *dask, *long, vary="seed=1-2"), cwd=folder, env=ENVIRONMENT) as first:
        wait_for(lambda: finished(folder) >= 1)
        first.send_signal(signal.SIGKILL)
    table = completed(folder, *dask, *long, vary="seed=1-2")
    assert table == completed(folder, "--runs-dir", "local", *long, vary="seed=1-2")
    assert finished(folder) == 2


def test_two_at_once_share_the_trials(cluster):
    folder, dask = cluster.folder, ("--executor", f"dask:{cluster.address}")
    cluster.add_worker()
    with subprocess.Popen(
        command(folder, *dask, vary="seed=1-6"), cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as other:
        table = completed(folder, "--workers", "1", vary="seed=1-6")
        out, _ = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0
    assert [line.rpartition("\t")[0] for line in out.splitlines()] == table
    assert finished(folder) == 6  # none was measured twice


FAKE_SBATCH = """\
#!/bin/sh
cp "$1" "job-$$.sh"  # the caller deletes its own
setsid sh "job-$$.sh" >> fake-slurm.log 2>&1 &
echo "Submitted batch job $!"
"""


def test_the_slurm_script_with_a_fake_sbatch(tmp_path):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "bin").mkdir()
    for name, text in {"sbatch": FAKE_SBATCH, "scancel": "#!/bin/sh\nkill -- -$1\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
    arguments = [
        "--jobs",
        "1",
        "--walltime",
        "00:30:00",
        "--memory",
        "1GB",
        "--",
        "-c",
        "tiny.yaml",
        "--vary",
        "seed=1-3",
    ]
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "slurm.py", *arguments, "--device", "cpu"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert len(list((tmp_path / "runs").glob("*/evaluations/*.json"))) == 3


def test_a_job_array_is_gathered_by_the_same_command(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    for seed in (1, 2, 3):  # the tasks of an array
        completed(tmp_path, "--workers", "1", vary=f"seed={seed}")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    table = completed(tmp_path, vary="seed=1-3")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == before
    assert table == completed(tmp_path, "--runs-dir", "whole", vary="seed=1-3")
