"""Trials on Dask workers that see the runs directory; lost workers and schedulers; SLURM's, with a
fake `sbatch`.
"""

import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from inline import ROOT, Inline, process, write
from outcomes import metrics
from refusal import refused
from tables import slow

import seq2attn
from seq2attn.runs.run import Run

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

TINY = """\
model: {hidden: 8, embedding: 4, initial_state: last, attention: {score: none}}
task: {alphabet: ab, max_length: 3}
training: {steps: 40, batch_size: 4, log_every: 5, evaluate_every: 10, validation_samples: 2,
  snapshots: 0}
evaluation: {samples: 4}
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
PATIENCE = 900  # seconds


@pytest.fixture(autouse=True)
def work(here):
    pytest.importorskip("distributed", reason='not installed: pip install "seq2attn[dask]"')
    write(here / "tiny.yaml", TINY)


def cluster(workers):
    """Workers that are threads of this process: all that these tests need, and quick to start."""
    from distributed import LocalCluster  # which only the worker that runs these tests has to load

    return LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
    )


def compare(executor, **options):
    return seq2attn.compare(
        configs=["tiny.yaml"],
        vary=["seed=1-3"],
        overrides=["training.steps=5"],
        name="e",
        executor=executor,
        **options,
    )


def test_a_worker_that_refuses_is_left_out_and_trials_are_those_of_this_process(
    monkeypatch, capsys
):
    first = {}  # the address of the worker that is asked first
    every = []  # filled, all workers are wrong

    def versions():
        from distributed import get_worker

        try:
            address = get_worker().address
        except ValueError:  # the comparison
            return "right"
        return "another" if every or address == first.setdefault("asked", address) else "right"

    monkeypatch.setattr("seq2attn.comparison.trial.versions", versions)
    two = threading.Semaphore(2)  # trials at a time: these workers share a process
    monkeypatch.setattr("seq2attn.comparison.trial._one_trial", two)
    with cluster(workers=2) as made:
        found = compare(f"dask:{made.scheduler_address}", progress=True)
        assert found.failed == {}
        assert found.busy == ()
        assert len(found.groups[0].trials) == 3
        compare(Inline, workers=1, runs_dir="local")
        for seed in (1, 2, 3):
            name = f"e-seed_{seed}"
            assert metrics(Run(Path("runs", name))) == metrics(Run(Path("local", name)))
        told = capsys.readouterr().err
        assert told.count("worker left out") == 1
        assert (
            f"worker left out, {first['asked']}: its worker has another, and the comparison right"
            in told
        )
        every.append(True)
        with refused("3 of 3 trials failed\n.*its worker has another, and"):
            compare(f"dask:{made.scheduler_address}", runs_dir="others")


@pytest.mark.parametrize(
    "listens", [False, slow(True)]
)  # the port is closed, or of a server that is no scheduler
def test_a_scheduler_that_does_not_answer_is_a_sentence(cli, monkeypatch, capfd, listens):
    monkeypatch.setattr("seq2attn.comparison.run.ANSWER", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        done = cli(f"compare -c tiny.yaml --vary seed=1 --executor dask:{address}")
    assert done.code == 2
    assert done.out == ""
    assert time.monotonic() - begun < 20
    assert (
        f"error: no Dask scheduler answers at {address}: nothing after 0.3 "
        f"seconds\nStart one with: dask"
    ) in done.err
    gc.collect()
    assert "".join(capfd.readouterr()) == ""  # of distributed
    assert not Path("runs").exists()


def test_a_signal_does_not_wait_for_workers_that_never_come():
    with cluster(workers=0) as empty:
        threading.Timer(1, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            compare(f"dask:{empty.scheduler_address}")


# ---- real schedulers and workers ----


@pytest.fixture
def start():
    """`start("worker ...")` is a process of Dask's that can be killed."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = []

    def begin(line):
        words = f"-m distributed.cli.dask_{line}".split()
        started.append(subprocess.Popen([sys.executable, *words], env=ENVIRONMENT, **quiet))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.wait()


MANY = "-m seq2attn compare -c tiny.yaml --name many --device cpu --vary seed=1-12"


def measured():
    return len(list(Path("runs").glob("*/evaluations/*.json")))


def wait_for(number):
    end = time.monotonic() + PATIENCE
    while measured() < number:
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


@pytest.mark.slow
def test_nothing_is_lost_when_a_worker_and_the_scheduler_are_killed(tmp_path, start):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = start(f"scheduler --host 127.0.0.1 --port {port} --dashboard-address :0")
    worker = f"worker {address} --nthreads 1 --no-nanny --no-dashboard --local-directory scratch"
    first, _ = start(worker), start(worker)
    asked = [sys.executable, *MANY.split(), "--executor", f"dask:{address}"]
    with subprocess.Popen(asked, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as comparison:
        wait_for(3)
        first.kill()
        start(worker)
        wait_for(7)
        scheduler.kill()
        _, err = comparison.communicate(timeout=PATIENCE)
    assert comparison.returncode == 1
    assert "is lost; finished trials are kept" in err
    assert "Traceback" not in err
    again = process(tmp_path, f"{MANY} --workers 2").check()
    assert again.out == process(tmp_path, f"{MANY} --workers 2 --runs-dir local").check().out
    for run in filter(Path.is_dir, Path("local").iterdir()):
        assert len(list((Path("runs") / run.name / "evaluations").iterdir())) == 1
        assert metrics(Run(Path("runs") / run.name)) == metrics(Run(run))


FAKE_SBATCH = """\
#!/bin/sh
cp "$1" "job-$$.sh"  # the caller deletes its own
setsid sh "job-$$.sh" >> fake-slurm.log 2>&1 &
echo "Submitted batch job $!"
"""


@pytest.mark.slow
def test_the_slurm_script_with_a_fake_sbatch(tmp_path):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    for name, text in {"sbatch": FAKE_SBATCH, "scancel": "#!/bin/sh\nkill -- -$1\n"}.items():
        write(tmp_path / "bin" / name, text)
        (tmp_path / "bin" / name).chmod(stat.S_IRWXU)
    job = "--jobs 1 --walltime 00:30:00 --memory 1GB"
    words = f"{ROOT}/examples/slurm.py {job} -- -c tiny.yaml --vary seed=1-3 --device cpu"
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    assert len(process(tmp_path, words, PATH=path).check().out.splitlines()) == 4
    assert measured() == 3
