"""Trials on any Executor: resumed, failing alone, stopped, and never run twice."""

import contextlib
import signal
import threading
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from inline import Inline, change_json, process, read, read_json, write
from outcomes import metrics, same_tensors
from refusal import refused
from test_comparison_cli import TINY

import seq2attn
from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import make_plan
from seq2attn.comparison.run import DIED, LOST
from seq2attn.comparison.trial import (
    Outcome,
    WorkerContext,
    find_evaluation,
    train_and_measure,
    versions,
)
from seq2attn.display.console import Display
from seq2attn.runs.create import NewRun, create_run, package_checksum
from seq2attn.runs.run import Run, is_training, training_lock
from seq2attn.training.loop import Trainer
from seq2attn.training.recorder import Recorder

DONE = Outcome("done")


def failed(error):
    """A future whose call has failed."""
    future = Future()
    future.set_exception(error)
    return future


@pytest.fixture(autouse=True)
def work(here, trials_here):
    write(here / "tiny.yaml", TINY)


def compare(*vary, executor=Inline, **options):
    options = {"name": "e", "workers": 1, "device": "cpu", **options}
    return seq2attn.compare(configs=["tiny.yaml"], vary=vary, executor=executor, **options)


def run(seed):
    return Run(Path("runs", f"e-seed_{seed}"))


def times(of):
    files = of.path.rglob("*")  # an old filelock touches its file
    return {path: path.stat().st_mtime_ns for path in files if path.suffix != ".lock"}


@pytest.fixture
def trial():
    """A trial, its run not yet made, and its workplace, as a worker gets them."""
    experiment = compose_experiment(None, [Path("tiny.yaml")], ["seed=3"], name="e")
    (made,) = make_plan(experiment, Path("runs")).trials
    marker = Path("runs/.comparison")
    marker.parent.mkdir()
    marker.touch()
    return made, WorkerContext(marker, "cpu", {}, versions(), {})


# ---- one trial ----


def test_a_trial_is_an_ordinary_run_with_the_evaluation_of_eval(cli):
    found = compare("seed=3", samples=50)
    own = run(3)
    assert (own.status().state, own.status().step) == ("finished", 6)
    assert (own.config.seed, own.environment.experiment) == (3, "e")
    (measured,) = found.groups[0].trials
    model = seq2attn.load("e-seed_3")
    assert measured.parameters == sum(one.numel() for one in model.module.parameters())
    told = cli("eval e-seed_3 --samples 50 --device cpu --json").json
    assert told["rows"] == read_json(own.evaluations / "best-001.json")["rows"]


def test_a_finished_trial_is_not_touched_and_other_settings_are_measured_without_training(trial):
    made, place = trial
    assert train_and_measure(made, place) == DONE
    before = times(made.run)
    assert train_and_measure(made, place) == DONE
    assert times(made.run) == before
    for settings in ({"samples": 9}, {"lengths": (1, 5)}, {"checkpoint": "last"}):
        assert train_and_measure(replace(made, **settings), place) == DONE
    assert len(list(made.run.evaluations.iterdir())) == 4
    assert find_evaluation(replace(made, lengths=(1, 5))).lengths == [1, 5]
    assert find_evaluation(replace(made, lengths=(5,))) is None
    after = times(made.run)
    weights = [path for path in before if path.suffix == ".safetensors"]
    assert all(after[path] == before[path] for path in weights)


def test_an_evaluation_of_an_earlier_step_does_not_count(trial):
    made, place = trial
    train_and_measure(made, place)
    (path,) = made.run.evaluations.iterdir()
    change_json(path, trained_steps=2)
    (made.run.evaluations / "best-002.json").write_text("")  # its writer was killed
    assert train_and_measure(made, place) == DONE
    assert read_json(made.run.evaluations / "best-002.json")["trained_steps"] == 6


def test_what_cannot_be_trained_or_measured_is_an_outcome(trial, monkeypatch):
    made, place = trial
    create_run(NewRun(made.root, "other"), made.config.model_copy(update={"seed": 4}), {})
    outcome = train_and_measure(replace(made, name="other"), place)  # made meanwhile
    assert outcome.state == "failed"
    assert "another config: seed is 3, and 4 in the run" in outcome.reason
    assert not Run(made.root / "other").has_checkpoint

    train_and_measure(made, place)
    (saved,) = made.run.evaluations.iterdir()
    saved.unlink()
    made.run.checkpoint("best").unlink()
    assert train_and_measure(made, place) == Outcome(
        "failed", f"{made.run.checkpoint('best')}: no such checkpoint"
    )
    assert list(made.run.evaluations.iterdir()) == []

    monkeypatch.setattr(Trainer, "train", lambda *_: 1 / 0)
    outcome = train_and_measure(replace(made, name="mistake"), place)
    assert outcome == Outcome("failed", "ZeroDivisionError: division by zero")

    def hungry(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(Trainer, "train", hungry)
    outcome = train_and_measure(replace(made, name="large"), place)
    assert outcome.reason.startswith("out of memory: OutOfMemoryError: CUDA out of memory. Tried")
    assert "Make model.hidden, training.batch_size or the strings smaller" in outcome.reason


@pytest.mark.parametrize("content", [b"stop", None])  # asked to stop; the comparison ended
def test_a_stopped_trial_is_saved_and_continues_later(trial, monkeypatch, content):
    monkeypatch.setattr("seq2attn.comparison.trial.STOP_SECONDS", 0)
    made, place = trial
    whole = replace(made, name="whole")
    record = Recorder.step
    train_and_measure(whole, place)

    def stop_at_the_third(self, step, values):
        record(self, step, values)
        if step == 3:
            place.marker.unlink() if content is None else place.marker.write_bytes(content)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "step", stop_at_the_third)
        assert train_and_measure(made, place) == Outcome("stopped")
    assert made.run.status().state == "interrupted"
    assert made.run.status().step == 3
    place.marker.write_bytes(b"stop")
    assert train_and_measure(made, place) == Outcome("stopped")  # still asked to
    place.marker.write_bytes(b"")
    assert train_and_measure(made, place) == DONE
    assert metrics(made.run) == metrics(whole.run)
    same_tensors(made.run, whole.run)


def test_each_trial_checks_where_it_is_run(trial, tmp_path, own_scores):
    def refused(**changed):
        outcome = train_and_measure(trial[0], replace(trial[1], **changed))
        assert (outcome.state, outcome.worker) == ("failed", "")  # only Dask leaves a worker out
        assert not trial[0].run.path.exists()
        return outcome.reason

    folder = tmp_path / "nowhere"
    assert refused(marker=folder / "m") == f"its worker does not see the runs directory, {folder}"
    code = package_checksum()
    assert len(code) == 8
    other = versions().replace(code, "of another commit")
    assert f"its worker has {versions()}, and the comparison {other}: install" in refused(
        versions=other
    )
    assert f"{folder / 'p.py'}: no such Python file" in refused(plugins={folder / "p.py": ""})
    plugin = tmp_path / "plugin_of_a_trial.py"
    mine = "@register('mine')\nclass M(Score):\n    def forward(self): ...\n"
    plugin.write_text(f"from seq2attn import Score, register\n{mine}")
    assert f"{plugin} has changed since the comparison" in refused(plugins={plugin: "another"})


def test_two_threads_of_a_process_do_not_run_trials_at_once(trial):
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(train_and_measure, *zip(trial, trial, strict=True)))
    done, failed = sorted(outcomes, key=lambda outcome: outcome.state)
    assert done == Outcome("done")
    assert "another trial in another thread: a worker needs one thread" in failed.reason


def test_runs_of_other_code_in_one_table_are_said(capsys):
    compare("seed=1")
    file = run(1).path / "environment.json"
    file.write_text(read(file).replace(package_checksum(), "0" * 8))
    compare("seed=1-2", progress=True)
    assert "1 of the runs were made by other code of seq2attn than this" in capsys.readouterr().err
    compare("seed=2-3", progress=True)
    assert "other code" not in capsys.readouterr().err


# ---- many ----


def test_a_trial_that_another_process_trains_is_left_to_it_and_named():
    compare("seed=1")
    create_run(NewRun(Path("runs"), "e-seed_2"), run(1).config.model_copy(update={"seed": 2}), {})
    with training_lock(run(2)):
        assert is_training(run(2))
        found = compare("seed=1-3")
    assert found.busy == ("e-seed_2",)
    assert "trained by other processes, and shown once they are done: e-seed_2" in repr(found)
    assert found.failed == {}
    assert [trial.seed for trial in found.groups[0].trials] == [1, 3]
    assert compare("seed=1-3").busy == ()


def test_a_failing_trial_and_a_lost_result_do_not_stop_the_others():
    class Forgetful(Inline):
        def submit(self, call, /, trial, place):
            future = super().submit(call, trial, place)
            lost = trial.config.seed == 2
            return failed(OSError("the result is lost")) if lost else future

    found = compare("training.learning_rate=0.01,1e38", "seed=1-2", executor=Forgetful)
    reasons = list(found.failed.values())
    assert len(reasons) == 3
    assert reasons.count("OSError: the result is lost") == 2
    assert sum("training diverged at step" in reason for reason in reasons) == 1
    assert len(found.groups) == 1
    for shown in (repr(found), found._repr_html_()):
        assert "3 of 4 trials failed, the first of them e-" in shown
    with refused(r"2 of 2 trials failed(.|\n)*training diverged at step"):  # without any result
        compare("training.learning_rate=1e38", "seed=1-2")


def test_workers_that_end_as_soon_as_they_are_started_end_the_comparison_with_a_sentence():
    class Stillborn(Inline):
        def submit(self, call, /, *arguments):
            started.append(call)
            self.submit = broken
            return failed(BrokenExecutor())

    def broken(*_):
        raise BrokenExecutor

    started = []
    with refused(r'no trial can run(.|\n)* below the line: if __name__ == "__main__":'):
        compare("seed=1-9", executor=Stillborn)
    assert len(started) == 2  # a trial, and then whether a worker starts at all


@pytest.mark.slow
def test_a_script_without_the_guard_is_told_about_it(tmp_path):
    call = 'seq2attn.compare(configs="tiny.yaml", vary="seed=1-2", workers=1, device="cpu")'
    write(tmp_path / "script.py", f"import seq2attn\n{call}\n")
    done = process(tmp_path, "script.py")
    assert done.code == 1
    assert done.err.count("no trial can run") == 1
    assert not list(Path("runs").glob("*/"))


class Slow(Inline):
    """Its calls wait: each is a future, and what gives its result."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def submit(self, call, /, *arguments):
        self.waiting.append((Future(), call, *arguments))
        return self.waiting[-1][0]


def test_at_most_so_many_trials_run_at_once(monkeypatch):
    def finish_the_oldest(running, **options):
        numbers.append(len(slow.waiting))
        future, call, *arguments = slow.waiting.pop(0)
        future.set_result(call(*arguments))

    slow, numbers = Slow(), []
    monkeypatch.setattr("concurrent.futures.wait", finish_the_oldest)
    assert len(compare("seed=1-3", executor=lambda: slow, workers=2).groups[0].trials) == 3
    assert numbers == [2, 2, 1]


PAIRS = """\
task: {name: pairs, train: words.tsv, dev: words.tsv}
model: {hidden: 8, embedding: 4}
training: {epochs: 6, batch_size: 1, snapshots: 0}
"""


def test_the_bar_of_all_trials_counts_the_steps_of_those_that_run(monkeypatch):
    steps = 12  # in 6 epochs

    class Recorded(Display):
        def begin(self, trial, total, text=""):
            shown.append((trial, total))

        def step(self, trial, step, text=""):
            shown.append((trial, step, text))

    def wait(running, **_):
        future, call, trial, context = slow.waiting[0]
        if trial.run.path.exists():
            slow.waiting.pop()
            future.set_result(call(trial, context))
            return
        create_run(NewRun(trial.root, trial.name), trial.config, {}, {"files": {}})
        trial.run.status_file.write_text(f'{{"step": {steps // 2}, "steps": {steps}}}')

    slow, shown = Slow(), []
    write("tiny.yaml", PAIRS)
    write("words.tsv", "a\tb\nb\ta\n")
    monkeypatch.setattr("concurrent.futures.wait", wait)
    monkeypatch.setattr("seq2attn.comparison.run.make_display", lambda _: Recorded())
    with contextlib.suppress(seq2attn.Seq2AttnError):  # it has no such files
        compare("seed=1-2", executor=lambda: slow)
    half = f"step {steps // 2}"
    assert [call for call in shown if call[0] != "all trials"] == [
        ("e-seed_1", 1),
        ("e-seed_1", 0.5, half),
        ("e-seed_2", 1),
        ("e-seed_2", 0.5, half),
    ]
    assert [call[1] for call in shown if call[0] == "all trials"] == [2, 0.5, 1, 1.5, 2]


class Mortal(Slow):
    broken = False

    def submit(self, call, /, *arguments):
        if self.broken:
            raise BrokenExecutor
        # without arguments, whether it runs anything at all
        return super().submit(call, *arguments) if arguments else Inline.submit(self, call)


def test_a_trial_that_kills_its_process_is_the_only_one_to_fail(monkeypatch):
    """A process that dies during the trial of seed 3 breaks all futures of its executor."""

    def wait(running, **options):
        mortal = made[-1]
        ran.append({trial.config.seed for trial in running.values()})
        mortal.broken = 3 in ran[-1]
        for future, call, *arguments in mortal.waiting:
            if mortal.broken:
                future.set_exception(BrokenExecutor())
            else:
                future.set_result(call(*arguments))
        mortal.waiting.clear()

    made, ran = [], []
    monkeypatch.setattr("concurrent.futures.wait", wait)
    found = compare("seed=1-4", executor=lambda: made.append(Mortal()) or made[-1], workers=2)
    assert found.failed == {"e-seed_3": DIED.reason}
    assert [trial.seed for trial in found.groups[0].trials] == [1, 2, 4]
    assert ran == [{1, 2}, {3, 4}, {4}, {3}]  # those that ran when it died, one by one
    assert len(made) == 2  # another was made after the break


def test_a_signal_starts_nothing_more_and_waits_for_what_runs():
    class Patient(Inline):
        def submit(self, call, /, trial, place):
            self.future = Future()
            self.place = place
            self.future.set_running_or_notify_cancel()
            threading.Thread(target=self.save).start()
            signal.raise_signal(signal.SIGINT)
            return self.future

        def save(self):
            while self.place.marker.read_bytes() != b"stop":
                pass
            self.future.set_result(Outcome("stopped"))

    with pytest.raises(KeyboardInterrupt, match="the same call continues"):
        compare("seed=1-2", executor=Patient)
    assert not list(Path("runs").glob("*/"))
    assert len(compare("seed=1-2").groups[0].trials) == 2


def test_an_executor_that_is_lost_ends_the_comparison_with_a_sentence():
    class Lost(Inline):
        def submit(self, call, /, *arguments):
            future = Future()
            future.cancel()
            return future

    with refused(LOST):
        compare("seed=1-2", executor=Lost)
    assert not list(Path("runs").glob("*/"))


@pytest.mark.slow
def test_eight_jobs_share_one_comparison():
    words = "-m seq2attn compare -c tiny.yaml --vary seed=1-24 --name e --workers 1"
    with ThreadPoolExecutor(8) as threads:
        for ended in threads.map(process, 8 * ["."], 8 * [words]):
            ended.check()
    found = compare("seed=1-24", executor=None)
    assert len(found.groups[0].trials) == 24
    assert found.busy == ()
    for seed in range(1, 25):
        assert ["loss" in line for line in metrics(run(seed))].count(True) == 6  # each step once
        assert len(list(run(seed).evaluations.iterdir())) == 1
