import os

import pytest
import torch
from models import make_config
from refusal import refusal
from safetensors.torch import save_file
from tables import table

from seq2attn.build import build_model
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint

CONFIG = make_config("model.hidden=4 model.embedding=3 model.attention.score=general")
STATE = {
    "step": 17,
    "best": [0.1, 1 / 3, 1e-300],
    "text": 'naïve "x"\n',
    "nested": {"a": None, "b": [True, -1]},
}


def tensors():
    kinds = {
        "float32": torch.tensor([[1.1, -0.0, 1e-45], [3.4e38, float("inf"), float("nan")]]),
        "float64": torch.tensor([1 / 3, 5e-324], dtype=torch.float64),
        "float16": torch.tensor([65504.0, 6e-8], dtype=torch.float16),
        "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "int64": torch.tensor([-(2**63), 2**63 - 1]),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 3),
        "transposed": torch.arange(6.0).view(2, 3).T,
    }
    return {f"model.{name}": tensor for name, tensor in kinds.items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "last.safetensors"


@pytest.fixture
def model():
    return build_model(CONFIG)


@pytest.fixture
def whole(path, model):
    """The bytes of a small, sound checkpoint, which is at `path`."""
    save_checkpoint(
        path, {f"model.{name}": tensor for name, tensor in model.state_dict().items()}, {"step": 3}
    )
    return path.read_bytes()


def refused(path, model=None):
    """The message with which the checkpoint at `path` is refused: one line that starts with the
    file.
    """
    message = refusal(load_checkpoint, path, model).message
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


# ---- intact files ----


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def test_tensors_and_state_come_back_bit_for_bit(path):
    saved = tensors()
    save_checkpoint(path, saved, STATE)
    loaded = load_checkpoint(path)
    assert loaded.state == STATE
    assert loaded.tensors.keys() == saved.keys()
    for name, tensor in saved.items():
        found = loaded.tensors[name]
        assert found.dtype == tensor.dtype, name
        assert found.shape == tensor.shape
        assert bits(found).equal(bits(tensor)), name


# ---- damaged files ----


def test_a_truncated_file_is_refused(path, whole):
    for length in [*range(40), *range(40, len(whole), 23), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path)


@table(
    "old, new",
    r"""
\"step\": 3 | \"step\": 4
"model.decoder. | "model.encoder.
"F32" | "I32"
""",
)
def test_an_altered_header_is_refused(path, whole, old, new):
    assert old.encode() in whole
    path.write_bytes(whole.replace(old.encode(), new.encode(), 1))
    assert "damaged" in refused(path)


STATES = [
    "",
    "{",
    "[]",
    "{}",
    '{"step": "3"}',
    '{"step": 3.5}',
    '{"step": -1}',
    5000 * "9",
    100_000 * "[",
]
HEADERS = [
    "",
    "[]",
    "{}",
    100_000 * "[",
    *(f'{{"checksum": "", "state": {state}}}' for state in STATES),
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_an_unusable_header_is_refused(path, header):
    save_file({}, path, {"seq2attn-checkpoint": header})
    assert "damaged: its header has" in refused(path)
    assert len(refused(path)) < 400


# ---- checkpoints of another model ----


def test_refused_weights_leave_the_model_unchanged(path, model):
    altered = {f"model.{name}": tensor + 1 for name, tensor in model.state_dict().items()}
    last = list(altered)[-1]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for value, words in ((float("nan"), "damaged: "), (-float("inf"), "not finite")):
        altered[last] = altered[last].clone().fill_(value)
        save_checkpoint(path, altered, {"step": 1})
        assert words in refused(path, model)
        assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_a_file_of_the_largest_size_is_read_and_no_larger_one(path, whole, model):
    largest = 10_000_000 + 4 * sum(one.nbytes for one in model.state_dict().values())
    for size, is_read in ((largest, True), (largest + 1, False)):
        os.truncate(path, size)
        assert (f"at most {largest:,} are read" not in refused(path, model)) == is_read


def test_a_lack_of_memory_is_no_damage_of_the_file(path, whole, monkeypatch):
    def hungry(*arguments, **keywords):
        raise MemoryError

    monkeypatch.setattr("seq2attn.runs.checkpoint.safe_open", hungry)
    with pytest.raises(MemoryError):
        load_checkpoint(path)
