"""The fast model against the plain loop that the benchmarks measure it by."""

import re

import pytest
import torch
import torch.nn.functional as F
from models import assert_close, first_batch
from tables import table

from benchmarks.reference import SCORES, PlainReverser
from benchmarks.training import Unit, operations
from seq2attn.build import build_model
from seq2attn.model.interface import CrossEntropy


def torchs_name(name, luong):
    """Of our parameter in the plain model, whose cells are torch's."""
    torchs = re.sub(r"layers\.0\.(backward_)?cell\.(\w+)", r"gru.\2_l0", name) + "_reverse" * (
        "backward" in name
    )
    return re.sub(r"decoder\.cell\.(\w+)", r"decoder.gru.\1_l0", torchs) if luong else torchs


CASES = [(score, torch.float64, 1e-10, {}) for score in SCORES]
CASES += [("additive", torch.float32, 1e-5, {"history": "location"})]
WIDE = {"history": "shift", "bidirectional": True, "score_width": 3}
CASES += [("additive", torch.float64, 1e-10, WIDE)]


@table(
    "decoder, feeding",
    """
bahdanau | false
luong | false
luong | true
""",
    "feeding",
)
@pytest.mark.parametrize("score, dtype, tolerance, options", CASES)
def test_losses_and_gradients_are_those_of_the_plain_loop(
    score, dtype, tolerance, options, decoder, feeding
):
    unit = Unit(
        score,
        decoder=decoder,
        input_feeding=feeding,
        batch=6,
        hidden=7,
        shortest=2,
        longest=5,
        **options,
    )
    ours = build_model(unit.config()).to(dtype)
    plain = PlainReverser(29, 32, 7, score, decoder, feeding, **options).to(dtype)
    luong = decoder == "luong"
    plain.load_state_dict(
        {torchs_name(name, luong): tensor for name, tensor in ours.state_dict().items()}
    )
    batch = first_batch(unit.config())
    assert len(batch.source_lengths.unique()) > 1
    decoded = ours(batch)
    loss = CrossEntropy().forward(decoded, batch)
    loss.backward()
    logits, weights = plain(batch.source, batch.source_lengths, batch.decoder_input)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.decoder_output.flatten(), ignore_index=0)
    expected.backward()
    assert abs(loss - expected) <= tolerance * abs(expected)
    real = torch.arange(decoded.weights.size(1)) < batch.decoder_lengths.unsqueeze(1)
    assert_close(decoded.weights[real], weights[real], rtol=tolerance, atol=tolerance)
    wanted = {name: parameter.grad for name, parameter in plain.named_parameters()}
    largest = max(gradient.norm() for gradient in wanted.values())
    for name, parameter in ours.named_parameters():
        assert (parameter.grad - wanted[torchs_name(name, luong)]).norm() <= tolerance * largest, (
            name
        )


def test_the_operations_of_a_step_by_hand():
    # one string of 1 letter, D = 2: source 1 token, target 2; products forward, in multiplications:
    # W_h s: 1 * 2 * 6 + 2 * 2 * 6 = 36; scores and contexts: 2 * 2 * 1 * 2 = 8; W_i c: 2 * 2 * 6 =
    # 24; W_o: 2 * 4 * 29 = 232
    unit = Unit(batch=1, hidden=2, shortest=1, longest=1)
    assert operations(unit) == 3 * 2 * (36 + 8 + 24 + 232)
