"""Trials on any Executor: resumed, failing alone, stopped, and never run twice."""

import contextlib
import json
import multiprocessing
import signal
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from inline import Inline

from seq2attn.comparison.experiment import Experiment
from seq2attn.comparison.grid import parse_vary
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.running import DIED, run_jobs
from seq2attn.comparison.trial import STOP_REQUEST, Job, Outcome, find_evaluation, run_trial
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.environment import TrialOf
from seq2attn.runs.loading import load_predictor, load_trained
from seq2attn.runs.lock import is_training, remote_lock, training_lock
from seq2attn.runs.making import create_run
from seq2attn.runs.records import steps_done
from seq2attn.runs.run import Run
from seq2attn.training import session
from seq2attn.training.loop import Trainer
from seq2attn.training.signals import StopRequest

TINY = """\
model: {hidden: 8, embedding: 4, initial_state: last, attention: {score: none}}
task: {alphabet: ab, max_length: 2}
training: {steps: 6, batch_size: 4, log_every: 1, evaluate_every: 6, validation_samples: 2, snapshots: 0}
evaluation: {samples: 4}
"""


class Deadly(Inline):
    """Its worker dies during the trials of one seed, which breaks all futures that are not done."""

    def __init__(self, seed, seen):
        super().__init__()
        self.seed, self.seen, self.pending, self.broken = seed, seen, [], False

    def submit(self, call, /, *arguments, **keywords):
        if self.broken:
            raise BrokenExecutor
        ((job,),) = arguments
        self.seen.append(job.trial.seed)
        future = Future()
        self.pending.append((future, job))
        if len(self.pending) == 2:  # two run side by side
            self.run()
        return future

    def run(self):
        self.broken = any(job.trial.seed == self.seed for _, job in self.pending)
        for future, job in self.pending:
            future.set_exception(BrokenExecutor()) if self.broken else future.set_result([run_trial(job)])
        self.pending.clear()


class Diary:
    """A display that records its calls."""

    def __init__(self):
        self.started_seeds, self.outcomes, self.steps = [], [], []

    def started(self, job):
        self.started_seeds.append(job.trial.seed)

    def progress(self, job, step):
        self.steps.append((job.trial.seed, step))

    def ended(self, job, outcome):
        self.outcomes.append((job.trial.seed, outcome.state))

    def stopping(self, running):
        self.outcomes.append(("stopping", running))


@pytest.fixture(autouse=True)
def in_a_fresh_worker(monkeypatch):
    monkeypatch.setattr("seq2attn.comparison.running.POLL", 0.01)
    monkeypatch.setattr("seq2attn.comparison.running.RETRY", 0.01)
    STOP_REQUEST.signal = None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker does
    yield
    torch.set_num_threads(threads)
    STOP_REQUEST.signal = None


@pytest.fixture
def jobs(tmp_path):
    """`jobs("seed=1-2", ...)` -> the jobs of that grid on a tiny config."""
    (tmp_path / "tiny.yaml").write_text(TINY)

    def make(*vary, **settings):
        experiment = Experiment("e", "test", {"tiny": tmp_path / "tiny.yaml"}, axes=tuple(map(parse_vary, vary)))
        plan = make_plan(replace(experiment, **settings), tmp_path / "runs")
        return [Job(trial, tmp_path / "runs", "cpu") for trial in plan.trials]

    return make


def run(jobs, executor=None, at_once=1):
    executor = executor or Inline()
    return run_jobs(jobs, lambda: executor, at_once, Diary())


def metrics(run, key):
    return [line[key] for line in map(json.loads, run.metrics_file.read_text().splitlines()) if key in line]


# ---- one trial ----


def test_a_trial_is_an_ordinary_run_with_its_evaluation(jobs):
    (job,) = jobs("seed=3")
    assert run_trial(job) == Outcome("done")
    assert job.run.config() == job.trial.config
    assert (job.run.status().state, job.run.status().step) == ("finished", 6)
    assert job.run.environment().experiment == TrialOf("e", "tiny", {})
    saved = find_evaluation(job.trial, job.root)
    assert list(saved.lengths) == [1, 2]
    assert saved.parameters["total"] == sum(
        parameter.numel() for parameter in load_predictor(job.run).model.parameters()
    )


def test_the_evaluation_equals_that_of_eval(jobs, cli, tmp_path):
    (job,) = jobs("seed=3", samples=50)
    run_trial(job)
    told = json.loads(cli("eval", job.trial.name, "--samples", "50", "--device", "cpu", "--json").out)
    assert told["rows"] == find_evaluation(job.trial, job.root).records()


def test_a_finished_trial_is_skipped(jobs):
    (job,) = jobs("seed=3")
    run_trial(job)
    before = {path: path.stat().st_mtime_ns for path in job.run.path.rglob("*")}
    assert run_trial(job) == Outcome("done")
    assert {path: path.stat().st_mtime_ns for path in job.run.path.rglob("*")} == before


def test_other_settings_are_measured_without_training_again(jobs):
    (job,) = jobs("seed=3")
    run_trial(job)
    trained = job.run.checkpoint("last").stat().st_mtime_ns
    for settings in ({"samples": 9}, {"lengths": (1, 5)}, {"checkpoint": "last"}):
        (other,) = jobs("seed=3", **settings)
        assert find_evaluation(other.trial, other.root) is None
        assert run_trial(other) == Outcome("done")
        assert find_evaluation(other.trial, other.root) is not None
    assert job.run.checkpoint("last").stat().st_mtime_ns == trained
    (fewer,) = jobs("seed=3", lengths=(5,))
    assert find_evaluation(fewer.trial, fewer.root) is not None


def test_an_evaluation_of_an_earlier_step_does_not_count(jobs):
    (job,) = jobs("seed=3")
    run_trial(job)
    (path,) = job.run.evaluations.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "trained_steps": 2}))
    (job.run.evaluations / "best-002.json").write_text("")  # its writer was killed
    assert find_evaluation(job.trial, job.root) is None
    assert run_trial(job) == Outcome("done")
    assert find_evaluation(job.trial, job.root).trained_steps == 6


@pytest.mark.parametrize("lock", [training_lock, remote_lock])
def test_a_trial_that_another_process_is_at_work_on_is_unchanged(jobs, lock):
    (job,) = jobs("seed=3")
    create_run(job.root, job.trial.name, job.trial.config, {}, exact=True)
    with lock(job.run):
        assert is_training(job.run)
        outcome = run_trial(job)
    assert outcome.state == "busy"
    assert "is being trained" in outcome.reason
    assert list(job.root.glob(".*")) == []
    assert not is_training(job.run)
    assert run_trial(job) == Outcome("done")


def test_a_trial_that_another_process_just_created_is_unchanged(jobs, monkeypatch):
    (job,) = jobs("seed=3")

    def check(*arguments):  # the last thing before the run is created
        create_run(job.root, job.trial.name, job.trial.config, {}, exact=True)

    with monkeypatch.context() as patch:
        patch.setattr(session, "check_plugins", check)
        assert run_trial(job).state == "busy"
    assert run_trial(job) == Outcome("done")


def test_a_trial_that_another_process_is_at_work_on_is_waited_for(jobs):
    asked = jobs("seed=1-3")
    create_run(asked[0].root, asked[0].trial.name, asked[0].trial.config, {}, exact=True)

    class Other(Diary):
        """Holds the lock of the first trial until the others are done."""

        def ended(self, job, outcome):
            super().ended(job, outcome)
            if self.outcomes.count((2, "done")) + self.outcomes.count((3, "done")) == 2:
                lock.close()

    diary = Other()
    with contextlib.ExitStack() as lock:
        lock.enter_context(training_lock(asked[0].run))
        outcomes = run_jobs(asked, Inline, 1, diary)
    assert set(outcomes.values()) == {Outcome("done")}
    assert diary.outcomes == [(1, "busy"), (2, "done"), (3, "done"), (1, "done")]


def test_a_run_with_another_config_created_meanwhile_is_unchanged(jobs):
    (job,) = jobs("seed=3")
    other = job.trial.config.model_copy(update={"seed": 4})
    create_run(job.root, job.trial.name, other, {}, exact=True)
    outcome = run_trial(job)
    assert outcome.state == "failed"
    assert "has another config" in outcome.reason
    assert not job.run.has_checkpoint


def test_an_error_becomes_the_outcome(jobs, monkeypatch):
    diverging, broken = jobs("training.learning_rate=1e38,0.01")
    outcome = run_trial(diverging)
    assert outcome.state == "failed"
    assert "training diverged at step" in outcome.reason

    def fail(self, *arguments, **options):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Trainer, "train", fail)
    outcome = run_trial(broken)
    assert outcome.state == "failed"
    assert outcome.reason.startswith("RuntimeError: a mistake of ours (traceback: ")
    assert "in fail" in (broken.run.path / "failure.txt").read_text()


def test_a_stopped_trial_is_saved_and_continues_later(jobs, monkeypatch):
    (whole,), (stopped,) = jobs("seed=3"), jobs("seed=3", name="f")
    run_trial(whole)

    class Impatient(session.Display):
        def step(self, trial, step, text):
            if step == 3:
                STOP_REQUEST.signal = signal.SIGTERM

    with monkeypatch.context() as patch:
        patch.setattr(session, "Display", Impatient)
        assert run_trial(stopped) == Outcome("stopped")
    assert (stopped.run.status().state, stopped.run.status().step) == ("interrupted", 3)
    assert run_trial(stopped) == Outcome("stopped")  # still asked to
    STOP_REQUEST.signal = None
    assert run_trial(stopped) == Outcome("done")
    assert metrics(stopped.run, "loss") == metrics(whole.run, "loss")
    assert stopped.run.checkpoint("last").read_bytes()[-1000:] == whole.run.checkpoint("last").read_bytes()[-1000:]


def test_a_trial_stopped_before_it_starts_leaves_nothing(jobs):
    (job,) = jobs("seed=3")
    STOP_REQUEST.signal = signal.SIGTERM
    assert run_trial(job) == Outcome("stopped")
    assert not job.root.exists()


def test_a_trial_stopped_while_it_is_measured_is_measured_later(jobs, monkeypatch):
    (job,) = jobs("seed=3")

    def load(*arguments):
        STOP_REQUEST.signal = signal.SIGTERM
        return load_trained(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("seq2attn.runs.loading.load_trained", load)
        assert run_trial(job) == Outcome("stopped")
    assert job.run.status().state == "finished"
    assert find_evaluation(job.trial, job.root) is None
    STOP_REQUEST.signal = None
    assert run_trial(job) == Outcome("done")


def test_a_trial_whose_best_checkpoint_is_gone_is_not_measured_with_another(jobs):
    (job,) = jobs("seed=3")
    assert run_trial(job) == Outcome("done")
    (saved,) = job.run.evaluations.iterdir()
    saved.unlink()
    job.run.checkpoint("best").unlink()
    outcome = run_trial(job)
    assert (outcome.state, outcome.reason) == ("failed", f"{job.run.checkpoint('best')}: no such checkpoint")
    assert list(job.run.evaluations.iterdir()) == []


def loky_executor():
    loky = pytest.importorskip("loky", reason="loky is not installed")
    return loky.ProcessPoolExecutor(1)


def process_pool():
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


@pytest.mark.parametrize("executor", [Inline, process_pool, pytest.param(loky_executor, marks=pytest.mark.slow)])
def test_any_standard_executor_works(jobs, executor):
    asked = jobs("seed=1-3")
    diary = Diary()
    outcomes = run_jobs(asked, executor, 2, diary)
    assert outcomes == {job.trial.name: Outcome("done") for job in asked}
    assert diary.started_seeds == [1, 2, 3]
    assert sorted(diary.outcomes) == [(1, "done"), (2, "done"), (3, "done")]
    assert all(find_evaluation(job.trial, job.root) for job in asked)


def test_an_executor_of_threads_is_refused(jobs):
    with pytest.raises(Seq2AttnError, match=r"threads of one process.* found ThreadPoolExecutor\nUse processes"):
        run_jobs(jobs("seed=1"), lambda: ThreadPoolExecutor(1), 1)
    assert not jobs("seed=1")[0].root.exists()


def test_an_exception_of_the_executor_fails_the_trial_alone(jobs):
    class Forgetful(Inline):
        def submit(self, call, /, *arguments, **keywords):
            future = super().submit(call, *arguments, **keywords)
            if arguments[0][0].trial.seed == 2:
                future = Future()
                future.set_exception(OSError("the result is lost"))
            return future

    outcomes = run(jobs("seed=1-3"), Forgetful())
    assert list(outcomes.values()) == [
        Outcome("done"),
        Outcome("failed", "OSError: the result is lost"),
        Outcome("done"),
    ]


def test_an_executor_that_cannot_cancel_is_shut_down_without(jobs):
    class Short(Inline):
        def shutdown(self, wait=True):  # as those of loky and Dask
            super().shutdown(wait)

    executor = Short()
    assert run(jobs("seed=1"), executor) == {jobs("seed=1")[0].trial.name: Outcome("done")}
    assert executor.shut == [False]


def test_at_most_so_many_trials_run_at_once(jobs):
    class Slow(Inline):
        running = most = 0

        def submit(self, call, /, *arguments, **keywords):
            self.running += 1
            self.most = max(self.most, self.running)
            future = Future()

            waiting.append((future, arguments, call))
            return future

    waiting = []
    executor = Slow()

    class Finisher(Diary):
        def progress(self, job, step):  # called while others run: finish the oldest
            future, arguments, call = waiting.pop(0)
            executor.running -= 1
            future.set_result(call(*arguments))

    assert len(run_jobs(jobs("seed=1-5"), lambda: executor, 2, Finisher())) == 5
    assert executor.most == 2


def test_a_trial_that_fails_does_not_stop_the_others(jobs):
    asked = jobs("training.learning_rate=0.01,1e38", "seed=1-2")
    outcomes = run(asked)
    assert [outcomes[job.trial.name].state for job in asked] == ["done", "done", "failed", "failed"]


def test_a_trial_that_kills_its_process_is_the_only_one_to_fail(jobs):
    asked, seen, made = jobs("seed=1-4"), [], []

    def make():
        made.append(Deadly(3, seen))
        return made[-1]

    class Closer(Diary):
        def progress(self, job, step):  # nobody runs beside it: finish it
            if made[-1].pending:
                made[-1].run()

    diary = Closer()
    outcomes = run_jobs(asked, make, 2, diary)
    states = {job.trial.seed: outcomes[job.trial.name].state for job in asked}
    assert states == {1: "done", 2: "done", 3: "failed", 4: "done"}
    assert outcomes[asked[2].trial.name].reason == DIED
    assert seen == [1, 2, 3, 4, 3, 4]  # those that ran when it died, one by one
    assert len(made) == 3


def test_a_stop_request_prevents_new_submissions(jobs):
    request = StopRequest()
    executor = Inline()

    class Stopper(Diary):
        def ended(self, job, outcome):
            super().ended(job, outcome)
            request.signal = signal.SIGINT

    asked = jobs("seed=1-5")
    outcomes = run_jobs(asked, lambda: executor, 1, Stopper(), request)
    assert list(outcomes) == [asked[0].trial.name]
    assert executor.shut == [True]  # asks what runs to stop
    assert run(asked[1:2], executor) == {asked[1].trial.name: Outcome("done")}
    assert executor.shut == [True, False]


def test_a_stop_request_waits_for_running_trials(jobs):
    class Patient(Inline):
        def submit(self, call, /, *arguments, **keywords):
            self.future = Future()
            request.signal = signal.SIGTERM
            return self.future

        def shutdown(self, wait=True, *, cancel_futures=False):
            assert wait and cancel_futures
            self.future.set_result([Outcome("stopped")])  # it has saved

    request, executor, diary = StopRequest(), Patient(), Diary()
    asked = jobs("seed=1-2")
    assert run_jobs(asked, lambda: executor, 1, diary, request) == {asked[0].trial.name: Outcome("stopped")}
    assert diary.outcomes == [("stopping", 1), (1, "stopped")]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("", 0),
        ('{"step": 10, "loss": 1.0}\n', 10),
        ('{"step": 10}\n{"step": 20, "evaluation": []}\n', 20),
        ('{"step": 10}\n{"step": 2', 10),
        ("x" * 100_000 + '"}\n{"step": 30}\n', 30),
        ("garbage\n[1]\n", 0),
    ],
)
def test_the_steps_done_are_read_from_the_metrics(tmp_path, text, step):
    run = Run(Path(tmp_path))
    assert steps_done(run) == 0
    run.metrics_file.write_text(text)
    assert steps_done(run) == step
