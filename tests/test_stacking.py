"""Several seeds in one program: each is trained as it would be alone, for every mechanism of a model."""

import json
import signal

import pytest
import torch

from seq2attn.build import build_model, build_training_data
from seq2attn.comparison.trial import STOP_REQUEST
from seq2attn.config import check_config
from seq2attn.runs.lock import training_lock
from seq2attn.runs.making import create_run
from seq2attn.training import session
from seq2attn.training.session import NewRun, train, train_stacked
from seq2attn.training.signals import StopRequest
from seq2attn.training.stacking import CannotStack, StackedStep
from seq2attn.training.step import TrainingStep

CPU = torch.device("cpu")
SEEDS = (1, 2, 3)


def made(model=(), training=(), seed=1):
    widths = {"hidden": 8} if "architecture" in model else {"hidden": 8, "embedding": 4}
    return check_config(
        {
            "seed": seed,
            "model": {**widths, **dict(model)},
            "task": {"alphabet": "abcd", "max_length": 5},
            "training": {
                "steps": 8,
                "batch_size": 4,
                "log_every": 1,
                "evaluate_every": 4,
                "validation_samples": 2,
                "warmup": 0,
                "snapshots": 1,
            }
            | dict(training),
            "evaluation": {"samples": 2},
        }
    )


def steps_of(configs):
    """A fresh training step of each config, and its batches."""
    return [TrainingStep(build_model(config), config, CPU) for config in configs], [
        build_training_data(config, CPU).batches() for config in configs
    ]


def furthest(configs, count):
    """The largest difference of any weight after `count` steps, alone and together; weights that moved are asserted."""
    alone, batches = steps_of(configs)
    before = [step.groups[0].vector.clone() for step in alone]
    for step, own in zip(alone, batches, strict=True):
        for number in range(count):
            step.gradients(next(own), number)
            step.update(0.01)
    together, batches = steps_of(configs)
    stack = StackedStep(together)
    for number in range(count):
        stack.gradients([next(own) for own in batches], number)
        stack.update(0.01)
    differences = []
    for first, one, other in zip(before, alone, together, strict=True):
        assert (one.groups[0].vector - first).abs().max() > 0.005  # it has learned
        for left, right in zip(one.model.parameters(), other.model.parameters(), strict=True):
            differences.append(float((left - right).detach().abs().max()))
        for name, left in one.state().items():
            differences.append(float((left - other.state()[name]).abs().max()))
    return max(differences)


MECHANISMS = {
    "scaled": {},
    "additive": {"attention": {"score": "additive"}},
    "general": {"attention": {"score": "general"}},
    "cosine": {"attention": {"score": "cosine"}},
    "key_value": {"attention": {"score": {"name": "key_value", "key_size": 3, "value_size": 5}}},
    "no attention": {"attention": {"score": "none"}, "initial_state": "last"},
    "local_m": {"attention": {"window": "local_m"}},
    "local_p": {"attention": {"window": "local_p"}},
    "location": {"attention": {"score": "additive", "history": "location"}},
    "coverage": {"attention": {"history": "coverage"}},
    "location_coverage": {"attention": {"history": "location_coverage"}},
    "shift": {"attention": {"history": "shift"}},
    "scalable softmax": {"attention": {"scalable_softmax": True}},
    "without a mask": {"attention": {"mask_padding": False}},
    "luong": {"decoder": "luong"},
    "luong, input feeding": {"decoder": {"name": "luong", "input_feeding": True}},
    "two directions and layers, bridge": {
        "bidirectional": True,
        "layers": 2,
        "initial_state": "bridge",
        "attention": {"score": "general"},
    },
    "lstm": {"cell": "lstm"},
    "rnn, <eos> in the source": {"cell": "rnn", "source_eos": True},
    "transformer": {"architecture": "transformer", "layers": 1, "heads": 2, "feedforward": 8, "dropout": 0.0},
}
QUICK = ("scaled", "additive", "local_p", "location", "shift", "luong, input feeding", "lstm", "transformer")
TRAININGS = {
    "resets": {"encoder_reset": 0.3, "decoder_reset": 0.2},
    "word dropout": {"word_dropout": 0.3},
    "label smoothing and weight decay": {"label_smoothing": 0.1, "weight_decay": 0.1},
    "coverage loss": {"coverage_weight": 0.5},
    "no clipping": {"clip_norm": None},
    "clipping": {"clip_norm": 0.05},
}


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_of(name):
    model = MECHANISMS[name]
    return model if "architecture" in model else {"initial_state": "zeros", **model}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS]
)
def test_seeds_are_trained_as_alone_in_float64(double, name):
    assert furthest([made(model_of(name), seed=seed) for seed in SEEDS], 6) < 1e-10


@pytest.mark.parametrize("name", TRAININGS)
def test_what_is_drawn_or_added_in_training_is_each_seed_s_own(double, name):
    model = {"bidirectional": True, "initial_state": "zeros", "attention": {"score": "additive"}}
    assert furthest([made(model, TRAININGS[name], seed=seed) for seed in SEEDS], 6) < 1e-10


@pytest.mark.parametrize("name", ["scaled", pytest.param("location", marks=pytest.mark.slow)])
def test_seeds_are_trained_as_alone_over_100_steps_in_float32(name):
    assert furthest([made(model_of(name), seed=seed) for seed in SEEDS], 100) < 1e-4


@pytest.mark.parametrize("masked", [True, False])
def test_batches_of_different_sizes_and_lengths_are_each_seed_s_own(double, tmp_path, masked):
    (tmp_path / "train.tsv").write_text("".join(f"{'ab' * (1 + n % 4)}\t{'ba' * (1 + n % 3)}\n" for n in range(7)))
    task = {"name": "pairs", "train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "train.tsv")}
    configs = [
        check_config(
            {
                "seed": seed,
                "model": {"hidden": 8, "embedding": 4, "initial_state": "zeros", "attention": {"mask_padding": masked}},
                "task": task,
                "training": {"epochs": 3, "steps": None, "batch_size": 3, "warmup": 0, "evaluate_every": 1},
            }
        )
        for seed in SEEDS
    ]
    read = session.read_task
    steps = [TrainingStep(build_model(config, read(config)), config, CPU) for config in configs]
    data = [build_training_data(config, CPU, read(config)) for config in configs]
    shapes = {tuple(batch.source.shape) for one in data for batch, _ in zip(one.batches(), range(6), strict=False)}
    assert len(shapes) > 2
    stack = StackedStep(steps)
    alone = [TrainingStep(build_model(config, read(config)), config, CPU) for config in configs]
    streams = [zip(one.batches(), range(9), strict=False) for one in data]
    for batches in zip(*streams, strict=True):
        stack.gradients([batch for batch, _ in batches], batches[0][1])
        stack.update(0.01)
        for step, (batch, number) in zip(alone, batches, strict=True):
            step.gradients(batch, number)
            step.update(0.01)
    for one, other in zip(alone, steps, strict=True):
        torch.testing.assert_close(one.groups[0].vector, other.groups[0].vector, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"dropout": 0.1}, "dropout draws random numbers"),
        ({"architecture": "transformer", "layers": 1, "heads": 2, "dropout": 0.1}, "dropout draws random numbers"),
    ],
)
def test_what_cannot_be_stacked_is_refused(model, reason):
    steps, _ = steps_of([made(model, seed=seed) for seed in SEEDS])
    with pytest.raises(CannotStack, match=reason):
        StackedStep(steps)


# ---- whole runs ----

PLAIN = {"attention": {"score": "none"}, "initial_state": "last"}  # without attention, whose maps take long to draw


@pytest.fixture(autouse=True)
def no_stop():
    STOP_REQUEST.signal = None
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def trained(tmp_path, folder, configs, request=None):
    stack = [(config, where(tmp_path / folder, config)) for config in configs]
    train_stacked(stack, device="cpu", request=request or StopRequest())
    return [run_of(tmp_path / folder, config) for config in configs]


def where(root, config):
    run = run_of(root, config)
    return run if run.config_file.is_file() else NewRun(root, run.name)


def run_of(root, config):
    return session.Run(root / f"seed_{config.seed}")


def records(run):
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def assert_as_alone(run, tmp_path):
    """The run's records are those of the same config trained alone, up to rounding."""
    alone = train(run.config(), NewRun(tmp_path / "alone", run.name), device="cpu").run
    assert (run.status().state, run.status().step) == (alone.status().state, alone.status().step)
    ours, theirs = records(run), records(alone)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for one, other in zip(ours, theirs, strict=True):
        if "loss" in one:
            assert one == pytest.approx(other, rel=1e-4)
        else:
            assert one["summary"] == pytest.approx(other["summary"], rel=1e-4)
    names = ({path.name.split(".")[0] for path in each.path.rglob("*")} for each in (run, alone))
    assert next(names) == next(names)


def test_each_seed_has_a_run_of_its_own(tmp_path):
    for run in trained(tmp_path, "runs", [made(PLAIN, seed=seed) for seed in SEEDS]):
        assert_as_alone(run, tmp_path)


def test_a_stop_saves_all_seeds_and_they_continue_together_or_alone(tmp_path, monkeypatch):
    configs = [made(PLAIN, seed=seed) for seed in SEEDS]
    request = StopRequest()

    class Impatient(session.SilentDisplay):
        def step(self, report):
            request.signal = signal.SIGINT if report.step == 5 else None

    with monkeypatch.context() as patch:
        patch.setattr(session, "SilentDisplay", Impatient)
        runs = trained(tmp_path, "runs", configs, request)
    assert [(run.status().state, run.status().step) for run in runs] == [("interrupted", 5)] * 3
    train(configs[0], runs[0], device="cpu")
    trained(tmp_path, "runs", configs)
    for run in runs:
        assert_as_alone(run, tmp_path)


def test_seeds_that_end_early_leave_the_others_to_go_on(tmp_path):
    configs = [made(PLAIN, {"patience": 1, "steps": 40}, seed) for seed in SEEDS]
    runs = trained(tmp_path, "runs", configs)
    assert len({run.status().step for run in runs}) > 1
    for run in runs:
        assert_as_alone(run, tmp_path)


def test_a_seed_that_fails_is_left_and_the_others_go_on(tmp_path, monkeypatch):
    whole = session.Trainer.updated

    def updated(self, batch, *arguments):
        whole(self, batch, *arguments)
        if self.config.seed == 2 and self.progress.step == 5:
            raise OSError("its disk is full")

    monkeypatch.setattr(session.Trainer, "updated", updated)
    runs = trained(tmp_path, "runs", [made(PLAIN, seed=seed) for seed in SEEDS])
    monkeypatch.undo()
    assert [run.status().state for run in runs] == ["finished", "training", "finished"]
    assert runs[1].status().step == 4
    train(runs[1].config(), runs[1], device="cpu")
    for run in runs:
        assert_as_alone(run, tmp_path)


def test_a_run_that_another_process_trains_is_left_out(tmp_path):
    configs = [made(PLAIN, seed=seed) for seed in SEEDS]
    run = create_run(tmp_path / "runs", "seed_2", configs[1], {}, exact=True)
    with training_lock(run):
        runs = trained(tmp_path, "runs", configs)
    assert [one.status().state for one in runs] == ["finished", None, "finished"]


def test_what_does_not_fit_into_memory_is_trained_in_parts(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(session, "seeds_that_fit", lambda *_: 2)
    whole = session.train_together
    monkeypatch.setattr(
        session, "train_together", lambda trainers, request: sizes.append(len(trainers)) or whole(trainers, request)
    )
    runs = trained(tmp_path, "runs", [made(PLAIN, seed=seed) for seed in SEEDS])
    assert sizes == [2, 1]
    assert [run.status().state for run in runs] == ["finished"] * 3
