"""Other dtypes than float32: models in half precision, autocast, and a run of another default."""

import contextlib
from functools import partial

import numpy as np
import pytest
import torch
from models import VALUES, new_model
from outcomes import StopAt, same_tensors
from tables import table
from torch.nn.functional import cross_entropy

import seq2attn
from seq2attn.config import check_config
from seq2attn.runs.create import NewRun
from seq2attn.training.session import train

HALF = [torch.bfloat16, torch.float16]


def dtypes(cache):
    return {str(array.dtype) for array in cache.values()}


# ---- half precision ----


@pytest.mark.parametrize("dtype", HALF)
@table(
    "decoder",
    """
bahdanau
luong
pointer
hard_monotonic
""",
)
def test_a_half_precision_model_answers_in_float32(dtype, decoder):
    model = new_model(f"model.decoder={decoder}")
    model.module.to(dtype)
    answer, cache = model.run_with_cache("ab")
    assert dtypes(cache) == {"float32", "bool"}
    assert answer.weights.dtype == np.float32
    assert model.predict("ab").output == answer.output
    assert model.evaluate([2], samples=4).get("entropy", 2).value > 0


@pytest.mark.parametrize("dtype", HALF)
def test_probabilities_of_a_half_precision_model_are_exact(dtype):
    model = new_model()
    model.module.to(dtype)
    logits = torch.tensor(model.run_with_cache("ab")[1]["logits"]).double()  # (T, V)
    best = model.predict("ab", beam=1).hypotheses[0]
    ids = [model.task.target_vocabulary.tokens.index(symbol) for symbol in best.output]
    assert not best.finished  # no <eos>
    expected = logits.log_softmax(1)[range(len(ids)), ids].sum()
    assert best.log_probability == pytest.approx(float(expected), rel=1e-6)


@table(
    "cell",
    """
gru
lstm
rnn
""",
)
@pytest.mark.parametrize("others", [(), ("model.layers=2", "model.initial_state=zeros")])
def test_autocast_computes_the_same_up_to_rounding(cell, others):
    model = new_model(f"model.cell={cell}", *others)
    batch = next(model.batches())
    right = batch.decoder_output.flatten()
    losses = []
    for context in contextlib.nullcontext(), torch.autocast("cpu", torch.bfloat16):
        with context:
            logits = model.module.train()(batch).logits
            losses.append(cross_entropy(logits.flatten(0, 1), right, ignore_index=0))
    losses[1].backward()
    assert losses[1].item() == pytest.approx(losses[0].item(), abs=0.01)
    assert logits.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert dtypes(model.run_with_cache("ab")[1]) == {"float32", "bool"}


# ---- runs of another default dtype ----


@contextlib.contextmanager
def default(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(
    "dtype, other",
    [
        (torch.float32, torch.float64),
        (torch.bfloat16, torch.float32),
    ],
)
def test_the_dtype_is_part_of_the_run(dtype, other, tmp_path, cli):
    config = check_config(VALUES, ["training.steps=6"])
    with default(dtype):
        whole = train(config, NewRun(tmp_path / "runs", "whole"), device="cpu").run
        stopped = train(config, NewRun(tmp_path / "runs", "stopped"), **StopAt(3).given).run
        right = seq2attn.load(whole).predict("ab").weights
    with default(other):
        train(config, stopped)
        same_tensors(whole, stopped)
        model = seq2attn.load(stopped)
        assert np.array_equal(model.predict("ab").weights, right)
        assert torch.get_default_dtype() == other
    assert {parameter.dtype for parameter in model.module.parameters()} == {dtype}
    assert cli("eval whole --samples 2").check()


@pytest.mark.slow  # it exports a model
def test_a_page_has_a_run_of_another_dtype(cli):
    with default(torch.float64):
        seq2attn.train(VALUES, name="whole", device="cpu")
    assert cli("page whole").check()


# ---- contexts of the caller ----


def test_a_run_is_the_same_in_every_context_of_the_caller(tmp_path):
    train = partial(seq2attn.train, VALUES, runs_dir=tmp_path, device="cpu")
    plain = train(name="plain")
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    for context in (torch.no_grad, torch.inference_mode, autocast):
        with context():
            run = train()
        same_tensors(plain, run)
