"""The recurrences in C against the same in PyTorch, and how they come to be there."""

import ctypes
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seq2attn.model.attentive_recurrence import attentive_gru_recurrence
from seq2attn.model.recurrence import GRUWeights, gru_recurrence

from seq2attn import kernels
from seq2attn.errors import Seq2AttnError
from seq2attn.kernels import describe_kernels, kernels_for, library, why_slow
from seq2attn.kernels.binding import Kernels
from seq2attn.kernels.function import is_compiled
from seq2attn.kernels.packing import pack_lengths
from seq2attn.model.attention import Memory
from seq2attn.model.scores import Score
from seq2attn.model.scores.additive import Additive
from seq2attn.model.scores.cosine import Cosine
from seq2attn.model.scores.dot import Dot
from seq2attn.model.scores.general import General
from seq2attn.model.scores.multiplicative import MultiplicativeScore, StepwiseProduct
from seq2attn.runs.environment import describe_environment

CPU = torch.device("cpu")
ROOT = Path(__file__).parent.parent
needs_the_library = pytest.mark.skipif(not library.LIBRARY.is_file(), reason="the recurrences were not compiled")


def in_c_and_in_torch(compute, *, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv(kernels.SWITCH, "on")
        compiled = compute()
        patch.setenv(kernels.SWITCH, "off")
        return compiled, compute()


def assert_close(compiled, expected, tolerance):
    """Each tensor within `tolerance` of the expected one, relative to its largest number."""
    assert len(compiled) == len(expected)
    for number, (one, other) in enumerate(zip(compiled, expected, strict=True)):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= tolerance * max(1, other.abs().max()), number


SHAPES = st.fixed_dictionaries(
    {
        "width": st.integers(1, 70),
        "embedding": st.integers(1, 20),
        "vocabulary": st.integers(1, 40),
        "lengths": st.lists(st.integers(1, 6), min_size=1, max_size=20).map(lambda found: sorted(found, reverse=True)),
        "dtype": st.sampled_from([torch.float32, torch.float64]),
        "zeros": st.booleans(),
    }
)
LONG = {"width": 3, "embedding": 2, "vocabulary": 4, "lengths": [300, 280, 7], "dtype": torch.float64, "zeros": True}
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


class Drawn:
    """Random numbers of one dtype, the same each time."""

    def __init__(self, dtype):
        self.random = torch.Generator().manual_seed(0)
        self.dtype = dtype

    def __call__(self, *shape, scale=1.0):
        drawn = scale * torch.randn(shape, generator=self.random, dtype=torch.float64)
        return drawn.to(self.dtype).requires_grad_()

    def tokens(self, vocabulary, *shape):
        return torch.randint(vocabulary, shape, generator=self.random)


def gru_inputs(draw, width, embedding, vocabulary, read, rows, zeros):
    scale = width**-0.5
    shapes = [(vocabulary, embedding), (3 * width, embedding + read), (3 * width, width), (3 * width,), (3 * width,)]
    weights = GRUWeights(*(draw(*shape, scale=1 if number == 0 else scale) for number, shape in enumerate(shapes)))
    state = draw(rows, width) if not zeros else torch.zeros(rows, width, dtype=draw.dtype, requires_grad=True)
    return weights, state


@needs_the_library
@settings(max_examples=60, deadline=None)
@given(shape=SHAPES)
@example(shape=LONG)
def test_a_gru_of_any_shape(shape):
    lengths, dtype, steps = shape["lengths"], shape["dtype"], max(shape["lengths"]) + 1
    draw = Drawn(dtype)
    weights, state = gru_inputs(
        draw, shape["width"], shape["embedding"], shape["vocabulary"], 0, len(lengths), shape["zeros"]
    )
    tokens = draw.tokens(shape["vocabulary"], len(lengths), steps)
    packing = pack_lengths(torch.tensor(lengths), steps)
    wanted = draw(len(lengths), steps, shape["width"]), draw(len(lengths), shape["width"])
    real = (torch.arange(steps) < torch.tensor(lengths).unsqueeze(1)).unsqueeze(2)

    def compute():
        states, last = gru_recurrence(tokens, weights, state, packing)
        gradients = torch.autograd.grad((states * real * wanted[0]).sum() + (last * wanted[1]).sum(), [*weights, state])
        return [states.detach(), last.detach(), *gradients]

    with pytest.MonkeyPatch.context() as patch:
        assert_close(*in_c_and_in_torch(compute, monkeypatch=patch), TOLERANCE[dtype])


@needs_the_library
@settings(max_examples=80, deadline=None)
@given(
    shape=SHAPES,
    kind=st.sampled_from(["product", "additive"]),
    hidden=st.integers(1, 50),
    value_width=st.integers(1, 60),
    keys=st.integers(1, 12),
    masked=st.booleans(),
    scaled=st.booleans(),
)
@example(shape=LONG, kind="product", hidden=1, value_width=4, keys=5, masked=True, scaled=False)
@example(shape=LONG, kind="additive", hidden=6, value_width=4, keys=5, masked=True, scaled=False)
def test_a_gru_that_attends_of_any_shape(shape, kind, hidden, value_width, keys, masked, scaled):
    lengths, dtype, steps, width = shape["lengths"], shape["dtype"], max(shape["lengths"]), shape["width"]
    rows, draw = len(lengths), Drawn(dtype)
    weights, state = gru_inputs(draw, width, shape["embedding"], shape["vocabulary"], value_width, rows, shape["zeros"])
    tokens = draw.tokens(shape["vocabulary"], rows, steps)
    packing = pack_lengths(torch.tensor(lengths), steps)
    torch.manual_seed(0)
    score = (Dot(width, width) if kind == "product" else Additive(width, width, width=hidden)).to(dtype)
    projected, values = (
        draw(rows, keys, width if kind == "product" else hidden, scale=0.5),
        draw(rows, keys, value_width),
    )
    valid = torch.arange(keys) < 1 + draw.tokens(keys, rows, 1)  # (B, S), the first always
    scale = draw(rows, 1, 1).detach() if scaled else None
    memory = Memory(projected, values, valid.unsqueeze(1) if masked else None, scale=scale)
    count = sum(lengths)
    wanted = draw(count, width + value_width), draw(rows, steps, keys)
    inputs = [*weights, state, projected, values, *score.parameters()]

    def compute():
        features, attended = attentive_gru_recurrence(tokens, weights, state, packing, score, memory)
        loss = (features * wanted[0]).sum() + (attended * wanted[1]).sum()
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        return [features.detach(), attended.detach(), *gradients]

    with pytest.MonkeyPatch.context() as patch:
        assert_close(*in_c_and_in_torch(compute, monkeypatch=patch), TOLERANCE[dtype])


def one_state(weight_hh, first=0.0):
    """s_1 of a GRU of width 1 whose gates are said by `weight_hh` (r, z, n) and a bias of 1 each."""
    ones, zeros = torch.ones(3), torch.zeros(3)
    weights = GRUWeights(torch.zeros(1, 1), torch.zeros(3, 1), torch.tensor(weight_hh).unsqueeze(1), ones, zeros)
    tokens, packing = torch.zeros(1, 1, dtype=torch.long), pack_lengths(torch.tensor([1]), 1)
    return float(gru_recurrence(tokens, weights, torch.tensor([[first]]), packing)[1])


@needs_the_library
@pytest.mark.parametrize("weight", [-1e30, -1e4, -100.0, -20.0, -1e-3, 0.0, 0.7, 12.0, 100.0, 1e4, 1e30])
def test_gates_from_nothing_to_all(weight):
    def sigma(x):
        return 0.0 if x < -700 else 1 / (1 + math.exp(-x))

    reset = update = sigma(weight + 1)
    expected = (1 - update) * math.tanh(1 + reset * weight) + update
    assert one_state([weight, weight, weight], 1.0) == pytest.approx(expected, abs=3e-7)


@needs_the_library
@pytest.mark.parametrize("gate", [0, 1, 2])
def test_what_is_no_number_stays_none(gate):
    weights = [0.1, 0.1, 0.1]
    weights[gate] = math.nan
    assert math.isnan(one_state(weights, 1.0))


@needs_the_library
def test_scores_far_apart_and_far_off():
    """Weights of 0 and 1 exactly where scores differ by hundreds, whatever is added to all of them."""
    keys = torch.tensor([[[1e4], [9e3], [1e4]]])
    memory = Memory(keys, torch.tensor([[[2.0], [7.0], [4.0]]]), None)
    weights = GRUWeights(torch.zeros(1, 1), torch.zeros(3, 2), torch.zeros(3, 1), torch.zeros(3), torch.zeros(3))
    tokens, packing = torch.zeros(1, 1, dtype=torch.long), pack_lengths(torch.tensor([1]), 1)
    features, attended = attentive_gru_recurrence(tokens, weights, torch.ones(1, 1), packing, Dot(1, 1), memory)
    assert attended.tolist() == [[[0.5, 0.0, 0.5]]]
    assert features[0, 1] == 3.0


@needs_the_library
def test_the_same_bits_each_time():
    draw = Drawn(torch.float32)
    weights, state = gru_inputs(draw, 33, 7, 5, 33, 9, zeros=False)
    tokens, packing = draw.tokens(5, 9, 4), pack_lengths(torch.full((9,), 4), 4)
    torch.manual_seed(0)
    score, keys = Additive(33, 33), draw(9, 6, 33)
    memory = Memory(score.project(keys).detach().requires_grad_(), keys, None)

    def compute():
        features, attended = attentive_gru_recurrence(tokens, weights, state, packing, score, memory)
        loss = features.sum() + attended.square().sum()
        return torch.autograd.grad(loss, [*weights, state, memory.keys, *score.parameters()], allow_unused=True)

    first, held = compute(), torch.empty(1001)
    again = compute()
    assert held.numel() == 1001  # between the two, so that memory lies elsewhere
    for one, other in zip(first, again, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


# ---- which scores, and when ----


class OwnForward(MultiplicativeScore):
    def forward(self, query, keys):
        return 2 * super().forward(query, keys)


class OwnStepwise(Dot):
    def stepwise(self, keys):
        return StepwiseProduct(self, 2 * keys)


class Derived(Additive):
    def _score(self, doubled):
        return -super()._score(doubled)


class OwnProjection(General):
    def project(self, keys):
        return keys


@pytest.mark.parametrize(
    ("score", "known"),
    [
        (Dot, True),
        (General, True),
        (Additive, True),
        (OwnProjection, True),  # keys are given projected
        (OwnForward, False),
        (OwnStepwise, False),
        (Derived, False),
        (Cosine, False),
    ],
)
def test_scores_that_are_compiled(score: type[Score], known):
    memory = Memory(torch.zeros(2, 3, 4), torch.zeros(2, 3, 5), None)
    weights, state = gru_inputs(Drawn(torch.float32), 4, 3, 9, 5, 2, zeros=True)
    assert is_compiled(score(4, 4), memory, weights, state) is known


@pytest.mark.parametrize(
    ("keys", "values", "valid"),
    [
        (torch.zeros(2, 3, 6), torch.zeros(2, 3, 5), None),
        (torch.zeros(1, 3, 4), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(1, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 2, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 40), None),  # the GRU reads 5
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5, 1), None),
        (torch.zeros(2, 3, 4, 1), torch.zeros(2, 3, 5), None),
        (torch.zeros(2), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4).double(), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5).double(), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5), torch.ones(2, 1, 2, dtype=torch.bool)),
    ],
)
@pytest.mark.parametrize("score", [Dot, Additive])
def test_what_a_score_makes_of_the_states_must_fit(score, keys, values, valid):
    weights, state = gru_inputs(Drawn(torch.float32), 4, 3, 9, 5, 2, zeros=True)
    assert not is_compiled(score(4, 4), Memory(keys, values, valid), weights, state)


@needs_the_library
@pytest.mark.parametrize("token", [-1, 5, 2**40])
def test_tokens_beyond_the_vocabulary(token):
    weights, state = gru_inputs(Drawn(torch.float32), 4, 3, 5, 0, 2, zeros=True)
    with pytest.raises(IndexError):
        gru_recurrence(torch.tensor([[0, 1], [token, 0]]), weights, state, pack_lengths(torch.tensor([2, 1]), 2))


@needs_the_library
def test_where_they_are_taken(monkeypatch):
    state = torch.zeros(64, 96)
    assert isinstance(kernels_for(state), Kernels)
    assert kernels_for(state.half()) is None
    assert kernels_for(state.to("meta")) is None
    with torch.no_grad():
        assert kernels_for(state) is None
    large = torch.zeros(64, 256)
    for threads, taken in [(1, True), (2, False)]:
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert (kernels_for(large) is not None) is taken
        assert kernels_for(state) is not None
    monkeypatch.setenv(kernels.SWITCH, "off")
    assert kernels_for(state) is None
    assert describe_kernels(CPU) == "SEQ2ATTN_KERNELS is off"
    assert why_slow(CPU) is None
    monkeypatch.setenv(kernels.SWITCH, "OFF")
    with pytest.raises(Seq2AttnError, match="SEQ2ATTN_KERNELS: unknown value 'OFF'; allowed: on, off"):
        kernels_for(state)


# ---- the library: how it is built, chosen and checked ----


def test_every_variant_that_this_processor_runs_computes_the_same(monkeypatch):
    best = library.load(torch.float32)
    if isinstance(best, str):
        pytest.skip(best)
    variants = ["baseline", "avx2", "avx512"]
    variants = variants[: variants.index(best.variant) + 1]
    opened = ctypes.CDLL(str(library.LIBRARY))
    draw = Drawn(torch.float32)
    weights, state = gru_inputs(draw, 33, 7, 5, 33, 9, zeros=False)
    tokens, packing = draw.tokens(5, 9, 4), pack_lengths(torch.tensor([4] * 6 + [2] * 3), 4)
    torch.manual_seed(0)
    score, keys = Additive(33, 33), draw(9, 6, 33)
    memory = Memory(keys, keys, None)

    def compute():
        features, attended = attentive_gru_recurrence(tokens, weights, state, packing, score, memory)
        loss = features.sum() + attended.square().sum()
        gradients = torch.autograd.grad(loss, [*weights, state, keys, *score.parameters()], allow_unused=True)
        return [features.detach(), *(gradient for gradient in gradients if gradient is not None)]

    with monkeypatch.context() as patch:
        patch.setenv(kernels.SWITCH, "off")
        expected = compute()
    for variant in variants:
        chosen = Kernels(opened, torch.float32, variant)
        monkeypatch.setattr(library, "load", lambda _, chosen=chosen: chosen)
        assert_close(compute(), expected, TOLERANCE[torch.float32])


@pytest.fixture
def copied_library(tmp_path, monkeypatch):
    """A copy of the C sources and of what was built, for damage."""
    for path in library.FOLDER.iterdir():
        if path.suffix in (".c", ".h", ".so"):
            shutil.copy(path, tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "recurrence.so")
    monkeypatch.setattr(library, "WHY_NONE", tmp_path / "recurrence.txt")
    library._load.cache_clear()
    yield tmp_path
    library._load.cache_clear()


def assert_there_is_none_because(reason):
    assert kernels_for(torch.zeros(2, 2)) is None
    assert reason in describe_kernels(CPU)
    assert describe_environment(seed=1, device=CPU, threads=1, plugins=[])["kernels"] == describe_kernels(CPU)
    assert str(why_slow(CPU)).startswith(f"{describe_kernels(CPU)}; training takes longer than it would compiled. ")
    assert "pip install --force-reinstall --no-deps" in str(why_slow(CPU))
    assert why_slow(torch.device("cuda")) is None


@needs_the_library
def test_a_library_of_these_sources_is_loaded(copied_library):
    assert describe_kernels(CPU).startswith("compiled, ")
    assert why_slow(CPU) is None


@needs_the_library
def test_a_library_of_other_sources_is_refused(copied_library):
    with (copied_library / "gates.h").open("a") as file:
        file.write("/* changed after the installation */")
    assert_there_is_none_because("recurrence.so was compiled from other sources than those beside it")


@needs_the_library
def test_a_library_with_other_fields_is_refused(copied_library, monkeypatch):
    monkeypatch.setattr("seq2attn.kernels.binding._Recurrence", ctypes.c_int64 * 3)
    assert_there_is_none_because("cannot be loaded: its structure has ")


@needs_the_library
@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_what_is_not_a_library_is_refused(copied_library, content):
    (copied_library / "recurrence.so").unlink()
    (copied_library / "recurrence.so").write_bytes(content)
    assert_there_is_none_because("the compiled recurrences cannot be loaded: ")


def test_the_reason_why_nothing_was_compiled_is_told(copied_library):
    (copied_library / "recurrence.so").unlink(missing_ok=True)
    assert_there_is_none_because("not compiled when seq2attn was installed: there is no recurrence.so")
    library._load.cache_clear()
    (copied_library / "recurrence.txt").write_text("there is no C compiler (cc)\n")
    assert_there_is_none_because("not compiled when seq2attn was installed: there is no C compiler (cc)")


def build(folder, compiler):
    """`setup.py build_ext` -> the folder of what it built, and its output."""
    words = [sys.executable, "setup.py", "build_ext", "--build-lib", str(folder / "lib")]
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "lib" / "seq2attn" / "kernels", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("/no/such/cc", "there is no C compiler (/no/such/cc)"),
        ("false", "the C compiler (false) failed: exit code 1"),
        ("/", "the C compiler (/) could not be run: "),
        ('cc "', 'CC is not a command: cc "'),
        (" ", "CC is not a command: "),
        ("true", "the C compiler (true) made no library"),
    ],
)
def test_an_installation_succeeds_without_a_compiler_and_says_why(compiler, why, tmp_path):
    built, output = build(tmp_path, compiler)
    assert (built / "recurrence.txt").read_text().startswith(why)
    assert not (built / "recurrence.so").exists()
    assert f"training will be slower: {why}" in output


OLD_COMPILER = """#!/bin/sh
case "$*" in *-mavx512f*) echo "error: unrecognized command-line option '-mavx512f'" >&2; exit 1;; esac
exec cc "$@"
"""


@pytest.mark.slow
@needs_the_library
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_what_a_compiler_does_not_know_is_left_out(tmp_path):
    compiler = tmp_path / "old-cc"
    compiler.write_text(OLD_COMPILER)
    compiler.chmod(0o755)
    built, output = build(tmp_path, str(compiler))
    assert "slower" not in output
    opened = ctypes.CDLL(str(built / "recurrence.so"))
    assert hasattr(opened, "forward_float_baseline") and not hasattr(opened, "forward_float_avx512")
    opened.best_variant.restype = ctypes.c_char_p
    assert opened.best_variant() in (b"baseline", b"avx2")


def test_a_gpu_has_none():
    assert describe_kernels(torch.device("cuda")) == "none for cuda"
