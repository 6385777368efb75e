import math
import os
import random
import shutil
import signal
from unittest import mock

import measured
import pytest
import torch
import yaml
from inline import HANDLERS
from models import CPU
from outcomes import accumulated, events, metrics, same_outcome, step_of, weights
from refusal import refused
from tables import slow, table

import seq2attn
from seq2attn.build import build_model, build_task, build_training_data
from seq2attn.config import check_config
from seq2attn.inference.trained_model import load_run
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.create import NewRun, create_run
from seq2attn.runs.run import Run, read_attention
from seq2attn.training import loop as trainer_module
from seq2attn.training.loop import Diverged, Trainer
from seq2attn.training.signals import stop_on_signals
from seq2attn.training.step import learning_rate, snapshot_steps

STEPS = 10  # evaluations, each with a checkpoint, after steps 4, 8 and 10
TINY = """
task: {alphabet: abcdehlo, max_length: 3}
model: {hidden: 8, embedding: 4}
training: {steps: 10, batch_size: 4, log_every: 1, evaluate_every: 4, validation_samples: 2,
  snapshots: 1, watched: a}
"""


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals() as request:
        os.kill(os.getpid(), signal.SIGHUP)
    assert request.signal is None
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def configured(changes=""):
    return check_config(yaml.safe_load(TINY), changes.split())


CONFIG = configured()


class Watcher:
    """A display that does something at one moment."""

    def __init__(self, moment=None, act=None):
        self.moment = moment
        self.act = act
        self.steps = []
        self.evaluations = []

    def step(self, trial, step, text):
        self.steps.append(step)
        if self.moment in ("step", ("step", step)):
            self.act()

    def say(self, text):
        step = int(text.partition(":")[0].removeprefix("step "))
        self.evaluations.append(step)
        if self.moment == ("evaluation", step):
            self.act()


class Signalled(Trainer):
    """A trainer that a signal stops, as `session.train` does."""

    def train(self):
        with stop_on_signals() as request:
            super().train(request.is_set)
        return None if self.finished else request.signal


def start(root, config=CONFIG, display=None):
    return go_on(create_run(NewRun(root, "tiny", exact=False), config, {}), config, display)


def go_on(run, config=CONFIG, display=None):
    data = build_training_data(config, CPU)
    return Signalled(run, config, build_model(config), CPU, display or Watcher(), data)


def trained(root, config=CONFIG, display=None):
    trainer = start(root, config, display)
    trainer.train()
    return trainer


def send(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.fixture(autouse=True, scope="module")
def formulas_alone():
    """Nothing is proven; `test_changes` and the fault tests train with the kernels."""
    with mock.patch("seq2attn.training.step.faster_form", return_value=None):
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A run that nothing disturbed."""
    return trained(tmp_path_factory.mktemp("reference")).run


@pytest.fixture(scope="module")
def often_watched(tmp_path_factory):
    """A run with five evenly spaced snapshots of the task's own strings."""
    config = configured("training.snapshots=5 training.watched=null")
    return trained(tmp_path_factory.mktemp("watched"), config).run


# ---- what a run leaves behind ----


def test_metrics_hold_each_logged_step_and_each_evaluation(reference):
    lines = metrics(reference)
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, STEPS + 1))
    evaluations = [line for line in lines if "evaluation" in line]
    assert [line["step"] for line in evaluations] == [4, 8, 10]
    rows = [one for one in evaluations[-1]["evaluation"] if one["metric"] == "entropy"]
    assert [one["length"] for one in rows] == [1, 2, 3]
    status = reference.status()
    assert (status.state, status.step, status.steps) == ("finished", STEPS, STEPS)
    assert (status.task, status.score, status.seed) == ("reverse", "scaled", 1)
    assert step_of(reference) == STEPS
    assert status.attention_entropy == pytest.approx(sum(one["value"] for one in rows) / 3)


def test_tensorboard_holds_everything_that_was_measured(reference):
    found = {tag: dict(values) for tag, values in events(reference).items()}
    for tag in ("main/exact_match_worst", "main/exact_match_mean", "validation/attention_entropy"):
        assert list(found[tag]) == [4, 8, 10]
    *first, other = sorted(found)[:4]
    assert first == ["main/exact_match_mean", "main/exact_match_worst", "main/loss"]
    assert not other.startswith("main/")
    for line in metrics(reference):
        for name, value in line.items():
            if "loss" in line and name != "step":
                at = found[f"{'main' if name == 'loss' else 'train'}/{name}"]
                assert at[line["step"]] == pytest.approx(value, rel=1e-6)
        for one in line.get("evaluation", ()):
            at = found[f"validation_{one['metric']}/{one['length']:03d}"]
            assert at[line["step"]] == pytest.approx(one["value"], rel=1e-6)
            most = math.log(one["length"] + 1) + 1e-6  # <eos> is a column too
            assert one["metric"] != "entropy" or 0 < one["value"] <= most
    speeds = accumulated(reference).Scalars("train/tokens_per_second")
    assert [event.step for event in speeds] == list(range(1, STEPS + 1))
    assert all(0 < event.value < math.inf for event in speeds)


def test_attention_maps_are_recorded(often_watched):
    read = read_attention(often_watched)
    assert [step for step, _ in read] == [0, 1, *range(2, 11, 2)]
    for _, (middle, longest) in read:
        assert (middle.ideal, longest.ideal) == ((1, 0), (2, 1, 0))
        for one in (middle, longest):
            assert "".join(one.output_symbols).removesuffix("<eos>") == one.output
    assert len({(middle.source, longest.source) for _, (middle, longest) in read}) == 1


@table(
    "steps, count, taken",
    """
1200 | 20 | [0, 1, 2, 4, 8, 16, 32, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 660, 720, 780,
  840, 900, 960, 1020, 1080, 1140, 1200]
95 | 10 | [0, 1, 2, 4, 8, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95]
64 | 4 | [0, 1, 2, 4, 8, 16, 32, 48, 64]
3 | 20 | [0, 1, 2, 3]
1000 | 1 | [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
100 | 0 | []
""",
    "steps count taken",
)
def test_snapshots_are_early_and_then_evenly_spaced(steps, count, taken):
    assert sorted(snapshot_steps(steps, count)) == taken


def test_weights_are_kept_with_each_snapshot_on_request(tmp_path, reference):
    run = trained(tmp_path, configured("training.snapshots=2 training.snapshot_weights=true")).run
    assert run.kept_steps() == [0, 1, 2, 4, 5, 10]
    untrained, first, last = (
        load_checkpoint(run.checkpoint(f"step-{step}")).part("model.") for step in (0, 5, 10)
    )
    for name, tensor in build_model(CONFIG, build_task(CONFIG)).state_dict().items():
        assert torch.equal(untrained.pop(name), tensor)
        assert not torch.equal(first[name], last[name])
    assert not untrained
    assert weights(run, "step-10")[0].items() <= weights(run)[0].items()
    assert weights(run)[0] == weights(reference)[0]  # training does not notice
    assert load_run(run, "step-5").step == 5
    with refused("unknown checkpoint 'step-9'; allowed: best, last, step-0, step-1, step-2"):
        load_run(run, "step-9")
    assert reference.kept_steps() == []
    with refused("allowed: best, last") as caught:
        load_run(reference, "step-5")
    assert "training.snapshot_weights=true" in caught.value.hint


def test_the_config_says_what_is_watched_and_how_often_the_loss_is_logged(tmp_path):
    watcher = Watcher()
    config = configured("training.watched=[ab,c,ab] training.log_every=3")
    run = trained(tmp_path, config, watcher).run
    assert [[one.source for one in maps] for _, maps in read_attention(run)] == 6 * [["ab", "c"]]
    assert watcher.steps == [3, 6, 9, 10]  # from the first step
    assert watcher.evaluations == [4, 8, 10]
    assert [line["step"] for line in metrics(run) if "loss" in line] == [3, 6, 9, 10]


def test_a_target_that_is_reached_early_is_recorded(tmp_path, monkeypatch):
    scripted(monkeypatch, [([1.0], 1.0)])
    run = trained(tmp_path, configured("training.target=1 training.snapshots=1")).run
    assert [step for step, _ in read_attention(run)] == [0, 1, 2, 4]


# ---- determinism ----


def test_training_leaves_the_global_generators_alone(tmp_path):
    before = torch.get_rng_state(), random.getstate()
    trained(tmp_path, configured("training.steps=2"))
    assert torch.get_rng_state().equal(before[0])
    assert random.getstate() == before[1]


# ---- stopping and resuming ----


def test_a_run_that_signals_stopped_is_resumed_bit_identically(reference, tmp_path):
    run = None
    for stop, number in zip((1, 4, 7), HANDLERS, strict=True):
        watcher = Watcher(("step", stop), send(number))
        trainer = go_on(run, CONFIG, watcher) if run else start(tmp_path, CONFIG, watcher)
        run = trainer.run
        assert trainer.train() == number
        assert watcher.steps[-1] == stop
        assert run.status().state == "interrupted"
        assert run.status().step == step_of(run) == stop
    resumed = go_on(run)
    assert resumed.progress.step == stop
    assert resumed.train() is None
    assert {one: signal.getsignal(one) for one in HANDLERS} == HANDLERS
    same_outcome(run, reference)


def crash(run, folder):
    """The directory of `run` as a power cut leaves it now, with what was half written."""
    shutil.copytree(run.path, folder)
    for name, half in (("metrics", '"loss": 0.5'), ("attention", '"maps": []')):
        with (folder / f"{name}.jsonl").open("a") as file:
            file.write(f'{{"step": 777, {half}}}\n{{"step": 778, {half[:3]}')
    for file in list(folder.glob("events.out.*")):
        with file.open("ab") as opened:
            opened.write(b"\x18\0\0\0\0\0\0\0half a record")
        shutil.copy(file, folder / "events.out.tfevents.9999999999.later.1.0")


@pytest.mark.parametrize(
    "moment, checkpoint",
    [
        slow(("step", 2), 0),
        (("step", 6), 4),
        (("evaluation", 8), 8),
    ],
)
def test_a_crashed_run_resumes_from_its_last_checkpoint(reference, tmp_path, moment, checkpoint):
    copy = tmp_path / "crashed/tiny-001"
    trainer = start(
        tmp_path, CONFIG, Watcher(moment, lambda: (crash(trainer.run, copy), send(signal.SIGINT)()))
    )
    trainer.train()
    resumed = go_on(Run(copy))
    assert resumed.progress.step == checkpoint
    resumed.train()
    same_outcome(Run(copy), reference)


def test_records_that_somebody_shortened_are_not_filled_up(tmp_path):
    trainer = start(tmp_path, CONFIG, Watcher(("step", 6), send(signal.SIGINT)))
    trainer.train()
    file = trainer.run.metrics_file
    file.write_text(file.read_text().partition("\n")[0] + "\n")
    go_on(trainer.run).train()
    steps = [line["step"] for line in metrics(trainer.run)]
    assert steps[0] == 1
    assert min(steps[1:]) == 7


def test_a_run_stopped_before_its_first_step_can_be_resumed(reference, tmp_path):
    trainer = start(tmp_path)
    Trainer.train(trainer, should_stop=lambda: True)
    assert trainer.progress.step == 0
    go_on(trainer.run).train()
    assert weights(trainer.run) == weights(reference)


def test_a_second_signal_acts_immediately(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    watcher = Watcher(("step", 6), lambda: (send(signal.SIGINT)(), send(signal.SIGINT)()))
    trainer = start(tmp_path, CONFIG, watcher)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert signal.getsignal(signal.SIGINT) is before
    assert step_of(trainer.run) == 4


def test_a_signal_in_the_last_evaluation_finds_a_finished_run(tmp_path):
    trainer = start(tmp_path, CONFIG, Watcher(("evaluation", STEPS), send(signal.SIGINT)))
    trainer.train()
    assert trainer.run.status().state == "finished"


# ---- divergence ----


def test_divergence_keeps_the_last_good_checkpoint(reference, tmp_path, monkeypatch):
    def rate(training, step, steps):
        return 1e38 if step > 4 else learning_rate(training, step, steps)

    monkeypatch.setattr(trainer_module, "learning_rate", rate)
    trainer = start(tmp_path)
    with pytest.raises(Diverged, match=r"diverged at step [67]: loss") as caught:
        trainer.train()
    assert caught.value.exit_code == 1
    assert "smaller training.learning_rate" in caught.value.hint
    run = trainer.run
    assert step_of(run) == 4
    load_checkpoint(run.checkpoint("last"), build_model(CONFIG))
    monkeypatch.undo()
    go_on(run).train()
    same_outcome(run, reference)


# ---- the best checkpoint, and the target ----


def scripted(monkeypatch, script):
    """Evaluations that find, one after the other, ([exact match by length], teacher-forced
    accuracy).
    """
    results = iter(script)

    def evaluate(predictor, *_, **__):
        exact, forced = next(results)
        trained = predictor.task.is_trained
        rows = [
            measured.row(metric, length, value, trained=trained(length))
            for length, exact_match in enumerate(exact, start=1)
            for metric, value in (("exact_match", exact_match), ("teacher_forced", forced))
        ]
        return seq2attn.Evaluation(tuple(rows))

    monkeypatch.setattr(trainer_module, "evaluate", evaluate)


THRICE = "training.steps=3 training.evaluate_every=1 training.snapshots=0"


@table(
    "script, best",
    """
[[[0.5, 0.5], 0.5], [[0.4, 0.9], 0.9], [[0.3, 0.9], 0.9]] | 1  # the worst length decides
[[[0.5, 0.5], 0.9], [[0.5, 0.6], 0.1], [[0.5, 0.5], 0.9]] | 2  # then the mean
[[[0.0, 0.0], 0.2], [[0.0, 0.0], 0.3], [[0.0, 0.0], 0.1]] | 2  # then teacher forcing
[[[0.5, 0.5], 0.5], [[0.5, 0.5], 0.5], [[0.4, 0.5], 0.5]] | 2  # of equals the later one
[[[0.5, 0.5, 0.5, 0.0], 0.5], [[0.4, 0.4, 0.4, 1.0], 0.5], [[0.1, 0.1, 0.1, 1.0], 0.5]]
  | 1  # 4 is untrained
""",
    "script best",
)
def test_the_best_checkpoint_is_that_of_the_best_evaluation(tmp_path, monkeypatch, script, best):
    scripted(monkeypatch, script)
    run = trained(tmp_path, configured(THRICE)).run
    assert step_of(run, "best") == best
    assert step_of(run) == 3
    exact = script[2][0][:3]
    assert run.status().exact_match_worst == min(exact)
    assert run.status().exact_match_mean == pytest.approx(sum(exact) / len(exact))


@table(
    "exact, stopped",
    """
[0.9, 0.9, 0.9] | 2
[0.9, 1.0, 0.89] | 3
[1.0, 1.0, 1.0, 0.0] | 2  # length 4 does not occur in training
""",
    "exact stopped",
)
def test_training_stops_when_every_trained_length_is_at_the_target(
    tmp_path, monkeypatch, exact, stopped
):
    scripted(monkeypatch, [([0.0], 0.0), (exact, 0.0), ([0.0], 0.0)])
    config = configured(f"{THRICE} training.target=0.9")
    run = trained(tmp_path, config).run
    assert step_of(run) == run.status().step == stopped
    assert run.status().state == "finished"
    resumed = go_on(run, config)
    resumed.train()
    assert resumed.progress.step == stopped


# ---- every config trains to its end ----


def test_a_task_whose_answers_are_longer_than_any_picture_trains(tmp_path):
    few = "training.steps=1 training.batch_size=2 training.validation_samples=1"
    overrides = "task.name=duplicate task.min_length=50 task.max_length=50 evaluation.lengths=[1]"
    run = trained(tmp_path, configured(f"{few} training.watched=null {overrides}")).run
    assert run.status().state == "finished"
    assert not any(maps for _, maps in read_attention(run))
