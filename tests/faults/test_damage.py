"""Damaged and hostile files: refused with one sentence that names file and reason, and nothing is
run or followed.
"""

import json
import os
import pickle
import random
from types import SimpleNamespace

import pytest
import torch
from models import CPU
from refusal import refusal
from safetensors.torch import save
from tables import rows, slow, table

from seq2attn.build import build_model, build_training_data
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.training.loop import Trainer


class Payload:
    def __reduce__(self):
        return (os.system, ("touch pwned",))


def read(run, which):
    """What `train --resume` (`last`) and `predict` (`best`) do with a checkpoint."""
    config = run.config
    if which == "last":
        data = build_training_data(config, CPU)
        return Trainer(run, config, build_model(config), CPU, SimpleNamespace(), data)
    return load_checkpoint(run.checkpoint(which), build_model(config))


def reason(run, which="last"):
    """The reason, in one sentence, for which a checkpoint is refused."""
    file, _, found = refusal(read, run, which).message.partition(".safetensors: ")
    assert file == str(run.checkpoint(which).with_suffix(""))
    assert "\n" not in found
    assert len(found) < 500
    return found


@table(
    "which",
    """
last
best
""",
)
@pytest.mark.parametrize("count", [50, slow(1000)])
def test_a_flipped_bit_is_refused(run_copy, record_figure, which, count):
    path = run_copy.checkpoint(which)
    choose = random.Random(3)
    whole = path.read_bytes()
    for _ in range(count):
        flipped = bytearray(whole)
        flipped[choose.randrange(len(whole))] ^= 1 << choose.randrange(8)
        path.write_bytes(flipped)
        assert reason(run_copy, which)
    path.write_bytes(whole)
    read(run_copy, which)
    record_figure(bit_flips=count)


def changed(tensors=None, **state):
    """Damage that leaves the checksum correct: tensors, and values of the state; None removes what
    it names.
    """

    def write(run):
        path = run.checkpoint("last")
        checkpoint = load_checkpoint(path)
        made = {
            name: make and make(checkpoint.tensors.get(name, 1))
            for name, make in (tensors or {}).items()
        }
        both = (checkpoint.tensors | made, checkpoint.state | state)
        kept = [{name: value for name, value in one.items() if value is not None} for one in both]
        save_checkpoint(path, *kept)

    return write


def overwritten(make):
    """Damage that replaces the file: `make(whole)` gives its new bytes."""

    def write(run):
        path = run.checkpoint("last")
        path.write_bytes(make(path.read_bytes()))

    return write


def nan(tensor):
    return tensor.index_fill(0, torch.tensor(0), float("nan"))


NAME = "encoder.embedding.weight"
WEIGHT = f"model.{NAME}"
MOMENT = f"optimiser.exp_avg.{NAME}"
FOREIGN = "does not belong to this config: it "
CUT, HEADER = "damaged: it is cut short, or its header is wrong", "damaged: its header has "
DAMAGE = {
    "one byte more": (overwritten(lambda whole: whole + b"\0"), CUT),
    "pickle": (overwritten(lambda whole: pickle.dumps(Payload())), CUT),
    "one bit": (
        overwritten(lambda whole: whole[:-1] + bytes([whole[-1] ^ 1])),
        "damaged: its checksum does not match",
    ),
    "foreign": (
        overwritten(lambda _: save({"model.a": torch.ones(2)})),
        "not a seq2attn checkpoint (its header does not say 'seq2attn-checkpoint')",
    ),
    "no tensor": (
        changed({WEIGHT: None}),
        FOREIGN + f"has nothing as '{NAME}', expected torch.float32 (6, 4)",
    ),
    "extra tensor": (
        changed({"model.extra": torch.ones}),
        FOREIGN + "has torch.float32 (1,) as 'extra', ",
    ),
    "wrong shape": (
        changed({WEIGHT: lambda old: old[:-1]}),
        FOREIGN + f"has torch.float32 (5, 4) as '{NAME}', ",
    ),
    "wrong dtype": (
        changed({WEIGHT: torch.Tensor.double}),
        FOREIGN + f"has torch.float64 (6, 4) as '{NAME}', ",
    ),
    "NaN weights": (
        changed({WEIGHT: nan}),
        f"damaged: {NAME} holds values that are not finite",
    ),
    "missing moment": (
        changed({MOMENT: None}),
        FOREIGN + f"has nothing as '{MOMENT.removeprefix('optimiser.')}'",
    ),
    "NaN moment": (
        changed({MOMENT: nan}),
        f"damaged: {MOMENT.removeprefix('optimiser.')} holds values that are",
    ),
    "best of words": (changed(best=["a"]), HEADER + "best.0: should be a number, found 'a'"),
    "formulas a number": (
        changed(formulas=1),
        HEADER + "formulas: should be true or false, found 1",
    ),
    "position of -1": (
        changed(positions={"metrics.jsonl": -1}),
        HEADER + "positions.metrics.jsonl: should be",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_with_its_reason(run_copy, work, monkeypatch, kind):
    monkeypatch.chdir(work)
    damage, words = DAMAGE[kind]
    damage(run_copy)
    before = run_copy.metrics_file.read_bytes()
    assert reason(run_copy).startswith(words)
    assert run_copy.metrics_file.read_bytes() == before
    assert not (work / "pwned").exists()


def test_positions_past_the_end_or_in_another_folder_change_nothing_else(run_copy, work, cli):
    other = work / "other.txt"
    other.write_text("theirs")
    changed(positions={"metrics.jsonl": 10**12, "../../other.txt": 0, str(other): 1}, step=4)(
        run_copy
    )
    cli("train --resume tiny").check()
    assert other.read_text() == "theirs"


# ---- a run from an untrusted source ----


LINKS = """
metrics.jsonl config.yaml status.json environment.json events.out.tfevents.1.x.1.0
checkpoints/last.safetensors evaluations training.lock
""".split()  # ways out of a run


@pytest.mark.parametrize("make", [os.symlink, lambda _, path: os.mkfifo(path)])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_or_a_pipe_is_not_followed(run_copy, work, cli, name, make):
    link = run_copy.path / name
    outside = work / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    link.unlink(missing_ok=True)
    make(outside if name == "evaluations" else outside / "file", link)
    for command in ("train --resume tiny", "eval tiny", "predict ab", "inspect tiny"):
        said = cli(command).refusal
        assert "runs/tiny" in said
        assert "theirs" not in said
        kinds = "is a link or a special file; a run holds plain files and directories only"
        assert kinds in said or name == "config.yaml"
    cli("runs").check()
    assert (outside / "file").read_text() == "theirs"
    assert os.listdir(outside) == ["file"]


@table(
    "linked",
    """
runs
runs/tiny
""",
)
def test_the_runs_directory_and_a_run_in_it_may_be_links(run_copy, work, cli, linked):
    (work / linked).rename(work / "elsewhere")
    (work / linked).symlink_to(work / "elsewhere")
    for command in ("eval tiny", "predict ab", "train --resume runs/tiny"):
        cli(command).check()
    assert cli("runs").out.splitlines()[1].startswith("tiny\tfinished\t")


RECORDS = [
    *rows(
        rf"""
{{"state": "\u001b[2J\u001b]0;title\u0007", "step": {{}}, "steps": [], "score": "a\tb\nc",
  "exact_match_worst": {10**400}}}
  | {{"format": 1, "created": "\u001b[2J", "threads": {{}}, "plugins": [5], "versions": {10**400}}}
{{"state": {["x"] * 100}, "exact_match_worst": NaN, "seed": {2**70}}}
  | {{"format": 1, "created": {["x"] * 100}, "threads": {2**70}, "note": NaN}}
""".replace("'", '"')
    ),
    *((text, text) for text in ("[" * 500_000, "x" * 2_000_000, "\udcff\udcfe", "[1]", "null")),
]


@pytest.mark.parametrize("status, environment", RECORDS, ids=range(len(RECORDS)))
def test_a_damaged_status_and_environment_stop_nothing(run_copy, cli, status, environment):
    run_copy.status_file.write_text(status, errors="surrogateescape")
    run_copy.environment_file.write_text(environment, errors="surrogateescape")
    for line in ("runs", "runs --json"):
        done = cli(line).check()
        assert "\x1b" not in done.out
        assert "tiny" in done.out
    assert len(cli("runs").out.splitlines()) == 2
    assert cli("predict ab").code == cli("train --resume tiny").code == 0


def test_an_untrusted_config_cannot_load_code(run_copy, work, cli):
    (work / "evil.py").write_text("import os; os.system('touch pwned')")
    run_copy.config_file.write_text("model: {attention: {score: evil}}\n")
    run_copy.environment_file.write_text(json.dumps({"format": 1, "plugins": ["evil.py"]}))
    assert "unknown score 'evil'" in cli("predict ab").refusal
    assert not (work / "pwned").exists()
