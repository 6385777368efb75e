"""Damaged and hostile files: refused with one sentence that names file and reason, and nothing is run or followed."""

import json
import os
import pickle
import random
import struct
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from seq2attn.build import build_model
from seq2attn.display.progress import Display
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.checkpoint import FORMAT, load_checkpoint, load_weights, save_checkpoint
from seq2attn.training.loop import Trainer


class Payload:
    def __reduce__(self):
        return (os.system, ("touch pwned",))


def read(run, which):
    """What `train --resume` (`last`) and `predict` (`best`) do with a checkpoint."""
    config = run.config()
    if which == "last":
        return Trainer(run, config, build_model(config), torch.device("cpu"), SimpleNamespace())
    path = run.checkpoint(which)
    return load_weights(path, load_checkpoint(path), build_model(config))


def refusal(run, which="last"):
    """The one sentence with which a checkpoint is refused."""
    with pytest.raises(Seq2AttnError) as caught:
        read(run, which)
    message = caught.value.message
    assert message.startswith(f"{run.checkpoint(which)}: ")
    assert "\n" not in message
    assert len(message) < 500
    return message.removeprefix(f"{run.checkpoint(which)}: ")


def flips(run, which, count, seed):
    """Flip one bit at a time; every incomplete file is refused."""
    path = run.checkpoint(which)
    whole = path.read_bytes()
    choose = random.Random(seed)
    for _ in range(count):
        place, bit = choose.randrange(len(whole)), choose.randrange(8)
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        path.write_bytes(flipped)
        assert refusal(run, which), (place, bit)
    path.write_bytes(whole)
    read(run, which)


@pytest.mark.slow
def test_two_thousand_flipped_bits_are_refused(run_copy, record_figure):
    flips(run_copy, "last", 1000, seed=3)
    flips(run_copy, "best", 1000, seed=4)
    record_figure(bit_flips=2000, silently_accepted=0)


def damaged(change):
    """Damage that leaves the checksum correct: `change(tensors, state)`."""

    def write(run):
        path = run.checkpoint("last")
        checkpoint = load_checkpoint(path)
        tensors, state = dict(checkpoint.tensors), dict(checkpoint.state)
        change(tensors, state)
        save_checkpoint(path, tensors, state)

    return write


def overwritten(make):
    """A kind of damage that replaces the file: `make(whole)` gives its new bytes."""

    def write(run):
        path = run.checkpoint("last")
        path.write_bytes(make(path.read_bytes()))

    return write


def set_to(name, make):
    return damaged(lambda tensors, state: tensors.update({name: make(tensors[name])}))


def state_is(**values):
    return damaged(lambda tensors, state: state.update(values))


def nan(tensor):
    return tensor.index_fill(0, torch.tensor(0), float("nan"))


def newer(run):
    path = run.checkpoint("last")
    tensors = load_file(path)
    save_file(tensors, path, {FORMAT: json.dumps({"version": 2, "checksum": "", "state": "{}"})})


def foreign(run):
    save_file({"model.a": torch.ones(2)}, run.checkpoint("last"))


def sparse(run):
    """A header that is whole, for a tensor of a terabyte that the disk does not hold."""
    size = 2**40
    header = json.dumps({"model.a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with run.checkpoint("last").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


WEIGHT = "model.encoder.embedding.weight"
MOMENT = f"optimiser.exp_avg.{WEIGHT.removeprefix('model.')}"
STATE = "cannot be resumed: its state has "
FOREIGN = "does not belong to this config: it "
CUT = "damaged: it is cut short, or its header is wrong"


DAMAGE = {
    "cut": (overwritten(lambda whole: whole[: len(whole) // 2]), CUT),
    "one byte more": (overwritten(lambda whole: whole + b"\0"), CUT),
    "noise": (overwritten(lambda whole: random.Random(1).randbytes(len(whole))), "damaged: "),
    "pickle": (overwritten(lambda whole: pickle.dumps(Payload())), "damaged: it is cut short, or its header is wrong"),
    "a terabyte": (sparse, "damaged: its size is 1,099,511,"),
    "foreign": (foreign, "not a seq2attn checkpoint (its header does not say 'seq2attn-checkpoint')"),
    "newer": (newer, "written in format version 2; this seq2attn reads 1"),
    "missing tensor": (
        damaged(lambda tensors, state: tensors.pop(WEIGHT)),
        FOREIGN + "lacks encoder.embedding.weight",
    ),
    "extra tensor": (
        damaged(lambda tensors, state: tensors.update({"model.extra": torch.ones(1)})),
        FOREIGN + "has unexpected 'extra'",
    ),
    "extra of another kind": (
        damaged(lambda tensors, state: tensors.update(extra=torch.ones(1))),
        FOREIGN + "has unexpected 'extra'",
    ),
    "wrong shape": (
        set_to(WEIGHT, lambda old: old[:-1]),
        FOREIGN + "has encoder.embedding.weight as torch.float32 (5, 4), expected ",
    ),
    "wrong dtype": (
        set_to(WEIGHT, torch.Tensor.double),
        FOREIGN + "has encoder.embedding.weight as torch.float64 (6, 4), expected ",
    ),
    "NaN weights": (set_to(WEIGHT, nan), "damaged: encoder.embedding.weight holds values that are not finite"),
    "missing moment": (
        damaged(lambda tensors, state: tensors.pop(MOMENT)),
        FOREIGN + "lacks optimiser.exp_avg.encoder.embedding.weight",
    ),
    "NaN moment": (
        set_to(MOMENT, nan),
        "damaged: optimiser.exp_avg.encoder.embedding.weight holds values that are not",
    ),
    "moment of wrong dtype": (set_to(MOMENT, torch.Tensor.half), FOREIGN),
    "moment of wrong shape": (set_to(MOMENT, torch.Tensor.flatten), FOREIGN),
    "extra moment": (
        damaged(lambda tensors, state: tensors.update({"optimiser.exp_avg.extra": torch.ones(1)})),
        FOREIGN + "has unexpected 'optimiser.exp_avg.extra'",
    ),
    "step of -1": (state_is(step=-1), "damaged: its state has no step"),
    "step true": (state_is(step=True), "damaged: its state has no step"),
    "best of words": (state_is(best=["a"]), STATE + "best.0: should be a valid number, found 'a'"),
    "summary a list": (state_is(summary=[]), STATE + "summary: should be a valid dictionary"),
    "target a number": (
        state_is(reached_target=1),
        STATE + "reached_target: should be a valid boolean, found 1",
    ),
    "no stale": (
        damaged(lambda tensors, state: state.pop("stale")),
        STATE + "stale: is missing",
    ),
    "position of -1": (
        state_is(positions={"metrics.jsonl": -1}),
        STATE + "positions.metrics.jsonl: should be",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_with_its_reason(run_copy, work, monkeypatch, kind):
    monkeypatch.chdir(work)
    damage, words = DAMAGE[kind]
    damage(run_copy)
    before = run_copy.metrics_file.read_bytes()
    assert refusal(run_copy).startswith(words)
    assert run_copy.metrics_file.read_bytes() == before
    assert not (work / "pwned").exists()


def test_positions_past_the_end_or_in_another_folder_change_nothing_else(run_copy, work):
    other = work / "other.txt"
    other.write_text("theirs")
    positions = {"metrics.jsonl": 10**12, "../../other.txt": 0, str(other): 1}
    state_is(positions=positions, step=4)(run_copy)
    trainer = read(run_copy, "last")
    trainer.display = Display()
    trainer.train()
    assert other.read_text() == "theirs"


# ---- a run from an untrusted source ----


def links(run, work):
    """Ways out of a run, each with the file outside that it leads to."""
    outside = work / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    yield run.metrics_file, outside / "file"
    yield run.config_file, outside / "file"
    yield run.status_file, outside / "file"
    yield run.path / "events.out.tfevents.1.x.1.0", outside / "file"
    yield run.checkpoint("last"), outside / "file"
    yield run.evaluations, outside
    yield run.path / "training.lock", outside / "file"


@pytest.mark.parametrize("number", range(7))
def test_a_link_is_not_followed(run_copy, work, cli, number):
    link, outside = list(links(run_copy, work))[number]
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    for command in (("train", "--resume", "tiny"), ("eval", "tiny"), ("predict", "ab"), ("inspect", "tiny")):
        done = cli(*command)
        assert done.code == 2
        assert "runs/tiny" in done.err
        assert ("is a link; a run holds plain files and directories only" in done.err) or link == run_copy.config_file
        assert "theirs" not in done.err
    assert cli("runs").code == 0
    assert (work / "outside" / "file").read_text() == "theirs"
    assert [path.name for path in (work / "outside").iterdir()] == ["file"]


def moved(path, to):
    """Move a file or folder, and leave a link in its place."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path.rename(to)
    path.symlink_to(to)


@pytest.mark.parametrize("linked", ["runs", "runs/tiny"])
def test_the_runs_directory_and_a_run_in_it_may_be_links(run_copy, work, cli, linked):
    moved(work / linked, work / "scratch" / "elsewhere")
    for command in (("eval", "tiny"), ("predict", "ab"), ("report", "tiny"), ("train", "--resume", "runs/tiny")):
        assert cli(*command).code == 0, command
    assert cli("runs").out.splitlines()[1].startswith("tiny\tfinished\t")


@pytest.mark.parametrize("name", ["status.json", "environment.json", "metrics.jsonl"])
def test_a_pipe_in_a_run_does_not_block(run_copy, cli, name):
    (run_copy.path / name).unlink()
    os.mkfifo(run_copy.path / name)
    assert cli("runs").code == 0
    assert "is not a plain file; a run holds plain files and directories only" in cli("predict", "ab").err


STATUS = [
    {"state": "\x1b[2J\x1b]0;title\x07", "step": {}, "steps": [], "score": "a\tb\nc", "exact_match_worst": 10**400},
    {"state": ["x"] * 100, "exact_match_worst": float("nan"), "seed": 2**70},
]
RECORDS = [*(json.dumps(status).encode() for status in STATUS), b"[" * 500_000, b"x" * 2_000_000, b"\xff\xfe"]


@pytest.mark.parametrize("content", RECORDS, ids=range(len(RECORDS)))
def test_a_damaged_status_and_environment_stop_nothing(run_copy, cli, content):
    run_copy.status_file.write_bytes(content)
    run_copy.environment_file.write_bytes(content)
    for options in ((), ("--json",)):
        done = cli("runs", *options)
        assert done.code == 0
        assert "\x1b" not in done.out
        assert "unreadable status.json" in done.out
    assert len(cli("runs").out.splitlines()) == 2
    assert cli("predict", "ab").code == cli("train", "--resume", "tiny").code == 0


def test_an_untrusted_config_cannot_load_code(run_copy, work, cli):
    (work / "evil.py").write_text("import os; os.system('touch pwned')")
    run_copy.config_file.write_text("model: {attention: {score: evil}}\n")
    run_copy.environment_file.write_text(json.dumps({"plugins": ["evil.py"]}))
    done = cli("predict", "ab")
    assert done.code == 2
    assert "unknown score 'evil'" in done.err
    assert not (work / "pwned").exists()
