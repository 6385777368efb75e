"""Trials on Dask workers, in place and sent back; lost workers and schedulers."""

import json
import signal
from dataclasses import replace

import pytest
import torch

import seq2attn
from seq2attn.comparison import dask_engine, dask_worker
from seq2attn.comparison.engine import EngineLost
from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.grid import parse_vary
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.running import run_jobs
from seq2attn.comparison.trial import STOP_REQUEST, Job, Outcome, find_evaluation, run_trial
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.lock import is_training, remote_lock
from seq2attn.runs.packing import pack
from seq2attn.training import session
from seq2attn.training.signals import StopRequest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed", reason='Dask is not installed: pip install "seq2attn[dask]"')

TINY = """\
model: {hidden: 8, embedding: 4, initial_state: last, attention: {score: none}}
task: {alphabet: ab, max_length: 2}
training: {steps: 6, batch_size: 4, log_every: 1, evaluate_every: 2, validation_samples: 2, snapshots: 0}
evaluation: {samples: 4}
"""

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster():
    """One worker, a thread of this process: all that these tests need, and quick to start."""
    dask_engine._import()
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as made:
        yield made


@pytest.fixture(params=["in place", "sent back"])
def engine(request, cluster, tmp_path, monkeypatch):
    if request.param == "sent back":
        monkeypatch.setattr(dask_worker, "_holds", lambda probe, token: False)
    monkeypatch.setattr(dask_worker, "POLL", 0.01)
    monkeypatch.setattr(dask_engine, "STOP_AGAIN", 0.01)
    made = make_engine(cluster, tmp_path / "runs")
    yield made
    made.shutdown(cancel_futures=True)
    STOP_REQUEST.signal = None
    assert not list((tmp_path / "runs").glob(".*"))


def make_engine(cluster, root, plugins=()):
    client = distributed.Client(cluster, set_as_default=False)
    return dask_engine.DaskEngine(client, None, root, plugins)


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(TINY)
    monkeypatch.setattr("seq2attn.comparison.running.POLL", 0.01)
    monkeypatch.setattr("seq2attn.comparison.running.RETRY", 0.01)

    def make(*vary, **settings):
        experiment = Experiment("e", "test", {"tiny": tmp_path / "tiny.yaml"}, axes=tuple(map(parse_vary, vary)))
        plan = make_plan(replace(experiment, **settings), tmp_path / "runs")
        return [Job(trial, tmp_path / "runs", "cpu") for trial in plan.trials]

    return make


def run(jobs, engine, **settings):
    outcomes = run_jobs(jobs, lambda: engine, request=StopRequest(), **settings)
    return [outcomes[job.trial.name] for job in jobs]


def losses(run):
    return [line["loss"] for line in map(json.loads, run.metrics_file.read_text().splitlines()) if "loss" in line]


def test_trials_are_the_same_runs_as_in_this_process(jobs, engine):
    asked, own = jobs("seed=1-3"), jobs("seed=1-3", name="own")
    assert run(asked, engine) == [Outcome("done")] * 3
    for job, here in zip(asked, own, strict=True):
        run_trial(here)
        assert losses(job.run) == losses(here.run)
        found, expected = (find_evaluation(one.trial, one.root) for one in (job, here))
        assert found.lengths == expected.lengths
        names = ({path.name.split(".")[0] for path in one.run.path.rglob("*")} for one in (job, here))
        assert next(names) == next(names)
    assert not is_training(asked[0].run)


def test_an_interrupted_run_is_continued_from_its_checkpoint(jobs, engine, monkeypatch):
    (whole,), (job,) = jobs("seed=1", name="whole"), jobs("seed=1")
    run_trial(whole)

    class Impatient(session.Display):
        def step(self, trial, step, text):
            if step == 3:
                STOP_REQUEST.signal = signal.SIGTERM

    with monkeypatch.context() as patch:
        patch.setattr(session, "Display", Impatient)
        assert run([job], engine) == [Outcome("stopped")]
    assert (job.run.status().state, job.run.status().step) == ("interrupted", 3)
    engine = make_engine(engine.client.cluster, job.root)
    made = job.run.environment().created
    assert run([job], engine) == [Outcome("done")]
    assert job.run.environment().created == made  # the same run
    assert losses(job.run) == losses(whole.run)


def test_a_stop_request_saves_what_runs_and_starts_nothing_more(jobs, engine):
    request = StopRequest()
    asked = jobs("training.steps=100000", "training.evaluate_every=1000", "training.log_every=100", "seed=1-3")

    class Stopper:
        def started(self, job): ...
        def stopping(self, running): ...
        def ended(self, job, outcome): ...

        def progress(self, job, step):
            if step >= 100:  # told by the worker
                request.signal = signal.SIGINT

    outcomes = run_jobs(asked, lambda: engine, 1, Stopper(), request)
    assert outcomes == {asked[0].trial.name: Outcome("stopped")}
    assert asked[0].run.status().state == "interrupted"
    assert asked[0].run.status().step >= 100
    assert not asked[1].run.path.exists()


def test_a_stop_request_does_not_wait_for_workers_that_never_come(jobs, tmp_path):
    request = StopRequest()

    class Stopper:
        def started(self, job): ...
        def stopping(self, running): ...
        def ended(self, job, outcome): ...

        def progress(self, job, step):
            request.signal = signal.SIGINT

    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as empty:
        asked = jobs("seed=1-2")
        outcomes = run_jobs(asked, lambda: make_engine(empty, tmp_path / "runs"), 2, Stopper(), request)
    assert list(outcomes.values()) == [Outcome("stopped")] * 2


def test_a_trial_that_somebody_else_is_at_work_on_or_has_done_is_not_sent(jobs, engine):
    mine, other = jobs("seed=1-2")
    run_trial(other)
    before = other.run.checkpoint("last").stat().st_mtime_ns
    with remote_lock(mine.run):
        found = engine.submit(None, (mine, other)).result(timeout=1)
    assert found == [Outcome("busy", "run 'e-seed_1' is being trained by another process"), Outcome("done")]
    assert run([mine, other], engine) == [Outcome("done")] * 2
    assert other.run.checkpoint("last").stat().st_mtime_ns == before


def test_what_a_worker_sent_is_checked(jobs, engine, monkeypatch):
    monkeypatch.setattr(dask_worker, "_holds", lambda probe, token: False)
    monkeypatch.setattr(dask_worker, "pack", lambda run: replace(pack(run), sha256="0" * 64))
    asked = jobs("seed=1")
    (outcome,) = run(asked, engine)
    assert outcome.state == "failed"
    assert "refused: its checksum does not match" in outcome.reason
    assert not asked[0].run.path.exists()


def test_plug_ins_are_sent_along(jobs, cluster, tmp_path, own_scores, monkeypatch):
    monkeypatch.setattr(dask_worker, "_plugins", {})
    file = tmp_path / "mine.py"
    file.write_text(
        "from seq2attn.model.scores import Score, register\n"
        '@register("mine", formula="s.h", equal_widths=True)\n'
        "class Mine(Score):\n    def forward(self, query, keys):\n        return query @ keys.mT\n"
    )
    seq2attn.config.plugins.load_plugin(file)
    asked = [replace(job, plugins=(str(file),)) for job in jobs("model.attention.score=mine")]
    engine = make_engine(cluster, tmp_path / "runs", [str(file)])
    for kind in seq2attn.parts.EXTENSIBLE:  # as in a worker that has not loaded it
        kind._entries.pop("mine", None)
    assert run(asked, engine) == [Outcome("done")]
    assert asked[0].run.plugins() == (str(file),)
    file.write_text(file.read_text() + "\n")
    (outcome,) = run([replace(asked[0], root=tmp_path / "two")], make_engine(cluster, tmp_path / "two", [str(file)]))
    assert "has changed since this worker loaded it\nStart the workers again" in outcome.reason


def test_another_version_on_a_worker_is_refused_at_the_start_and_later(jobs, cluster, tmp_path):
    engine = make_engine(cluster, tmp_path / "runs")
    engine.versions = {**dask_worker.versions(), "torch": "1.0"}
    found = torch.__version__.partition("+")[0]
    with pytest.raises(Seq2AttnError, match=rf"need seq2attn .* and torch 1\.0, and it has .* and torch {found}"):
        dask_engine._check_workers(engine.client, engine.versions)
    (outcome,) = run(jobs("seed=1"), engine)
    assert outcome.state == "failed"
    assert f"has torch {found}, and this comparison 1.0" in outcome.reason


def test_the_workers_of_a_local_cluster_do_not_profile_themselves(tmp_path, monkeypatch):
    def start(**options):
        raise OSError(f"profile: {dask.config.get('distributed.worker.profile.enabled')}")

    monkeypatch.setattr(distributed, "LocalCluster", start)
    with pytest.raises(OSError, match="profile: False"):
        dask_engine.open_dask(None, tmp_path)
    assert dask.config.get("distributed.worker.profile.enabled")  # for others, as it was


def test_a_worker_of_several_threads_is_refused():
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as made,
        distributed.Client(made, set_as_default=False) as client,
        pytest.raises(Seq2AttnError, match="has 2 threads; trials need worker processes of one thread each"),
    ):
        dask_engine._check_workers(client, dask_worker.versions())


def test_a_lost_scheduler_ends_the_comparison_with_a_sentence(jobs, engine, monkeypatch):
    (job,) = jobs("seed=1")
    with monkeypatch.context() as patch:
        patch.setattr(engine.client, "status", "connecting")
        with pytest.raises(EngineLost, match=r"is lost; finished trials are kept\nStart the scheduler"):
            run_jobs([job], lambda: engine, 1, request=StopRequest())


def test_no_scheduler_there(cli, tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(TINY)
    monkeypatch.setattr(dask_engine, "ANSWER", 0.2)
    done = cli("compare", "-c", "tiny.yaml", "--vary", "seed=1-2", "--executor", "dask:tcp://127.0.0.1:9")
    assert done.code == 1
    assert done.err.startswith("error: no Dask scheduler answers at tcp://127.0.0.1:9")


def test_dask_s_executor_works_too(jobs, cluster):
    asked = jobs("seed=1-2")
    with distributed.Client(cluster, set_as_default=False) as client:
        assert run(asked, client.get_executor(pure=False), at_once=2) == [Outcome("done")] * 2
